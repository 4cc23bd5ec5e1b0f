"""Why a handler is asked to stop."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

CANCEL_REQUESTED: Final = "cancel_requested"
TIMED_OUT: Final = "timed_out"
LOST: Final = "lost"


class StopReason(StrEnum):
    """Why a handler is asked to stop."""

    CANCEL_REQUESTED = CANCEL_REQUESTED
    """The workflow no longer wants the activity, or ended."""
    TIMED_OUT = TIMED_OUT
    """A deadline of the attempt has passed; what it does now is ignored."""
    LOST = LOST
    """The attempt is no longer this worker's; what it does now is ignored."""
    WORKER_SHUTDOWN = "worker_shutdown"
    """The worker stops; another one will run the activity again."""
