"""Functions, methods and classes under the names that other engines give them: an error about one names ours.

Modules and classes take part by their ``__getattr__`` (see ``lazy_names``), so this module is
loaded only for a mistake.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Final

_DBOS: Final = "workflows, activities, a Client and a Worker take its place: see docs/from-dbos.md"
_CELERY: Final = "activities, workflows, a Client and a Worker take its place: see docs/from-celery.md"
_CANVAS: Final = "in a workflow, await one activity after the other, or several with asyncio.gather"
_CLASS_METHODS: Final = (
    "use workflow.execute_activity, which takes a method, too: `Mailer.send`, or that of an instance"
)
_HANDLERS: Final = (
    "declare handlers with @workflow.signal, @workflow.query and @workflow.update, which take dynamic=True"
)
_START: Final = "use client.start, outside of a workflow; in one, workflow.execute_child"
_STATUS: Final = "use (await handle.describe()).run.status"
_UPDATES: Final = "use handle.execute_update with the same id: the answer is the same"

# Every name in backquotes, or after "use", is one that a test looks up.
ADVICE: Final[Mapping[str, Mapping[str, str]]] = {
    "outlast": {
        # Temporal
        "ActivityCancellationType": "use outlast.CancellationType: try, wait or abandon",
        "ActivityEnvironment": "use outlast.testing.ActivityEnvironment",
        "ActivityHandle": "use workflow.start_activity, whose result is awaited",
        "AsyncActivityCancelledError": "use outlast.errors.ActivityCancelRequestedError",
        "AsyncActivityHandle": "use client.complete_activity and its kin, with a task token or outlast.ActivityIds",
        "CancelledError": "use asyncio.CancelledError",
        "ChildWorkflowCancellationType": "use outlast.CancellationType: try, wait or abandon",
        "Interceptor": "use outlast.interceptors.Interceptor",
        "Priority": "a priority is a number from 0 (first) to 9",
        "RPCError": "use outlast.errors.StoreError where the database does not answer; else outlast.OutlastError",
        "SearchAttributeKey": "search attributes are a dict of names and values, and need not be declared",
        "TemporalError": "use outlast.OutlastError",
        "TimeoutError": "use outlast.ActivityTimeoutError or outlast.WorkflowTimeoutError, which are builtin ones, too",
        "TimeoutType": "use outlast.TimeoutKind",
        "TypedSearchAttributes": "search attributes are a dict of names and values, and need not be declared",
        "WithStartWorkflowOperation": "use client.update_with_start, or client.signal_with_start",
        "WorkflowEnvironment": "use outlast.testing.TestEnvironment",
        "WorkflowExecutionStatus": "use outlast.RunStatus",
        "WorkflowFailureError": "use outlast.WorkflowResultError for any bad end, outlast.WorkflowFailedError for code",
        "WorkflowIDConflictPolicy": "use outlast.DuplicatePolicy, with `StartOptions(duplicate_policy=…)`",
        "WorkflowIDReusePolicy": "use outlast.DuplicatePolicy, with `StartOptions(duplicate_policy=…)`",
        "WorkflowQueryFailedError": "use outlast.QueryFailedError",
        "WorkflowUpdateFailedError": "use outlast.UpdateFailedError, and outlast.UpdateRejectedError",
        "WorkflowUpdateHandle": "use outlast.UpdateHandle",
        "WorkflowUpdateStage": "a stage is the text accepted or completed",
        # DBOS
        "DBOS": _DBOS,
        "DBOSClient": "use outlast.Client",
        "SetWorkflowID": "use client.start(…, id=…)",
        "Debouncer": "use client.debounce",
        "DebouncerClient": "use client.debounce",
        "SetEnqueueOptions": "use outlast.starting, or outlast.StartOptions",
        "SetWorkflowTimeout": "use outlast.starting, as in `with starting(run_timeout=60)`, or outlast.StartOptions",
        # Celery
        "Celery": _CELERY,
        "chain": _CANVAS,
        "chord": _CANVAS,
        "group": _CANVAS,
        "shared_task": "use activity.defn",
        "task": "use activity.defn",
    },
    "outlast.workflow": {
        # Temporal
        "ActivityCancellationType": "use outlast.CancellationType: try, wait or abandon",
        "ActivityConfig": "use outlast.ActivityOptions",
        "ActivityHandle": "use workflow.start_activity, whose result is awaited",
        "ChildWorkflowCancellationType": "use outlast.CancellationType: try, wait or abandon",
        "ChildWorkflowConfig": "the options of a child are keyword arguments of workflow.execute_child",
        "ContinueAsNewError": "workflow.continue_as_new raises it; let it pass",
        "ExternalWorkflowHandle": "use workflow.external",
        "HandlerUnfinishedPolicy": "wait for them with `await workflow.wait_condition(workflow.all_handlers_finished)`",
        "Info": "use workflow.WorkflowInfo",
        "NondeterminismError": "use outlast.errors.NonDeterminismError",
        "ParentClosePolicy": "use outlast.ParentClosePolicy",
        "ReadOnlyContextError": "use outlast.errors.ReadOnlyContextError",
        "as_completed": "use asyncio.as_completed, which is deterministic in a workflow",
        "cancellation_reason": "the reason is the text of the asyncio.CancelledError",
        "create_nexus_client": "there is no Nexus: let an activity call the other service",
        "dynamic_config": "options go to the call: workflow.execute_activity",
        "execute_activity_class": _CLASS_METHODS,
        "execute_activity_method": _CLASS_METHODS,
        "execute_child_workflow": "use workflow.execute_child",
        "execute_local_activity_class": "use workflow.execute_local_activity",
        "execute_local_activity_method": "use workflow.execute_local_activity",
        "get_current_details": "use workflow.info().memo",
        "get_dynamic_query_handler": _HANDLERS,
        "get_dynamic_signal_handler": _HANDLERS,
        "get_dynamic_update_handler": _HANDLERS,
        "get_external_workflow_handle": "use workflow.external",
        "get_external_workflow_handle_for": "use workflow.external",
        "get_last_completion_result": "use workflow.last_result",
        "get_last_failure": "use workflow.info().last_failure",
        "get_query_handler": _HANDLERS,
        "get_signal_handler": _HANDLERS,
        "get_update_handler": _HANDLERS,
        "has_last_completion_result": "use workflow.info().last_result, which is None if there is none",
        "instance": "keep what you need in attributes of your class, or in a context variable",
        "is_failure_exception": "an exception that leaves run fails the run, whatever its class",
        "memo": "use workflow.info().memo",
        "memo_value": "use workflow.info().memo",
        "metric_meter": "let an interceptor count: see docs/interceptors.md",
        "new_random": "use workflow.random",
        "payload_converter": "the converter is the client's: `Client.connect(converter=…)`",
        "random_seed": "use workflow.random",
        "set_current_details": "use workflow.set_progress, or workflow.upsert_memo",
        "set_dynamic_query_handler": _HANDLERS,
        "set_dynamic_signal_handler": _HANDLERS,
        "set_dynamic_update_handler": _HANDLERS,
        "set_query_handler": _HANDLERS,
        "set_signal_handler": _HANDLERS,
        "set_update_handler": _HANDLERS,
        "signal_with_start_workflow": "use workflow.execute_child, or let an activity call client.signal_with_start",
        "start_activity_class": "use workflow.start_activity, which takes a method, too",
        "start_activity_method": "use workflow.start_activity, which takes a method, too",
        "start_child_workflow": "use workflow.start_child",
        "start_local_activity_class": "use workflow.start_local_activity",
        "start_local_activity_method": "use workflow.start_local_activity",
        "time": "use workflow.now().timestamp()",
        "time_ns": "use workflow.now().timestamp()",
        "uuid7": "use workflow.uuid4",
        "wait": "use asyncio.wait, which is deterministic in a workflow",
        # DBOS and Celery
        "get_event": "use handle.memo_value, or handle.query",
        "close_stream": "use workflow.stream(…).close",
        "read_stream": "use handle.stream, outside of a workflow",
        "recv": "use workflow.receive",
        "run_step": "use workflow.execute_activity, with a function that is marked @activity.defn",
        "send": "use workflow.external(…).signal in a workflow, handle.signal elsewhere",
        "set_event": "use workflow.upsert_memo, whose fields handle.memo_value waits for",
        "start_workflow": _START,
        "step": "use activity.defn",
        "task": "use activity.defn",
        "transaction": "use activity.defn, with `@activity.defn(transactional=True)`",
        "workflow": "use workflow.defn",
        "workflow_id": "use workflow.info().workflow_id",
        "write_stream": "use workflow.stream(…).write",
    },
    "outlast_workflow.api.unsafe": {
        "imports_passed_through": "there is no sandbox: import modules as usual",
        "sandbox_import_notification_policy": "there is no sandbox: import modules as usual",
        "sandbox_unrestricted": "there is no sandbox; `workflow.unsafe.allow_io` lets a block of code do I/O",
    },
    "outlast.activity": {
        # Temporal
        "Info": "use activity.ActivityInfo",
        "cancellation_details": "what activity.heartbeat raises has a reason: an activity.StopReason",
        "heartbeat_details": "use activity.info().heartbeat_details",
        "is_worker_shutdown": "use activity.is_cancelled, which is true then as well",
        "metric_meter": "let an interceptor count: see docs/interceptors.md",
        "payload_converter": "the converter is the client's: `Client.connect(converter=…)`",
        "raise_complete_async": "use `return activity.defer()`",
        "shield_thread_cancel_exception": "threads are not interrupted: activity.heartbeat raises, where you call it",
        "wait_for_cancelled": "an async activity gets asyncio.CancelledError; others ask activity.is_cancelled",
        "wait_for_cancelled_sync": "use activity.is_cancelled",
        "wait_for_worker_shutdown": "an async activity gets asyncio.CancelledError; others ask activity.is_cancelled",
        "wait_for_worker_shutdown_sync": "use activity.is_cancelled",
        # DBOS and Celery
        "request": "use activity.info()",
        "retry": "raise `ApplicationError(…, next_retry_delay=30)`: a failed attempt is tried again",
        "sql_session": "use activity.connection, in an activity that is declared with transactional=True",
        "step": "use activity.defn",
        "task": "use activity.defn",
        "transaction": "use activity.defn, with `@activity.defn(transactional=True)`",
        "update_state": "use activity.heartbeat",
        "write_stream": "use activity.stream(…).write",
    },
    "outlast.errors": {
        "AsyncActivityCancelledError": "use outlast.errors.ActivityCancelRequestedError",
        "CancelledError": "use asyncio.CancelledError; a client gets outlast.errors.WorkflowCancelledError",
        "RPCError": "use outlast.errors.StoreError where the database does not answer; else outlast.OutlastError",
        "TemporalError": "use outlast.errors.OutlastError",
        "TerminatedError": "use outlast.errors.WorkflowTerminatedError",
        "TimeoutError": "use outlast.errors.ActivityTimeoutError or outlast.errors.WorkflowTimeoutError",
        "WorkflowFailureError": "use outlast.errors.WorkflowResultError, or outlast.errors.WorkflowFailedError",
        "WorkflowQueryFailedError": "use outlast.errors.QueryFailedError",
        "WorkflowUpdateFailedError": "use outlast.errors.UpdateFailedError, and outlast.errors.UpdateRejectedError",
    },
    "outlast.testing": {
        "WorkflowEnvironment": "use outlast.testing.TestEnvironment",
        "WorkflowReplayResult": "use outlast.testing.ReplayedRun",
        "WorkflowReplayResults": "use outlast.testing.ReplayReport",
    },
    "Client": {
        # Temporal
        "cancel": "use client.handle(…).cancel",
        "cancel_workflow": "use client.handle(…).cancel",
        "count_workflows": "use client.count",
        "create_schedule": "use client.schedules.create",
        "describe_workflow": "use client.describe",
        "execute_update_with_start_workflow": "use client.update_with_start(…, wait_for='completed')",
        "execute_workflow": "use client.execute",
        "get_schedule_handle": "use client.schedules.handle",
        "get_async_activity_handle": "use client.complete_activity, client.fail_activity, client.heartbeat_activity",
        "get_workflow_handle": "use client.handle",
        "get_workflow_handle_for": "use client.handle, which takes result_type=",
        "identity": "clients have no names; workers are listed by client.workers",
        "list_schedules": "use client.schedules.list",
        "list_workflows": "use client.list, with filters instead of a query language",
        "namespace": "a namespace is a database: use client.url",
        "query": "use client.handle(…).query",
        "reset_workflow": "use client.reset",
        "result": "use client.handle(…).result",
        "signal_workflow": "use client.signal",
        "start_update_with_start_workflow": "use client.update_with_start",
        "start_workflow": "use client.start",
        "terminate": "use client.handle(…).terminate",
        "terminate_workflow": "use client.handle(…).terminate",
        # DBOS and Celery
        "apply_schedules": "use client.schedules.apply",
        "backfill_schedule": "use client.schedules.handle(…).backfill",
        "delete_queue": "use client.queues.delete",
        "delete_schedule": "use client.schedules.handle(…).delete",
        "enqueue": "use client.start, with `StartOptions(queue=…)`",
        "debouncer": "use client.debounce",
        "delete_workflow": "use client.delete",
        "fork_workflow": "use client.fork",
        "get_event": "use client.handle(…).memo_value",
        "get_schedule": "use client.schedules.handle(…).describe",
        "list_queues": "use client.queues.list",
        "list_workflow_steps": "use client.handle(…).history",
        "pause_schedule": "use client.schedules.handle(…).pause",
        "register_queue": "use client.queues.define",
        "resume_schedule": "use client.schedules.handle(…).resume",
        "read_stream": "use client.handle(…).stream",
        "resume_workflow": "use client.resume",
        "retrieve_queue": "use client.queues.describe",
        "retrieve_workflow": "use client.handle",
        "send": "use client.signal",
        "send_task": "use client.start",
        "set_workflow_delay": "use client.handle(…).set_start_delay",
        "stream": "use client.handle(…).stream",
        "trigger_schedule": "use client.schedules.handle(…).trigger",
        "wait_first": "use outlast.wait_first",
    },
    "WorkflowHandle": {
        # Temporal
        "fetch_history": "use handle.history, or handle.export_history",
        "fetch_history_events": "use handle.history",
        "first_execution_run_id": "use (await handle.describe()).run.first_run_id",
        "get_update_handle": _UPDATES,
        "get_update_handle_for": _UPDATES,
        "id": "use handle.workflow_id",
        "result_run_id": "use handle.run_id",
        # DBOS and Celery
        "delete": "use client.delete",
        "forget": "histories stay until a retention policy deletes them: see docs/retention.md",
        "get": "use handle.result",
        "get_event": "use handle.memo_value",
        "get_result": "use handle.result",
        "get_status": _STATUS,
        "get_workflow_id": "use handle.workflow_id",
        "read_stream": "use handle.stream",
        "ready": _STATUS,
        "revoke": "use handle.cancel, or handle.terminate",
        "send": "use handle.signal",
        "state": _STATUS,
        "status": _STATUS,
        "successful": _STATUS,
        "update": "use handle.execute_update, or handle.start_update",
        "wait": "use handle.result",
    },
    "ScheduleHandle": {
        "id": "use schedule.schedule_id",
        "unpause": "use schedule.resume",
    },
    "WorkflowDescription": {
        "close_time": "use description.run.closed_at",
        "history_length": "use description.run.history_length",
        "id": "use description.workflow_id",
        "memo": "use description.run.memo",
        "run_id": "use description.run.run_id",
        "search_attributes": "use description.run.search_attributes",
        "start_time": "use description.run.started_at",
        "status": "use description.run.status",
        "task_queue": "use description.run.task_queue",
        "typed_search_attributes": "use description.run.search_attributes",
    },
    "RunSummary": {
        "close_time": "use run.closed_at",
        "id": "use run.workflow_id",
        "start_time": "use run.started_at",
    },
    "WorkflowInfo": {
        "continued_run_id": "use workflow.info().previous_run_id",
        "execution_timeout": "use workflow.info().execution_timeout_seconds, or workflow.info().execution_deadline_at",
        "first_execution_run_id": "use workflow.info().first_run_id",
        "get_current_build_id": "the history records it with each workflow task",
        "get_current_history_length": "use workflow.info().history_events",
        "get_current_history_size": "use workflow.info().history_bytes",
        "is_continue_as_new_suggested": "use workflow.info().continue_as_new_suggested, which is no function",
        "namespace": "a namespace is a database, which workflow code does not see",
        "retry_policy": "code does not see it; workflow.info().attempt counts its attempts",
        "run_timeout": "use workflow.info().run_timeout_seconds, or workflow.info().run_deadline_at",
        "typed_search_attributes": "use workflow.info().search_attributes",
        "workflow_start_time": "use workflow.info().start_time",
    },
    "ActivityInfo": {
        "current_attempt_scheduled_time": "use activity.info().scheduled_at",
        "heartbeat_timeout": "use activity.info().heartbeat_timeout_seconds",
        "retries": "use activity.info().attempt, which counts from 1",
        "schedule_to_close_timeout": "use activity.info().schedule_to_close_deadline_at",
        "scheduled_time": "use activity.info().scheduled_at",
        "start_to_close_timeout": "use activity.info().start_to_close_deadline_at",
        "started_time": "use activity.info().started_at",
        "workflow_run_id": "use activity.info().run_id",
    },
    "ActivityDefinition": {
        "apply_async": "call it in a workflow, where the call is durable; start the workflow with client.start",
        "delay": "call it in a workflow, where the call is durable; start the workflow with client.start",
        "retry": "raise `ApplicationError(…, next_retry_delay=30)`: a failed attempt is tried again",
        "s": _CANVAS,
        "si": _CANVAS,
    },
    "Worker": {
        "shutdown": "use worker.stop",
        "is_running": "a worker runs from worker.start to worker.stop",
    },
    "ExternalWorkflow": {
        "cancel": "signal it, and let it end itself; or let an activity call client.handle(…).cancel",
        "id": "it is what you gave to workflow.external",
    },
    "TestEnvironment": {
        "client": "it is there inside of `async with TestEnvironment(…) as env`",
        "worker": "there is one inside of `async with TestEnvironment(workflows=…) as env`",
        "clock": "it is there inside of `async with TestEnvironment(…) as env`",
        "get_current_time": "use env.now",
        "shutdown": "leave the `async with` block",
        "start_local": "use `async with TestEnvironment(workflows=…, activities=…) as env`",
        "start_time_skipping": "use `async with TestEnvironment(workflows=…, activities=…) as env`",
    },
    "Replayer": {
        "replay_workflow": "use replayer.replay",
        "replay_workflows": "use replayer.replay, or replayer.replay_all",
        "workflow_replay_iterator": "use replayer.replay, or replayer.replay_all",
    },
}
"""What to use instead of a name, by the module or class that is asked for it."""


def advice(owner: str, name: str, elsewhere: Iterable[str] = ()) -> str | None:
    """Return what to use instead of a name that there is not, if that is known.

    Args:
        owner: The module or the class.
        name: The name.
        elsewhere: Modules that may have it, if it is a class.
    """
    for module in elsewhere if name[:1].isupper() else ():
        if name in import_module(module).__all__:
            return f"use {module}.{name}"
    return ADVICE.get(owner, {}).get(name)


def absent(what: str, owner: str, name: str, obj: object, elsewhere: Iterable[str] = ()) -> Exception:
    """Return the error of a name that there is not.

    Args:
        what: What was asked for it, as Python names that.
        owner: The module or the class.
        name: The name.
        obj: What was asked for it; Python looks for similar names in it.
        elsewhere: Modules that may have it.
    """
    instead = advice(owner, name, elsewhere)
    if instead is None:
        return AttributeError(f"{what} has no attribute {name!r}", name=name, obj=obj)
    text = f"{what} has no attribute {name!r}: {instead}"
    # `from package import name` would drop the text of an AttributeError.
    importing = sys._getframe(2).f_code.co_name == "_handle_fromlist"
    return ImportError(text, name=owner) if importing else AttributeError(text)
