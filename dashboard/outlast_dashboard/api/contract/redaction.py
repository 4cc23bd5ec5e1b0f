"""Hiding payloads from principals without the scope ``payloads``.

Events name their payloads themselves (:attr:`Event.payload_names`), with two exceptions. The options of an activity are
stored as a payload, but hold no user's data. The headers that interceptors write are not stored as a payload, but hold
users' data: tenants, subjects, tokens of other systems.
"""

from __future__ import annotations

from typing import Any, Final

from outlast.client.history_pages import HistoryEvent
from outlast.visibility.views import PendingActivity, WorkflowDescription
from outlast_dashboard.api.contract.models import EventView
from outlast_dashboard.security.principals import Principal
from outlast_workflow.history.events import REGISTRY

HIDDEN: Final = {"hidden": True}
_SHOWN: Final = frozenset({"options"})
_HIDDEN_TOO: Final = frozenset({"headers"})


def event_view(event: HistoryEvent, principal: Principal) -> EventView:
    """Return an event as a principal may see it."""
    payload = event.payload
    if not principal.sees_payloads:
        payload = hidden(event.type, payload)
    return EventView(seq=event.seq, type=event.type, recorded_at=event.recorded_at, payload=payload)


def hidden(event_type: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Return an event's payload without users' data."""
    names = REGISTRY[event_type].payload_names - _SHOWN | _HIDDEN_TOO
    return {name: HIDDEN if name in names else _without_details(value) for name, value in payload.items()}


def _without_details(value: Any) -> Any:
    """Hide the details of failures. Their type and message are shown."""
    if isinstance(value, dict):
        return {
            name: HIDDEN if name in ("details", "heartbeat_details") else _without_details(inner)
            for name, inner in value.items()
        }
    return value


def description(found: WorkflowDescription, principal: Principal) -> WorkflowDescription:
    """Return a description as a principal may see it."""
    if principal.sees_payloads:
        return found
    run = found.run.model_copy(update={"memo": None})
    activities = tuple(_activity(activity) for activity in found.pending_activities)
    return found.model_copy(update={"run": run, "pending_activities": activities})


def _activity(activity: PendingActivity) -> PendingActivity:
    return activity.model_copy(update={"heartbeat_details": ()})
