"""Whoever asks for a function, a method or a class as another engine calls it is told what is used here."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import outlast
from outlast import blocking, errors, testing
from outlast.blocking.schedules import BlockingScheduleHandle
from outlast.client.schedules.schedules import Schedules
from outlast.queues.queues import Queues
from outlast.visibility.views import RunDescription, RunSummary, WorkflowDescription
from outlast_workflow.api.messages import ExternalWorkflow
from outlast_workflow.primitives.other_members import ADVICE

CLASSES: dict[str, tuple[type, ...]] = {
    "Client": (outlast.Client, blocking.Client),
    "WorkflowHandle": (outlast.WorkflowHandle, blocking.BlockingHandle),
    "ScheduleHandle": (outlast.ScheduleHandle, BlockingScheduleHandle),
    "WorkflowDescription": (WorkflowDescription,),
    "RunSummary": (RunSummary,),
    "WorkflowInfo": (outlast.workflow.WorkflowInfo,),
    "ActivityInfo": (outlast.activity.ActivityInfo,),
    "ActivityDefinition": (outlast.activity.ActivityDefinition,),
    "Worker": (outlast.Worker,),
    "ExternalWorkflow": (ExternalWorkflow,),
    "TestEnvironment": (testing.TestEnvironment,),
    "Replayer": (testing.Replayer,),
}
ENTRIES = [(owner, name) for owner, names in ADVICE.items() for name in names]

TEMPORAL_WORKFLOW = [
    "ActivityCancellationType",
    "ActivityConfig",
    "ActivityHandle",
    "ChildWorkflowCancellationType",
    "ChildWorkflowConfig",
    "ChildWorkflowHandle",
    "ContinueAsNewError",
    "ExternalWorkflowHandle",
    "HandlerUnfinishedPolicy",
    "Info",
    "NondeterminismError",
    "ParentClosePolicy",
    "ParentInfo",
    "ReadOnlyContextError",
    "UpdateInfo",
    "all_handlers_finished",
    "as_completed",
    "cancellation_reason",
    "continue_as_new",
    "create_nexus_client",
    "current_update_info",
    "defn",
    "deprecate_patch",
    "dynamic_config",
    "execute_activity",
    "execute_activity_class",
    "execute_activity_method",
    "execute_child_workflow",
    "execute_local_activity",
    "execute_local_activity_class",
    "execute_local_activity_method",
    "get_current_details",
    "get_dynamic_query_handler",
    "get_dynamic_signal_handler",
    "get_dynamic_update_handler",
    "get_external_workflow_handle",
    "get_external_workflow_handle_for",
    "get_last_completion_result",
    "get_last_failure",
    "get_query_handler",
    "get_signal_handler",
    "get_update_handler",
    "has_last_completion_result",
    "in_workflow",
    "info",
    "init",
    "instance",
    "is_failure_exception",
    "logger",
    "memo",
    "memo_value",
    "metric_meter",
    "new_random",
    "now",
    "patched",
    "payload_converter",
    "query",
    "random",
    "random_seed",
    "run",
    "set_current_details",
    "set_dynamic_query_handler",
    "set_dynamic_signal_handler",
    "set_dynamic_update_handler",
    "set_query_handler",
    "set_signal_handler",
    "set_update_handler",
    "signal",
    "signal_with_start_workflow",
    "sleep",
    "start_activity",
    "start_activity_class",
    "start_activity_method",
    "start_child_workflow",
    "start_local_activity",
    "start_local_activity_class",
    "start_local_activity_method",
    "time",
    "time_ns",
    "unsafe",
    "update",
    "upsert_memo",
    "upsert_search_attributes",
    "uuid4",
    "uuid7",
    "wait",
    "wait_condition",
]
TEMPORAL_ACTIVITY = [
    "Info",
    "cancellation_details",
    "client",
    "defn",
    "heartbeat",
    "in_activity",
    "info",
    "is_cancelled",
    "is_worker_shutdown",
    "logger",
    "metric_meter",
    "payload_converter",
    "raise_complete_async",
    "shield_thread_cancel_exception",
    "wait_for_cancelled",
    "wait_for_cancelled_sync",
    "wait_for_worker_shutdown",
    "wait_for_worker_shutdown_sync",
]
TEMPORAL_HANDLE = [
    "cancel",
    "describe",
    "execute_update",
    "fetch_history",
    "fetch_history_events",
    "first_execution_run_id",
    "get_update_handle",
    "get_update_handle_for",
    "id",
    "query",
    "result",
    "result_run_id",
    "run_id",
    "signal",
    "start_update",
    "terminate",
]
TEMPORAL_CLIENT = [
    "connect",
    "count_workflows",
    "execute_update_with_start_workflow",
    "execute_workflow",
    "get_async_activity_handle",
    "get_workflow_handle",
    "get_workflow_handle_for",
    "identity",
    "list_workflows",
    "namespace",
    "start_update_with_start_workflow",
    "start_workflow",
]


def owners(owner: str) -> list[Any]:
    return list(CLASSES[owner]) if owner in CLASSES else [import_module(owner)]


@pytest.mark.parametrize(("owner", "name"), ENTRIES)
def test_the_error_of_a_name_says_what_is_used_here(owner: str, name: str) -> None:
    for thing in owners(owner):
        asked = object.__new__(thing) if isinstance(thing, type) else thing
        with pytest.raises(AttributeError, match=f"has no attribute '{name}': ") as caught:
            getattr(asked, name)
        assert str(caught.value).endswith(ADVICE[owner][name])


def members(what: str) -> Iterator[Any]:
    """What a name of the advice may be a member of."""
    annotated = {
        "workflow.info()": outlast.workflow.WorkflowInfo,
        "activity.info()": outlast.activity.ActivityInfo,
        "description.run": RunDescription,
        "(await handle.describe()).run": RunDescription,
        "run": RunSummary,
        "description": WorkflowDescription,
    }
    if what in annotated:
        yield from annotated[what].__annotations__
        return
    named: dict[str, Any] = {
        "workflow": outlast.workflow,
        "activity": outlast.activity,
        "workflow.unsafe": outlast.workflow.unsafe,
        "outlast": outlast,
        "outlast.errors": errors,
        "outlast.testing": testing,
        "outlast.interceptors": import_module("outlast.interceptors"),
        "asyncio": asyncio,
        "client": outlast.Client,
        "handle": outlast.WorkflowHandle,
        "client.handle(…)": outlast.WorkflowHandle,
        "client.queues": Queues,
        "client.schedules": Schedules,
        "client.schedules.handle(…)": outlast.ScheduleHandle,
        "schedule": outlast.ScheduleHandle,
        "workflow.external(…)": ExternalWorkflow,
        "worker": outlast.Worker,
        "env": testing.TestEnvironment,
        "replayer": testing.Replayer,
    }
    yield from dir(named[what])
    # Attributes that a constructor sets.
    yield from re.findall(r"^ {8}(\w+):", getattr(named[what], "__doc__", None) or "", re.MULTILINE)


OWNERS = (
    r"\(await handle\.describe\(\)\)\.run|description\.run|description|workflow\.info\(\)|activity\.info\(\)"
    r"|workflow\.external\(…\)|workflow\.unsafe|client\.handle\(…\)|client\.schedules\.handle\(…\)"
    r"|client\.schedules|client\.queues|schedule|outlast\.\b(?:errors|testing|interceptors)"
    r"|outlast|workflow|activity|asyncio|client|handle|worker|env|replayer|run"
)
NAME = re.compile(rf"(?<![\w./@])({OWNERS})\.(\w+)")


@pytest.mark.parametrize(("owner", "name"), ENTRIES)
def test_what_the_error_names_is_there(owner: str, name: str) -> None:
    text = re.sub(r"docs/[\w-]+\.md", "", ADVICE[owner][name])
    for what, member in NAME.findall(text):
        assert member in {*members(what), "timestamp"}, f"{what}.{member}"
    for decorator in re.findall(r"@workflow\.(\w+)", text):
        assert decorator in outlast.workflow.__all__


@pytest.mark.parametrize(
    ("owner", "thing", "names"),
    [
        ("outlast.workflow", outlast.workflow, TEMPORAL_WORKFLOW),
        ("outlast.activity", outlast.activity, TEMPORAL_ACTIVITY),
        ("WorkflowHandle", outlast.WorkflowHandle, [*TEMPORAL_HANDLE]),
        ("Client", outlast.Client, TEMPORAL_CLIENT),
    ],
)
def test_temporals_names_are_ours_or_lead_to_ours(owner: str, thing: Any, names: list[str]) -> None:
    ours = {*dir(thing), *re.findall(r"^ {8}(\w+):", thing.__doc__ or "", re.MULTILINE)}
    assert [name for name in names if name not in ours and name not in ADVICE[owner]] == []


def test_an_import_from_the_package_says_so_too() -> None:
    for name, where in (
        ("NonDeterminismError", "outlast.errors.NonDeterminismError"),
        ("TestEnvironment", "outlast.testing.TestEnvironment"),
        ("WorkflowIDReusePolicy", "outlast.DuplicatePolicy"),
    ):
        with pytest.raises(ImportError, match=f"has no attribute '{name}': use {where}"):
            exec(f"from outlast import {name}")
        assert not hasattr(outlast, name)
    with pytest.raises(ImportError, match="cannot import name 'Nonsense'"):
        exec("from outlast import Nonsense")


def test_looking_for_a_module_of_the_package_loads_no_other() -> None:
    script = "import sys, outlast; from outlast import errors; print('outlast.testing' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_name_that_nobody_has_is_only_missing() -> None:
    with pytest.raises(AttributeError, match=r"^module 'outlast\.workflow' has no attribute 'slep'$"):
        _ = outlast.workflow.slep  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
