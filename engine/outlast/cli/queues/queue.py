"""``outlast queue define``, ``update``, ``list``, ``describe``, ``pause``, ``resume`` and ``delete``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, cast

import typer
from rich.text import Text

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Url
from outlast.cli.common.output import document, show, table
from outlast.client.client import Client
from outlast.queues.descriptions import QueueDescription
from outlast.text.parsing import limit, rate
from outlast.text.wording import ago, at, capped, clock, label, words
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.queues import LIMITS
from outlast_workflow.options.validation import IfExists
from outlast_workflow.primitives.times import to_datetime

app = typer.Typer(
    name="queue",
    help="Define, update, list, describe, pause, resume or delete queues.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The queue.", show_default=False)]


def _limit(name: str, help: str, metavar: str = "NUMBER") -> Any:
    return typer.Option(name, metavar=metavar, help=f"{help} `none` is no limit.", show_default=False)


Concurrency = Annotated[
    str | None, _limit("--concurrency", "How many may be under way at a time, over all workers.")
]
WorkerConcurrency = Annotated[
    str | None, _limit("--worker-concurrency", "How many of them one worker may have.")
]
RateLimit = Annotated[
    str | None,
    _limit("--rate", "How many may be admitted in any window of time, such as 20/s or 100/5m.", "N/TIME"),
]
PartitionConcurrency = Annotated[
    str | None, _limit("--partition-concurrency", "As --concurrency, for each partition.")
]
PartitionWorkerConcurrency = Annotated[
    str | None, _limit("--partition-worker-concurrency", "As --worker-concurrency, for each partition.")
]
PartitionRate = Annotated[str | None, _limit("--partition-rate", "As --rate, for each partition.", "N/TIME")]


@app.command()
def define(
    name: Name,
    concurrency: Concurrency = None,
    worker_concurrency: WorkerConcurrency = None,
    rate: RateLimit = None,
    partition_concurrency: PartitionConcurrency = None,
    partition_worker_concurrency: PartitionWorkerConcurrency = None,
    partition_rate: PartitionRate = None,
    if_exists: Annotated[
        str,
        typer.Option(
            "--if-exists",
            help="What to do if it is defined already: error, keep, or update it to these limits and no others.",
        ),
    ] = "error",
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Define a queue; what is not given is not limited."""
    limits = _limits(locals())
    existing = cast(IfExists, if_exists)

    async def work(client: Client) -> QueueDescription:
        return await client.queues.define(name, if_exists=existing, **limits)

    _show_one(url, work, json=json, makes=True)


