"""The gist of a history event: one line that says what happened, to what, and with which value.

A gist is made from the payload as its reader may see it, so a value that is hidden is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

from outlast.text.wording import counted, words
from outlast_workflow.history.events import REGISTRY
from outlast_workflow.primitives.enums import FailureCategory

MOST_PREVIEW: Final = 160
"""The characters of a value that a gist shows at most."""

KINDS: Final = {
    "run_events": "run",
    "activity_events": "activities",
    "timer_events": "timers",
    "child_events": "children",
    "message_events": "messages",
    "marker_events": "markers",
    "stream_events": "streams",
}
"""The kind of an event, by the module of its class; workflow tasks are a kind of their own."""

Names = Mapping[int, str]
"""What command ids stand for: the types of activities, the ids of child workflows."""


@dataclass(frozen=True, slots=True)
class Gist:
    """What an event says in one line.

    Attributes:
        words: What it is about.
        value: The value that it carries, as JSON on one line, cut off where it is long.
        look: The status whose colour it has, such as ``failed``; empty for what needs none.
    """

    words: str
    value: str = ""
    look: str = ""


def kind_of(event_type: str) -> str:
    """Return the kind of an event: ``activities``, ``timers``, ``children``, ``messages``, ``tasks`` and so on."""
    if event_type.startswith("WorkflowTask"):
        return "tasks"
    return KINDS[REGISTRY[event_type].__module__.rpartition(".")[2]]


def types_of(kind: str) -> tuple[str, ...]:
    """Return the types of the events of a kind."""
    return tuple(name for name in REGISTRY if kind_of(name) == kind)


def gist(event_type: str, payload: Mapping[str, Any], recorded_at: datetime, names: Names) -> Gist:
    """Return the gist of an event; an empty one if its type is not known, as of a later version.

    Args:
        event_type: The event's type.
        payload: Its payload, as its reader may see it.
        recorded_at: When it was recorded.
        names: What command ids stand for.
    """
    known = _GISTS.get(event_type)
    return Gist("") if known is None else known(_Reading(payload, recorded_at, names))


@dataclass(frozen=True, slots=True)
class _Reading:
    payload: Mapping[str, Any]
    recorded_at: datetime
    names: Names

    def text(self, name: str) -> str:
        """Return a field as text on one line; empty if it is missing or hidden."""
        found = self.payload.get(name)
        return "" if found is None or isinstance(found, dict | list) else shortened(str(found))

    def value(self, name: str) -> str:
        """Return a field as JSON on one line; empty if it is missing or hidden."""
        found = self.payload.get(name)
        if found is None and name not in self.payload:
            return ""
        return preview(found)

    @property
    def arguments(self) -> str:
        """The input, without the brackets of its array."""
        found = self.payload.get("input")
        if isinstance(found, list):
            return ", ".join(preview(item) for item in found[:5])[:MOST_PREVIEW]
        return self.value("input")

    @property
    def command(self) -> str:
        """What the event's command id stands for: ``charge #5``."""
        id = self.payload.get("command_id")
        return self.named(self.names.get(id, "") if isinstance(id, int) else "")

    def named(self, name: str) -> str:
        """Return a name with the event's command id."""
        id = self.payload.get("command_id")
        return f"{name} #{id}".strip() if isinstance(id, int) else name

    @property
    def failure(self) -> str:
        """The type and message of the failure: ``KeyError: 'missing'``, behind what failed because of it."""
        return shortened(_failure_words(self.payload.get("failure")))

    @property
    def attempt(self) -> str:
        """The attempt, if it was not the first."""
        found = self.payload.get("attempt")
        return f"attempt {found}" if isinstance(found, int) and found > 1 else ""

    def word(self, name: str) -> str:
        """Return a field that holds one of a set of words, as it is read."""
        return self.text(name).replace("_", " ")


def _failure_words(failure: Any) -> str:
    """Return the type and message of a failure. One of an activity or a child tells what made that fail."""
    told: list[Any] = []
    while isinstance(failure, dict):
        through = failure.get("category") in _TELL_THEIR_CAUSE and isinstance(failure.get("cause"), dict)
        told += [failure.get("message")] if through else [failure.get("type"), failure.get("message")]
        failure = failure["cause"] if through else None
    return ": ".join(part for part in told if isinstance(part, str) and part)


_TELL_THEIR_CAUSE: Final = (FailureCategory.ACTIVITY, FailureCategory.CHILD_WORKFLOW)


