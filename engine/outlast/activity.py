"""The names that activity code uses: ``from outlast import activity``."""

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
