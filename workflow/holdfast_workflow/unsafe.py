"""``workflow.unsafe``: what to use only where you know better than the engine."""

from holdfast_workflow.api import in_replay as is_replaying
from holdfast_workflow.guard import allow_io

__all__ = ["allow_io", "is_replaying"]