@app.command()
def update(
    name: Name,
    concurrency: Concurrency = None,
    worker_concurrency: WorkerConcurrency = None,
    rate: RateLimit = None,
    partition_concurrency: PartitionConcurrency = None,
    partition_worker_concurrency: PartitionWorkerConcurrency = None,
    partition_rate: PartitionRate = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Change the limits that are given; the next admission goes by them."""
    limits = _limits(locals())
    if not limits:
        raise InvalidOptionError(
            "update needs a limit to change: give one, such as --concurrency (`outlast queue update --help` lists all)",
            field="limits",
        )
    _show_one(url, lambda client: client.queues.update(name, **limits), json=json)


@app.command(name="list")
def list_(url: Url = None, json: AsJson = False) -> None:
    """List the queues: their limits, and how much is in each."""

    async def work(client: Client) -> None:
        found = await client.queues.list()
        if json:
            for queue in found:
                document(queue)
        else:
            _show_table(found)

    with_client(url, work)


@app.command()
def describe(name: Name, url: Url = None, json: AsJson = False) -> None:
    """Show a queue: its limits, what waits in it, and when it admits next."""
    _show_one(url, lambda client: client.queues.describe(name), json=json)


@app.command()
def pause(
    name: Name,
    note: Annotated[
        str | None,
        typer.Option("--note", help="Why, for those who look at the queue.", show_default=False),
    ] = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Admit nothing until the queue is resumed; what is under way goes on."""
    _carry_out(url, lambda client: client.queues.pause(name, note), name, "paused", json=json)


@app.command()
def resume(name: Name, url: Url = None, json: AsJson = False) -> None:
    """Admit from a paused queue again."""
    _carry_out(url, lambda client: client.queues.resume(name), name, "resumed", json=json)


@app.command()
def delete(name: Name, url: Url = None, json: AsJson = False) -> None:
    """Delete a queue in which nothing waits and of which nothing is under way."""
    _carry_out(url, lambda client: client.queues.delete(name), name, "deleted", json=json)


def _limits(options: dict[str, Any]) -> Any:
    """Return the limits among a command's options that were given."""
    read: dict[str, Callable[[str, str], Any]] = {
        name: rate if name.endswith("rate") else limit for name in LIMITS
    }
    return {name: read[name](name, options[name]) for name in LIMITS if options[name] is not None}


def _show_one(
    url: str | None,
    ask: Callable[[Client], Awaitable[QueueDescription]],
    *,
    json: bool,
    makes: bool = False,
) -> None:
    async def work(client: Client) -> None:
        found = await ask(client)
        if json:
            document(found)
        else:
            _show_description(found, to_datetime(client.runtime.environment.clock.now()))

    with_client(url, work, makes=makes)


def _carry_out(
    url: str | None, verb: Callable[[Client], Awaitable[None]], name: str, word: str, *, json: bool
) -> None:
    async def work(client: Client) -> None:
        await verb(client)
        if json:
            document({"name": name, word: True})
        else:
            show(word)

    with_client(url, work)


def _show_table(found: Sequence[QueueDescription]) -> None:
    if not found:
        show("no queues are defined: `outlast queue define NAME` defines one")
        return
    made = table(
        "QUEUE", "STATE", "WAITING", "RUNNING", "DELAYED", "OLDEST", "PARTITIONS", "LIMITS",
        drop=("PARTITIONS", "DELAYED", "OLDEST", "LIMITS"),
    )  # fmt: skip
    for queue in found:
        made.add_row(
            queue.name,
            _state(queue),
            *_load(queue),
            queue.limits_in_words,
        )
    show(made)
    for queue in found:
        if queue.paused and queue.note:
            show(f"{queue.name} is paused: {label(queue.note)}")
        elif not queue.paused and queue.held_up_by:
            show(f"{queue.name} is held up: {label(queue.held_up_by)}")


def _state(queue: QueueDescription) -> Text:
    if queue.paused:
        return Text("paused", style="yellow")
    return Text("held up", style="yellow") if queue.held_up_by else Text("open", style="green")


def _of_them(activities: int) -> str:
    """Return how many of what is counted are activities, in words; nothing where none is."""
    return f" ({capped(activities, 10_000)} of them activities)" if activities else ""


def _load(queue: QueueDescription) -> tuple[str, ...]:
    oldest = queue.oldest_waiting_seconds
    return (
        capped(queue.waiting, 10_000),
        capped(queue.running, 10_000),
        capped(queue.delayed, 10_000),
        "" if oldest is None else words(oldest),
        capped(queue.partitions_waiting, 1_000),
    )


def _show_description(queue: QueueDescription, now: datetime) -> None:
    waiting, running, delayed, oldest, partitions = _load(queue)
    lines_in = ""
    if queue.partitions_waiting:
        lines_in = " in 1 partition" if queue.partitions_waiting == 1 else f" in {partitions} partitions"
    state = "open" if queue.paused_at is None else f"paused {ago(queue.paused_at, now)}"
    lines = {
        "queue": queue.name,
        "state": f"{state}: {label(queue.note)}" if queue.note else state,
        "limits": queue.limits_in_words or "none",
        "waiting": waiting
        + _of_them(queue.waiting_activities)
        + (f"{lines_in}, the oldest for {oldest}" if oldest else ""),
        "held up by": "" if queue.paused else label(queue.held_up_by or ""),
        "running": running + _of_them(queue.running_activities),
        "delayed": delayed,
        "next admission": at(queue.next_admission_at, now),
        "defined": clock(queue.created_at),
        "changed": clock(queue.updated_at),
    }
    width = max(map(len, lines)) + 2
    for name, value in lines.items():
        if value:
            show(f"{name:<{width}}{value}")