def preview(value: Any) -> str:
    """Return a value as JSON on one line, cut off where it is long; empty for what is hidden."""
    if value == {"hidden": True}:
        return ""
    return shortened(orjson.dumps(value, default=str).decode())


def shortened(text: str, most: int = MOST_PREVIEW) -> str:
    """Return a text on one line, cut off where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _said(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _because(words: str, reason: str) -> str:
    return f"{words}: {reason}" if words and reason else words or reason


# --- runs -------------------------------------------------------------------------------------------------------------


def _started(event: _Reading) -> Gist:
    number, attempt = event.payload.get("run_number"), event.payload.get("attempt")
    source = event.payload.get("reset")
    return Gist(
        _said(
            event.text("workflow_type"),
            event.text("summary"),
            f"task queue {event.text('task_queue')}",
            f"run {number}" if isinstance(number, int) and number > 1 else "",
            f"attempt {attempt}" if isinstance(attempt, int) and attempt > 1 else "",
            "continues another run from an event of its history" if source else "",
        ),
        event.arguments,
    )


def _task_completed(event: _Reading) -> Gist:
    commands = event.payload.get("commands")
    made = counted(commands, "command") if isinstance(commands, int) and commands else "no commands"
    return Gist(f"events up to {event.text('through')} were applied, {made}")


def _continued(event: _Reading) -> Gist:
    return Gist(f"as {event.text('workflow_type')}", event.arguments, "continued_as_new")


def _run_failed(event: _Reading) -> Gist:
    return Gist(_said(event.failure or event.word("by"), event.word("retry_state")), look="failed")


def _run_timed_out(event: _Reading) -> Gist:
    return Gist(event.word("timeout_kind"), look="timed_out")


def _start_changed(event: _Reading) -> Gist:
    try:
        left = (datetime.fromisoformat(event.text("start_at")) - event.recorded_at).total_seconds()
    except (TypeError, ValueError):
        return Gist("", event.arguments)
    return Gist(f"begins after {words(left)}" if left > 0 else "begins at once", event.arguments)


def _deadline_lowered(event: _Reading) -> Gist:
    timeout = event.payload.get("timeout_seconds")
    said = f"limited to {words(timeout)}" if isinstance(timeout, int | float) else ""
    return Gist(_said(said, event.text("run_deadline_at")))


def _ended(look: str) -> Callable[[_Reading], Gist]:
    return lambda event: Gist(_said(event.text("reason"), event.word("by")), look=look)


# --- activities, timers, children -------------------------------------------------------------------------------------


def _activity_scheduled(event: _Reading) -> Gist:
    queue = event.text("task_queue")
    where = "local" if event.payload.get("local") is True else ""
    if not where and queue not in ("", "default"):
        where = f"task queue {queue}"
    options = event.payload.get("options")
    kind = "transactional" if isinstance(options, dict) and options.get("transactional") is True else ""
    return Gist(
        _said(event.named(event.text("activity_type")), event.text("summary"), where, kind), event.arguments
    )


def _activity_completed(event: _Reading) -> Gist:
    return Gist(_said(event.command, event.attempt), event.value("result"), "completed")


def _activity_failed(event: _Reading) -> Gist:
    said = _because(_said(event.command, event.attempt), event.failure)
    return Gist(_said(said, event.word("retry_state")), look="failed")


def _activity_timed_out(event: _Reading) -> Gist:
    kind = event.text("timeout_kind").replace("_", "-")
    return Gist(
        _said(event.command, event.attempt, f"{kind} timeout", event.word("retry_state")), look="timed_out"
    )


def _cancel_requested(event: _Reading) -> Gist:
    return Gist(_said(event.command, "the code waits for the end" if event.payload.get("wait") else ""))


def _command(look: str = "", value: str = "") -> Callable[[_Reading], Gist]:
    return lambda event: Gist(
        _said(_because(event.command, event.failure), event.text("reason"), event.word("by")),
        event.value(value) if value else "",
        look,
    )


def _timer_scheduled(event: _Reading) -> Gist:
    fire_at = event.payload.get("fire_at")
    length = ""
    if isinstance(fire_at, int):
        length = f"for {words(fire_at / 1e6 - event.recorded_at.timestamp())}"
    return Gist(_said(event.command, event.text("summary"), length))


def _child_scheduled(event: _Reading) -> Gist:
    return Gist(
        _said(event.named(event.text("workflow_id")), event.text("workflow_type"), event.text("summary")),
        event.arguments,
    )


def _child_timed_out(event: _Reading) -> Gist:
    return Gist(_said(event.command, event.word("timeout_kind")), look="timed_out")


def _dequeued(event: _Reading) -> Gist:
    waited = event.payload.get("waited_us")
    said = f"waited {words(waited / 1_000_000)}" if isinstance(waited, int) else ""
    return Gist(_said(f"queue {event.text('queue')}", event.text("partition_key"), said))


# --- messages and markers ---------------------------------------------------------------------------------------------


def _update_accepted(event: _Reading) -> Gist:
    return Gist(f"{event.text('name')} {event.text('update_id')}".strip(), event.arguments)


def _update_completed(event: _Reading) -> Gist:
    return Gist(
        _because(_said(event.text("update_id"), event.word("by")), event.failure),
        event.value("result"),
        "failed" if event.failure else "completed",
    )


def _signal_requested(event: _Reading) -> Gist:
    return Gist(f"{event.text('name')} to {event.text('workflow_id')}", event.arguments)


def _attributes(event: _Reading) -> Gist:
    found = event.payload.get("attributes")
    if not isinstance(found, dict) or found == {"hidden": True}:
        return Gist("")
    said = (
        f"{name} removed" if value is None else f"{name} = {preview(value)}" for name, value in found.items()
    )
    return Gist(shortened(", ".join(said)))


_GISTS: Final[dict[str, Callable[[_Reading], Gist]]] = {
    "WorkflowStarted": _started,
    "WorkflowTaskCompleted": _task_completed,
    "WorkflowTaskFailed": lambda event: Gist(event.failure, look="failed"),
    "WorkflowCompleted": lambda event: Gist("", event.value("result"), "completed"),
    "WorkflowFailed": _run_failed,
    "WorkflowTimedOut": _run_timed_out,
    "WorkflowCancelRequested": lambda event: Gist(event.text("reason")),
    "WorkflowCancelled": _ended("cancelled"),
    "WorkflowDeadlineLowered": _deadline_lowered,
    "WorkflowDequeued": _dequeued,
    "WorkflowStartChanged": _start_changed,
    "WorkflowTerminated": _ended("terminated"),
    "WorkflowContinuedAsNew": _continued,
    "WorkflowReset": lambda event: Gist(event.text("reason") or "another run goes on", look="terminated"),
    "ActivityScheduled": _activity_scheduled,
    "ActivityCompleted": _activity_completed,
    "ActivityFailed": _activity_failed,
    "ActivityTimedOut": _activity_timed_out,
    "ActivityCancelRequested": _cancel_requested,
    "ActivityCancelled": _command("cancelled", "details"),
    "TimerScheduled": _timer_scheduled,
    "TimerFired": _command(),
    "TimerCancelled": _command(),
    "ChildWorkflowScheduled": _child_scheduled,
    "ChildWorkflowStarted": _command(),
    "ChildWorkflowStartFailed": _command("failed"),
    "ChildWorkflowCancelRequested": _command(),
    "ChildWorkflowCompleted": _command("completed", "result"),
    "ChildWorkflowFailed": _command("failed"),
    "ChildWorkflowTimedOut": _child_timed_out,
    "ChildWorkflowCancelled": _command("cancelled"),
    "ChildWorkflowTerminated": _command("terminated"),
    "ParentClosePolicyApplied": lambda event: Gist(event.word("policy")),
    "ParentReset": lambda event: Gist(f"run {event.text('parent_run_id')} awaits its end now"),
    "SignalReceived": lambda event: Gist(event.text("name"), event.arguments),
    "UpdateAccepted": _update_accepted,
    "UpdateCompleted": _update_completed,
    "ExternalSignalRequested": _signal_requested,
    "ExternalSignalDelivered": _command(),
    "ExternalSignalFailed": _command("failed"),
    "StreamWritten": lambda event: Gist(event.named(event.text("name"))),
    "StreamClosed": lambda event: Gist(event.named(event.text("name"))),
    "SideEffectRecorded": _command(value="value"),
    "VersionMarkerRecorded": lambda event: Gist(
        _said(event.text("patch_id"), "deprecated" if event.payload.get("deprecated") else "")
    ),
    "SearchAttributesUpserted": _attributes,
    "MemoUpserted": lambda event: Gist("", event.value("memo")),
}
