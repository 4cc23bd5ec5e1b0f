"""What workflow code uses: ``from holdfast import workflow``."""

from holdfast_workflow.api import (
    continue_as_new,
    execute_activity,
    in_workflow,
    info,
    now,
    random,
    sleep,
    start_activity,
    time_remaining,
    uuid4,
)
from holdfast_workflow.definitions import defn, run
from holdfast_workflow.info import WorkflowInfo
from holdfast_workflow.log import logger

__all__ = [
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
