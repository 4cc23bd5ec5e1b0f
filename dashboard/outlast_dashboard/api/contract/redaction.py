"""Hiding payloads from principals without the scope ``payloads``.

What is shown is listed here, and everything else is hidden: a new field of an event, of its options or of a failure is
seen by nobody without the scope until it is listed. A listed field shows plain values only; one that holds a structure
is hidden unless its own fields are listed too.

The views of descriptions are typed, and their types say what users' data is: a field that may hold any JSON value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeVar, get_args

from outlast.histories.history_pages import HistoryEvent
from outlast.visibility.views import View, WorkflowDescription
from outlast_dashboard.api.contract.models import EventView
from outlast_dashboard.security.principals import Principal

V = TypeVar("V", bound=View)

HIDDEN: Final = {"hidden": True}

_SHOWN: Final[dict[str, str]] = {
    "ActivityCancelRequested": "command_id wait",
    "ActivityCancelled": "command_id by",
    "ActivityCompleted": "command_id attempt",
    "ActivityFailed": "command_id failure attempt retry_state",
    "ActivityScheduled": "command_id activity_type task_queue options priority local summary queue partition_key",
    "ActivityTimedOut": "command_id timeout_kind deadline_at failure attempt retry_state",
    "ChildWorkflowCancelRequested": "command_id workflow_id run_id",
    "ChildWorkflowCancelled": "command_id reason",
    "ChildWorkflowCompleted": "command_id",
    "ChildWorkflowFailed": "command_id failure retry_state",
    "ChildWorkflowScheduled": (
        "command_id workflow_id workflow_type task_queue options parent_close_policy priority summary"
    ),
    "ChildWorkflowStartFailed": "command_id failure",
    "ChildWorkflowStarted": "command_id run_id",
    "ChildWorkflowTerminated": "command_id reason",
    "ChildWorkflowTimedOut": "command_id timeout_kind deadline_at",
    "ExternalSignalDelivered": "command_id",
    "ExternalSignalFailed": "command_id failure",
    "ExternalSignalRequested": "command_id workflow_id name run_id",
    "MemoUpserted": "",
    "ParentClosePolicyApplied": "policy parent_run_id",
    "ParentReset": "parent_run_id",
    "SearchAttributesUpserted": "attributes",
    "SideEffectRecorded": "command_id",
    "SignalReceived": "name request_id",
    "StreamClosed": "command_id name",
    "StreamWritten": "command_id name",
    "TimerCancelled": "command_id by",
    "TimerFired": "command_id fire_at",
    "TimerScheduled": "command_id fire_at summary",
    "UpdateAccepted": "update_id name",
    "UpdateCompleted": "update_id failure by",
    "VersionMarkerRecorded": "patch_id deprecated",
    "WorkflowCancelRequested": "reason",
    "WorkflowCancelled": "reason by",
    "WorkflowCompleted": "",
    "WorkflowContinuedAsNew": (
        "workflow_type task_queue next_run_id run_timeout_seconds search_attributes retry_policy start_delay_seconds"
    ),
    "WorkflowDeadlineLowered": "run_deadline_at timeout_seconds",
    "WorkflowDequeued": "queue partition_key waited_us run_deadline_at",
    "WorkflowFailed": "failure retry_state next_run_id by",
    "WorkflowReset": "next_run_id reason",
    "WorkflowStartChanged": "start_at run_deadline_at",
    "WorkflowStarted": (
        "workflow_id workflow_type task_queue first_run_id run_number attempt seed priority "
        "execution_timeout_seconds run_timeout_seconds execution_deadline_at run_deadline_at previous_run_id "
        "start_delay_seconds retry_policy search_attributes last_failure parent reset summary schedule queue "
        "partition_key schedule_to_start_timeout_seconds forked_from debounce_key"
    ),
    "WorkflowTaskCompleted": (
        "through own at commands history_events history_bytes python build_id flags buffered suggested "
        "receiving"
    ),
    "WorkflowTaskFailed": "failure build_id",
    "WorkflowTerminated": "reason by",
    "WorkflowTimedOut": "timeout_kind deadline_at next_run_id by",
}
"""The fields of each event that anybody who may read is shown."""


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_OPTIONS: Final = _names(
    "task_queue schedule_to_start_timeout start_to_close_timeout schedule_to_close_timeout heartbeat_timeout "
    "retry_policy priority cancellation_type execution_timeout run_timeout start_delay search_attributes "
    "duplicate_policy summary queue partition_key transactional"
)
_RETRY_POLICY: Final = _names(
    "initial_interval backoff_coefficient max_interval max_attempts jitter non_retryable_error_types"
)
_PARENT: Final = _names("workflow_id run_id command_id parent_close_policy first_run_id")
_RESET: Final = _names("workflow_id run_id seq seeds")
_FAILURE: Final = _names(
    "category type class message stack cause exception_types exception_class non_retryable next_retry_delay "
    "activity_id activity_type attempt retry_state timeout_kind deadline_at timeout_seconds workflow_id "
    "workflow_type run_id update_id reason status task_queue kind name limit field parameter hint "
    "command_index event event_seq"
)
"""The details of failures are payloads; their types and messages are not."""


def event_view(event: HistoryEvent, principal: Principal) -> EventView:
    """Return an event as a principal may see it."""
    payload = event.payload if principal.sees_payloads else without_payloads(event.type, event.payload)
    return EventView(seq=event.seq, type=event.type, recorded_at=event.recorded_at, payload=payload)


def without_payloads(event_type: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Return what an event holds, without users' data.

    Args:
        event_type: The name of the event.
        payload: What it holds.
    """
    return _listed(payload, _fields(event_type))


