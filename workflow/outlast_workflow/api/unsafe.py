"""``workflow.unsafe``: ways around the engine's safeguards."""

from outlast_workflow.api.context import in_replay as is_replaying
from outlast_workflow.run.guard import allow_io

__all__ = ["allow_io", "is_replaying"]
