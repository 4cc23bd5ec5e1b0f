"""One thing done to many workflows: all that match, each once, and what can't be done is told."""

from __future__ import annotations

from datetime import timedelta
from types import NoneType
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import RunStatus, StartOptions, workflow
from outlast.client.bulk import BulkOutcome
from outlast.errors import (
    InvalidOptionError,
    ResetRefusedError,
    WorkflowAlreadyBegunError,
    WorkflowClosedError,
    WorkflowNotFoundError,
)


@workflow.defn
class Waiting:
    def __init__(self) -> None:
        self.heard: list[int] = []

    @workflow.signal
    def add(self, number: int) -> None:
        self.heard.append(number)

    @workflow.run
    async def run(self, wanted: int) -> list[int]:
        await workflow.wait_condition(lambda: len(self.heard) >= wanted)
        return self.heard


@pytest.fixture
def made(engine: MakeEnvironment) -> MakeEnvironment:
    return lambda **options: engine(workflows=[Waiting], activities=[], **options)


async def start(env: Any, count: int, wanted: int = 1) -> None:
    for number in range(count):
        options = StartOptions(search_attributes={"group": number % 2})
        await env.client.start(Waiting.run, wanted, id=f"w-{number:03}", options=options)


async def walk(outcomes: Any) -> list[BulkOutcome]:
    return [outcome async for outcome in outcomes]


async def test_all_that_match_are_cancelled_and_no_others(made: MakeEnvironment) -> None:
    async with made() as env:
        await start(env, 250)
        outcomes = await walk(env.client.bulk(where={"group": 1}, open=True).cancel("enough"))
        assert len(outcomes) == 125
        assert all(outcome.done for outcome in outcomes)
        assert len({outcome.workflow_id for outcome in outcomes}) == 125
        await env.sleep(1)
        assert await env.client.count(status=RunStatus.CANCELLED) == 125
        assert await env.client.count(open=True, where={"group": 0}) == 125


async def test_a_walk_can_be_taken_up_at_a_cursor(made: MakeEnvironment) -> None:
    async with made() as env:
        await start(env, 230, wanted=3)
        seen: list[BulkOutcome] = []
        async for outcome in env.client.bulk(at_once=7).signal(Waiting.add, 1, request_id="k"):
            seen.append(outcome)
            if len(seen) == 150:
                break
        more = await walk(env.client.bulk(cursor=seen[-1].cursor).signal("add", 1, request_id="k"))
        assert {one.workflow_id for one in (*seen, *more)} == {f"w-{number:03}" for number in range(230)}
        assert await walk(env.client.bulk(id_prefix="w-00").signal("add", 2)) != []
        await env.client.signal("w-000", "add", 3)
        assert await env.client.handle("w-000").result() == [1, 2, 3]


async def test_what_can_not_be_done_is_an_outcome_and_the_walk_goes_on(made: MakeEnvironment) -> None:
    async with made() as env:
        await start(env, 3)
        await env.client.handle("w-001").terminate()
        outcomes = await walk(env.client.bulk().terminate("all"))
        assert [outcome.done for outcome in outcomes] == [True, False, True]
        assert isinstance(outcomes[1].error, WorkflowClosedError)
        refused = await walk(env.client.bulk().reset(99))
        assert {type(outcome.error) for outcome in refused} == {ResetRefusedError}
        assert len(await walk(env.client.bulk(status="terminated").reset("first-workflow-task"))) == 3
        assert await env.client.count(open=True) == 3


async def test_matching_chains_are_deleted_and_other_chains_of_the_id_stay(made: MakeEnvironment) -> None:
    async with made() as env:
        await start(env, 2)
        await walk(env.client.bulk().terminate())
        await start(env, 1)
        outcomes = await walk(env.client.bulk(open=False).delete())
        assert [outcome.done for outcome in outcomes] == [True, True]
        assert [run.workflow_id async for run in env.client.list()] == ["w-000"]
        (refused,) = await walk(env.client.bulk().delete())
        assert "is open" in str(refused.error)


async def test_each_that_matches_is_forked_and_no_fork_of_the_walk_is(made: MakeEnvironment) -> None:
    async with made() as env:
        await start(env, 130, wanted=2)
        await walk(env.client.bulk().signal("add", 1))
        seen: list[BulkOutcome] = []
        async for outcome in env.client.bulk(at_once=7).fork("first-workflow-task", reason="try"):
            seen.append(outcome)
            if len(seen) == 105:
                break
        more = await walk(env.client.bulk(cursor=seen[-1].cursor).fork("first-workflow-task"))
        forks = {one.workflow_id: one.fork_id for one in (*seen, *more)}
        assert set(forks) == {f"w-{number:03}" for number in range(130)}
        assert len(set(forks.values())) == 130
        assert await env.client.count(was_forked_from=True) == 130
        # What was in progress when the walk stopped was forked, and is not lost either.
        assert await env.client.count() >= 260
        assert [one.done for one in await walk(env.client.bulk(forked_from="w-007").signal("add", 2))] == [
            True
        ]
        assert await env.client.handle(str(forks["w-007"])).result() == [1, 2]


