"""What activity code uses: ``from holdfast import activity``."""

from holdfast_activities.context import (
    ActivityInfo,
    Cancelled,
    StopReason,
    heartbeat,
    in_activity,
    info,
    is_cancelled,
    logger,
)
from holdfast_activities.definitions import ActivityDefinition, defn

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
