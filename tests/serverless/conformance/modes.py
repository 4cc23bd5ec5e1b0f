"""The modes of the kit: each story must come out the same in all of them.

* **plain**: one worker, which keeps its runs.
* **replayed**: it keeps none, so each workflow task begins with a replay of its run's history.
* **continued**: it continues as new at every safe point.
* **killed**: its process dies after each commit that writes history, and another takes its place at once.
* **every commit**, at night: it dies once, just before or just after commit k, or the commit's answer is lost; for
  every k.

When a stage ends, its database is looked at: the invariants hold, and every history leads to the very same commands
from each of its prefixes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar
from unittest.mock import patch

from tests.serverless.conformance.loop import KitLoop
from tests.serverless.conformance.stage import CACHED, Fate, Kept, Moment, Stage, calm
from tests.serverless.conformance.story import Outcome, Story

from outlast import StructuralLimits
from outlast.testing import Replayer, check_database
from outlast.testing.prefix_replay import check_every_prefix
from outlast.testing.replayer import ReplayedRun
from outlast_serverless.interpreter import pace
from outlast_store.database.sql_text import fetch
from outlast_store.journal.batch import Committed
from outlast_store.reads.histories import read_history
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.declare.definitions import definition_for, definition_of
from outlast_workflow.run.machine import WorkflowMachine

T = TypeVar("T")
MOST_EVENTS_BY_PREFIX: Final = 60
MOMENTS: Final[tuple[Moment, ...]] = ("before", "lost", "after")


def never(number: int, moment: Moment, committed: Committed | None) -> bool:
    """Let nothing happen, and count."""
    return False


def after_history(number: int, moment: Moment, committed: Committed | None) -> bool:
    """Die after each commit that writes history."""
    return moment == "after" and committed is not None and bool(committed.events)


def once(at: int, how: Moment) -> Fate:
    """Return the fate of one commit."""

    def fate(number: int, moment: Moment, committed: Committed | None) -> bool:
        return number == at and moment == how

    return fate


class Modes:
    """See the module.

    Args:
        runner: Runs the loop.
        new_url: Makes databases.
        server: The URL of the server that plays all hosts.
        long: Whether stories take days, so that nobody looks for anything that he was not told of.
        most: Whether stories are played in the modes ``continued`` and ``killed``, too.
    """

    def __init__(
        self,
        runner: asyncio.Runner,
        new_url: Callable[[], str],
        server: str,
        *,
        most: bool = True,
        long: bool = False,
    ) -> None:
        self._runner = runner
        self._new_url = new_url
        self._server = server
        self._most = most
        self._long = long
        self._evaluator = Kept()
        self._stages: dict[str, Stage] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in virtual time."""
        with calm(self._evaluator, long=self._long):
            return self._runner.run(work)

    def _stage(self, name: str) -> Stage:
        """Return the stage of those who live, or of those who die: each has a database of its own."""
        if name not in self._stages:
            loop = self._runner.get_loop()
            assert isinstance(loop, KitLoop)
            self._stages[name] = stage = Stage(self._new_url(), loop, self._server)
            self.run(stage.__aenter__())
        return self._stages[name]

    def play(self, story: Story) -> dict[str, Outcome]:
        """Play a story in each mode; return what came of it in each."""
        found = {queue: self.run(_played(story, self._stage("living"), None, queue)) for queue in CACHED}
        if self._most and story.continues:
            with patch.object(pace, "TASKS_A_RUN", 1):
                found["continued"] = self.run(_played(story, self._stage("continuing"), None))
        if self._most:
            found["killed"] = self.run(_played(story, self._stage("dying"), after_history))
        compare(found)
        return found

    def play_at_every_commit(self, story: Story) -> dict[str, Outcome]:
        """Play a story once for each commit and moment; return what came of it each time."""
        stage = self._stage("dying")
        found = {"plain": self.run(_played(story, stage, never))}
        commits, before = stage.commits, stage.deaths + stage.lost
        for number in range(1, commits + 1):
            for moment in MOMENTS:
                found[f"{moment} commit {number}"] = self.run(_played(story, stage, once(number, moment)))
        assert commits or not story.workers, "a worker has written nothing"
        # What is written last may come too late for the story.
        happened = stage.deaths + stage.lost - before
        assert happened > len(MOMENTS) * commits / 2 or not commits, (
            f"of {commits} commits only {happened} were disturbed"
        )
        compare(found)
        return found

    def close(self) -> list[str]:
        """End the stages; return what is wrong with what they leave."""
        found: list[str] = []
        for name, stage in self._stages.items():
            with patch.object(pace, "TASKS_A_RUN", 1 if name == "continuing" else pace.TASKS_A_RUN):
                found += self.run(_judged(stage))
        self._evaluator.end()
        return found


def compare(found: dict[str, Outcome]) -> None:
    """Compare what came of a story in each mode with what came of it in the first.

    Raises:
        AssertionError: It is not the same.
    """
    plain = next(iter(found.values()))
    for mode, outcome in found.items():
        assert outcome.comparable == plain.comparable, f"{mode}: {outcome}, but plain: {plain}"


async def _played(story: Story, stage: Stage, fate: Fate | None, queue: str = "plain") -> Outcome:
    await stage.somebody(fate)
    return await story.play(stage, queue)


async def _judged(stage: Stage) -> list[str]:
    """End a stage. Its database holds the invariants, and its histories lead to the same commands again."""
    await stage.nobody()
    database = stage.client.runtime.database
    found: list[str] = []
    definitions = {one.name: one for one in map(definition_of, stage.runtime.workflows)}
    with database.reader() as connection:
        found += check_database(connection)
        shapes: set[tuple[str, ...]] = set()
        runs = fetch(connection, "SELECT run_id, workflow_type FROM workflow_runs")
        for run_id, kind in runs:
            rows = read_history(connection, run_id)
            shape = (kind, *(str(row[1]) for row in rows), str(len(rows[0][2])))
            if shape in shapes:
                continue
            shapes.add(shape)
            definition = definition_for(definitions, kind)
            assert definition is not None, kind
            make = partial(
                WorkflowMachine, definition, run_id, converter=DataConverter(), limits=StructuralLimits()
            )
            if len(rows) <= MOST_EVENTS_BY_PREFIX:
                found += [f"run {run_id} of {kind}: {what}" for what in check_every_prefix(make, rows)]
    found += [f"run {one.run_id}: {one.error!r}" for one in await replayed(stage)]
    await stage.__aexit__()
    return found


async def replayed(stage: Stage) -> list[ReplayedRun]:
    """Replay every run of a stage as ``outlast replay`` does; return those that fail."""
    report = await Replayer(stage.runtime.workflows).replay_all(stage.client)
    return report.failed
