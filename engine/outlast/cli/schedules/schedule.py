"""``outlast schedule create``, ``list``, ``describe``, ``next``, ``pause``, ``resume``, ``update``, ``delete``, …"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Codec, Input, Url, input_values
from outlast.cli.common.output import document, show, table
from outlast.cli.common.start_options import (
    ExecutionTimeout,
    Memo,
    Priority,
    RetryPolicy,
    RunTimeout,
    SearchAttributes,
    TaskQueue,
    start_options,
)
from outlast.client.client import Client
from outlast.client.schedules.handle import ScheduleHandle
from outlast.client.schedules.views import ScheduleDescription
from outlast.text.parsing import duration, moment
from outlast.text.wording import ago, at, clock, counted, label, words
from outlast_schedules.specs.calendar import spec_from
from outlast_schedules.specs.cron import Cron
from outlast_schedules.specs.spec import At, Every, Spec
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.options import StartOptions
from outlast_workflow.options.start import DEFAULT_TASK_QUEUE
from outlast_workflow.primitives.times import to_datetime

app = typer.Typer(
    name="schedule",
    help="Create, change, list, trigger or backfill schedules.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Id = Annotated[str, typer.Argument(metavar="ID", help="The schedule.", show_default=False)]
CronTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--cron", metavar="TEXT", help="Fire at the times of a cron text; repeatable.", show_default=False
    ),
]
TimeZone = Annotated[str, typer.Option("--time-zone", help="The time zone of the cron texts.")]
Periods = Annotated[
    list[str] | None,
    typer.Option("--every", metavar="TIME", help="Fire at an interval; repeatable.", show_default=False),
]
Instants = Annotated[
    list[str] | None,
    typer.Option("--at", metavar="INSTANT", help="Fire once at an instant; repeatable.", show_default=False),
]
Excluded = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="TEXT",
        help="Leave out what a cron text covers; repeatable.",
        show_default=False,
    ),
]
StartAt = Annotated[
    str | None,
    typer.Option("--start-at", metavar="INSTANT", help="Fire no earlier.", show_default=False),
]
EndAt = Annotated[
    str | None, typer.Option("--end-at", metavar="INSTANT", help="Fire no later.", show_default=False)
]
Jitter = Annotated[
    str | None,
    typer.Option(
        "--jitter", metavar="TIME", help="Fire each slot later by a part of this.", show_default=False
    ),
]
Overlaps = Annotated[
    str | None,
    typer.Option(
        "--overlap",
        help="While the workflow before is open: skip, buffer_one, buffer_all, cancel_other, terminate_other or "
        "allow_all.",
        show_default=False,
    ),
]
CatchesUp = Annotated[
    str | None,
    typer.Option("--catch-up", help="After an outage, start: latest, all or none.", show_default=False),
]
Window = Annotated[
    str | None,
    typer.Option(
        "--catch-up-window",
        metavar="TIME",
        help="How old a slot may be that is caught up.",
        show_default=False,
    ),
]
PausesOnFailure = Annotated[
    bool | None,
    typer.Option(
        "--pause-on-failure/--no-pause-on-failure",
        help="Pause when a workflow that it started fails, or do not.",
        show_default=False,
    ),
]
MaxRuns = Annotated[
    int | None,
    typer.Option("--max-runs", help="How many slots it starts at most.", show_default=False),
]
Note = Annotated[
    str | None, typer.Option("--note", help="A note for those who look at it.", show_default=False)
]
Next = Annotated[int, typer.Option("--next", help="How many slots to come are shown.")]


@app.command()
def create(
    schedule_id: Id,
    workflow_type: Annotated[
        str, typer.Argument(metavar="TYPE", help="The workflow type.", show_default=False)
    ],
    cron: CronTexts = None,
    time_zone: TimeZone = "UTC",
    every: Periods = None,
    at: Instants = None,
    exclude: Excluded = None,
    start_at: StartAt = None,
    end_at: EndAt = None,
    jitter: Jitter = None,
    overlap: Overlaps = None,
    catch_up: CatchesUp = None,
    catch_up_window: Window = None,
    pause_on_failure: PausesOnFailure = None,
    max_runs: MaxRuns = None,
    note: Note = None,
    input: Input = None,
    task_queue: TaskQueue = DEFAULT_TASK_QUEUE,
    execution_timeout: ExecutionTimeout = None,
    run_timeout: RunTimeout = None,
    priority: Priority = 5,
    memo: Memo = None,
    retry_policy: RetryPolicy = None,
    search_attributes: SearchAttributes = None,
    paused: Annotated[bool, typer.Option("--paused", help="Create it paused.")] = False,
    if_exists: Annotated[
        str, typer.Option("--if-exists", help="What to do if it is there already: error, keep or update.")
    ] = "error",
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Create a schedule; its slots count from now."""
    given = locals()
    options = StartOptions(**start_options(given))
    arguments = input_values(input)

    async def work(client: Client) -> None:
        fields = _fields(given, _now(client))
        fields.update(task_queue=task_queue, options=options, paused=paused, if_exists=if_exists)
        handle = await client.schedules.create(schedule_id, workflow_type, *arguments, **fields)
        await _show_one(client, handle, 3, json=json)

    with_client(url, work, codec=codec, makes=True)


