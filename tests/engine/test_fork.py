"""Forks: another workflow takes a history up at a point, and the original goes on as if nothing had happened."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import (
    RetentionPolicy,
    RetryPolicy,
    RunStatus,
    StartOptions,
    StructuralLimits,
    activity,
    workflow,
)
from outlast.errors import (
    InvalidHistoryError,
    InvalidOptionError,
    ResetRefusedError,
    RunNotFoundError,
    WorkflowAlreadyStartedError,
    WorkflowCancelledError,
    WorkflowNotFoundError,
    WorkflowTerminatedError,
)
from outlast.histories.retention import Retention
from outlast.interceptors import Forked, ForkWorkflow, Interceptor
from outlast_store.transitions.deletion import DeleteChainStep

calls: list[str] = []
NEARLY = {"of": "x" * 10}


@pytest.fixture(autouse=True)
def _afresh() -> None:
    calls.clear()


@activity.defn(start_to_close_timeout=100, retry_policy=RetryPolicy(max_attempts=1))
async def step(name: str) -> str:
    calls.append(name)
    return f"{name}!"


@workflow.defn
class Steps:
    """Three steps, signals and updates; what is random is in the result."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.enough = False

    @workflow.signal
    def say(self, word: str) -> None:
        self.heard.append(word)

    @workflow.update
    def put(self, word: str) -> int:
        self.heard.append(word)
        return len(self.heard)

    @workflow.run
    async def run(self, wanted: int = 0) -> list[Any]:
        drawn = [str(workflow.uuid4())]
        done = [await step("a")]
        workflow.upsert_memo({"done": "a"})
        workflow.upsert_search_attributes({"at": "b"})
        done.append(await step("b"))
        await workflow.wait_condition(lambda: len(self.heard) >= wanted)
        drawn.append(str(workflow.uuid4()))
        done.append(await step("c"))
        return [done, self.heard, drawn, workflow.info().workflow_id]


@workflow.defn
async def child(word: str) -> str:
    await workflow.sleep(30)
    return word


@workflow.defn
async def parent() -> list[str]:
    """Names its children after itself."""
    found = [await workflow.execute_child(child, "one", id=f"{workflow.info().workflow_id}/one")]
    await workflow.sleep(30)
    found.append(await workflow.execute_child(child, "two", id=f"{workflow.info().workflow_id}/two"))
    return found


@pytest.fixture
def made(engine: MakeEnvironment) -> MakeEnvironment:
    return lambda **options: engine(workflows=[Steps, parent, child], activities=[step], **options)


