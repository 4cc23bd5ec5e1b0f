"""Calls, processes and subflows: what an activity or a child does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from outlast import RetryPolicy, workflow
from outlast_serverless.interpreter.data_flow import check_recordable
from outlast_serverless.interpreter.faults import Fault, from_failure
from outlast_serverless.interpreter.request import TYPE_PREFIX
from outlast_serverless.interpreter.scope import Execution, Interpreting, key_of
from outlast_serverless.interpreter.tasks.subscribing import run_subscription
from outlast_serverless.plan.kinds import PROTOCOLS
from outlast_serverless.plan.model import CallTask, Directive, RunTask, Value
from outlast_workflow.errors import ActivityError, ChildWorkflowError
from outlast_workflow.options.validation import MAX_NAME_LENGTH

PREFIX: Final = "serverless."
RESOLVE: Final = "serverless.resolve"
"""The local activity that finds the document of a subflow."""
_ONCE: Final = RetryPolicy(max_attempts=1)
LONGEST_S: Final = 365 * 86_400.0
"""What a call without a timeout may take; its heartbeats tell much sooner that its worker is gone."""
_HEARTBEAT_S: Final = 60.0


async def run_call(self: Interpreting, task: CallTask, run: Execution) -> tuple[Any, Directive | None]:
    """Call a protocol, or a function: of the document, of a catalog, or at a URL."""
    if task.call not in PROTOCOLS:
        return await _function(self, task, run), None
    if task.subscription is not None:
        options = _options(run.timeout, run.label("call"))
        name = PREFIX + task.call
        return await run_subscription(self, task, task.subscription, run, name, options), None
    return await _activity(self, task.call, task.arguments, run), None


async def run_process(self: Interpreting, task: RunTask, run: Execution) -> tuple[Any, Directive | None]:
    """Run a container, a script, a shell command, or another document."""
    if task.process == "workflow":
        return await _subflow(self, task, run), None
    more = {"await": task.awaits, "return": task.returns}
    output = await _activity(self, task.process, task.arguments, run, **more)
    return (output if task.awaits else run.input), None


async def _function(self: Interpreting, task: CallTask, run: Execution) -> Any:
    """Run the task of a function in a scope of its own: its arguments are its input, and errors are the caller's."""
    given: Any = None
    if not self.frames.left:
        given = self.evaluate(task.arguments, run.input, run.during(), task.pointer)
    scope = replace(run.scope.within(f"call={run.task.pointer}"), variables={}, extended=None)
    try:
        if task.function is not None:
            function = self.function(task.call)
        else:
            key, unit = await self.fetched_function(task.call, run)
            (function,) = unit.plan.functions.values()
            scope = replace(scope, unit=unit, functions=(*scope.functions, key))
        return (await self.run_task(function, given, scope))[0]
    except Fault as error:
        raise Fault({**error.error, "instance": task.pointer}) from None


async def _activity(self: Interpreting, name: str, value: Value, run: Execution, **more: Any) -> Any:
    request = self.call_request(run, value, run.input, **more)
    label = run.label("run" if isinstance(run.task, RunTask) else "call")
    return await call_activity(PREFIX + name, request, run.timeout, label, run.task.pointer)


async def call_activity(
    name: str, request: dict[str, Any], timeout: float | None, label: str, pointer: str
) -> Any:
    """Run an activity once, and return its result.

    Args:
        name: Its name.
        request: What it is given.
        timeout: How many seconds it may take, if that is limited.
        label: What it is called in ``describe``.
        pointer: The task that a failure happened to.

    Raises:
        Fault: It failed.
    """
    try:
        return await workflow.execute_activity(name, request, **_options(timeout, label))
    except ActivityError as error:
        raise from_failure(error, pointer) from None


def _options(timeout: float | None, label: str) -> Any:
    """Return the options of the activity of a call or process."""
    longest = LONGEST_S if timeout is None else timeout
    return {
        "schedule_to_close_timeout": longest,
        "heartbeat_timeout": min(_HEARTBEAT_S, longest),
        "retry_policy": _ONCE,
        "cancellation_type": "try",
        "summary": label,
    }


def _child_id(run: Execution) -> str | None:
    """Return the id of a subflow: that of the run, and the execution.

    Where the run was reset, or is tried again, what it had started before may still be open: the engine gives another.
    """
    info = workflow.info()
    if info.resets or info.attempt > 1:
        return None
    return key_of(f"{info.workflow_id}:{run.id}", MAX_NAME_LENGTH)


async def _subflow(self: Interpreting, task: RunTask, run: Execution) -> Any:
    """Run another document as a child. Its errors are reported with the pointer of the task that runs it."""
    wanted = self.evaluate(task.arguments, run.input, run.during(), task.pointer)
    check_recordable([wanted], "input of the subflow", task.pointer)
    try:
        found = await workflow.execute_local_activity(
            RESOLVE, wanted, start_to_close_timeout=_HEARTBEAT_S, summary=run.label("resolve")
        )
    except ActivityError as error:
        raise from_failure(error, task.pointer) from None
    child = workflow.start_child(
        found["type"],
        *found["arguments"],
        id=_child_id(run) if found["type"].startswith(TYPE_PREFIX) else None,
        execution_timeout=found.get("execution_timeout"),
        memo=found.get("memo"),
        parent_close_policy="terminate" if task.awaits else "abandon",
        cancellation_type="try",
        summary=run.label("run"),
    )
    try:
        if not task.awaits:
            await child.started()
            return run.input
        return await child
    except ChildWorkflowError as error:
        raise Fault({**from_failure(error, task.pointer).error, "instance": task.pointer}) from None