async def test_what_is_named_is_forked_and_what_can_not_be_is_an_outcome(made: MakeEnvironment) -> None:
    async with made() as env:
        await start(env, 2)
        named = ["w-001", "nobody", "w-000"]
        outcomes = await walk(env.client.bulk(workflow_ids=named).fork("first-workflow-task"))
        assert [(one.workflow_id, type(one.error), one.fork_id is None) for one in outcomes] == [
            ("nobody", WorkflowNotFoundError, True),
            ("w-001", NoneType, False),
            ("w-000", NoneType, False),
        ]
        refused = await walk(env.client.bulk(workflow_ids=["w-000"]).fork(before=99))
        assert [(type(one.error), one.fork_id) for one in refused] == [(ResetRefusedError, None)]
        wrong: Any = {"id": "one-id-for-all"}
        with pytest.raises(InvalidOptionError, match="a bulk fork takes no id"):
            env.client.bulk().fork(**wrong)
        wrong = {"befor": 1}
        with pytest.raises(InvalidOptionError, match="before"):
            env.client.bulk().fork(**wrong)


async def test_what_can_not_be_asked_is_refused_at_once(made: MakeEnvironment) -> None:
    async with made(url="sqlite://") as env:
        wrong: Any = {"id": "x"}
        with pytest.raises(InvalidOptionError, match="there is no filter 'id'"):
            env.client.bulk(**wrong)
        with pytest.raises(InvalidOptionError, match="at once must be from 1 to 1000"):
            env.client.bulk(at_once=0)
        with pytest.raises(InvalidOptionError, match="reason must be at most"):
            env.client.bulk().cancel("x" * 10_001)


@workflow.defn
class Looping:
    def __init__(self) -> None:
        self.paid: list[int] = []

    @workflow.signal
    def pay(self, amount: int) -> None:
        self.paid.append(amount)

    @workflow.run
    async def run(self, left: int) -> list[int]:
        if left:
            workflow.continue_as_new(left - 1)
        await workflow.wait_condition(lambda: 0 in self.paid)
        return self.paid


async def test_a_workflow_is_dealt_with_once_and_by_its_last_run(engine: MakeEnvironment) -> None:
    async with engine(workflows=[Looping], activities=[]) as env:
        handle = await env.client.start(Looping.run, 3, id="loop")
        await env.sleep(1)
        assert await env.client.count(workflow_id="loop") == 4
        assert await env.client.count(workflow_id="loop", latest=True) == 1
        assert len(await walk(env.client.bulk(workflow_id="loop").signal("pay", 5))) == 1
        assert await walk(env.client.bulk(status="continued_as_new").terminate()) == []
        await handle.signal(Looping.pay, 0)
        assert await handle.result() == [5, 0]
        (deleted,) = await walk(env.client.bulk(workflow_id="loop").delete())
        assert deleted.done
        assert await env.client.count() == 0


async def test_the_starts_of_all_that_match_are_moved(made: MakeEnvironment) -> None:
    async with made() as env:
        later = StartOptions(start_delay=100)
        handles = [await env.client.start(Waiting.run, 0, id=f"l-{n}", options=later) for n in range(3)]
        await start(env, 1)
        await env.sleep(1)
        outcomes = await walk(env.client.bulk(open=True).set_start_delay(timedelta(hours=1)))
        assert {one.workflow_id: type(one.error) for one in outcomes} == {
            "w-000": WorkflowAlreadyBegunError,
            **{handle.workflow_id: type(None) for handle in handles},
        }
        for handle in handles:
            begins_at = (await handle.describe()).run.begins_at
            assert begins_at is not None
            assert begins_at > env.now() + timedelta(minutes=59)
        with pytest.raises(InvalidOptionError, match="delay or until"):
            env.client.bulk().set_start_delay()


async def test_each_id_that_is_named_has_an_outcome(made: MakeEnvironment) -> None:
    async with made() as env:
        await start(env, 3)
        await env.client.handle("w-001").terminate()
        named = env.client.bulk(workflow_ids=["nobody", "w-000", "w-001", "w-000"])
        outcomes = {one.workflow_id: one async for one in named.terminate()}
        assert {key: type(one.error) for key, one in outcomes.items()} == {
            "nobody": WorkflowNotFoundError,
            "w-000": NoneType,
            "w-001": WorkflowClosedError,
        }
        assert (outcomes["nobody"].run_id, outcomes["nobody"].done) == (None, False)
        assert await env.client.count(open=True) == 1


async def test_an_id_means_the_workflow_as_it_is_now(made: MakeEnvironment) -> None:
    async with made() as env:
        for _ in range(2):
            await start(env, 1)
            await env.client.handle("w-000").terminate()
        await start(env, 1)
        assert await env.client.count(workflow_ids=["w-000", "w-001"]) == 3
        outcomes = await walk(env.client.bulk(workflow_ids=["w-000"]).cancel())
        assert [one.done for one in outcomes] == [True]
        await env.sleep(1)
        outcomes = await walk(env.client.bulk(workflow_ids=["w-000"]).delete())
        assert [one.done for one in outcomes] == [True]
        assert await env.client.count() == 0
        again = await walk(env.client.bulk(workflow_ids=["w-000"]).delete())
        assert [type(one.error) for one in again] == [WorkflowNotFoundError]


async def test_too_many_ids_are_refused(made: MakeEnvironment) -> None:
    async with made() as env:
        with pytest.raises(InvalidOptionError, match="workflow_ids must name 1 to 1000, not 1001"):
            env.client.bulk(workflow_ids=[f"w-{number}" for number in range(1001)])
        with pytest.raises(InvalidOptionError, match="workflow_ids must name 1 to 1000, not 0"):
            env.client.bulk(workflow_ids=[])