@cache
def _fields(event_type: str) -> frozenset[str]:
    return _names(_SHOWN.get(event_type, ""))


def _listed(document: Mapping[str, Any], shown: frozenset[str]) -> dict[str, Any]:
    return {
        name: _SHAPES.get(name, _plain)(value) if name in shown else HIDDEN
        for name, value in document.items()
    }


def _document(shown: frozenset[str]) -> Callable[[Any], Any]:
    """Return how a structure is shown: its listed fields."""
    return lambda value: _listed(value, shown) if isinstance(value, dict) else _plain(value)


def _plain(value: Any) -> Any:
    """Show a value that has no structure, or a list of such."""
    if isinstance(value, dict):
        return HIDDEN
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _by_name(value: Any) -> Any:
    """Show plain values by names that users chose: search attributes, numbers of signals."""
    if not isinstance(value, dict):
        return _plain(value)
    return {
        # An instant among search attributes is an object of its own: see `to_document`.
        name: {"datetime": _plain(item["datetime"])}
        if isinstance(item, dict) and item.keys() == {"datetime"}
        else _plain(item)
        for name, item in value.items()
    }


_failure: Final = _document(_FAILURE)
_SHAPES: Final[dict[str, Callable[[Any], Any]]] = {
    "failure": _failure,
    "last_failure": _failure,
    "cause": _failure,
    "options": _document(_OPTIONS),
    "retry_policy": _document(_RETRY_POLICY),
    "parent": _document(_PARENT),
    "reset": _document(_RESET),
    "forked_from": _document(_RESET),
    "attributes": _by_name,
    "search_attributes": _by_name,
    "buffered": _by_name,
}
"""How the fields that hold structures are shown."""


def description(found: WorkflowDescription, principal: Principal) -> WorkflowDescription:
    """Return a description as a principal may see it."""
    return found if principal.sees_payloads else _view(found)


def _view(view: V) -> V:
    """Return a view whose fields that may hold any value are empty, and so on in the views that it holds."""
    payloads = _payload_fields(type(view))
    found: dict[str, Any] = {}
    for name in type(view).model_fields:
        value = getattr(view, name)
        if name in payloads:
            found[name] = () if isinstance(value, tuple) else None
        elif isinstance(value, View):
            found[name] = _view(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], View):
            found[name] = tuple(_view(item) for item in value)
    return view.model_copy(update=found)


@cache
def _payload_fields(cls: type[View]) -> frozenset[str]:
    return frozenset(name for name, field in cls.model_fields.items() if _may_be_anything(field.annotation))


def _may_be_anything(annotation: Any) -> bool:
    return annotation is Any or any(_may_be_anything(part) for part in get_args(annotation))
