"""``workflow.unsafe``: ways around the engine's safeguards."""

from typing import TYPE_CHECKING

from outlast_workflow.api.context import in_replay as is_replaying
from outlast_workflow.primitives.lazy_names import names_of_module
from outlast_workflow.run.guard import allow_io

__all__ = ["allow_io", "is_replaying"]

if not TYPE_CHECKING:
    __getattr__ = names_of_module(__name__)
