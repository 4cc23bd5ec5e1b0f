"""What watches over the suite's own histories finds what it is there for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.engine import programs
from tests.recorded import Recorder, known_code

from outlast import workflow
from outlast.testing import TestEnvironment, VirtualLoop
from outlast.testing.prefix_replay import check_every_prefix
from outlast.worker.settings import WorkerSettings
from outlast_store.reads.histories import read_history
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.declare.definitions import definition_of
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import Row

NAMES = {"add", "echo", "note", "multiply", "flaky", "refuse", "resume", "wait_long"}
entered: list[int] = []


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


@workflow.defn
async def in_the_order_of_a_set() -> None:
    _ = [workflow.start_activity(name, start_to_close_timeout=1) for name in NAMES]  # outlast: allow


@workflow.defn
async def of_changing_mind() -> int:
    """Does in its third life what it did not do in the first two."""
    entered.append(1)
    await programs.add(1, 1)
    if len(entered) > 2:
        await asyncio.sleep(1)
    return 1


async def record(program: Any, *args: Any) -> tuple[list[Row], str]:
    async with TestEnvironment(workflows=[program], activities=programs.ACTIVITIES) as env:
        handle = await env.client.start(program, *args, id="w")
        await handle.result()
        assert handle.run_id is not None
        return await env.client.runtime.read(read_history, handle.run_id), handle.run_id


def machines(program: Any, run_id: str) -> Callable[[], WorkflowMachine]:
    return lambda: WorkflowMachine(
        definition_of(program), run_id, converter=DataConverter(), limits=StructuralLimits()
    )


async def test_the_order_of_a_set_is_found_by_another_hash_seed(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "listening", False)
    own = Recorder()
    settings = WorkerSettings("here", ["default"], DataConverter())
    definition = definition_of(in_the_order_of_a_set)
    async with TestEnvironment(workflows=[in_the_order_of_a_set]) as env:
        await env.client.execute(in_the_order_of_a_set, id="w")
        with env.client.runtime.database.reader() as connection:
            known = known_code([(settings, {definition.name: definition})])
            assert list(own.take(connection, known)) == []
    assert own.count == 1
    assert "in_the_order_of_a_set" in own.replay_elsewhere()
    own.close()


async def test_a_local_workflow_that_does_not_replay_is_found_at_once(
    invariants: list[str],
) -> None:
    lives: list[int] = []

    @workflow.defn
    async def fickle() -> None:
        lives.append(1)
        if len(lives) == 1:
            await asyncio.sleep(1)

    async with TestEnvironment(workflows=[fickle]) as env:
        await env.client.execute(fickle, id="w")
    (found,) = invariants
    assert "(fickle) does not replay" in found
    invariants.clear()


@pytest.mark.parametrize(
    ("program", "args"),
    [
        (programs.Sum.run, ([1, 2, 3],)),
        (programs.with_failing_group, ()),
        (programs.with_queue_and_lock, ()),
        (programs.with_as_completed, ()),
        (programs.deterministic_values, ()),
    ],
)
async def test_every_prefix_leads_to_the_same_commands(program: Any, args: tuple[Any, ...]) -> None:
    rows, run_id = await record(program, *args)
    assert check_every_prefix(machines(program, run_id), rows) == []


async def test_a_prefix_that_leads_elsewhere_is_found(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "listening", False)
    entered.clear()
    rows, run_id = await record(of_changing_mind)
    entered[:] = [1]
    found = check_every_prefix(machines(of_changing_mind, run_id), rows)
    assert found == [
        (
            "after a replay of 3 events, "
            "the workflow task of event 5 issues ['TimerScheduled'], not ['WorkflowCompleted']"
        )
    ]
