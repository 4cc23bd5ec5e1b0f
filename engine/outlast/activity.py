"""The names that activity code uses: ``from outlast import activity``."""

from typing import TYPE_CHECKING

from outlast_activities.context import (
    ActivityInfo,
    Cancelled,
    Deferred,
    defer,
    heartbeat,
    in_activity,
    info,
    is_cancelled,
    logger,
)
from outlast_activities.definitions import ActivityDefinition, defn
from outlast_activities.stop_reason import StopReason
from outlast_workflow.primitives.lazy_names import names_of_module

__all__ = [
    "ActivityDefinition",
    "ActivityInfo",
    "Cancelled",
    "Deferred",
    "StopReason",
    "defer",
    "defn",
    "heartbeat",
    "in_activity",
    "info",
    "is_cancelled",
    "logger",
]

if not TYPE_CHECKING:
    __getattr__ = names_of_module(__name__)
