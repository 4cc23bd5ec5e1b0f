"""Deleting workflows: all chains of an id, or the rest of one chain; alone, or with the chains of their children.

With children, the whole family is looked at first, so that an open member refuses the deletion before anything is gone.
Then the deepest go first: a parent's history names its children, so a deletion that is interrupted finds the rest the
next time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from outlast.runtime.runtime import Runtime
from outlast_runs.run_change import TerminateRun
from outlast_store.journal.batch import Change
from outlast_store.transitions import deletion
from outlast_store.transitions.children import next_children
from outlast_store.transitions.deletion import DeleteChainStep
from outlast_store.transitions.families import ChildChain, StoredFamily, read_family
from outlast_watchdog.enforcement import ApplyClosePolicy
from outlast_workflow.errors import RunNotFoundError, WorkflowClosedError, WorkflowNotFoundError
from outlast_workflow.errors.refusals import DeleteRefusedError

REASON: Final = "it is deleted with its parent"

MOST_REST_S: Final = 1.0
"""The longest rest. A step takes longer only where the database was away, or the process stopped."""
T = TypeVar("T")


class PacedSteps:
    """Applies the steps of a deletion, and rests between two for as long as the last one took, at most a second.

    So others have the journal for half of the time, and for more of it where they keep it busy.

    Args:
        runtime: The database.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._rest_s = 0.0

    async def apply(self, step: Change[T]) -> T:
        """Rest, then commit a step and return its value.

        Raises:
            RefusedError: A guard of the step failed; nothing of it was written.
            StoreError: The database did not take it.
        """
        if self._rest_s > 0:
            await asyncio.sleep(self._rest_s)
        clock = self._runtime.environment.clock
        began = clock.monotonic()
        found = await self._runtime.journal.apply(step)
        self._rest_s = min(clock.monotonic() - began, MOST_REST_S)
        return found


async def delete_workflow(
    runtime: Runtime, workflow_id: str, *, terminate: bool = False, children: bool = False
) -> int:
    """Delete all runs of a closed workflow.

    Args:
        runtime: The database.
        workflow_id: The workflow.
        terminate: With ``children``: whether those that are open are terminated first.
        children: Whether the workflows that it has started as children are deleted too, and theirs.

    Returns:
        How many runs were deleted.

    Raises:
        WorkflowNotFoundError: There is no such workflow.
        DeleteRefusedError: It is open, or one of its descendants is; nothing was deleted.
    """
    found = await runtime.read_aside(deletion.last_runs, workflow_id)
    if not found:
        raise WorkflowNotFoundError(workflow_id)
    if any(is_open for _, is_open in found):
        raise DeleteRefusedError(
            f"workflow {workflow_id!r} is open: terminate it first, or delete it with terminate=True (`--terminate`)"
        )
    last_runs = [last_run_id for last_run_id, _ in found]
    if children:
        return await _delete_families(runtime, last_runs, workflow_id, terminate=terminate)
    steps = PacedSteps(runtime)
    return sum([await _delete_chain(steps, runtime, last_run_id, workflow_id) for last_run_id in last_runs])


async def delete_chain(
    runtime: Runtime,
    last_run_id: str,
    workflow_id: str,
    *,
    terminate: bool = False,
    children: bool = False,
    steps: PacedSteps | None = None,
) -> int:
    """Delete what is left of a closed chain, step by step.

    Args:
        runtime: The database.
        last_run_id: The last run of the chain.
        workflow_id: The workflow.
        terminate: With ``children``: whether those that are open are terminated first.
        children: Whether the chains that it has started as children are deleted too, and theirs.
        steps: What applies the steps, where other chains are deleted before or after; without ``children``.

    Returns:
        How many runs were deleted.

    Raises:
        DeleteRefusedError: The chain is open or has continued, its close policy has yet to reach its children, or one
            of its descendants is open.
    """
    if children:
        return await _delete_families(runtime, [last_run_id], workflow_id, terminate=terminate)
    return await _delete_chain(steps or PacedSteps(runtime), runtime, last_run_id, workflow_id)


async def _delete_chain(steps: PacedSteps, runtime: Runtime, last_run_id: str, workflow_id: str) -> int:
    deleted = 0
    for run_id in await runtime.read_aside(deletion.chain_backwards, last_run_id):
        while not await steps.apply(DeleteChainStep(run_id, last_run_id, workflow_id)):
            pass
        deleted += 1
    return deleted


# --- with children ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Member:
    """A chain of a family, and what was read of it."""

    chain: ChildChain
    state: StoredFamily


async def _delete_families(
    runtime: Runtime, last_runs: Sequence[str], workflow_id: str, *, terminate: bool
) -> int:
    roots = [ChildChain(last_run_id, workflow_id) for last_run_id in last_runs]
    members = await _members(runtime, roots)
    if terminate:
        while any(member.state.is_open for member in members):
            # From above, so that nobody starts others; those that were started meanwhile are found by the next look.
            for member in members:
                if member.state.is_open:
                    await _terminate(runtime, member.chain)
            members = await _members(runtime, roots)
        if await _apply_close_policies(runtime, members):
            members = await _members(runtime, roots)
    for member in members:
        _check_closed(workflow_id, member)
    deleted, steps = 0, PacedSteps(runtime)
    for member in reversed(members):
        deleted += await _delete_chain(steps, runtime, member.chain.last_run_id, member.chain.workflow_id)
    return deleted


async def _members(runtime: Runtime, roots: Sequence[ChildChain]) -> list[_Member]:
    """Return the chains of families, parents before their children, each once."""
    members: list[_Member] = []
    waiting = dict.fromkeys(roots)
    seen = set(roots)
    while waiting:
        level, waiting = waiting, {}
        for chain in level:
            state = await runtime.read_aside(read_family, chain.last_run_id)
            members.append(_Member(chain, state))
            waiting |= dict.fromkeys(child for child in state.children if child not in seen)
            seen.update(state.children)
    return members


async def _terminate(runtime: Runtime, chain: ChildChain) -> None:
    try:
        await runtime.journal.apply(TerminateRun(chain.workflow_id, chain.last_run_id, REASON))
    except (WorkflowClosedError, RunNotFoundError):
        # It has ended or continued meanwhile; the next look finds what is there.
        pass


async def _apply_close_policies(runtime: Runtime, members: Sequence[_Member]) -> bool:
    """Tell parents that no child of theirs is open any more, as a watchdog would; return whether any had to be told."""
    due = [run_id for member in members for run_id in member.state.due]
    for run_id in due:
        waiting = [run_id]
        while waiting:
            one = waiting.pop()
            applied = await runtime.journal.apply(
                ApplyClosePolicy(one, await runtime.read_aside(next_children, one))
            )
            waiting += applied.due if applied is not None else ()
    return bool(due)


def _check_closed(workflow_id: str, member: _Member) -> None:
    """Refuse a family that is not at rest.

    Raises:
        DeleteRefusedError: A member is open, or its children await their close policy.
    """
    name = member.chain.workflow_id
    who = (
        f"workflow {name!r}"
        if name == workflow_id
        else f"{name!r}, which descends from workflow {workflow_id!r},"
    )
    if member.state.is_open:
        raise DeleteRefusedError(
            f"{who} is open: terminate it first, or delete with terminate=True (`--terminate`); nothing was deleted"
        )
    if member.state.due:
        raise DeleteRefusedError(
            f"children of {who.rstrip(',')} await their close policy: delete again when a watchdog has seen to them; "
            "nothing was deleted"
        )
