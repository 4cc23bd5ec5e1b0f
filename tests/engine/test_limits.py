"""Structural limits end to end: for each the warning at 80 %, and what is refused; how long a history may grow."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment
from tests.engine.programs import echo

from outlast import StructuralLimitError, StructuralLimits, WorkflowFailedError, workflow


@workflow.defn
class Greedy:
    """Asks for more and more of one thing; signals and updates for it are left alone."""

    @workflow.run
    async def run(self, kind: str, most: int) -> None:
        pending: list[asyncio.Future[Any]] = []
        for number in range(1, most + 1):
            if kind == "pending_activities":
                pending.append(
                    asyncio.ensure_future(
                        workflow.execute_activity("nobody", task_queue="none", start_to_close_timeout=1)
                    )
                )
            elif kind == "pending_timers":
                pending.append(asyncio.ensure_future(asyncio.sleep(1000)))
            elif kind == "open_children":
                _ = workflow.start_child("Greedy", "waits", 0, id=f"{workflow.info().workflow_id}-{number}")
            elif kind == "commands_per_workflow_task":
                workflow.side_effect(lambda: 1)
            elif kind == "memo_bytes":
                workflow.upsert_memo({"text": "x" * 10 * number})
            elif kind == "search_attributes_bytes":
                workflow.upsert_search_attributes({"Text": "x" * 10 * number})
            elif kind == "payload_bytes":
                workflow.side_effect(partial("x".__mul__, 10 * number))
            await asyncio.sleep(0)
        await workflow.wait_condition(lambda: False)

    @workflow.update
    async def answer(self) -> None:
        await workflow.wait_condition(lambda: False)


ALL_SMALL = StructuralLimits(
    payload_bytes=200,
    memo_bytes=150,
    search_attributes_bytes=150,
    pending_activities=5,
    pending_timers=6,
    commands_per_workflow_task=30,
    open_children=5,
    unhandled_signals=5,
    open_updates=5,
)


def warned_of(caplog: pytest.LogCaptureFixture, whose: str, kind: str) -> list[str]:
    start = f"{whose}: {kind.replace('_', ' ')} at "
    return [text for text in (record.getMessage() for record in caplog.records) if text.startswith(start)]


async def test_each_limit_of_a_run_is_warned_of_and_then_fails_the_run(
    engine: MakeEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "outlast.limits")
    async with engine(workflows=[Greedy], limits=ALL_SMALL) as env:
        for kind in (
            "pending_activities",
            "pending_timers",
            "open_children",
            "commands_per_workflow_task",
            "memo_bytes",
            "search_attributes_bytes",
            "payload_bytes",
        ):
            handle = await env.client.start(Greedy.run, kind, 100, id=kind)
            with pytest.raises(WorkflowFailedError) as failed:
                await handle.result()
            cause = failed.value.__cause__
            assert isinstance(cause, StructuralLimitError), kind
            assert (cause.kind, cause.limit) == (kind, getattr(ALL_SMALL, kind))
            assert f"{kind.replace('_', ' ')} limit exceeded: {cause.value} > {cause.limit}: " in str(cause)
            assert warned_of(caplog, kind, kind), kind
            (failure, *_) = (await handle.describe()).failures
            assert failure.failure_category == "structural_limit"


async def test_signals_and_updates_over_their_limit_are_warned_of_and_then_refused_alone(
    engine: MakeEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "outlast.limits")
    async with engine(workflows=[Greedy], limits=ALL_SMALL) as env:
        handle = await env.client.start(Greedy.run, "nothing", 0, id="g")
        for number in range(5):
            assert len(warned_of(caplog, "g", "unhandled_signals")) == max(0, number - 3)
            await handle.signal("later", number)
            await handle.start_update(Greedy.answer)
            await env.settle()
        for kind in ("unhandled_signals", "open_updates"):
            warnings = warned_of(caplog, "g", kind)
            assert [text.split(" at ")[1].split(":")[0] for text in warnings] == ["4 of 5", "5 of 5"]
            assert "let the workflow" in warnings[0]
        with pytest.raises(
            StructuralLimitError, match="unhandled signals limit exceeded: 6 > 5: let the work"
        ):
            await handle.signal("later", 5)
        with pytest.raises(
            StructuralLimitError, match="open updates limit exceeded: 6 > 5: let the workflow"
        ):
            await handle.start_update(Greedy.answer)
        assert (await handle.describe()).run.status == "running"


@workflow.defn
async def grows(rounds: int, size: int) -> int:
    for _ in range(rounds):
        await echo("x" * size)
    return rounds


@workflow.defn
async def takes_the_hint(rounds: int, runs: int = 1) -> int:
    while rounds:
        await echo("x" * 100)
        rounds -= 1
        if rounds and workflow.info().continue_as_new_suggested:
            workflow.continue_as_new(rounds, runs + 1)
    return runs


PROGRAMS: dict[str, Any] = {"workflows": [grows, takes_the_hint], "activities": [echo]}


@pytest.mark.parametrize(
    ("limits", "kind"),
    [
        (StructuralLimits(history_events=50), "history_events"),
        (StructuralLimits(history_bytes=10_000), "history_bytes"),
    ],
    ids=["events", "bytes"],
)
async def test_a_history_over_its_limit_fails_the_run_after_a_warning(
    engine: MakeEnvironment, limits: StructuralLimits, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "outlast.limits")
    async with engine(**PROGRAMS, limits=limits) as env:
        handle = await env.client.start(grows, 100, 300, id="grows")
        with pytest.raises(WorkflowFailedError) as failed:
            await handle.result()
        cause = failed.value.__cause__
        assert isinstance(cause, StructuralLimitError)
        assert (cause.kind, cause.limit) == (kind, getattr(limits, kind))
        assert cause.value > cause.limit
        assert "call workflow.continue_as_new() earlier" in str(cause)
        described = (await handle.describe()).run
        assert described.status == "failed"
    words = kind.replace("_", " ")
    assert any(f"grows: {words} at" in record.getMessage() for record in caplog.records)


async def test_a_history_just_under_its_limit_is_fine(engine: MakeEnvironment) -> None:
    async with engine(**PROGRAMS, limits=StructuralLimits(history_events=40)) as env:
        assert await env.client.execute(grows, 10, 1, id="grows") == 10


@pytest.mark.parametrize(
    "limits",
    [StructuralLimits(continue_as_new_events=30), StructuralLimits(continue_as_new_bytes=4_000)],
    ids=["events", "bytes"],
)
async def test_a_workflow_that_takes_the_hint_stays_short(
    engine: MakeEnvironment, limits: StructuralLimits
) -> None:
    async with engine(**PROGRAMS, limits=limits) as env:
        handle = await env.client.start(takes_the_hint, 50, id="hint")
        assert await handle.result() >= 4
        described = (await handle.describe()).run
        assert described.run_number >= 4
        assert described.history_length < 60


async def test_nothing_is_suggested_where_it_is_switched_off(engine: MakeEnvironment) -> None:
    off = StructuralLimits(continue_as_new_events=0, continue_as_new_bytes=0)
    async with engine(**PROGRAMS, limits=off) as env:
        assert await env.client.execute(takes_the_hint, 30, id="hint") == 1
