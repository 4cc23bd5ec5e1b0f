"""Handles of workflows and updates: ``from outlast.handle import WorkflowHandle``."""

from outlast.client.handle import WorkflowHandle
from outlast.client.update_handle import UpdateHandle
from outlast.histories.history_pages import HistoryEvent

__all__ = ["HistoryEvent", "UpdateHandle", "WorkflowHandle"]
