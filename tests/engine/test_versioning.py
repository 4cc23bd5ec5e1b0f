"""Side effects, patches and memo: recorded once, the same on every replay, clear when code and history differ."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from tests.engine import programs
from tests.engine.conftest import MakeEnvironment
from tests.engine.programs import add, multiply
from tests.workflow.driver import BOUNDED, CONVERTER

from outlast import workflow
from outlast_workflow.declare.definitions import WorkflowDefinition, definition_of
from outlast_workflow.errors import NonDeterminismError, WorkflowFailedError
from outlast_workflow.history.events import REGISTRY
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import replay

# A second worker would go on with the code that the tests replace.
pytestmark = pytest.mark.usefixtures("one_worker")

numbers = itertools.count(1)


def next_number() -> int:
    return next(numbers)


@workflow.defn
async def with_side_effects() -> list[Any]:
    first = workflow.side_effect(next_number)
    await add(1, 1)
    pair = workflow.side_effect(lambda: (first, "x"))
    await asyncio.sleep(10)
    return [first, pair, workflow.side_effect(lambda: 2.5, result_type=float)]


@workflow.defn
async def with_a_bad_side_effect(kind: str) -> str:
    def fails() -> None:
        raise ValueError("secret")

    async def waits() -> None:
        return None

    def calls() -> None:
        _ = workflow.start_activity(add, 1, 1)

    workflow.side_effect({"fails": fails, "waits": waits, "calls": calls}[kind])
    return "never"


@workflow.defn
async def with_memo() -> list[Any]:
    workflow.upsert_memo({"step": 1, "gone": True})
    before = workflow.info().memo
    await add(1, 1)
    workflow.upsert_memo({"step": 2, "gone": None, "pair": (1, 2)})
    if workflow.info().run_number == 1:
        workflow.continue_as_new()
    return [before, workflow.info().memo]


async def test_a_side_effect_is_computed_once(engine: MakeEnvironment) -> None:
    async with engine(workflows=[with_side_effects]) as env:
        before = next_number()
        first, pair, last = await env.client.execute(with_side_effects, id="w")
        assert (first, pair, last) == (before + 1, [first, "x"], 2.5)
        assert next_number() == first + 1
        types = [event.type async for event in env.client.handle("w").history()]
        assert types.count("SideEffectRecorded") == 3


@pytest.mark.parametrize(
    ("kind", "words"),
    [("fails", "raised ValueError"), ("waits", "plain function"), ("calls", "durable call")],
)
async def test_a_bad_side_effect_fails_the_task(in_memory: MakeEnvironment, kind: str, words: str) -> None:
    async with in_memory(workflows=[with_a_bad_side_effect]) as env:
        handle = await env.client.start(with_a_bad_side_effect, kind, id="w")
        await env.sleep(10)
        failures = [event.payload async for event in handle.history() if event.type == "WorkflowTaskFailed"]
        assert words in failures[0]["failure"]["message"]
        assert "secret" not in failures[0]["failure"]["message"]
        await handle.terminate()


async def test_memo_fields_are_seen_by_describe_and_carried_on(engine: MakeEnvironment) -> None:
    async with engine(workflows=[with_memo]) as env:
        before, after = await env.client.execute(with_memo, id="w")
        assert before == {"step": 1, "gone": True, "pair": [1, 2]}
        assert after == {"step": 2, "pair": [1, 2]}
        assert (await env.client.describe("w")).run.memo == after


async def test_a_memo_over_its_limit_fails_the_run(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=[with_memo], limits=StructuralLimits(memo_bytes=10)) as env:
        with pytest.raises(WorkflowFailedError, match="failed"):
            await env.client.execute(with_memo)


# --- patches --------------------------------------------------------------------------------------------------------


async def old() -> int:
    await asyncio.sleep(10)
    one = await add(1, 1)
    await asyncio.sleep(10)
    return one


async def new() -> int:
    await asyncio.sleep(10)
    one = await multiply(2, 3) if workflow.patched("multiply") else await add(1, 1)
    await asyncio.sleep(10)
    assert workflow.patched("multiply") == (one == 6)
    return one


async def newer() -> int:
    await asyncio.sleep(10)
    workflow.deprecate_patch("multiply")
    one = await multiply(2, 3)
    await asyncio.sleep(10)
    return one


async def newest() -> int:
    await asyncio.sleep(10)
    one = await multiply(2, 3)
    await asyncio.sleep(10)
    return one


def version(fn: Any) -> WorkflowDefinition:
    """A version of one workflow's code."""
    known = definition_of(workflow.defn(name="Versioned")(fn))
    return known


async def run_across(engine: MakeEnvironment, first: Any, then: Any, switch_at: float) -> tuple[Any, Any]:
    """Start on one version of the code, go on with another, in a worker of its own."""
    async with engine(workflows=(), activities=programs.ACTIVITIES) as env:
        handle = await env.client.start("Versioned", id="w")
        async with env.new_worker(workflows=[version(first)]):
            await env.sleep(switch_at)
        async with env.new_worker(workflows=[version(then)]):
            result = await handle.result()
        return result, [(e.seq, e.type, e.payload) async for e in handle.history()]


@pytest.mark.parametrize(
    ("first", "then", "switch_at", "result", "markers"),
    [
        (old, new, 5, 6, 1),  # it had not come to the patch: the new way
        (old, new, 15, 2, 0),  # it had passed it: the old way, to its end
        (new, newer, 15, 6, 1),  # recorded by the patch, read by what deprecates it
        (newer, newest, 15, 6, 1),  # a deprecated patch may go from the code
        (newer, new, 15, 6, 1),  # … and come back
    ],
)
async def test_a_run_across_a_deploy(
    engine: MakeEnvironment, first: Any, then: Any, switch_at: float, result: int, markers: int
) -> None:
    found, history = await run_across(engine, first, then, switch_at)
    assert found == result
    assert [kind for _, kind, _ in history].count("VersionMarkerRecorded") == markers


def replayed(fn: Any, history: list[Any]) -> None:
    machine = WorkflowMachine(
        version(fn), "run", converter=CONVERTER, limits=StructuralLimits(), default_activity_options=BOUNDED
    )
    try:
        replay(
            machine, [(seq, kind, REGISTRY[kind].from_document(doc).to_json()) for seq, kind, doc in history]
        )
    finally:
        machine.evict()


async def test_a_patch_that_is_gone_too_early_is_told(in_memory: MakeEnvironment) -> None:
    _, history = await run_across(in_memory, new, new, 15)
    replayed(new, history)
    with pytest.raises(NonDeterminismError, match="VersionMarkerRecorded multiply"):
        replayed(newest, history)


async def test_a_side_effect_that_history_does_not_have_is_told(in_memory: MakeEnvironment) -> None:
    async def with_another() -> int:
        await asyncio.sleep(10)
        workflow.side_effect(next_number)
        return 1

    _, history = await run_across(in_memory, old, old, 15)
    with pytest.raises(NonDeterminismError, match="the code asks for SideEffectRecorded #2"):
        replayed(with_another, history)


async def test_another_python_is_named_as_a_possible_cause(in_memory: MakeEnvironment) -> None:
    _, history = await run_across(in_memory, new, new, 15)
    for _, kind, document in history:
        if kind == "WorkflowTaskCompleted":
            document.update(python=99, flags=["fast_gather"])
    replayed(new, history)
    with pytest.raises(NonDeterminismError) as caught:
        replayed(newest, history)
    assert "Python 3.99" in str(caught.value)
    assert "fast_gather" in str(caught.value)
    assert len(caught.value.notes) == 2
