"""Outlast: durable execution for Python. The names that users import.

Each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast_workflow.primitives.lazy_names import lazy_names

if TYPE_CHECKING:
    from outlast import activity, workflow
    from outlast.client.activity_ids import ActivityIds
    from outlast.client.client import Client
    from outlast.client.schedules.definition import Schedule
    from outlast.client.schedules.handle import ScheduleHandle
    from outlast.client.schedules.views import ScheduleDescription
    from outlast.client.workflows.addressed_signals import SignalTo
    from outlast.client.workflows.first_end import wait_first
    from outlast.client.workflows.handle import WorkflowHandle
    from outlast.client.workflows.streams import StreamItem
    from outlast.client.workflows.update_handle import UpdateHandle
    from outlast.histories.history_pages import HistoryEvent
    from outlast.histories.retention_policy import RetentionPolicy
    from outlast.version import __version__
    from outlast.visibility.views import RunSummary, WorkflowDescription
    from outlast.visibility.where import Range
    from outlast.worker.application import lifespan
    from outlast.worker.tuning import tune_process
    from outlast.worker.worker import Worker
    from outlast_schedules.specs.cron import Cron
    from outlast_schedules.specs.spec import At, Every
    from outlast_workflow.data.converter import DataConverter, PayloadCodec
    from outlast_workflow.errors import (
        ActivityError,
        ActivityTimeoutError,
        ApplicationError,
        InvalidOptionError,
        OutlastError,
        QueueExistsError,
        QueueInUseError,
        QueueNotFoundError,
        StructuralLimitError,
        WorkflowAlreadyStartedError,
        WorkflowCancelledError,
        WorkflowClosedError,
        WorkflowContinuedAsNewError,
        WorkflowFailedError,
        WorkflowNotFoundError,
        WorkflowResultError,
        WorkflowTerminatedError,
        WorkflowTimeoutError,
    )
    from outlast_workflow.errors.child import ChildWorkflowError
    from outlast_workflow.errors.request import (
        NoWorkerError,
        QueryFailedError,
        RequestTimeoutError,
        UnknownHandlerError,
        UpdateFailedError,
        UpdateRejectedError,
    )
    from outlast_workflow.options.alerts import AlertPolicy
    from outlast_workflow.options.ambient import starting
    from outlast_workflow.options.limits import StructuralLimits
    from outlast_workflow.options.options import ActivityOptions, RetryPolicy, StartOptions
    from outlast_workflow.options.queues import Queue, Rate
    from outlast_workflow.primitives.enums import (
        ActivityStatus,
        Attention,
        CancellationType,
        CatchUp,
        DuplicatePolicy,
        FailureCategory,
        Overlap,
        ParentClosePolicy,
        RetryState,
        RunStatus,
        TimeoutKind,
    )

__all__ = [
    "ActivityError",
    "ActivityIds",
    "ActivityOptions",
    "ActivityStatus",
    "ActivityTimeoutError",
    "AlertPolicy",
    "ApplicationError",
    "At",
    "Attention",
    "CancellationType",
    "CatchUp",
    "ChildWorkflowError",
    "Client",
    "Cron",
    "DataConverter",
    "DuplicatePolicy",
    "Every",
    "FailureCategory",
    "HistoryEvent",
    "InvalidOptionError",
    "NoWorkerError",
    "OutlastError",
    "Overlap",
    "ParentClosePolicy",
    "PayloadCodec",
    "QueryFailedError",
    "Queue",
    "QueueExistsError",
    "QueueInUseError",
    "QueueNotFoundError",
    "Range",
    "Rate",
    "RequestTimeoutError",
    "RetentionPolicy",
    "RetryPolicy",
    "RetryState",
    "RunStatus",
    "RunSummary",
    "Schedule",
    "ScheduleDescription",
    "ScheduleHandle",
    "SignalTo",
    "StartOptions",
    "StreamItem",
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
    "WorkflowContinuedAsNewError",
    "WorkflowDescription",
    "WorkflowFailedError",
    "WorkflowHandle",
    "WorkflowNotFoundError",
    "WorkflowResultError",
    "WorkflowTerminatedError",
    "WorkflowTimeoutError",
    "__version__",
    "activity",
    "lifespan",
    "starting",
    "tune_process",
    "wait_first",
    "workflow",
]

_member = lazy_names(
    __name__,
    {
        __name__: (
            "activity",
            "workflow",
        ),
        "outlast.client.activity_ids": ("ActivityIds",),
        "outlast.client.client": ("Client",),
        "outlast.client.workflows.addressed_signals": ("SignalTo",),
        "outlast.client.workflows.first_end": ("wait_first",),
        "outlast.client.workflows.handle": ("WorkflowHandle",),
        "outlast.histories.history_pages": ("HistoryEvent",),
        "outlast.client.workflows.streams": ("StreamItem",),
        "outlast.client.workflows.update_handle": ("UpdateHandle",),
        "outlast.histories.retention_policy": ("RetentionPolicy",),
        "outlast.client.schedules.definition": ("Schedule",),
        "outlast.client.schedules.handle": ("ScheduleHandle",),
        "outlast.client.schedules.views": ("ScheduleDescription",),
        "outlast.version": ("__version__",),
        "outlast.visibility.views": (
            "RunSummary",
            "WorkflowDescription",
        ),
        "outlast.visibility.where": ("Range",),
        "outlast.worker.application": ("lifespan",),
        "outlast.worker.tuning": ("tune_process",),
        "outlast.worker.worker": ("Worker",),
        "outlast_schedules.specs.cron": ("Cron",),
        "outlast_schedules.specs.spec": ("At", "Every"),
        "outlast_workflow.data.converter": (
            "DataConverter",
            "PayloadCodec",
        ),
        "outlast_workflow.errors": (
            "ActivityError",
            "ActivityTimeoutError",
            "ApplicationError",
            "InvalidOptionError",
            "OutlastError",
            "QueueExistsError",
            "QueueInUseError",
            "QueueNotFoundError",
            "StructuralLimitError",
            "WorkflowAlreadyStartedError",
            "WorkflowCancelledError",
            "WorkflowClosedError",
            "WorkflowContinuedAsNewError",
            "WorkflowFailedError",
            "WorkflowNotFoundError",
            "WorkflowResultError",
            "WorkflowTerminatedError",
            "WorkflowTimeoutError",
        ),
        "outlast_workflow.errors.child": ("ChildWorkflowError",),
        "outlast_workflow.errors.request": (
            "NoWorkerError",
            "QueryFailedError",
            "RequestTimeoutError",
            "UnknownHandlerError",
            "UpdateFailedError",
            "UpdateRejectedError",
        ),
        "outlast_workflow.options.alerts": ("AlertPolicy",),
        "outlast_workflow.options.ambient": ("starting",),
        "outlast_workflow.options.limits": ("StructuralLimits",),
        "outlast_workflow.options.options": (
            "ActivityOptions",
            "RetryPolicy",
            "StartOptions",
        ),
        "outlast_workflow.options.queues": (
            "Queue",
            "Rate",
        ),
        "outlast_workflow.primitives.enums": (
            "ActivityStatus",
            "Attention",
            "CancellationType",
            "CatchUp",
            "DuplicatePolicy",
            "FailureCategory",
            "Overlap",
            "ParentClosePolicy",
            "RetryState",
            "RunStatus",
            "TimeoutKind",
        ),
    },
    elsewhere=("outlast.errors", "outlast.testing", "outlast.interceptors"),
)

if not TYPE_CHECKING:
    __getattr__ = _member


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
