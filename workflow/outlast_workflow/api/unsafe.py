"""``workflow.unsafe``: what to use only where you know better than the engine."""

from outlast_workflow.api.context import in_replay as is_replaying
from outlast_workflow.run.guard import allow_io

__all__ = ["allow_io", "is_replaying"]
