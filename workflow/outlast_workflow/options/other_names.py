"""Options under the names that other engines give them: an error about one names the word that is used here."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from outlast_workflow.errors import InvalidOptionError

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
    # DBOS
    "interval_seconds": "initial_interval",
    "backoff_rate": "backoff_coefficient",
    "queue_name": "task_queue",
    "workflow_id": "id",
    "deduplication_id": "id",
    "workflow_timeout": "execution_timeout",
    "max_interval_seconds": "max_interval",
    "timeout_seconds": "start_to_close_timeout",
    "global_concurrency": "concurrency",
    "limiter": "rate",
    "partition_limiter": "partition_rate",
    "on_conflict": "if_exists",
}
_ADVICE: Final = {
    "args": "give the arguments one after another, before the options",
    "arg": "give the arguments one after another, before the options",
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
    "cron_schedule": "start the workflow from a scheduler of your own",
    "polling_interval_sec": "nothing polls: a queue admits as soon as a slot is free",
    "rpc_timeout": "`timeout` is the caller's patience where a call waits",
}
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
)


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
    renamed = _RENAMED.get(name, name)
    if renamed in known:
        return f"it is called {renamed} here"
    if renamed in _IN_START_OPTIONS and "options" in known:
        return f"give options=StartOptions({renamed}=…)"
    if name in _ADVICE:
        return _ADVICE[name]
    near = difflib.get_close_matches(name, known, 1)
    if near:
        return f"did you mean {near[0]}?"
    return f"there are {', '.join(known)}" if known else "it takes none"
