"""Holdfast: durable execution for Python. Everything a user imports comes from here.

The worker is loaded when it is first asked for: whoever only starts workflows need not carry what runs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast import activity, workflow
from holdfast.attributes import Range
from holdfast.client import Client
from holdfast.handle import HistoryEvent, WorkflowHandle
from holdfast.retention_policy import RetentionPolicy
from holdfast.update_handle import UpdateHandle
from holdfast.version import __version__
from holdfast.views import RunSummary, WorkflowDescription
from holdfast_workflow.child_errors import ChildWorkflowError
from holdfast_workflow.converter import DataConverter, PayloadCodec
from holdfast_workflow.errors import (
    ActivityError,
    ActivityTimeoutError,
    ApplicationError,
    HoldfastError,
    InvalidOptionError,
    StructuralLimitError,
    WorkflowAlreadyStartedError,
    WorkflowCancelledError,
    WorkflowClosedError,
    WorkflowFailedError,
    WorkflowNotFoundError,
    WorkflowResultError,
    WorkflowTerminatedError,
    WorkflowTimeoutError,
)
from holdfast_workflow.kinds import (
    ActivityStatus,
    Attention,
    CancellationType,
    DuplicatePolicy,
    FailureCategory,
    ParentClosePolicy,
    RetryState,
    RunStatus,
    TimeoutKind,
)
from holdfast_workflow.limits import StructuralLimits
from holdfast_workflow.options import ActivityOptions, RetryPolicy, StartOptions
from holdfast_workflow.request_errors import (
    NoWorkerError,
    QueryFailedError,
    RequestTimeoutError,
    UnknownHandlerError,
    UpdateFailedError,
    UpdateRejectedError,
)

if TYPE_CHECKING:
    from holdfast.worker import Worker

__all__ = [
    "ActivityError",
    "ActivityOptions",
    "ActivityStatus",
    "ActivityTimeoutError",
    "ApplicationError",
    "Attention",
    "CancellationType",
    "ChildWorkflowError",
    "Client",
    "DataConverter",
    "DuplicatePolicy",
    "FailureCategory",
    "HistoryEvent",
    "HoldfastError",
    "InvalidOptionError",
    "NoWorkerError",
    "ParentClosePolicy",
    "PayloadCodec",
    "QueryFailedError",
    "Range",
    "RequestTimeoutError",
    "RetentionPolicy",
    "RetryPolicy",
    "RetryState",
    "RunStatus",
    "RunSummary",
    "StartOptions",
    "StructuralLimitError",
    "StructuralLimits",
    "TimeoutKind",
    "UnknownHandlerError",
    "UpdateFailedError",
    "UpdateHandle",
    "UpdateRejectedError",
    "Worker",
    "WorkflowAlreadyStartedError",
    "WorkflowCancelledError",
    "WorkflowClosedError",
    "WorkflowDescription",
    "WorkflowFailedError",
    "WorkflowHandle",
    "WorkflowNotFoundError",
    "WorkflowResultError",
    "WorkflowTerminatedError",
    "WorkflowTimeoutError",
    "__version__",
    "activity",
    "workflow",
]


def __getattr__(name: str) -> Any:
    if name == "Worker":
        from holdfast.worker import Worker

        globals()["Worker"] = Worker
        return Worker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
