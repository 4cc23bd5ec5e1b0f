"""``outlast history``: the events of a run."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, RunId, Url, WorkflowId
from outlast.cli.common.output import document, show, table
from outlast.client.client import Client
from outlast.histories.history_pages import HistoryEvent
from outlast.text.event_gists import gist
from outlast.text.wording import clock, label, pretty, words
from outlast_workflow.options.validation import integer

_LOOKS: Final = {"failed": "red", "timed_out": "red", "cancelled": "yellow", "terminated": "yellow"}


def history(
    workflow_id: WorkflowId,
    run_id: RunId = None,
    after: Annotated[
        int, typer.Option("--after", metavar="SEQ", help="Only the events after this number.")
    ] = 0,
    full: Annotated[bool, typer.Option("--full", help="Print payloads in full.")] = False,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Print the events of a run, in order."""
    integer("after", after, 0)

    async def work(client: Client) -> None:
        events: list[HistoryEvent] = []
        shown = 0
        async for event in client.handle(workflow_id, run_id=run_id).history(after_seq=after):
            shown += 1
            if json:
                document(_event_document(event))
            elif full:
                _show_in_full(event, events[-1] if events else None)
                events = [event]
            else:
                events.append(event)
        if not shown and not json:
            length = (await client.describe(workflow_id, run_id)).run.history_length
            show(f"no events after {after}: the history of {workflow_id} has {length}")
        elif not json and not full:
            _show_table(events)

    with_client(url, work)


def _event_document(event: HistoryEvent) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "type": event.type,
        "recorded_at": event.recorded_at.isoformat(),
        "payload": event.payload,
    }


def _show_in_full(event: HistoryEvent, before: HistoryEvent | None) -> None:
    parts = (str(event.seq), clock(event.recorded_at), _since(event, before), event.type)
    show("  ".join(part for part in parts if part))
    summary = label(event.payload.get("summary"))
    if summary:
        show(Text(f"    {summary}", style="bold"))
    show(*(f"    {line}" for line in pretty(event.payload).splitlines()))


def _since(event: HistoryEvent, before: HistoryEvent | None) -> str:
    return "" if before is None else f"+{words((event.recorded_at - before.recorded_at).total_seconds())}"


def _show_table(events: list[HistoryEvent]) -> None:
    """Print a line for each event: what happened, and to what. A history of one day names the day once."""
    days = {event.recorded_at.date() for event in events}
    title = f"{min(days)}, times in UTC" if len(days) == 1 else None
    made = table("SEQ", "RECORDED", "", "EVENT", "WHAT", title=title, drop=("", "RECORDED"), clip="WHAT")
    names: dict[int, str] = {}
    before: HistoryEvent | None = None
    for event in events:
        made.add_row(
            str(event.seq),
            _time(event.recorded_at) if title else clock(event.recorded_at),
            _since(event, before),
            event.type,
            _gist(event, names),
        )
        before = event
    show(made)


def _time(instant: datetime) -> str:
    return clock(instant).partition(" ")[2].removesuffix("Z")


def _gist(event: HistoryEvent, names: dict[int, str]) -> Text:
    """Return what an event says in one line. What its command id stands for is learnt from the events before."""
    id = event.payload.get("command_id")
    named = event.payload.get("activity_type", event.payload.get("workflow_id"))
    if isinstance(id, int) and isinstance(named, str):
        names.setdefault(id, named)
    found = gist(event.type, event.payload, event.recorded_at, names)
    value = Text(label(found.value), style="dim" if found.words else "")
    said = Text(label(found.words), style=_LOOKS.get(found.look, ""))
    return Text(" ").join(part for part in (said, value) if part)
