"""What workflow code uses: ``from holdfast import workflow``."""

from holdfast_workflow import blocking, unsafe
from holdfast_workflow.api import (
    continue_as_new,
    execute_activity,
    execute_local_activity,
    in_replay,
    in_workflow,
    info,
    now,
    random,
    sleep,
    start_activity,
    start_local_activity,
    time_remaining,
    uuid4,
)
from holdfast_workflow.child_api import execute_child, start_child
from holdfast_workflow.child_calls import ChildWorkflowHandle
from holdfast_workflow.definitions import defn, run
from holdfast_workflow.facts_api import (
    deprecate_patch,
    patched,
    side_effect,
    upsert_memo,
    upsert_search_attributes,
)
from holdfast_workflow.handlers import init, query, signal, update
from holdfast_workflow.handling import UpdateInfo
from holdfast_workflow.info import ParentInfo, WorkflowInfo
from holdfast_workflow.log import logger
from holdfast_workflow.shielding import shield
from holdfast_workflow.talking import all_handlers_finished, current_update_info, external, wait_condition

__all__ = [
    "ChildWorkflowHandle",
    "ParentInfo",
    "UpdateInfo",
    "WorkflowInfo",
    "all_handlers_finished",
    "blocking",
    "continue_as_new",
    "current_update_info",
    "defn",
    "deprecate_patch",
    "execute_activity",
    "execute_child",
    "execute_local_activity",
    "external",
    "in_replay",
    "in_workflow",
    "info",
    "init",
    "logger",
    "now",
    "patched",
    "query",
    "random",
    "run",
    "shield",
    "side_effect",
    "signal",
    "sleep",
    "start_activity",
    "start_child",
    "start_local_activity",
    "time_remaining",
    "unsafe",
    "update",
    "upsert_memo",
    "upsert_search_attributes",
    "uuid4",
    "wait_condition",
]
