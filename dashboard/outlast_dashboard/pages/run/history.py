"""The history of a run as its page shows it: a slice of its events, each with its gist, by itself or in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import orjson
from sqlalchemy import Connection

from outlast.histories.history_pages import HistoryEvent
from outlast.text.event_gists import Gist, gist, kind_of, types_of
from outlast_dashboard.api.contract.models import EventView
from outlast_dashboard.api.contract.redaction import event_view
from outlast_dashboard.pages.runs.choice import RunChoice
from outlast_dashboard.security.principals import Principal
from outlast_store.reads.activities import find_activities
from outlast_store.reads.histories import read_event_slice
from outlast_store.schema.rows import ActivityRow
from outlast_workflow.history.events import stored_payload
from outlast_workflow.primitives.times import to_datetime

EVENTS_PER_PAGE: Final = 100
MOST_SHOWN_BYTES: Final = 8_000
"""The largest payload that is in the page itself; a larger one is a link."""


@dataclass(frozen=True, slots=True)
class EventLine:
    """One event. ``text`` is its payload as JSON, ``None`` if it is too large for the page."""

    seq: int
    type: str
    recorded_at: datetime
    gist: Gist
    text: str | None
    size: int

    @property
    def is_quiet(self) -> bool:
        """Whether the event is the engine's own bookkeeping, which readers mostly pass over."""
        return self.type == "WorkflowTaskCompleted"


@dataclass(slots=True)
class EventGroup:
    """The events of one command: an activity, a timer, a child; or a single event.

    ``label`` is what they are about, ``took`` how long it took in seconds.
    """

    key: str
    label: str
    lines: list[EventLine] = field(default_factory=list)
    status: str = ""
    took: float | None = None


@dataclass(slots=True)
class RunHistory:
    """A page of a history. ``newer`` and ``older`` are the changes of the choice that lead on; ``None`` at an end."""

    lines: list[EventLine]
    groups: list[EventGroup]
    newer: dict[str, int | None] | None
    older: dict[str, int | None] | None


@dataclass(frozen=True, slots=True)
class EventSlice:
    """Events in order, one more than the page shows if there are more; and the activities that they are about."""

    events: list[HistoryEvent]
    activities: dict[int, ActivityRow]


def read_slice(connection: Connection, run_id: str, choice: RunChoice) -> EventSlice:
    """Read what a page of a history needs.

    Args:
        connection: Where to read.
        run_id: Which run.
        choice: Which events, and from where.
    """
    after = choice.after
    if after is None and choice.before is None and choice.order == "oldest":
        after = 0
    rows = read_event_slice(
        connection,
        run_id,
        after_seq=after,
        before_seq=choice.before,
        types=types_of(choice.events) if choice.events else (),
        limit=EVENTS_PER_PAGE + 1,
    )
    events = [
        HistoryEvent(seq, kind, to_datetime(at), stored_payload(text, run_id, seq))
        for seq, kind, at, text in rows
    ]
    ids = {event.payload["command_id"] for event in events if event.type.startswith("Activity")}
    activities = find_activities(connection, run_id, sorted(ids)) if ids else []
    return EventSlice(events, {row.activity_id: row for row in activities})


def history_of(
    found: EventSlice, choice: RunChoice, principal: Principal, names: Mapping[int, str]
) -> RunHistory:
    """Return a page of a history.

    Args:
        found: What was read.
        choice: How it is shown.
        principal: Who reads it.
        names: What further command ids stand for.
    """
    forward = choice.after is not None or (choice.before is None and choice.order == "oldest")
    more = len(found.events) > EVENTS_PER_PAGE
    events = (found.events[:EVENTS_PER_PAGE] if forward else found.events[1:]) if more else found.events
    known = {
        **names,
        **{
            event.payload["command_id"]: event.payload["workflow_id"]
            for event in events
            if event.type == "ChildWorkflowScheduled"
        },
        **{id: row.activity_type for id, row in found.activities.items()},
    }
    lines = [_line(event_view(event, principal), known) for event in events]
    if choice.order == "newest":
        lines.reverse()
    first, last = (events[0].seq, events[-1].seq) if events else (0, 0)
    # What lies in the direction of reading is known; in the other, there is something if the page began somewhere.
    begun = choice.after not in (None, 0) or choice.before is not None
    has_newer, has_older = (more, begun) if forward else (begun, more)
    return RunHistory(
        lines,
        _groups(_work(lines, choice), events, found.activities, known) if choice.view == "groups" else [],
        {"after": last, "before": None} if has_newer and events else None,
        {"before": first, "after": None} if has_older and events else None,
    )


