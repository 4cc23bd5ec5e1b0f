"""The tracer: it tells which tasks of a workflow have run, from the histories of the runs of its chain."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import orjson

from outlast.client.workflows.run_rows import row_of
from outlast.histories.following import Following
from outlast.runtime.runtime import Runtime
from outlast_serverless.interpreter.request import TYPE_PREFIX
from outlast_serverless.jq import Evaluator
from outlast_serverless.tracing.run_replay import RunReplay
from outlast_serverless.tracing.steps import MOST_STEPS, MOST_WITH_DATA, Steps, TaskStep, told
from outlast_store.reads.export_format import chain
from outlast_store.reads.histories import find_event
from outlast_store.reads.runs import find_run
from outlast_store.schema.rows import RunRow
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import InvalidOptionError

_ROWS_AT_ONCE: Final = 16
"""A workflow task of a document may be a thousand tasks, so others have their turn soon."""


class StepsReplay(RunReplay):
    """A replay that collects steps."""

    def __init__(self, run: RunRow, converter: DataConverter, evaluator: Evaluator, steps: Steps) -> None:
        super().__init__(run.run_id, run.workflow_type, converter, evaluator, steps)
        self.steps = steps
        steps.clock = lambda: self.now


@dataclass(frozen=True, slots=True)
class TracePage:
    """Some steps of a trace.

    Attributes:
        steps: The steps, in the order in which they began.
        cursor: What the next page is asked for with; ``None`` if there is nothing more now.
    """

    steps: tuple[TaskStep, ...]
    cursor: str | None


class Tracer:
    """Tells which tasks have run.

    Args:
        runtime: The database.
        converter: Decodes payloads.
    """

    def __init__(self, runtime: Runtime, converter: DataConverter) -> None:
        self._runtime = runtime
        self._converter = converter
        self._shared = _shared_by(runtime)

    async def page(
        self, workflow_id: str, run_id: str, cursor: str | None, most: int, *, data: bool
    ) -> TracePage:
        """Return some steps of a workflow, through all runs of its chain.

        Args:
            workflow_id: The workflow.
            run_id: A run of its chain.
            cursor: The cursor of the page before; ``None`` for the first one.
            most: How many steps are told at most.
            data: Whether inputs and outputs are told.

        Raises:
            InvalidOptionError: It is not a run of a document, or there is no such cursor.
            UntraceableRunError: A history cannot be replayed here.
        """
        with self._shared.looking():
            return await self._page(workflow_id, run_id, cursor, most, data=data)

    async def steps(self, workflow_id: str, run_id: str, *, data: bool) -> AsyncGenerator[TaskStep]:
        """Yield the steps of a workflow. The arguments and errors are those of :meth:`page`."""
        most = MOST_WITH_DATA if data else MOST_STEPS
        cursor: str | None = None
        with self._shared.looking():
            while True:
                page = await self._page(workflow_id, run_id, cursor, most, data=data)
                for step in page.steps:
                    yield step
                cursor = page.cursor
                if cursor is None:
                    return

    async def held(self, run_id: str) -> list[TaskStep]:
        """Return the tasks that a suspension holds back in a run. ``began`` is since when.

        Args:
            run_id: The run.

        Raises:
            UntraceableRunError: Its history cannot be replayed here.
        """
        run = await self._runtime.read(find_run, run_id)
        if run is None:
            return []
        with self._shared.looking():
            replay = await self._replayed(run, 0, MOST_STEPS, data=False)
        return [told(step, run) for step in replay.steps.held.values()]

    async def _page(
        self, workflow_id: str, run_id: str, cursor: str | None, most: int, *, data: bool
    ) -> TracePage:
        runs = await _runs(self._runtime, run_id)
        index, after = (0, 0) if cursor is None else _parsed(cursor, runs)
        found: list[TaskStep] = []
        while index < len(runs):
            if len(found) >= most:
                return TracePage(tuple(found), f"{runs[index]}:0")
            run = await row_of(self._runtime, workflow_id, runs[index])
            _check(run)
            steps, more = await self._steps(run, after, most - len(found), data=data)
            found += steps
            if more:
                return TracePage(tuple(found), f"{found[-1].run_id}:{found[-1].number}")
            index, after = index + 1, 0
        return TracePage(tuple(found), None)

    async def _steps(self, run: RunRow, after: int, most: int, *, data: bool) -> tuple[list[TaskStep], bool]:
        """Return steps of one run, and whether there are more."""
        window = MOST_WITH_DATA if data else MOST_STEPS
        # The windows of all readers are the same ones, so that a kept replay serves more than one page.
        first = after - after % window
        steps = (await self._replayed(run, first, window, data=data)).steps
        kept = steps.kept[after - first : after - first + most]
        return [told(step, run) for step in kept], steps.count > after + len(kept)

    async def _replayed(self, run: RunRow, first: int, most: int, *, data: bool) -> StepsReplay:
        # Who has another key must not see what this one has opened.
        key = (run.run_id, id(self._converter.codec), first, data)
        shared = self._shared

        def make() -> StepsReplay:
            return StepsReplay(run, self._converter, shared.evaluator, Steps(first, most, data=data))

        return await shared.following.of(key, run.run_id, make)


async def _runs(runtime: Runtime, run_id: str) -> list[str]:
    """Return the runs of a chain whose tasks are told: a reset's history has those of the run before it."""
    runs = await runtime.read(chain, run_id) or [run_id]
    for index in range(len(runs) - 1, 0, -1):
        started = await runtime.read(find_event, runs[index], 1)
        if started is not None and orjson.loads(started[1]).get("reset") is not None:
            return runs[index:]
    return runs


def _parsed(cursor: str, runs: list[str]) -> tuple[int, int]:
    run_id, _, number = cursor.rpartition(":")
    if run_id not in runs or not number.isdecimal() or len(number) > 18:
        raise InvalidOptionError(
            "there is no such cursor: take the one of the page before, of the same workflow", field="cursor"
        )
    return runs.index(run_id), int(number)


def _check(run: RunRow) -> None:
    if not run.workflow_type.startswith(TYPE_PREFIX):
        raise InvalidOptionError(
            f"workflow {run.workflow_id!r} is no run of a document: `outlast history` shows what it has done",
            field="workflow_id",
        )


class _Shared:
    """What all tracers of a database share: replays that go on, and a helper for expressions while somebody looks."""

    def __init__(self, runtime: Runtime) -> None:
        self.following: Following[StepsReplay] = Following(runtime, rows_at_once=_ROWS_AT_ONCE)
        self.evaluator = Evaluator()
        self._looking = 0

    @contextmanager
    def looking(self) -> Generator[None]:
        self._looking += 1
        try:
            yield
        finally:
            self._looking -= 1
            if not self._looking:
                self.evaluator.close()


_SHARED: WeakKeyDictionary[Runtime, _Shared] = WeakKeyDictionary()


def _shared_by(runtime: Runtime) -> _Shared:
    found = _SHARED.get(runtime)
    if found is None:
        found = _SHARED[runtime] = _Shared(runtime)
    return found
