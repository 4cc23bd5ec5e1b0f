"""What workflow code uses: ``from holdfast import workflow``."""

from holdfast_workflow.api import (
    ActivityHandle,
    continue_as_new,
    execute_activity,
    in_workflow,
    info,
    logger,
    now,
    random,
    sleep,
    start_activity,
    time_remaining,
    uuid4,
)
from holdfast_workflow.definitions import defn, run
from holdfast_workflow.info import WorkflowInfo

__all__ = [
    "ActivityHandle",
    "WorkflowInfo",
    "continue_as_new",
    "defn",
    "execute_activity",
    "in_workflow",
    "info",
    "logger",
    "now",
    "random",
    "run",
    "sleep",
    "start_activity",
    "time_remaining",
    "uuid4",
]
