"""Handles of workflows and updates: ``from outlast.handle import WorkflowHandle``."""

from outlast.client.workflows.handle import WorkflowHandle
from outlast.client.workflows.update_handle import UpdateHandle
from outlast.histories.history_pages import HistoryEvent

__all__ = ["HistoryEvent", "UpdateHandle", "WorkflowHandle"]
