"""The names that activity code uses: ``from outlast import activity``."""

from outlast_activities.context import (
    ActivityInfo,
    Cancelled,
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
    "StopReason",
    "defn",
    "heartbeat",
    "in_activity",
    "info",
    "is_cancelled",
    "logger",
]
