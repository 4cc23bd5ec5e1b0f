"""DAGs that stand in for failed steps, undo what was done, and end in time to do so."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine import sagas
from tests.engine.conftest import MakeEnvironment
from tests.engine.sagas import (
    ACTIVITIES,
    DAGS,
    by_signal,
    calls,
    charges,
    fallback,
    keeps,
    late,
    order,
    patient,
)

from outlast import RetryPolicy, RunStatus, StartOptions, WorkflowHandle
from outlast.errors import (
    DagFailedError,
    DagTimeoutError,
    WorkflowCancelledError,
    WorkflowFailedError,
    WorkflowTimeoutError,
)
from outlast_dag import NodeFailure, describe

OUTCOME = "outlast_dag_outcome"


@pytest.fixture(autouse=True)
def _afresh() -> None:
    calls.clear()
    sagas.broken.clear()


async def outcome(handle: WorkflowHandle[Any]) -> Any:
    return (await handle.describe()).run.search_attributes.get(OUTCOME)


async def failure_of(handle: WorkflowHandle[Any]) -> DagFailedError:
    with pytest.raises(WorkflowFailedError) as caught:
        await handle.result()
    failure = caught.value.__cause__
    assert isinstance(failure, DagFailedError)
    return failure


async def states(handle: WorkflowHandle[Any]) -> dict[str, str]:
    found = await describe(handle)
    assert found is not None
    return {node.id: node.state for node in found.nodes}


async def test_what_was_done_is_undone_the_latest_first(engine: MakeEnvironment) -> None:
    async with engine(workflows=DAGS, activities=ACTIVITIES) as env:
        fine = await env.client.start(order, "seat", 5)
        assert await fine.result() == "shipped p5"
        assert await outcome(fine) is None
        assert (await states(fine))["refund"] == "skipped"
        sagas.broken.add("ship")
        handle = await env.client.start(order, "seat", 7, id="o-7")
        failure = await failure_of(handle)
        assert (failure.nodes, failure.compensated, failure.uncompensated) == (
            ("ship",),
            ("charge", "book"),
            (),
        )
        assert calls[-3:] == [("ship", "p7"), ("refund", "p7"), ("unbook", "booked seat")]
        assert await outcome(handle) == "compensated"
        found = await states(handle)
        assert (found["charge"], found["ship"], found["refund"]) == ("compensated", "failed", "completed")
        assert [run.workflow_id async for run in env.client.list(where={OUTCOME: "compensated"})] == ["o-7"]


async def test_what_cannot_be_undone_is_told_and_the_others_go_on(engine: MakeEnvironment) -> None:
    async with engine(workflows=DAGS, activities=ACTIVITIES) as env:
        sagas.broken.update({"ship", "refund"})
        handle = await env.client.start(order, "seat", 7)
        failure = await failure_of(handle)
        assert (failure.compensated, failure.uncompensated) == (("book",), ("charge",))
        assert "undoing failed too, of charge" in str(failure)
        assert ("unbook", "booked seat") in calls
        assert await outcome(handle) == "compensation_failed"
        assert (await states(handle))["charge"] == "compensation_failed"


async def test_another_step_runs_in_the_place_of_one_that_failed(engine: MakeEnvironment) -> None:
    async with engine(workflows=DAGS, activities=ACTIVITIES) as env:
        sagas.broken.add("ship")
        handle = await env.client.start(fallback, 7)
        assert await handle.result() == "mailed: ship is down"
        assert calls[-1] == ("mail", NodeFailure("ship", "Down", "ship is down"))
        assert (await states(handle))["ship"] == "recovered"
        sagas.broken.add("mail")
        failure = await failure_of(await env.client.start(fallback, 8))
        assert failure.nodes == ("ship", "mail")
        assert failure.compensated == ("charge",)


async def test_what_a_list_has_done_is_undone_though_it_failed(engine: MakeEnvironment) -> None:
    async with engine(workflows=DAGS, activities=ACTIVITIES) as env:
        assert len(await env.client.execute(charges, [1, 2])) == 2
        calls.clear()
        handle = await env.client.start(charges, [1, 2, -3, 4])
        failure = await failure_of(handle)
        assert failure.item == 2
        assert "node charge[2] of the DAG charges failed" in str(failure)
        assert sorted(calls[-2:]) == [("refund", "p1"), ("refund", "p2")]
        assert failure.compensated == ("charge",)


@pytest.mark.parametrize("how", ["request", "signal"])
async def test_a_cancelled_run_undoes_what_it_has_done(engine: MakeEnvironment, how: str) -> None:
    async with engine(workflows=DAGS, activities=ACTIVITIES) as env:
        flow = patient if how == "request" else by_signal
        handle = await env.client.start(flow)
        await env.sleep(5)
        if how == "request":
            await handle.cancel("enough")
        else:
            await handle.signal("other")
            await handle.signal("abort", "because")
        with pytest.raises(WorkflowCancelledError):
            await handle.result()
        assert calls[-3:] == [("stopped", 50), ("withdraw", None), ("refund", "p7")]
        assert await outcome(handle) == "compensated"
        assert (await handle.describe()).run.status is RunStatus.CANCELLED
        calls.clear()
        kept = await env.client.start(keeps)
        await env.sleep(5)
        await kept.cancel()
        with pytest.raises(WorkflowCancelledError):
            await kept.result()
        assert calls[-1] == ("stopped", 50)
        assert await outcome(kept) is None


async def test_a_signal_that_is_there_before_the_run_begins_lets_nothing_begin(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=DAGS, activities=ACTIVITIES) as env:
        options = StartOptions(start_delay=3600)
        handle = await env.client.start(by_signal, options=options)
        await handle.signal("abort")
        with pytest.raises(WorkflowCancelledError):
            await handle.result()
        assert calls == []


async def test_a_run_ends_in_time_to_undo_what_it_has_done(engine: MakeEnvironment) -> None:
    async with engine(workflows=DAGS, activities=ACTIVITIES) as env:
        nearer = [StartOptions(), StartOptions(run_timeout=250), StartOptions(execution_timeout=200)]
        for options, deadline in zip(nearer, (300, 250, 200), strict=True):
            calls.clear()
            handle = await env.client.start(late, options=options)
            begun = env.now()
            failure = await failure_of(handle)
            assert isinstance(failure, DagTimeoutError)
            assert (failure.nodes, failure.compensated) == (("slowly",), ("slowly", "charge"))
            assert deadline - 100 <= (env.now() - begun).total_seconds() < deadline - 90
            assert calls[-3:] == [("stopped", 400), ("withdraw", None), ("refund", "p7")]
            assert await outcome(handle) == "compensated"


async def test_a_run_without_time_to_undo_anything_begins_nothing(engine: MakeEnvironment) -> None:
    async with engine(workflows=DAGS, activities=ACTIVITIES) as env:
        handle = await env.client.start(late, options=StartOptions(run_timeout=90))
        failure = await failure_of(handle)
        assert isinstance(failure, DagTimeoutError)
        assert "before anything could begin" in str(failure)
        assert calls == []


async def test_with_no_worker_alive_a_run_ends_on_time_all_the_same(engine: MakeEnvironment) -> None:
    async with engine(workflows=DAGS, activities=ACTIVITIES) as env:
        begun = env.now()
        async with env.new_worker(task_queue="lonely", workflows=DAGS, activities=ACTIVITIES):
            handle = await env.client.start(late, task_queue="lonely")
            await env.sleep(5)
        with pytest.raises(WorkflowTimeoutError):
            await handle.result()
        assert 300 <= (env.now() - begun).total_seconds() < 301


async def test_a_run_that_was_reset_has_its_own_deadline(engine: MakeEnvironment) -> None:
    async with engine(workflows=DAGS, activities=ACTIVITIES) as env:
        handle = await env.client.start(late)
        await env.sleep(150)
        await handle.reset("last-workflow-task")
        begun = env.now()
        calls.clear()
        failure = await failure_of(env.client.handle(handle.workflow_id))
        assert isinstance(failure, DagTimeoutError)
        # The reserve of the first run would have begun after 50 s; the new run's begins 100 s before its own deadline.
        assert 199 <= (env.now() - begun).total_seconds() < 210
        # A reset of that one replays both looks at the deadline.
        again = env.client.handle(handle.workflow_id)
        await again.reset("last-workflow-task")
        assert isinstance(await failure_of(env.client.handle(handle.workflow_id)), DagTimeoutError)


async def test_a_run_that_is_tried_again_is_not_found_by_the_outcome_before(engine: MakeEnvironment) -> None:
    async with engine(workflows=DAGS, activities=ACTIVITIES) as env:
        sagas.broken.add("ship")
        policy = RetryPolicy(max_attempts=2, initial_interval=30)
        handle = await env.client.start(order, "seat", 7, options=StartOptions(retry_policy=policy))
        await env.sleep(10)
        assert await outcome(handle) == "compensated"
        sagas.broken.clear()
        assert await handle.result() == "shipped p7"
        assert await outcome(handle) is None
