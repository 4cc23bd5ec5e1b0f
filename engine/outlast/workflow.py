"""The names that workflow code uses: ``from outlast import workflow``."""

from typing import TYPE_CHECKING

from outlast_workflow.api import blocking, unsafe
from outlast_workflow.api.activities import (
    execute_activity,
    execute_local_activity,
    start_activity,
    start_local_activity,
)
from outlast_workflow.api.children import execute_child, start_child
from outlast_workflow.api.context import in_replay, in_workflow
from outlast_workflow.api.current_run import (
    continue_as_new,
    info,
    last_result,
    limit,
    random,
    set_progress,
    uuid4,
)
from outlast_workflow.api.log import logger
from outlast_workflow.api.markers import (
    deprecate_patch,
    patched,
    side_effect,
    upsert_memo,
    upsert_search_attributes,
)
from outlast_workflow.api.messages import (
    all_handlers_finished,
    current_update_info,
    external,
    receive,
    wait_condition,
)
from outlast_workflow.api.shield import shield
from outlast_workflow.api.streams import WorkflowStream, stream
from outlast_workflow.api.timers import now, sleep, time_remaining
from outlast_workflow.declare.definitions import defn, run
from outlast_workflow.declare.handlers import init, query, signal, update
from outlast_workflow.primitives.lazy_names import names_of_module
from outlast_workflow.run.child_calls import ChildWorkflowHandle
from outlast_workflow.run.handler_tasks import UpdateInfo
from outlast_workflow.run.info import ParentInfo, ScheduleInfo, WorkflowInfo

__all__ = [
    "ChildWorkflowHandle",
    "ParentInfo",
    "ScheduleInfo",
    "UpdateInfo",
    "WorkflowInfo",
    "WorkflowStream",
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
    "last_result",
    "limit",
    "logger",
    "now",
    "patched",
    "query",
    "random",
    "receive",
    "run",
    "set_progress",
    "shield",
    "side_effect",
    "signal",
    "sleep",
    "start_activity",
    "start_child",
    "start_local_activity",
    "stream",
    "time_remaining",
    "unsafe",
    "update",
    "upsert_memo",
    "upsert_search_attributes",
    "uuid4",
    "wait_condition",
]

if not TYPE_CHECKING:
    __getattr__ = names_of_module(__name__)
