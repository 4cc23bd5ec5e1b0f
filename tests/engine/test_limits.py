"""How long a history may grow: the warning, the end, and the hint that comes long before."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment
from tests.engine.programs import echo

from holdfast import StructuralLimitError, StructuralLimits, WorkflowFailedError, workflow


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
    caplog.set_level(logging.WARNING, "holdfast.limits")
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
