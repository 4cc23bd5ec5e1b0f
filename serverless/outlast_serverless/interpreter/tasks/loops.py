"""Loops: each iteration's input is the output of the one before."""

from __future__ import annotations

from typing import Any

from outlast_serverless.interpreter.faults import fault
from outlast_serverless.interpreter.scope import Execution, Interpreting
from outlast_serverless.plan.model import Directive, ForTask


async def run_for(self: Interpreting, task: ForTask, run: Execution) -> tuple[Any, Directive | None]:
    """Run the tasks of a loop for each item. ``exit`` ends an iteration; an empty loop changes nothing."""
    items = self.evaluate(task.items, run.input, run.during(), task.pointer)
    if items is None:
        items = []
    if not isinstance(items, list):
        raise fault("expression", f"`for.in` must give an array, not {items!r:.100}", task.pointer)
    output = run.input
    for position, item in enumerate(items):
        scope = run.scope.within(f"it={position}", **{task.each: item, task.at: position})
        variables = {**run.during(), **scope.variables}
        if not self.holds(task.condition_of_loop, output, variables, task.pointer):
            break
        output, _ = await self.run_list(task.tasks, output, scope)
    return output, None
