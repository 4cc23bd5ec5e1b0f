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
from holdfast_workflow.child_api import execute_child, start_child
from holdfast_workflow.child_calls import ChildWorkflowHandle
from holdfast_workflow.definitions import defn, run
from holdfast_workflow.facts_api import deprecate_patch, patched, side_effect, upsert_memo
from holdfast_workflow.handlers import init, signal
from holdfast_workflow.info import ParentInfo, WorkflowInfo
from holdfast_workflow.log import logger
from holdfast_workflow.shielding import shield
from holdfast_workflow.talking import all_handlers_finished, external, wait_condition

__all__ = [
    "ChildWorkflowHandle",
    "ParentInfo",
    "WorkflowInfo",
    "all_handlers_finished",
    "continue_as_new",
    "defn",
    "deprecate_patch",
    "execute_activity",
    "execute_child",
    "external",
    "in_workflow",
    "info",
    "init",
    "logger",
    "now",
    "patched",
    "random",
    "run",
    "shield",
    "side_effect",
    "signal",
    "sleep",
    "start_activity",
    "start_child",
    "time_remaining",
    "upsert_memo",
    "uuid4",
    "wait_condition",
]
