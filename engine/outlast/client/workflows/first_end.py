"""Waiting for the first of several workflows to end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from outlast.client.workflows.handle import WorkflowHandle
from outlast.client.workflows.results import End
from outlast.runtime.runtime import Runtime
from outlast_store.reads.runs import Closing, find_closings, find_current_runs
from outlast_workflow.errors import InvalidOptionError, WorkflowNotFoundError
from outlast_workflow.options.validation import timeout_seconds, validate_list
from outlast_workflow.primitives.enums import RunStatus

T = TypeVar("T")

MOST_ASKED: Final = 500
"""How many workflows one query asks about."""


async def wait_first(handles: Iterable[WorkflowHandle[T]], timeout: float | None = None) -> WorkflowHandle[T]:
    """Wait until one of several workflows has ended, through all runs of its chain, and return its handle.

    ``result()`` of that handle then returns or raises at once. Of several that have ended, it is the one that ended
    first, so results come in the order of completion::

        while waiting:
            first = await outlast.wait_first(waiting)
            waiting.remove(first)
            print(first.workflow_id, await first.result())

    In a workflow, use ``asyncio.wait`` with the handles of its children.

    Args:
        handles: The workflows, each once.
        timeout: Seconds to wait at most; without limit if ``None``.

    Raises:
        TimeoutError: None has ended in time; they continue.
        InvalidOptionError: There is no handle, or one stands for the same workflow as another.
        WorkflowNotFoundError: There is no such workflow.
    """
    given = _checked(handles)
    seconds = None if timeout is None else timeout_seconds("timeout", timeout)
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await _first(given)
    except TimeoutError as error:
        if not limit.expired():
            raise
        many = "the workflow" if len(given) == 1 else f"none of the {len(given):,} workflows"
        said = "has not ended" if len(given) == 1 else "has ended"
        raise TimeoutError(f"{many} {said} within {seconds} s: they go on, wait again later") from error


def _checked(handles: Iterable[WorkflowHandle[T]]) -> list[WorkflowHandle[T]]:
    given: list[WorkflowHandle[T]] = validate_list("handles", handles, "handles of workflows")
    if not given:
        raise InvalidOptionError("wait_first needs at least one handle to wait for", field="handles")
    known: set[tuple[str, str | None]] = set()
    for handle in given:
        if not isinstance(handle, WorkflowHandle):
            raise InvalidOptionError(
                f"wait_first takes handles of workflows, not {type(handle).__name__}: in a workflow, use asyncio.wait "
                "with the handles of children; for blocking handles there is outlast.blocking.wait_first",
                field="handles",
            )
        key = handle.workflow_id, handle.run_id
        if key in known:
            raise InvalidOptionError(
                f"wait_first was given workflow {handle.workflow_id!r} twice: give each handle once",
                field="handles",
            )
        known.add(key)
    return given


async def _first(handles: Sequence[WorkflowHandle[T]]) -> WorkflowHandle[T]:
    runtimes = {id(handle.runtime): handle.runtime for handle in handles}
    runs = await _current_runs(handles)
    # From here on this process notes what it closes itself, so that the look that follows misses nothing of that.
    ends = [handle.runtime.run_ends.subscribe(runs[index]) for index, handle in enumerate(handles)]
    ended = await _ended_before(handles, runs)
    if ended is not None:
        return ended
    waits = {
        asyncio.ensure_future(handle.wait_for_end(end)): handle
        for handle, end in zip(handles, ends, strict=True)
    }
    try:
        # All of them wait before others' writes are looked for.
        await asyncio.sleep(0)
        for runtime in runtimes.values():
            await runtime.run_ends.poll(everywhere=True)
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        found = [(waits[one], one.result()) for one in done]
        return await _earliest(found) if len(found) > 1 else found[0][0]
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def _current_runs(handles: Sequence[WorkflowHandle[Any]]) -> list[str]:
    """Return the run that each handle is about."""
    asked: dict[int, tuple[Runtime, list[str]]] = {}
    for handle in handles:
        if handle.run_id is None:
            asked.setdefault(id(handle.runtime), (handle.runtime, []))[1].append(handle.workflow_id)
    current: dict[tuple[int, str], str] = {}
    for key, (runtime, ids) in asked.items():
        for start in range(0, len(ids), MOST_ASKED):
            found = await runtime.read(find_current_runs, ids[start : start + MOST_ASKED])
            current.update({(key, workflow_id): run_id for workflow_id, run_id in found.items()})
    runs: list[str] = []
    for handle in handles:
        run_id = current.get((id(handle.runtime), handle.workflow_id))
        if handle.run_id is not None:
            run_id = await handle.resolve()
        if run_id is None:
            raise WorkflowNotFoundError(handle.workflow_id)
        runs.append(run_id)
    return runs


async def _ended_before(
    handles: Sequence[WorkflowHandle[T]], runs: Sequence[str]
) -> WorkflowHandle[T] | None:
    """Return the handle whose workflow ended first, if any has ended for good."""
    closings = await _closings(list(zip(handles, runs, strict=True)))
    final = [
        (closing.closed_at, index)
        for index, closing in enumerate(closings)
        if closing is not None and (closing.next_run_id is None or closing.status == RunStatus.COMPLETED)
    ]
    return handles[min(final)[1]] if final else None


async def _earliest(found: Sequence[tuple[WorkflowHandle[T], End]]) -> WorkflowHandle[T]:
    closings = await _closings([(handle, end.run_id) for handle, end in found])
    times = [0 if closing is None else closing.closed_at for closing in closings]
    return found[times.index(min(times))][0]


async def _closings(runs: Sequence[tuple[WorkflowHandle[Any], str]]) -> list[Closing | None]:
    """Return how each run was closed; ``None`` for those that are open."""
    asked: dict[int, tuple[Runtime, list[str]]] = {}
    for handle, run_id in runs:
        asked.setdefault(id(handle.runtime), (handle.runtime, []))[1].append(run_id)
    found: dict[tuple[int, str], Closing] = {}
    for key, (runtime, ids) in asked.items():
        for start in range(0, len(ids), MOST_ASKED):
            some = await runtime.read(find_closings, ids[start : start + MOST_ASKED])
            found.update({(key, closing.run_id): closing for closing in some})
    return [found.get((id(handle.runtime), run_id)) for handle, run_id in runs]
