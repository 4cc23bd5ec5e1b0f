"""The inputs of the measured workflows and their results: small values, as most are."""

from __future__ import annotations

from outlast_workflow.options.options import ActivityOptions

WORKFLOW_TYPE = "order"
ACTIVITY_TYPE = "charge"
TIMEOUT_S = 60
OPTIONS = ActivityOptions(start_to_close_timeout=TIMEOUT_S)


def argument(index: int) -> str:
    """Return the argument of one workflow."""
    return f"order-{index:06}"


def answer_to(value: str) -> str:
    """Return what its activity, and the workflow, must return."""
    return f"charged {value}"