async def test_a_fork_does_again_what_comes_after_its_point_and_nothing_before(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(Steps.run, id="w")
        whole = await handle.result()
        commands = {
            event.payload["input"][0]: event.payload["command_id"]
            async for event in handle.history()
            if event.type == "ActivityScheduled"
        }
        for name, again in (("a", ["a", "b", "c"]), ("b", ["b", "c"]), ("c", ["c"])):
            calls.clear()
            fork = await handle.fork(before=commands[name], id=f"fork of {name}")
            done, heard, drawn, workflow_id = await fork.result()
            assert (done, heard, workflow_id) == (whole[0], whole[1], f"fork of {name}")
            assert calls == again
            assert (drawn[0] == whole[2][0]) is (name != "a")
            assert drawn[1] != whole[2][1] or name == "c"
        assert await handle.result() == whole
        assert (await handle.describe()).run.run_number == 1


async def test_an_open_workflow_is_forked_and_goes_on(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(Steps.run, 2, id="w")
        await env.sleep(1)
        await handle.signal("say", "x", request_id="k")
        await env.sleep(1)
        kept = await handle.fork("last-workflow-task", id="f1")
        left = await handle.fork("first-workflow-task", id="f2", signals=False, reason="try it")
        await handle.signal("say", "y")
        assert (await handle.result())[1] == ["x", "y"]
        for fork in (kept, left):
            assert (await fork.describe()).run.status is RunStatus.RUNNING
            await fork.signal("say", "x", request_id="k")  # the first one has it already
            await fork.signal("say", "z")
        assert (await kept.result())[1] == ["x", "z"]
        assert (await left.result())[1] == ["x", "z"]
        started = (await left.history_page())[0].payload
        assert (
            started["forked_from"].items()
            >= {"workflow_id": "w", "run_id": handle.run_id, "reason": "try it", "signals": False}.items()
        )


async def test_an_update_that_is_sent_again_to_a_fork_gets_the_same_answer(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(Steps.run, 2, id="w")
        await env.sleep(1)
        assert await handle.execute_update("put", "x", id="u1") == 1
        fork = await handle.fork(await end_of(handle))
        assert await fork.execute_update("put", "x", id="u1") == 1
        assert await fork.execute_update("put", "y", id="u2") == 2
        assert (await fork.result())[1] == ["x", "y"]
        await handle.terminate()
        await env.client.delete("w")
        assert await fork.execute_update("put", "x", id="u1") == 1


async def end_of(handle: Any) -> int:
    length: int = (await handle.describe()).run.history_length
    return length


async def test_a_fork_has_the_memo_and_the_attributes_of_its_point_and_is_found(
    made: MakeEnvironment,
) -> None:
    async with made() as env:
        handle = await env.client.start(Steps.run, id="w")
        await handle.result()
        early = await handle.fork("first-workflow-task", id="early")
        late = await handle.fork(id="late")
        of_early = await early.fork(id="of early")
        for fork in (early, late, of_early):
            await fork.result()
        found = (await late.describe()).run
        assert (found.memo, found.search_attributes["at"]) == ({"done": "a"}, "b")
        ids = {run.workflow_id async for run in env.client.list(forked_from="w")}
        assert ids == {"early", "late"}
        assert [run.workflow_id async for run in env.client.list(forked_from="early")] == ["of early"]
        assert {run.workflow_id async for run in env.client.list(was_forked_from=True)} == {"w", "early"}
        assert await env.client.count(was_forked_from=False) == 2
        assert await env.client.count(where={"at": "b"}) == 4
        assert found.forked_from == "w"
        original = await handle.describe()
        assert (original.forks, original.run.forked_from) == (("early", "late"), None)
        assert (await late.describe()).forks == ()


async def test_the_execution_deadline_is_inherited(made: MakeEnvironment) -> None:
    async with made() as env:
        options = StartOptions(execution_timeout=100, run_timeout=60)
        handle = await env.client.start(Steps.run, 1, id="w", options=options)
        await env.sleep(10)
        original = (await handle.describe()).run
        fork = (await (await handle.fork()).describe()).run
        assert fork.execution_deadline_at == original.execution_deadline_at
        assert fork.run_deadline_at is not None
        assert (fork.run_deadline_at - fork.created_at).total_seconds() == 60
        longer = await (await handle.fork(execution_timeout=500)).describe()
        assert longer.execution_timeout_seconds == 500
        await env.sleep(100)
        with pytest.raises(ResetRefusedError, match="give a new execution timeout with the fork"):
            await handle.fork()
        late = await handle.fork(execution_timeout=50)
        await late.signal("say", "x")
        assert (await late.result())[1] == ["x"]


async def test_an_id_in_use_is_treated_as_by_a_start(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(Steps.run, 1, id="w")
        await env.sleep(1)
        first = await handle.fork(id="f")
        with pytest.raises(WorkflowAlreadyStartedError):
            await handle.fork(id="f")
        again = await handle.fork(id="f", duplicate_policy="return_existing")
        assert (again.run_id, again.existed) == (first.run_id, True)
        instead = await handle.fork(id="f", duplicate_policy="terminate_existing")
        with pytest.raises(WorkflowTerminatedError):
            await env.client.handle("f", run_id=first.run_id).result()
        await instead.signal("say", "x")
        await instead.result()
        with pytest.raises(WorkflowAlreadyStartedError):
            await handle.fork(id="f", duplicate_policy="reject_duplicate")
        third = await handle.fork(id="f")
        assert third.run_id not in (first.run_id, instead.run_id)
        for wrong in (
            {"id": "w"},
            {"id": ""},
            {"duplicate_policy": "never"},
            {"before": 0},
            {"partition_key": "x"},
        ):
            options: Any = wrong
            with pytest.raises(InvalidOptionError):
                await handle.fork(**options)
        with pytest.raises(InvalidOptionError, match="to or before, not both"):
            await handle.fork(3, before=1)
        misspelt: Any = {"workflow_id": "x"}
        with pytest.raises(InvalidOptionError, match="workflow_id"):
            await handle.fork(**misspelt)


async def test_what_is_not_there_is_not_forked(made: MakeEnvironment) -> None:
    async with made() as env:
        with pytest.raises(WorkflowNotFoundError):
            await env.client.fork("nobody")
        handle = await env.client.start(Steps.run, id="w")
        await handle.result()
        with pytest.raises(RunNotFoundError):
            await env.client.fork("w", run_id="nonsense")
        with pytest.raises(ResetRefusedError, match="the history has no command 99"):
            await handle.fork(before=99)
        with pytest.raises(ResetRefusedError, match="can be forked from events 1 to"):
            await handle.fork(99)
        assert await env.client.count() == 1


async def test_a_fork_takes_over_ended_children_only_and_may_name_its_own_after_itself(
    made: MakeEnvironment,
) -> None:
    async with made() as env:
        handle = await env.client.start(parent, id="p")
        await env.sleep(10)
        with pytest.raises(ResetRefusedError, match="a fork has no claim on it"):
            await handle.fork(await end_of(handle))
        await env.sleep(30)
        fork = await handle.fork(await end_of(handle), id="f")
        assert await fork.result() == ["one", "two"]
        assert await handle.result() == ["one", "two"]
        ids = {run.workflow_id async for run in env.client.list(workflow_type="child")}
        assert ids == {"p/one", "p/two", "f/two"}
        scheduled = [event.seq async for event in handle.history() if event.type == "ChildWorkflowStarted"]
        told = await handle.fork(scheduled[1], id="told")  # its end came later, and is known by now
        assert await told.result() == ["one", "two"]
        assert await env.client.count(workflow_type="child") == 3


async def test_a_fork_may_go_to_a_queue_and_another_task_queue(made: MakeEnvironment) -> None:
    async with made() as env:
        await env.client.queues.define("slow", concurrency=1)
        handle = await env.client.start(Steps.run, 1, id="w", options=StartOptions(queue="slow"))
        await env.sleep(1)
        waiting = await handle.fork(id="waiting", partition_key="p")
        assert (await waiting.describe()).run.status is RunStatus.QUEUED
        free = await handle.fork(id="free", queue=None)
        assert (await free.describe()).run.queue is None
        await handle.signal("say", "x")
        for one in (free, waiting):
            await one.signal("say", "x")
            assert (await one.result())[1] == ["x"]
        elsewhere = await handle.fork(id="elsewhere", queue=None, task_queue="nobody-serves-this")
        assert (await elsewhere.describe()).run.task_queue == "nobody-serves-this"
        await elsewhere.terminate()


async def test_a_fork_can_be_reset_resumed_and_forked(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(Steps.run, 1, id="w")
        await env.sleep(1)
        fork = await handle.fork(id="f")
        await env.sleep(1)
        await fork.terminate()
        again = await env.client.resume("f")
        await again.signal("say", "x")
        first = await again.result()
        last = await env.client.reset("f", "last-workflow-task")
        assert (await last.result())[:2] == first[:2]
        once_more = await env.client.fork("f", "first-workflow-task", id="g")
        assert (await once_more.result())[1] == ["x"]
        await handle.terminate()


async def test_of_two_forks_both_are_done(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(Steps.run, id="w")
        await handle.result()
        forks = await asyncio.gather(*(handle.fork("first-workflow-task") for _ in range(5)))
        assert len({fork.workflow_id for fork in forks}) == 5
        drawn = {(await fork.result())[2][0] for fork in forks}
        assert len(drawn) == 5


async def test_a_fork_of_what_was_deleted_goes_on(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(Steps.run, 1, id="w")
        await env.sleep(1)
        fork = await handle.fork(id="f")
        await handle.terminate()
        await env.client.delete("w")
        await fork.signal("say", "x")
        assert (await fork.result())[1] == ["x"]
        assert (await fork.describe()).run.forked_from == "w"


async def test_retention_takes_an_original_from_its_forks_and_forks_from_their_original(
    made: MakeEnvironment,
) -> None:
    old = RetentionPolicy(days=timedelta(seconds=80))
    async with made() as env:
        gone = await env.client.start(Steps.run, 1, id="gone")
        await env.sleep(1)
        fork = await gone.fork(id="fork of gone")
        await gone.signal("say", "x")
        await gone.result()
        stays = await env.client.start(Steps.run, 1, id="stays")
        await env.sleep(1)
        ended = await stays.fork(id="fork of stays")
        await ended.signal("say", "x")
        await ended.result()
        await env.sleep(100)
        assert (await Retention(env.client, old).run_pass()).chains == 2
        assert {run.workflow_id async for run in env.client.list()} == {"fork of gone", "stays"}
        assert await env.client.count(was_forked_from=True) == 0, "nothing that is there has a fork"
        # The fork is forked and taken up as ever, though what it came from is gone.
        copied = await fork.fork(id="fork of a fork")
        again = await stays.fork(id="fork of stays")
        await fork.cancel()
        with pytest.raises(WorkflowCancelledError):
            await fork.result()
        await fork.resume()
        for one in (stays, again, fork, copied):
            await one.signal("say", "y")
            assert (await one.result())[1] == ["y"]


async def test_a_fork_is_exported_while_it_is_open_and_imported_once_it_has_ended(
    made: MakeEnvironment,
) -> None:
    async with made() as env:
        handle = await env.client.start(Steps.run, 1, id="w")
        await env.sleep(1)
        fork = await handle.fork(id="f")
        await env.sleep(1)
        live = await env.client.export_history("f")
        started = live["events"][0]["payload"]
        assert (started["forked_from"]["workflow_id"], live["run"]["status"]) == ("w", "running")
        await fork.signal("say", "x")
        result = await fork.result()
        ended = await env.client.export_history("f")
        assert ended["events"][: len(live["events"])] == live["events"]
        await handle.terminate()
        original = await env.client.export_history("w")
    async with made(url="sqlite://", seed=1) as other:
        with pytest.raises(InvalidHistoryError, match="only closed runs are imported"):
            await other.client.import_histories(live)
        assert await other.client.count() == 0
        # It does not need its original.
        assert (await other.client.import_histories(ended)).runs == 1
        assert [run.forked_from async for run in other.client.list(forked_from="w")] == ["w"]
        assert await other.client.count(was_forked_from=True) == 0
        assert (await other.client.import_histories(original)).runs == 1
        assert await other.client.count(was_forked_from=True) == 1
        assert (await other.client.describe("w")).forks == ("f",)
        assert await other.client.handle("f").result() == result
        assert await other.client.export_history("f") == ended
        assert (await (await other.client.fork("f", id="g")).result())[3] == "g"


@activity.defn(start_to_close_timeout=100)
async def tell(word: str) -> None:
    activity.stream("told").write(word)


@workflow.defn
async def publishing(rounds: int) -> str:
    """Writes to streams, by itself and by activities, in one run after the other."""
    workflow.stream("words").write(f"begin {rounds}")
    await tell(f"told {rounds}")
    if rounds:
        workflow.continue_as_new(rounds - 1)
    await workflow.sleep(10)
    workflow.stream("words").write("end")
    workflow.stream("words").close()
    return "published"


async def test_a_fork_has_the_streams_of_its_point(engine: MakeEnvironment) -> None:
    async with engine(workflows=[publishing], activities=[tell]) as env:
        handle = await env.client.start(publishing, 1, id="w")
        await handle.result()
        words = [item.value async for item in handle.stream("words")]
        late = await env.client.fork("w", id="late")
        early = await env.client.fork("w", "first-workflow-task", id="early")
        for fork in (late, early):
            await fork.result()
            found = [item async for item in fork.stream("words")]
            assert [item.value for item in found] == words == ["begin 1", "begin 0", "end"]
            assert [item.offset for item in found] == [0, 1, 2]
            told = [item.value async for item in fork.stream("told")]
            assert told == ["told 1", "told 0"]
        assert [item.value async for item in handle.stream("words")] == words


async def test_a_fork_has_what_runs_have_published_that_are_gone(engine: MakeEnvironment) -> None:
    async with engine(workflows=[publishing], activities=[tell]) as env:
        handle = await env.client.start(publishing, 1, id="w")
        await handle.result()
        words = [item.value async for item in handle.stream("words")]
        last = (await handle.describe()).run
        # A deletion that was interrupted: it begins with the first run.
        assert await env.client.runtime.journal.apply(DeleteChainStep(last.first_run_id, last.run_id, "w"))
        fork = await env.client.fork("w", id="late")
        await fork.result()
        assert [item.value async for item in fork.stream("words")] == words == ["begin 1", "begin 0", "end"]
        assert [item.value async for item in fork.stream("told")] == ["told 1", "told 0"]
        await env.client.delete("w")


class Watching(Interceptor):
    async def fork_workflow(self, call: ForkWorkflow, next: Any) -> Forked:
        call.options["id"] = f"{call.workflow_id}'s fork"
        made: Forked = await next(call)
        return made


async def test_interceptors_see_a_fork(made: MakeEnvironment) -> None:
    async with made(interceptors=[Watching()]) as env:
        handle = await env.client.start(Steps.run, id="w")
        await handle.result()
        assert (await handle.fork()).workflow_id == "w's fork"


async def test_what_the_engine_writes_does_not_count_towards_the_limit_of_attributes(
    engine: MakeEnvironment,
) -> None:
    """The attributes that the code sets after the point fit beside the id of the original, as they did there."""
    limits = StructuralLimits(search_attributes_bytes=30)
    async with engine(workflows=[Steps], activities=[step], limits=limits) as env:
        handle = await env.client.start(
            Steps.run, id="w" * 190, options=StartOptions(search_attributes=NEARLY)
        )
        whole = await handle.result()
        fork = await handle.fork("first-workflow-task")
        assert (await fork.result())[0] == whole[0]
        assert (await fork.describe()).run.search_attributes == {
            **NEARLY,
            "at": "b",
            "outlast_forked_from": "w" * 190,
        }


@pytest.mark.parametrize("id", ["ä" * 200, "\N{GRINNING FACE}" * 200])
async def test_forks_are_found_by_the_longest_id(made: MakeEnvironment, id: str) -> None:
    async with made() as env:
        handle = await env.client.start(Steps.run, id=id)
        await handle.result()
        fork = await handle.fork()
        assert [run.run_id async for run in env.client.list(forked_from=id)] == [fork.run_id]
        assert [run.workflow_id async for run in env.client.list(was_forked_from=True)] == [id]
        assert (await handle.describe()).forks == (fork.workflow_id,)
