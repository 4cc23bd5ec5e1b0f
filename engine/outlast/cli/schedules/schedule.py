"""``outlast schedule create``, ``apply``, ``list``, ``describe``, ``next``, ``pause``, ``resume``, ``update``, …"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Codec, Input, Url, input_values
from outlast.cli.common.output import document, show
from outlast.cli.common.start_options import GivenStartOptions, TaskQueue, with_options_of_starts
from outlast.cli.common.user_code import schedules_of
from outlast.cli.schedules.options import GivenCalendar, with_calendar, with_schedule
from outlast.cli.schedules.showing import show_description, show_table, slot_words
from outlast.client.client import Client
from outlast.client.schedules.handle import DEFAULT_BACKFILL, ScheduleHandle
from outlast.client.schedules.schedules import slots_of
from outlast.client.schedules.views import ScheduleDescription
from outlast.text.parsing import limit as read_limit
from outlast.text.parsing import moment
from outlast.text.wording import counted
from outlast_schedules.changes import AppliedSchedules
from outlast_schedules.specs.calendar import Calendar
from outlast_workflow.environment import SystemClock
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.start import DEFAULT_TASK_QUEUE
from outlast_workflow.primitives.times import to_datetime

app = typer.Typer(
    name="schedule",
    help="Create, apply, change, list, trigger or backfill schedules.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Id = Annotated[str, typer.Argument(metavar="ID", help="The schedule.", show_default=False)]
Note = Annotated[
    str | None, typer.Option("--note", help="A note for those who look at it.", show_default=False)
]
Next = Annotated[int, typer.Option("--next", help="How many slots to come are shown.")]


@app.command()
@with_options_of_starts
@with_schedule
def create(
    schedule_id: Id,
    workflow_type: Annotated[
        str, typer.Argument(metavar="TYPE", help="The workflow type.", show_default=False)
    ],
    *,
    when: GivenCalendar,
    input: Input = None,
    task_queue: TaskQueue = DEFAULT_TASK_QUEUE,
    start: GivenStartOptions,
    paused: Annotated[bool, typer.Option("--paused", help="Create it paused.")] = False,
    if_exists: Annotated[
        str, typer.Option("--if-exists", help="What to do if it is there already: error, keep or update.")
    ] = "error",
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Create a schedule; its slots count from now."""
    options, arguments = start.options(), input_values(input)

    async def work(client: Client) -> None:
        fields = when.fields(_now(client))
        if "spec" not in fields:
            raise InvalidOptionError("say when it fires: give --cron, --every or --at", field="spec")
        fields.update(task_queue=task_queue, options=options, paused=paused, if_exists=if_exists)
        handle = await client.schedules.create(schedule_id, workflow_type, *arguments, **fields)
        await _show_one(client, handle, 3, json=json)

    with_client(url, work, codec=codec, makes=True)


