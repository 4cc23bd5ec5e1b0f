"""Events in plain words."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from outlast.demo.watching import ChainEvent
from outlast_workflow.primitives.times import to_datetime

NOT_NARRATED = frozenset({"WorkflowTaskCompleted"})
"""Events that the live view leaves out, since others show what they led to."""


class Narrator:
    """Describes events. It remembers the activities of a run, because their results only have numbers."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, int], str] = {}

    def describe(self, seen: ChainEvent) -> str:
        """Return an event in a few words, without its type."""
        run, payload = seen.run_number, seen.event.payload
        name = self._names.get((run, payload.get("command_id", 0)), "")
        match seen.event.type:
            case "WorkflowStarted":
                return _started(payload)
            case "ActivityScheduled":
                self._names[run, payload["command_id"]], words = _scheduled(payload)
                return words
            case "ActivityCompleted":
                attempts = f" · in attempt {payload['attempt']}" if payload["attempt"] > 1 else ""
                return name + _result(payload["result"]) + attempts
            case "ActivityFailed":
                return f"{name} · {payload['failure'].get('message', '')} · {payload['retry_state']}"
            case "ActivityTimedOut":
                return f"{name} · {payload['timeout_kind']} · {payload['retry_state']}"
            case "TimerScheduled":
                return f"sleep until {clock(to_datetime(payload['fire_at']))}"
            case "TimerFired":
                return f"slept until {clock(to_datetime(payload['fire_at']))}"
            case "WorkflowContinuedAsNew":
                _, carried = payload["input"]
                chunk = carried["next_chunk"] + 1
                return f"{carried['loaded']['rows']:,} rows so far · run {run + 1} starts with chunk {chunk}"
            case "WorkflowCompleted":
                result = payload["result"]
                return f"{result['loaded']:,} rows loaded, {result['rejected']} rejected, in {result['runs']} runs"
            case "WorkflowTimedOut":
                return f"{payload['timeout_kind']} at {clock(payload['deadline_at'])}"
            case "WorkflowFailed" | "WorkflowTaskFailed":
                return str(payload["failure"].get("message", ""))
            case "WorkflowTaskCompleted":
                return _decided(payload)
            case _:
                return ""


def _started(payload: dict[str, Any]) -> str:
    execution, this_run = payload["execution_deadline_at"], payload["run_deadline_at"]
    return f"execution deadline {clock(execution)} · run deadline {clock(this_run)}"


def _scheduled(payload: dict[str, Any]) -> tuple[str, str]:
    """Return the name of an activity, and the words about its event."""
    name: str = payload["activity_type"]
    if name != "load_chunk":
        return name, name
    _, chunk = payload["input"]
    first, last = chunk["first_row"], chunk["first_row"] + chunk["rows"] - 1
    name = f"load_chunk {chunk['number']}"
    return name, f"{name} · rows {first:,}–{last:,}"


def _decided(payload: dict[str, Any]) -> str:
    """Return the words about a workflow task: the events that it applied, and the number of its commands."""
    own = f" and {payload['own']} just before" if payload["own"] else ""
    commands = payload["commands"]
    return (
        f"applied events through {payload['through']}{own} · {commands} command{'s' if commands != 1 else ''}"
    )


def _result(result: Any) -> str:
    if not isinstance(result, dict):
        return ""
    if "chunks" in result:
        return f" · {result['rows']:,} rows in {len(result['chunks'])} chunks"
    if "rejected" in result:
        return f" · {result['rows']:,} rows" + (
            f", {result['rejected']} rejected" if result["rejected"] else ""
        )
    return f" · {len(result)} currencies"


def clock(moment: str | datetime) -> str:
    """Return the time of day of an instant, in UTC, to the millisecond."""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"