@app.command()
def update(
    schedule_id: Id,
    cron: CronTexts = None,
    time_zone: TimeZone = "UTC",
    every: Periods = None,
    at: Instants = None,
    exclude: Excluded = None,
    start_at: StartAt = None,
    end_at: EndAt = None,
    jitter: Jitter = None,
    overlap: Overlaps = None,
    catch_up: CatchesUp = None,
    catch_up_window: Window = None,
    pause_on_failure: PausesOnFailure = None,
    max_runs: MaxRuns = None,
    note: Note = None,
    input: Input = None,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Change what is given; another calendar counts from now."""
    given = locals()

    async def work(client: Client) -> None:
        fields = _fields(given, _now(client))
        if input:
            fields["args"] = input_values(input)
        handle = client.schedules.handle(schedule_id)
        await handle.update(**fields)
        await _show_one(client, handle, 3, json=json)

    with_client(url, work, codec=codec)


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
            _show_table(found, _now(client))

    with_client(url, work)


@app.command()
def describe(schedule_id: Id, next: Next = 5, url: Url = None, json: AsJson = False) -> None:
    """Show a schedule: its calendar, its policies, its next slots and what became of the last ones."""

    async def work(client: Client) -> None:
        await _show_one(client, client.schedules.handle(schedule_id), next, json=json)

    with_client(url, work)


@app.command(name="next")
def next_(schedule_id: Id, next: Next = 10, url: Url = None, json: AsJson = False) -> None:
    """Show when a schedule fires next."""

    async def work(client: Client) -> None:
        found = await client.schedules.handle(schedule_id).describe(next=next)
        if json:
            document([slot.isoformat() for slot in found.next_slots])
            return
        for slot in found.next_slots:
            show(at_(slot, _now(client)))
        if not found.next_slots:
            show("it has no slot to come" + (": it is paused" if found.paused else ""))

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
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Start the slots of a time that has passed; those that were started are left as they are."""

    async def work(client: Client) -> None:
        now = _now(client)
        first, last = moment("start", start, now), moment("end", end, now)
        assert first is not None, "it was given"
        assert last is not None, "it was given"
        done = await client.schedules.handle(schedule_id).backfill(first, last)
        if json:
            document(done)
        else:
            show(f"started {counted(done.started, 'workflow')}, {done.existing} were there already")

    with_client(url, work)


at_ = at
"""The function that words an instant: a parameter of some commands has its name."""


def _now(client: Client) -> datetime:
    return to_datetime(client.runtime.environment.clock.now())


def _fields(given: dict[str, Any], now: datetime) -> dict[str, Any]:
    """Return the fields of a schedule among a command's options that were given."""
    specs: list[Spec] = [Cron(text, given["time_zone"]) for text in given["cron"] or ()]
    specs += [Every(_period(text)) for text in given["every"] or ()]
    instants = [moment("at", text, now, ahead=True) for text in given["at"] or ()]
    if instants:
        specs.append(At(*[instant for instant in instants if instant is not None]))
    fields: dict[str, Any] = {"spec": specs} if specs else {}
    if given["exclude"]:
        fields["exclude"] = [Cron(text, given["time_zone"]) for text in given["exclude"]]
    for name in ("start_at", "end_at"):
        if given[name] is not None:
            fields[name] = moment(name.replace("_", " "), given[name], now, ahead=True)
    for name in ("jitter", "catch_up_window"):
        if given[name] is not None:
            fields[name] = duration(name.replace("_", " "), given[name])
    for name in ("overlap", "catch_up"):
        if given[name] is not None:
            fields[name] = given[name].replace("-", "_")
    for name in ("pause_on_failure", "max_runs", "note"):
        if given[name] is not None:
            fields[name] = given[name]
    return fields


def _period(text: str) -> float:
    found = duration("every", text)
    if found is None:
        raise InvalidOptionError("every must not be empty", field="every")
    return found


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


def _state(found: ScheduleDescription) -> Text:
    if found.paused:
        return Text("paused", style="yellow")
    return Text("active", style="green") if found.next_look_at is not None else Text("ended", style="dim")


def _show_table(found: Sequence[ScheduleDescription], now: datetime) -> None:
    if not found:
        show("there are no schedules: `outlast schedule create ID TYPE --cron …` creates one")
        return
    made = table(
        "SCHEDULE", "STATE", "TYPE", "WHEN", "NEXT", "STARTED", "SKIPPED", "MISSED",
        drop=("MISSED", "SKIPPED", "TYPE"),
    )  # fmt: skip
    for one in found:
        made.add_row(
            one.schedule_id,
            _state(one),
            one.workflow_type,
            one.when,
            ago(one.next_slots[0], now) if one.next_slots else "",
            f"{one.started:,}",
            f"{one.skipped:,}",
            f"{one.missed:,}",
        )
    show(made)


async def _show_one(client: Client, handle: ScheduleHandle, next: int, *, json: bool) -> None:
    found = await handle.describe(next=next)
    if json:
        document(found)
        return
    now = _now(client)
    state = _state(found).plain
    catch_up = f"{found.catch_up.value}, within {words(found.catch_up_window)}"
    lines = {
        "schedule": found.schedule_id,
        "state": f"{state}: {label(found.note)}" if found.note else state,
        "starts": f"{found.workflow_type} on task queue {found.task_queue}",
        "when": found.when,
        "excluded": "; ".join(str(spec_from(one)) for one in found.exclude),
        "from": at(found.start_at, now),
        "until": at(found.end_at, now),
        "jitter": words(found.jitter) if found.jitter else "",
        "overlap": found.overlap.value,
        "catch up": catch_up,
        "on failure": "pause" if found.pause_on_failure else "",
        "runs left": "" if found.remaining_runs is None else f"{found.remaining_runs} of {found.max_runs}",
        "done": f"{found.started:,} started, {found.skipped:,} skipped, {found.missed:,} missed",
        "waiting": ", ".join(clock(slot) for slot in found.buffered),
        "next": "\n            ".join(at(slot, now) for slot in found.next_slots),
        "last": "\n            ".join(
            f"{clock(one.slot) if one.slot is not None else clock(one.at)} {one.outcome}"
            for one in found.recent
        ),
    }
    for name, text in lines.items():
        if text:
            show(f"{name + ':':<12}{text}")
