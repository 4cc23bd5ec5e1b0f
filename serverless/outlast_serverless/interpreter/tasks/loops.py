"""Loops: each iteration's input is the output of the one before."""

from __future__ import annotations

from typing import Any, Final

from outlast_serverless.interpreter.faults import fault
from outlast_serverless.interpreter.scope import Execution, Interpreting
from outlast_serverless.interpreter.state import Continuing, LoopFrame
from outlast_serverless.plan.model import Constant, Directive, Expression, ForTask, Value
from outlast_serverless.rules.jq_text import glance

_CHANGING: Final = frozenset({"context", "now"})
"""What may have changed since the loop began."""


async def run_for(self: Interpreting, task: ForTask, run: Execution) -> tuple[Any, Directive | None]:
    """Run the tasks of a loop for each item. ``exit`` ends an iteration; an empty loop changes nothing."""
    frame: LoopFrame | None = self.frames.take("for", None)
    position = 0 if frame is None else frame["position"]
    if frame is not None and "items" in frame:
        items, first = frame["items"], position
    else:
        items, first = _items(self, task, run), 0
    output = run.input
    try:
        while position - first < len(items):
            item = items[position - first]
            scope = run.scope.within(f"it={position}", **{task.each: item, task.at: position})
            # An iteration that is under way has been asked before.
            if not self.frames.left:
                variables = {**run.during(), **scope.variables}
                if not self.holds(task.condition_of_loop, output, variables, task.pointer):
                    break
            output, _ = await self.run_list(task.tasks, output, scope)
            position += 1
    except Continuing as going:
        frame = {"of": "for", "position": position}
        if not _gives_the_same_later(task.items):
            frame["items"] = items[position - first :]
        going.add(frame)
        raise
    return output, None


def _items(self: Interpreting, task: ForTask, run: Execution) -> list[Any]:
    items = self.evaluate(task.items, run.input, run.during(), task.pointer)
    if items is not None and not isinstance(items, list):
        raise fault("expression", f"`for.in` must give an array, not {items!r:.100}", task.pointer)
    return items or []


def _gives_the_same_later(items: Value) -> bool:
    """Return whether items are worked out from what the task is given alone, so that they need not be carried."""
    if isinstance(items, Constant):
        return True
    for one in (items,) if isinstance(items, Expression) else items.expressions:
        seen = glance(one.text)
        if not _CHANGING.isdisjoint((*seen.used, *seen.names)):
            return False
    return True
