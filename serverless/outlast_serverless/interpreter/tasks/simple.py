"""Tasks that need nothing but the data: do, set, switch, raise and wait."""

from __future__ import annotations

from typing import Any

from outlast import workflow
from outlast_serverless.interpreter.faults import Fault, fault
from outlast_serverless.interpreter.scope import Execution, Interpreting
from outlast_serverless.plan.model import Directive, DoTask, RaiseTask, SetTask, SwitchTask, WaitTask


async def run_do(self: Interpreting, task: DoTask, run: Execution) -> tuple[Any, Directive | None]:
    """Run the tasks of a list."""
    output, _ = await self.run_list(task.tasks, run.input, run.scope)
    return output, None


async def run_set(self: Interpreting, task: SetTask, run: Execution) -> tuple[Any, Directive | None]:
    """Return what is set: it replaces the data."""
    return self.evaluate(task.value, run.input, run.during(), task.pointer), None


async def run_switch(self: Interpreting, task: SwitchTask, run: Execution) -> tuple[Any, Directive | None]:
    """Go on where the first case that matches says; without one, where the task itself does."""
    for case in task.cases:
        if case.when is None or self.holds(case.when, run.input, run.during(), task.pointer):
            return run.input, case.then
    return run.input, None


async def run_raise(self: Interpreting, task: RaiseTask, run: Execution) -> tuple[Any, Directive | None]:
    """Raise an error. What is not said of it stays unsaid, but for the task that it comes from."""
    error = self.evaluate(task.error, run.input, run.during(), task.pointer)
    if not isinstance(error, dict) or not isinstance(error.get("type"), str):
        raise fault("expression", "the error to raise is no object with a type", task.pointer)
    raise Fault({**error, "instance": error.get("instance") or task.pointer})


async def run_wait(self: Interpreting, task: WaitTask, run: Execution) -> tuple[Any, Directive | None]:
    """Wait for a while, durably."""
    seconds = self.seconds(task.duration, run.input, run.during(), task.pointer)
    if seconds > 0:
        await workflow.sleep(seconds, summary=run.label("wait"))
    return run.input, None
