"""Cancellation: types of activities and children, shields, and what arrives together with a cancel request."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest
from tests.engine import family, programs
from tests.engine.conftest import MakeEnvironment
from tests.engine.histories import types_of

from outlast import workflow
from outlast.testing import TestEnvironment
from outlast_workflow.errors import (
    ActivityError,
    ApplicationError,
    WorkflowCancelledError,
    WorkflowFailedError,
    WorkflowTerminatedError,
)


@workflow.defn
async def says_why() -> str:
    try:
        await workflow.sleep(60)
    except asyncio.CancelledError as error:
        return str(error)
    return "it was not cancelled"


@workflow.defn
def says_why_in_plain_code() -> str:
    try:
        workflow.blocking.sleep(60)
    except asyncio.CancelledError as error:
        return str(error)
    return "it was not cancelled"


@pytest.mark.parametrize("code", [says_why, says_why_in_plain_code])
@pytest.mark.parametrize("reason", ["changed my mind", None])
async def test_the_code_learns_the_reason(code: Any, reason: str | None) -> None:
    async with TestEnvironment(workflows=[code], max_cached_workflows=0, replay=True) as env:
        handle = await env.client.start(code, id="w")
        await env.sleep(5)
        await handle.cancel(reason)
        assert await handle.result() == (reason or "")


# --- activities -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["try", "wait", "abandon"])
async def test_a_running_activity(families: MakeEnvironment, kind: str) -> None:
    async with families() as env:
        handle = await env.client.start(family.waits_for_its_activity, kind, id="w")
        await env.sleep(5)
        await handle.cancel()
        with pytest.raises(WorkflowCancelledError):
            await handle.result()
        await env.sleep(1)
        assert programs.calls["went on"] >= 1
        assert programs.calls["wait_long"] == 1
        types = await types_of(env.client, "w")
        assert ("ActivityCancelRequested" in types) == (kind != "abandon")
        if kind == "wait":  # the end of the activity is applied, and leads to that of the run
            assert types.index("ActivityCancelled") < types.index("WorkflowCancelled")
            assert programs.calls["wait_long cancelled"] == 1


async def test_cleanup_that_fails_fails_the_workflow_that_waits_for_it(families: MakeEnvironment) -> None:
    async with families() as env:
        handle = await env.client.start(family.leaves_a_mess, "wait", id="w")
        await env.sleep(5)
        await handle.cancel()
        with pytest.raises(WorkflowFailedError) as caught:
            await handle.result()
        error = caught.value.__cause__
        assert isinstance(error, ActivityError)
        assert error.retry_state == "cancel_requested"
        assert isinstance(error.__cause__, ApplicationError)
        assert (error.__cause__.type, str(error.__cause__)) == (
            "ConnectionError",
            "ConnectionError: the booking is still there",
        )
        assert programs.calls["cannot_undo"] == 1, "it is not retried"


async def test_cleanup_that_fails_after_its_workflow_has_ended_is_seen(
    families: MakeEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    async with families() as env:
        handle = await env.client.start(family.leaves_a_mess, "try", id="w")
        await env.sleep(5)
        await handle.cancel()
        with pytest.raises(WorkflowCancelledError):
            await handle.result()
        ended = await types_of(env.client, "w")
        assert programs.calls["cannot_undo"] == 0, "it cleans up"
        with caplog.at_level(logging.WARNING, "outlast.failures"):
            await env.sleep(10)
        assert programs.calls["cannot_undo"] == 1
        assert await types_of(env.client, "w") == ended, "nothing is written after the end"
        [failure] = [
            one for one in (await handle.describe()).failures if one.exception_class == "ConnectionError"
        ]
        assert failure.message == "the booking is still there"
        [record] = [one for one in caplog.records if "after it was asked to stop" in one.getMessage()]
        assert record.levelno == logging.WARNING
        assert "activity cannot_undo (1) of workflow w " in record.getMessage()


@pytest.mark.parametrize(
    ("kind", "result", "end"),
    [
        ("try", ["went on"], "ActivityCancelled"),
        (
            "wait",
            ["failed", "cancel_requested", "ConnectionError: the booking is still there"],
            "ActivityFailed",
        ),
    ],
)
async def test_code_that_cancels_an_activity_and_goes_on(
    families: MakeEnvironment, kind: str, result: list[str], end: str
) -> None:
    async with families() as env:
        handle = await env.client.start(family.gives_up, kind, id="w")
        assert await handle.result() == result
        types = await types_of(env.client, "w")
        assert [name for name in types if name in ("ActivityCancelled", "ActivityFailed")] == [end]
        assert programs.calls["cannot_undo"] == 1
        messages = [one.message for one in (await handle.describe()).failures]
        assert messages == ["the booking is still there"]


async def test_an_activity_that_nobody_runs_is_waited_for_no_longer(families: MakeEnvironment) -> None:
    async with families(activities=()) as env:
        handle = await env.client.start(family.waits_for_its_activity, "wait", id="w")
        await env.sleep(5)
        await handle.cancel()
        with pytest.raises(WorkflowCancelledError):
            await handle.result()
        types = await types_of(env.client, "w")
        assert types[-4:] == [
            "ActivityCancelRequested",
            "ActivityCancelled",
            "WorkflowTaskCompleted",
            "WorkflowCancelled",
        ]


# --- children -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["try", "wait", "abandon"])
async def test_a_parent_that_is_cancelled(families: MakeEnvironment, kind: str) -> None:
    async with families() as env:
        handle = await env.client.start(family.cancelled_parent, kind, "abandon", id="parent")
        await env.sleep(5)
        began = env.now()
        await handle.cancel("enough")
        with pytest.raises(WorkflowCancelledError, match="enough"):
            await handle.result()
        waited = env.now() - began
        assert (waited >= timedelta(seconds=7)) == (kind == "wait")
        child = env.client.handle("child")
        if kind == "abandon":
            await env.sleep(20)
            assert (await child.describe()).run.cancel_requested_at is None
            await child.terminate()
        else:
            with pytest.raises(WorkflowCancelledError, match="its parent parent asked for it"):
                await child.result()
            assert programs.calls["child cleaned up"] == 1


async def test_by_default_a_child_may_clean_up_before_its_parents_end_terminates_it(
    families: MakeEnvironment,
) -> None:
    async with families() as env:
        for kind, error in (("wait", WorkflowCancelledError), ("try", WorkflowTerminatedError)):
            handle = await env.client.start(family.cancelled_parent, kind, "terminate", id=f"parent-{kind}")
            await env.sleep(5)
            await handle.cancel()
            with pytest.raises(WorkflowCancelledError):
                await handle.result()
            with pytest.raises(error):
                await env.client.handle("child").result()
        assert programs.calls["child cleaned up"] == 1


async def test_a_child_that_does_not_give_way_is_waited_for(families: MakeEnvironment) -> None:
    async with families() as env:
        handle = await env.client.start(family.cancelled_parent_of_a_stubborn_child, id="parent")
        await env.sleep(5)
        await handle.cancel()
        assert await handle.result() == "done all the same"


async def test_a_child_that_is_given_up_at_once_is_never_started(families: MakeEnvironment) -> None:
    async with families() as env:
        assert await env.client.execute(family.gives_up_before, id="parent") == [0, True]
        assert "ChildWorkflowScheduled" not in await types_of(env.client, "parent")


@pytest.mark.parametrize(("kind", "waited"), [("wait", 7), ("try", 0), ("abandon", 0)])
async def test_a_parent_that_gives_up_a_child(families: MakeEnvironment, kind: str, waited: float) -> None:
    async with families() as env:
        handle = await env.client.start(family.gives_up_a_child, kind, id="parent")
        assert await handle.result() == [waited, True]
        types = await types_of(env.client, "parent")
        assert types.count("ChildWorkflowCancelRequested") == (0 if kind == "abandon" else 1)


async def test_a_timeout_around_a_child_asks_it_to_cancel(families: MakeEnvironment) -> None:
    async with families() as env:
        assert await env.client.execute(family.timed_out_of_waiting, id="parent") == [10]
        assert programs.calls["child cleaned up"] == 1


async def test_a_cancel_reaches_the_latest_run_of_a_childs_chain(families: MakeEnvironment) -> None:
    async with families() as env:
        handle = await env.client.start("waits_for_a_chain", id="parent")
        await env.sleep(25)
        await handle.cancel()
        with pytest.raises(WorkflowCancelledError):
            await handle.result()
        description = await env.client.describe("chain")
        assert (description.run_count, description.run.status) == (3, "cancelled")


# --- shields --------------------------------------------------------------------------------------------------------


async def test_a_shield_lets_work_end_and_then_lets_the_cancel_through(families: MakeEnvironment) -> None:
    async with families() as env:
        assert await env.client.execute(family.shields, 20.0) == ["inner timeout", "middle"]
        handle = await env.client.start(family.shields, 20.0, id="w")
        await env.sleep(5)
        await handle.cancel()
        assert await handle.result() == ["inner timeout", "cancelled after"]
        assert programs.calls["middle done"] == 2
        assert programs.calls["cleanup"] == 1


async def test_asyncios_own_shield_works_too(families: MakeEnvironment) -> None:
    async with families() as env:
        handle = await env.client.start(family.shields_as_asyncio_does, 20.0, id="w")
        await env.sleep(5)
        await handle.cancel()
        assert await handle.result() == ["cancelled at once", "waited"]
        assert programs.calls["wait_long cancelled"] == 0


async def test_a_failure_under_a_shield_goes_before_the_cancel(families: MakeEnvironment) -> None:
    async with families() as env:
        handle = await env.client.start(family.shields_a_failure, id="w")
        await env.sleep(5)
        await handle.cancel()
        with pytest.raises(WorkflowFailedError) as caught:
            await handle.result()
        assert isinstance(caught.value.__cause__, ApplicationError)
        assert caught.value.__cause__.type == "Cleanup"


# --- arriving together ----------------------------------------------------------------------------------------------


async def test_a_result_that_arrived_before_the_cancel_counts(families: MakeEnvironment) -> None:
    async with families(workflows=(), activities=()) as env:
        handle = await env.client.start("whichever_came_first", 10.0, id="w")
        async with env.new_worker(workflows=family.WORKFLOWS):
            await env.settle()
        async with env.new_worker(activities=programs.ACTIVITIES):
            await env.sleep(5)
        await handle.cancel()  # both wait for a worker now, in this order
        async with env.new_worker(workflows=family.WORKFLOWS):
            with pytest.raises(WorkflowCancelledError):
                await handle.result()
        types = await types_of(env.client, "w")
        assert types.index("ActivityCompleted") < types.index("WorkflowCancelRequested")
        assert "ActivityCancelRequested" not in types
        assert "TimerCancelled" in types or "TimerScheduled" not in types