def _line(event: EventView, names: Mapping[int, str]) -> EventLine:
    text = orjson.dumps(event.payload, option=orjson.OPT_INDENT_2, default=str)
    return EventLine(
        event.seq,
        event.type,
        event.recorded_at,
        gist(event.type, event.payload, event.recorded_at, names),
        text.decode() if len(text) <= MOST_SHOWN_BYTES else None,
        len(text),
    )


def _work(lines: Sequence[EventLine], choice: RunChoice) -> Sequence[EventLine]:
    """Leave the bookkeeping out of the groups, unless it was asked for."""
    return lines if choice.events == "tasks" else [line for line in lines if not line.is_quiet]


def _groups(
    lines: Sequence[EventLine],
    events: Sequence[HistoryEvent],
    activities: Mapping[int, ActivityRow],
    names: Mapping[int, str],
) -> list[EventGroup]:
    """Gather lines by what they are about, each group in the place of its first line."""
    payloads: dict[int, dict[str, Any]] = {event.seq: event.payload for event in events}
    groups: dict[str, EventGroup] = {}
    for line in lines:
        payload = payloads[line.seq]
        id = payload.get("command_id", payload.get("update_id"))
        if id is None:
            key, label = f"event-{line.seq}", ""
        else:
            key = f"group-{id}"
            label = f"{names[id]} #{id}" if id in names else _label(line.type, id, payload)
        group = groups.setdefault(key, EventGroup(key, label))
        group.lines.append(line)
        if not group.label or line.type.endswith(("Scheduled", "Accepted", "Requested")):
            group.label = label
    for group in groups.values():
        _conclude(group, payloads, activities)
    return list(groups.values())


def _label(event_type: str, id: Any, payload: Mapping[str, Any]) -> str:
    if event_type.startswith("Update"):
        return f"update {payload.get('name', id)}"
    if event_type.startswith("ExternalSignal"):
        return f"signal to {payload['workflow_id']} #{id}" if "workflow_id" in payload else f"signal #{id}"
    return f"{kind_of(event_type).removesuffix('s').removesuffix('ren')} #{id}"


def _conclude(
    group: EventGroup, payloads: Mapping[int, dict[str, Any]], activities: Mapping[int, ActivityRow]
) -> None:
    """Set the status of a group, and how long it took: by its activity's row, otherwise by its events."""
    lines = sorted(group.lines, key=lambda line: line.seq)
    id = payloads[lines[0].seq].get("command_id")
    row = activities.get(id) if isinstance(id, int) else None
    if row is not None and lines[0].type.startswith("Activity"):
        group.status = row.status
        if row.closed_at is not None:
            group.took = (row.closed_at - row.scheduled_at) / 1e6
        return
    ended = [line for line in lines if line.type.endswith(_ENDS)]
    if ended:
        group.status = _status(ended[-1])
        if len(lines) > 1:
            group.took = (ended[-1].recorded_at - lines[0].recorded_at).total_seconds()
    elif lines[0].type.endswith("Scheduled"):
        group.status = "running"


_ENDS: Final = ("Completed", "Failed", "TimedOut", "Cancelled", "Terminated", "Fired", "Delivered")


def _status(line: EventLine) -> str:
    if line.gist.look:
        return line.gist.look
    return "fired" if line.type.endswith("Fired") else "cancelled" if line.type.endswith("Cancelled") else ""
