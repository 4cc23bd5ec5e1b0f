"""The client and its handles: starting workflows, messaging them, observing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast_workflow.primitives.lazy_names import lazy_names

if TYPE_CHECKING:
    from outlast.client.client import Client
    from outlast.client.workflows.handle import WorkflowHandle
    from outlast.client.workflows.update_handle import UpdateHandle
    from outlast.histories.history_pages import HistoryEvent

__all__ = [
    "Client",
    "HistoryEvent",
    "UpdateHandle",
    "WorkflowHandle",
]

_member = lazy_names(
    __name__,
    {
        "outlast.client.client": ("Client",),
        "outlast.client.workflows.handle": ("WorkflowHandle",),
        "outlast.histories.history_pages": ("HistoryEvent",),
        "outlast.client.workflows.update_handle": ("UpdateHandle",),
    },
)

if not TYPE_CHECKING:
    __getattr__ = _member
