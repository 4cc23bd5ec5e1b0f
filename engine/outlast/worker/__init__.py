"""Workers: the processes that run workflows and activities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast_workflow.primitives.lazy_names import lazy_names

if TYPE_CHECKING:
    from outlast.worker.worker import Worker

__all__ = [
    "Worker",
]

_member = lazy_names(
    __name__,
    {
        "outlast.worker.worker": ("Worker",),
    },
)

if not TYPE_CHECKING:
    __getattr__ = _member
