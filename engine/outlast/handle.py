"""Handles of workflows and updates: ``from outlast.handle import WorkflowHandle``."""

from outlast.client.handle import WorkflowHandle
from outlast.client.history_pages import HistoryEvent
from outlast.client.update_handle import UpdateHandle

__all__ = ["HistoryEvent", "UpdateHandle", "WorkflowHandle"]
