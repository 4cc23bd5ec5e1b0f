"""Forks: branches side by side, which end in the order of history."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from outlast_serverless.interpreter.faults import Fault
from outlast_serverless.interpreter.scope import Ended, Execution, Interpreting, Scope
from outlast_serverless.plan.model import Directive, ForkTask, Task


async def run_fork(self: Interpreting, task: ForkTask, run: Execution) -> tuple[Any, Directive | None]:
    """Run all branches.

    With ``compete`` the first success is the output, and the others are cancelled; if all fail, the first error counts.
    Otherwise the output is what all gave, in the order of declaration, and the first error cancels the rest. A branch
    sees the context as it was when the fork began.
    """
    ended: list[asyncio.Task[Any]] = []
    # Each sees the context as it is now, before the first of them runs.
    scopes = [
        replace(run.scope, context=run.scope.context.branch(), forked=True) for _ in task.branches.tasks
    ]
    branches = [
        asyncio.create_task(_branch(self, branch, run.input, scope), name=branch.name)
        for branch, scope in zip(task.branches.tasks, scopes, strict=True)
    ]
    for branch in branches:
        branch.add_done_callback(ended.append)
    try:
        error: BaseException | None = None
        seen = 0
        while seen < len(branches):
            open_ = [branch for branch in branches if not branch.done()]
            await asyncio.wait(open_ or branches, return_when=asyncio.FIRST_COMPLETED)
            while seen < len(ended):
                failure = ended[seen].exception()
                if task.compete and failure is None:
                    return ended[seen].result(), None
                if failure is not None and (not task.compete or not isinstance(failure, Fault)):
                    raise failure
                error = error or failure
                seen += 1
        if error is not None:
            raise error
        return [branch.result() for branch in branches], None
    finally:
        await _cancel([branch for branch in branches if not branch.done()])


async def _branch(self: Interpreting, task: Task, data: Any, scope: Scope) -> Any:
    output, directive = await self.run_task(task, data, scope)
    if directive.kind == "end":
        raise Ended(output)
    return output


async def _cancel(branches: list[asyncio.Task[Any]]) -> None:
    for branch in branches:
        branch.cancel()
    if branches:
        await asyncio.wait(branches)
    for branch in branches:
        if not branch.cancelled():
            # What it still raised is seen by nobody.
            branch.exception()
