"""What a run was given, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from outlast import Client
from outlast.histories.history_pages import HistoryEvent
from outlast.visibility.columns import decoded
from outlast.visibility.describe import cause_of
from outlast.visibility.views import FailureCause
from outlast_dashboard.api.contract.redaction import event_view
from outlast_dashboard.pages.rendering import pretty
from outlast_dashboard.pages.run.history import MOST_SHOWN_BYTES
from outlast_dashboard.security.principals import Principal
from outlast_store.reads.histories import find_event, find_last_input
from outlast_store.schema.rows import RunRow
from outlast_workflow.history.events import WorkflowStartChanged, stored_payload
from outlast_workflow.primitives.times import to_datetime


@dataclass(frozen=True, slots=True)
class Value:
    """A value as the page shows it.

    Attributes:
        text: Indented JSON; ``None`` if it is too large, or hidden.
        size: Its size in bytes.
        seq: The event that holds it.
        hidden: Whether the reader may not see it.
    """

    text: str | None
    size: int
    seq: int
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The input of a run and its end; each field is ``None`` or empty where there is nothing of the kind.

    Attributes:
        input: Its arguments: the argument itself if there is one, otherwise all of them.
        no_input: Whether it was started without arguments.
        result: What it returned.
        failure: Why it failed.
        reason: Why it was cancelled, terminated or reset, or which limit ended it.
        retry_state: Why no other run follows.
        debounce_key: Which calls went to it together, the last of which gave its input.
    """

    input: Value | None = None
    no_input: bool = False
    result: Value | None = None
    failure: FailureCause | None = None
    reason: str = ""
    retry_state: str = ""
    debounce_key: str = ""


async def outcome_of(client: Client, run: RunRow, principal: Principal, key: str = "") -> RunOutcome:
    """Return what a run was given, and what came of it.

    Args:
        client: The database, and the converter of its payloads.
        run: The run.
        principal: Who reads it.
        key: Where in its only argument the input is; empty if that argument is the input.
    """
    first = await _event(client, run, 1)
    last = await _event(client, run, run.last_seq) if run.closed_at is not None else None
    shown = principal.sees_payloads
    input, no_input = None, False
    debounced = "" if first is None else _words(first.payload.get("debounce_key"))
    given = await _last_input(client, run, first) if first is not None and debounced else first
    if given is not None and "input" in given.payload:
        args = _plain(client, run, given.payload["input"]) if shown else None
        no_input = args == []
        alone = args[0] if isinstance(args, list) and len(args) == 1 else args
        if isinstance(alone, dict) and key in alone:
            alone = alone[key]
        input = None if no_input else _value(alone, given.seq, shown=shown)
    if last is None:
        return RunOutcome(input, no_input, debounce_key=debounced)
    result = None
    if "result" in last.payload:
        result = _value(_plain(client, run, last.payload["result"]) if shown else None, last.seq, shown=shown)
    seen = event_view(last, principal).payload
    failure = seen.get("failure")
    known = isinstance(failure, dict) and "type" in failure
    return RunOutcome(
        input,
        no_input,
        result,
        cause_of(failure) if isinstance(failure, dict) and known else None,
        _words(seen.get("reason")) or _words(seen.get("by")).replace("_", " "),
        _words(seen.get("retry_state")).replace("_", " "),
        debounced,
    )


async def _event(client: Client, run: RunRow, seq: int) -> HistoryEvent | None:
    found = await client.runtime.read(find_event, run.run_id, seq)
    if found is None:
        return None
    return HistoryEvent(
        seq, found[0], to_datetime(run.last_event_at), stored_payload(found[1], run.run_id, seq)
    )


async def _last_input(client: Client, run: RunRow, first: HistoryEvent) -> HistoryEvent:
    """Return the event with the input of the last call of a debounced run."""
    found = await client.runtime.read(find_last_input, run.run_id)
    if found is None:
        return first
    payload = stored_payload(found[1], run.run_id, found[0])
    return HistoryEvent(found[0], WorkflowStartChanged.type, to_datetime(run.last_event_at), payload)


def _plain(client: Client, run: RunRow, stored: Any) -> Any:
    return decoded(orjson.dumps(stored).decode(), client.converter, run.run_id)


def _value(value: Any, seq: int, *, shown: bool) -> Value:
    if not shown:
        return Value(None, 0, seq, hidden=True)
    text = pretty(value)
    size = len(text.encode())
    return Value(text if size <= MOST_SHOWN_BYTES else None, size, seq)


def _words(value: Any) -> str:
    return value if isinstance(value, str) else ""
