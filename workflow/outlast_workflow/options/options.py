"""The option classes, and the one validator that they share.

Values are immutable, compare by value, and are validated when created, so that no later code needs to check them again.
"""

from outlast_workflow.options.activity import ActivityOptions
from outlast_workflow.options.retry_policy import DEFAULT_RETRY_POLICY, RetryPolicy
from outlast_workflow.options.start import StartOptions
from outlast_workflow.options.validation import (
    MAX_NAME_LENGTH,
    MAX_SECONDS,
    Seconds,
    duration_seconds,
    timeout_seconds,
    validate_name,
    validate_task_queue,
    validate_workflow_id,
    validate_workflow_type,
)

__all__ = [
    "DEFAULT_RETRY_POLICY",
    "MAX_NAME_LENGTH",
    "MAX_SECONDS",
    "ActivityOptions",
    "RetryPolicy",
    "Seconds",
    "StartOptions",
    "duration_seconds",
    "timeout_seconds",
    "validate_name",
    "validate_task_queue",
    "validate_workflow_id",
    "validate_workflow_type",
]