@app.command()
@with_options_of_starts
@with_schedule
def update(
    schedule_id: Id,
    *,
    when: GivenCalendar,
    type: Annotated[
        str | None,
        typer.Option("--type", help="Another workflow type to start.", show_default=False),
    ] = None,
    input: Input = None,
    task_queue: Annotated[
        str | None,
        typer.Option("--task-queue", help="Another task queue for its workflows.", show_default=False),
    ] = None,
    start: GivenStartOptions,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Change what is given, and nothing else; '' takes an option away. Another calendar counts from now."""
    options, arguments = start.changes(), input_values(input)

    async def work(client: Client) -> None:
        handle = client.schedules.handle(schedule_id)
        given = when
        if when.lacks_time_zone:
            given = when.in_time_zone_of(await handle.describe(next=0))
        fields = given.fields(_now(client))
        if type is not None:
            fields["workflow"] = type
        if arguments:
            fields["args"] = arguments
        if task_queue is not None:
            fields["task_queue"] = task_queue
        if options:
            fields["options"] = options
        if not fields:
            raise InvalidOptionError(
                "there is nothing to change: give an option, such as --cron (`outlast schedule update --help` lists "
                "them)",
                field="update",
            )
        await handle.update(**fields)
        await _show_one(client, handle, 3, json=json)

    with_client(url, work, codec=codec)


@app.command()
def apply(
    module: Annotated[
        str,
        typer.Argument(
            metavar="MODULE[:NAME]",
            help="The module that declares them; NAME is a list of schedules, or one.",
            show_default=False,
        ),
    ],
    prune: Annotated[bool, typer.Option("--prune", help="Delete the schedules that it lacks.")] = False,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Make the database's schedules as code declares them; what is there keeps its counters and stays paused."""
    declared = schedules_of(module)

    async def work(client: Client) -> None:
        applied = await client.schedules.apply(declared, prune=prune)
        if json:
            document({"created": applied.created, "updated": applied.updated, "deleted": applied.deleted})
        else:
            _show_applied(applied, len(declared))

    with_client(url, work, codec=codec, makes=True)


@app.command(name="list")
def list_(
    workflow_type: Annotated[
        str | None,
        typer.Option("--type", help="Only those that start this workflow type.", show_default=False),
    ] = None,
    paused: Annotated[
        bool | None,
        typer.Option("--paused/--active", help="Only those that are paused, or not.", show_default=False),
    ] = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """List the schedules: when each fires next, and what it has done."""

    async def work(client: Client) -> None:
        found: list[ScheduleDescription] = []
        async for one in client.schedules.list(workflow_type=workflow_type, paused=paused, next=1):
            if json:
                document(one)
            else:
                found.append(one)
        if not json:
            show_table(found, _now(client), filtered=workflow_type is not None or paused is not None)

    with_client(url, work)


@app.command()
def describe(schedule_id: Id, next: Next = 5, url: Url = None, json: AsJson = False) -> None:
    """Show a schedule: its calendar, its policies, its next slots and what became of the last ones."""

    async def work(client: Client) -> None:
        await _show_one(client, client.schedules.handle(schedule_id), next, json=json)

    with_client(url, work)


@app.command(name="next")
@with_calendar
def next_(
    schedule_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]", help="The schedule; without it, say when it would fire.", show_default=False
        ),
    ] = None,
    *,
    when: GivenCalendar,
    next: Next = 10,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Show when a schedule fires next, or when one would fire that is not there yet."""
    if (schedule_id is None) is when.is_empty:
        raise InvalidOptionError(
            "give the id of a schedule, or say when it would fire: --cron, --every or --at",
            field="schedule_id",
        )

    if schedule_id is None:
        # This needs no database.
        now = to_datetime(SystemClock().now())
        fields = when.fields(now)
        slots = slots_of(Calendar(fields.pop("spec", ()), **fields), now, next)
        _show_slots(slots, now, when.time_zone, json=json)
        return
    handle_id = schedule_id

    async def work(client: Client) -> None:
        found = await client.schedules.handle(handle_id).describe(next=next)
        why = ": it is paused" if found.paused else ""
        _show_slots(found.next_slots, _now(client), found.time_zone, why, json=json)

    with_client(url, work)


@app.command()
def pause(schedule_id: Id, note: Note = None, url: Url = None, json: AsJson = False) -> None:
    """Start nothing until it is resumed; what passes meanwhile is not missed."""
    _carry_out(url, schedule_id, lambda handle: handle.pause(note), "paused", json=json)


@app.command()
def resume(schedule_id: Id, note: Note = None, url: Url = None, json: AsJson = False) -> None:
    """Go on from now."""
    _carry_out(url, schedule_id, lambda handle: handle.resume(note), "resumed", json=json)


@app.command()
def delete(schedule_id: Id, url: Url = None, json: AsJson = False) -> None:
    """Delete a schedule; what it has started stays."""
    _carry_out(url, schedule_id, lambda handle: handle.delete(), "deleted", json=json)


@app.command()
def trigger(
    schedule_id: Id,
    overlap: Annotated[
        str,
        typer.Option(
            "--overlap", help="If the one before is open: allow_all, skip (refuse) or terminate_other."
        ),
    ] = "allow_all",
    request_id: Annotated[
        str | None,
        typer.Option(
            "--request-id", help="A key: two triggers with it start one workflow.", show_default=False
        ),
    ] = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Start what the schedule starts, now; no slot is used."""

    async def work(client: Client) -> None:
        how: Any = overlap.replace("-", "_")
        started = await client.schedules.handle(schedule_id).trigger(overlap=how, request_id=request_id)
        if json:
            document(
                {"workflow_id": started.workflow_id, "run_id": started.run_id, "existed": started.existed}
            )
        else:
            there = "was there already" if started.existed else "started"
            show(f"{started.workflow_id} {there}: run {started.run_id}")

    with_client(url, work)


@app.command()
def backfill(
    schedule_id: Id,
    start: Annotated[
        str, typer.Argument(metavar="START", help="The first slot is then or later.", show_default=False)
    ],
    end: Annotated[str, typer.Argument(metavar="END", help="The last slot is earlier.", show_default=False)],
    limit: Annotated[
        str,
        typer.Option(
            "--limit",
            metavar="NUMBER",
            help="Start nothing if there are more slots than this. `none` is no limit.",
        ),
    ] = str(DEFAULT_BACKFILL),
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Start the slots of a time that has passed; those that were started are left as they are."""
    most = read_limit("limit", limit)

    async def work(client: Client) -> None:
        now = _now(client)
        first, last = moment("start", start, now), moment("end", end, now)
        assert first is not None, "it was given"
        assert last is not None, "it was given"
        done = await client.schedules.handle(schedule_id).backfill(first, last, limit=most)
        if json:
            document(done)
        else:
            listed = shlex.join(["outlast", "list", "--schedule", schedule_id])
            show(
                f"started {counted(done.started, 'workflow')}, {done.existing} were there already; "
                f"`{listed}` lists them"
            )

    with_client(url, work)


def _now(client: Client) -> datetime:
    return to_datetime(client.runtime.environment.clock.now())


def _show_slots(
    slots: Sequence[datetime], now: datetime, time_zone: str, why_none: str = "", *, json: bool
) -> None:
    if json:
        document([slot.isoformat() for slot in slots])
        return
    for slot in slots:
        show(slot_words(slot, now, time_zone))
    if not slots:
        show(f"it has no slot to come{why_none}")


def _show_applied(applied: AppliedSchedules, declared: int) -> None:
    changed = False
    for word, ids in (
        ("created", applied.created),
        ("updated", applied.updated),
        ("deleted", applied.deleted),
    ):
        for schedule_id in ids:
            show(f"{word} {schedule_id}")
            changed = True
    if not changed:
        show(f"nothing to change: {counted(declared, 'schedule')} as declared")


def _carry_out(
    url: str | None,
    schedule_id: str,
    verb: Callable[[ScheduleHandle], Awaitable[None]],
    word: str,
    *,
    json: bool,
) -> None:
    async def work(client: Client) -> None:
        await verb(client.schedules.handle(schedule_id))
        if json:
            document({"schedule_id": schedule_id, word: True})
        else:
            show(word)

    with_client(url, work)


async def _show_one(client: Client, handle: ScheduleHandle, next: int, *, json: bool) -> None:
    found = await handle.describe(next=next)
    if json:
        document(found)
    else:
        show_description(found, _now(client))
