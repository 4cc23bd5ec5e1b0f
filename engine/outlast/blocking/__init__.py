"""The client for code without an event loop: ``from outlast.blocking import Client``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast_workflow.primitives.lazy_names import lazy_names

if TYPE_CHECKING:
    from outlast.blocking.bulk import BlockingBulk
    from outlast.blocking.client import Client
    from outlast.blocking.handles import (
        BlockingHandle,
        BlockingListing,
        BlockingUpdateHandle,
        wait_first,
    )
    from outlast.blocking.queues import BlockingQueues
    from outlast.blocking.schedules import BlockingScheduleHandle, BlockingSchedules
    from outlast_workflow.errors.context import BlockedLoopError
    from outlast_workflow.errors.result import StillRunningError

__all__ = [
    "BlockedLoopError",
    "BlockingBulk",
    "BlockingHandle",
    "BlockingListing",
    "BlockingQueues",
    "BlockingScheduleHandle",
    "BlockingSchedules",
    "BlockingUpdateHandle",
    "Client",
    "StillRunningError",
    "wait_first",
]

_member = lazy_names(
    __name__,
    {
        "outlast.blocking.bulk": ("BlockingBulk",),
        "outlast.blocking.client": ("Client",),
        "outlast.blocking.handles": (
            "BlockingHandle",
            "BlockingListing",
            "BlockingUpdateHandle",
            "wait_first",
        ),
        "outlast.blocking.queues": ("BlockingQueues",),
        "outlast.blocking.schedules": (
            "BlockingScheduleHandle",
            "BlockingSchedules",
        ),
        "outlast_workflow.errors.context": ("BlockedLoopError",),
        "outlast_workflow.errors.result": ("StillRunningError",),
    },
)

if not TYPE_CHECKING:
    __getattr__ = _member
