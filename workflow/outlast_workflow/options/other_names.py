"""Options under the names that other engines give them: an error about one names the word that is used here."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

from outlast_workflow.errors import InvalidOptionError

P = ParamSpec("P")
R = TypeVar("R")

_RENAMED: Final = {
    # Temporal
    "maximum_attempts": "max_attempts",
    "maximum_interval": "max_interval",
    "id_reuse_policy": "duplicate_policy",
    "id_conflict_policy": "duplicate_policy",
    "workflow_id_reuse_policy": "duplicate_policy",
    "workflow_execution_timeout": "execution_timeout",
    "workflow_run_timeout": "run_timeout",
    "failure_exception_types": "workflow_failure_types",
    "workflow_failure_exception_types": "workflow_failure_types",
    "static_summary": "summary",
    "activity_executor": "executor",
    "data_converter": "converter",
    "wait_for_stage": "wait_for",
    "backoff_start_interval": "start_delay",
    "skip": "exclude",
    "limited_actions": "max_runs",
    "remaining_actions": "max_runs",
    "timezone": "time_zone",
    "tz": "time_zone",
    "time_zone_name": "time_zone",
    "cron_timezone": "time_zone",
    "every": "period",
    "interval": "period",
    "phase": "offset",
    "state_note": "note",
    "reason": "note",
    "workflow": "workflows",
    # DBOS
    "interval_seconds": "initial_interval",
    "backoff_rate": "backoff_coefficient",
    "workflow_id": "id",
    "deduplication_id": "id",
    "workflow_timeout": "execution_timeout",
    "max_interval_seconds": "max_interval",
    "timeout_seconds": "start_to_close_timeout",
    "global_concurrency": "concurrency",
    "limiter": "rate",
    "partition_limiter": "partition_rate",
    "on_conflict": "if_exists",
    "type": "workflow_type",
    # Celery
    "task_id": "id",
    "countdown": "start_delay",
    "eta": "start_delay",
    "expires": "execution_timeout",
    "time_limit": "start_to_close_timeout",
    "default_retry_delay": "initial_interval",
    "retry_backoff_max": "max_interval",
    "retry_jitter": "jitter",
    "dont_autoretry_for": "non_retryable_error_types",
    "concurrency": "max_concurrent_activities",
}
_QUEUE: Final = (
    "starts, activities and children take queue=; a worker takes task_queue=, whose work it does, and queues=, from "
    "which it admits"
)
_ADVICE: Final = {
    "queue": _QUEUE,
    "queue_name": _QUEUE,
    "args": "give the arguments one after another, before the options",
    "arg": "give the arguments one after another, before the options",
    "kwargs": "give the arguments one after another, before the options",
    "unfinished_policy": (
        "a run that ends while handlers are running logs their names; wait for them with "
        "`await workflow.wait_condition(workflow.all_handlers_finished)`"
    ),
    "task_timeout": "a workflow task that blocks its worker is interrupted by a monitor, without an option",
    "workflow_task_timeout": "a workflow task that blocks its worker is interrupted by a monitor, without an option",
    "sandboxed": "there is no sandbox; `Worker(runtime_guard=…)` keeps workflow code from I/O",
    "workflow_runner": "there is no sandbox; `Worker(runtime_guard=…)` keeps workflow code from I/O",
    "versioning_behavior": "`workflow.patched` versions workflow code, and `Worker(build_id=…)` names it",
    "retries_allowed": "activities are retried by default; `retry_policy=RetryPolicy(max_attempts=1)` turns that off",
    "cron_schedule": "create a schedule: `client.schedules.create(id, workflow, spec=Cron(…))`",
    "max_recovery_attempts": (
        "limits=StructuralLimits(owner_losses=…), of a client or a worker, bounds how many workers in a row may die "
        "over a workflow"
    ),
    "should_retry": (
        "the policy is recorded, so it is no code: RetryPolicy(non_retryable_error_types=…) names what is not tried "
        "again, or raise ApplicationError(…, non_retryable=True)"
    ),
    "deduplication_id": "the workflow's id deduplicates: give id= to the start",
    "priority_enabled": "every queue goes by the priority of what stands in it",
    "partition_queue": "every queue has partitions: StartOptions(partition_key=…) names one",
    "polling_interval_sec": "nothing polls: a queue admits as soon as a slot is free",
    "rpc_timeout": "`timeout` is the caller's patience where a call waits",
    "rpc_metadata": "there is no server between the client and the database",
    "namespace": "a namespace is a database: the URL names it",
    "tls": "the URL of PostgreSQL says so, with sslmode=verify-full and its kin",
    "api_key": "the URL names the user; a password is best kept in PGPASSWORD or ~/.pgpass",
    "identity": "a worker has an id, a host and a pid: `outlast workers` lists them",
    "id_reuse_policy": "a child's id must not be open; give every child an id of its own",
    "id_conflict_policy": "a child's id must not be open; give every child an id of its own",
    "start_signal": "use client.signal_with_start",
    "start_signal_args": "use client.signal_with_start",
    "static_details": "use StartOptions(memo=…), or workflow.set_progress while it runs",
    "activity_id": "activities are numbered in the order of their calls; summary= says what one is for",
    "reject_condition": "closed workflows answer queries, too; `describe` has the status",
    "task_queue": "starts, activities, children and workers take it",
    "id": "starts and children take it",
    "first_execution_run_id": "give run_id; a handle that `start` returned follows its own chain",
    "workflow": "the next run has the same workflow; to start another one use workflow.start_child",
    "max_task_queue_activities_per_second": (
        "a queue limits all workers: client.queues.define('api', rate=Rate(100, per=1)), @activity.defn(queue='api'); "
        "max_activities_per_second limits what one worker starts"
    ),
    "max_concurrent_workflow_tasks": "workflow tasks run one after another; several processes share them",
    "max_concurrent_local_activities": "local activities have a hundred slots of their own",
    "activity_executor": "a plain def runs in a thread; @activity.defn(executor='process') takes a process",
    "dynamic": "only handlers of messages can be dynamic",
    "no_thread_cancel_exception": "threads are not interrupted: activity.heartbeat raises, where you call it",
    "query": "give filters, such as status='running', workflow_type='Order' or where={'customer': 'c-7'}",
    "limit": "stop the loop when you have enough; page_size says how many are read at a time",
    # Celery and others
    "timeout": "say which: start_to_close_timeout bounds an attempt, run_timeout a run, execution_timeout all runs",
    "bind": "activity.info() has what the task's request has",
    "autoretry_for": "every exception is retried; RetryPolicy(non_retryable_error_types=…) names the others",
    "max_retries": "give retry_policy=RetryPolicy(max_attempts=…): three retries are four attempts",
    "retries": "give retry_policy=RetryPolicy(max_attempts=…): three retries are four attempts",
    "retry": "give retry_policy=RetryPolicy(…)",
    "retry_backoff": "waits double by default; retry_policy=RetryPolicy(backoff_coefficient=…) changes that",
    "acks_late": "always so: an attempt whose worker died runs elsewhere",
    "ignore_result": "a result is part of the history; return None to keep none",
    "soft_time_limit": "activity.heartbeat raises when start_to_close_timeout has passed, and the handler may clean up",
    "rate_limit": (
        "client.queues.define('api', rate=Rate(100, per=1)) and @activity.defn(queue='api') limit all workers; "
        "Worker(max_activities_per_second=…) limits what one worker starts"
    ),
    "queues": "give task_queue a list",
    "task_queues": "give task_queue a list",
    "tasks": "give activities, and workflows",
    # APScheduler, Celery beat and the standard library
    **dict.fromkeys(
        ("weeks", "days", "hours", "minutes", "seconds"),
        "give seconds, or a timedelta such as timedelta(hours=6)",
    ),
}
_ATTEMPTS: Final = (
    "give retry=RetryPolicy(max_attempts=…), or retry=… with the number: three retries are four attempts"
)
_OF_STEPS: Final = {
    "retries": _ATTEMPTS,
    "max_retries": _ATTEMPTS,
    "max_attempts": _ATTEMPTS,
    "retry_policy": "it is called retry here",
    "start_to_close_timeout": "it is called timeout here",
    # Airflow
    "retry_delay": "give retry=RetryPolicy(initial_interval=…)",
    "retry_exponential_backoff": "give retry=RetryPolicy(backoff_coefficient=…)",
    "execution_timeout": "it is called timeout here",
    "trigger_rule": "it is called trigger here",
    "depends_on": "it is called after here",
    "task_id": "it is called id here",
    "task_group": "write the step in a `with group(…):`",
    "pool": "it is called queue here",
    "priority_weight": "it is called priority here: 0 comes first",
    "max_active_tis_per_dag": "a queue limits all runs: give queue=…; max_parallel of the DAG limits one",
}
"""What these names mean for a step of a DAG."""
_SPEC: Final = "say when it fires: spec=Cron('0 2 * * *', time_zone='Europe/Zurich'), or an Every or an At"
_BY_HAND: Final = "use the handle's trigger or backfill after it"
_OF_SCHEDULES: Final = {
    "cron": _SPEC,
    "every": _SPEC,
    "time_zone": _SPEC,
    # Temporal
    "calendars": _SPEC,
    "cron_expressions": _SPEC,
    "intervals": _SPEC,
    "time_zone_name": _SPEC,
    "action": "give the workflow and its arguments after the schedule's id",
    "policy": "overlap, catch_up, catch_up_window and pause_on_failure are options",
    "state": "note, paused and max_runs are options",
    "trigger_immediately": _BY_HAND,
    "backfill": _BY_HAND,
    # DBOS
    "schedule": _SPEC,
    "cron_timezone": _SPEC,
    "schedule_name": "give the schedule's id first",
    "workflow_fn": "give the workflow and its arguments after the schedule's id",
    "context": "give the workflow's own arguments after the workflow",
    "automatic_backfill": "catch_up='all' starts each slot that was missed; overlap='allow_all' lets them run at once",
}
"""What to give instead of these names where a schedule is declared or changed."""
_OF_FILTERS: Final = {
    "id": "the workflow's id is workflow_id",
    # DBOS
    "name": "it is called workflow_type here",
    "workflow_id_prefix": "it is called id_prefix here",
    "start_time": "it is called created_after here",
    "end_time": "it is called created_before here",
    "completed_after": "it is called closed_after here",
    "completed_before": "it is called closed_before here",
    "dequeued_after": "it is called started_after here",
    "dequeued_before": "it is called started_before here",
    "executor_id": "it is called owner here",
    "application_version": "it is called build_id here",
    "app_version": "it is called build_id here",
    "parent_workflow_id": "it is called parent here",
    "queues_only": "status='queued' lists what waits in queues, queue= what belongs to one",
    "user": "search attributes say such things: where={'user': …}",
    "authenticated_user": "search attributes say such things: where={'user': …}",
    "attributes": "it is called where here",
    "sort_desc": "order='oldest' lists the oldest first, and the newest come first otherwise",
    "offset": "page(cursor) continues where the page before ended",
    "load_input": "lists hold no payloads: a handle has the history and the result",
    "load_output": "lists hold no payloads: a handle has the history and the result",
}
"""What to give instead of these names to find workflows."""
_DEADLINES: Final = {"options", "run_timeout", "start_to_close_timeout"}
"""What has one of these options lets something end by itself, so its user must say which timeout is meant."""
_IN_RETRY_POLICY: Final = (
    "initial_interval",
    "backoff_coefficient",
    "max_interval",
    "max_attempts",
    "jitter",
    "non_retryable_error_types",
)
_IN_START_OPTIONS: Final = (
    "execution_timeout",
    "run_timeout",
    "retry_policy",
    "memo",
    "search_attributes",
    "start_delay",
    "priority",
    "duplicate_policy",
    "summary",
    "queue",
    "partition_key",
    "schedule_to_start_timeout",
)
_OF_QUEUES: Final = {
    "queue_name": "queue",
    "queue_partition_key": "partition_key",
    "delay_seconds": "start_delay",
}
"""What these names mean where a queue may be given. Elsewhere some of them mean something else."""


def refuse_unknown(what: str, unknown: Mapping[str, Any], known: Iterable[str]) -> NoReturn:
    """Refuse options that there are not, and say what is meant.

    Args:
        what: What has been given the options.
        unknown: The options by name.
        known: The options that there are.

    Raises:
        InvalidOptionError: Always.
    """
    name = min(unknown)
    raise InvalidOptionError(f"{what} has no option {name!r}: {advice(name, tuple(known))}", field=name)


def advice(name: str, known: tuple[str, ...]) -> str:
    """Return what to give instead of an option that there is not.

    Args:
        name: Its name.
        known: The options that there are.
    """
    if "skip_when" in known and name in _OF_STEPS:
        return _OF_STEPS[name]
    if "queue" in known or "options" in known:
        name = _OF_QUEUES.get(name, name)
        if name in known:
            return f"it is called {name} here"
        if name in _IN_START_OPTIONS and "options" in known:
            return f"give options=StartOptions({name}=…)"
    if "spec" in known and name in _OF_SCHEDULES:
        return _OF_SCHEDULES[name]
    if "closed_after" in known and name in _OF_FILTERS:
        return _OF_FILTERS[name]
    renamed = _RENAMED.get(name, name)
    if renamed in known:
        return f"it is called {renamed} here"
    if renamed in _IN_START_OPTIONS and "options" in known:
        return f"give options=StartOptions({renamed}=…)"
    if renamed in _IN_RETRY_POLICY and "retry_policy" in known:
        return f"give retry_policy=RetryPolicy({renamed}=…)"
    if name in _ADVICE and (name != "timeout" or not _DEADLINES.isdisjoint(known)):
        return _ADVICE[name]
    near = difflib.get_close_matches(name, known, 1)
    if near:
        return f"did you mean {near[0]}?"
    return f"there are {', '.join(known)}" if known else "it takes none"


def explained(what: str, usage: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: a call that the function cannot take is an error that names what it takes instead.

    Args:
        what: What is called, for messages.
        usage: How it is called.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> R:
            try:
                return function(*args, **options)
            except TypeError:
                # Only what no call could bind is a mistake of the caller.
                _explain(what, usage, function, args, options)
                raise

        return call

    return decorate


def _explain(
    what: str, usage: str, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]
) -> None:
    """Raise an error that says what is wrong with a call, if its arguments do not fit the function."""
    from inspect import Parameter, signature

    parameters = signature(function).parameters
    known = tuple(
        name
        for name, parameter in parameters.items()
        if name != "self" and parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    )
    if Parameter.VAR_KEYWORD not in {parameter.kind for parameter in parameters.values()}:
        unknown = {name: value for name, value in options.items() if name not in known}
        if unknown and known:
            refuse_unknown(what, unknown, known)
    try:
        signature(function).bind(*args, **options)
    except TypeError as error:
        raise InvalidOptionError(f"{what}: {error}; it is called as {usage}", field=what) from None
