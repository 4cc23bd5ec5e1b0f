"""Handles of workflows and updates: ``from outlast.handle import WorkflowHandle``."""

from outlast.client.handle import HistoryEvent, WorkflowHandle
from outlast.client.update_handle import UpdateHandle

__all__ = ["HistoryEvent", "UpdateHandle", "WorkflowHandle"]
