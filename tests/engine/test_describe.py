"""What `describe` says of a workflow, in virtual time: exact to the second."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from sqlalchemy import event

from outlast import (
    Attention,
    Client,
    DataConverter,
    RetryPolicy,
    RunStatus,
    StartOptions,
    TimeoutKind,
    activity,
    workflow,
)
from outlast.errors import (
    RunNotFoundError,
    StillRunningError,
    WorkflowFailedError,
    WorkflowNotFoundError,
    WorkflowTimeoutError,
)
from outlast.testing import TestEnvironment
from outlast.visibility.describe import MOST_FAILURES
from outlast_workflow.primitives.enums import ActivityStatus, FailureCategory, PropagationKind

TWICE = RetryPolicy(initial_interval=10, max_attempts=2)


@activity.defn(
    schedule_to_start_timeout=50,
    start_to_close_timeout=60,
    schedule_to_close_timeout=600,
    heartbeat_timeout=30,
    retry_policy=RetryPolicy(initial_interval=10, max_attempts=7),
    priority=3,
)
async def crunch(rows: int) -> int:
    if activity.info().attempt == 1:
        raise ConnectionError("the line is dead")
    activity.heartbeat({"row": rows}, "so far")
    await asyncio.sleep(25)
    return rows


@activity.defn(
    start_to_close_timeout=60, retry_policy=RetryPolicy(initial_interval=1, max_attempts=25, max_interval=1)
)
async def fail_often() -> None:
    raise ValueError("again")


@workflow.defn
async def both(rows: int) -> int:
    async with asyncio.timeout(3600):
        return await crunch(rows)


@workflow.defn
async def hop(left: int) -> int:
    await workflow.sleep(10)
    if left:
        workflow.continue_as_new(left - 1)
    return left


@workflow.defn
async def nap(seconds: float) -> None:
    await workflow.sleep(seconds)


@workflow.defn
async def stubborn() -> None:
    await fail_often()


@workflow.defn
async def broken() -> None:
    await cast("Any", crunch)("too", "many")


@workflow.defn
class Listening:
    @workflow.run
    async def run(self) -> None:
        child = workflow.start_child(nap, 500, id="its-child")
        await child

    @workflow.signal
    def hear(self) -> None:
        pass

    @workflow.update
    async def ponder(self) -> None:
        await workflow.sleep(1000)


PROGRAMS: dict[str, Any] = {
    "workflows": [both, hop, nap, stubborn, broken, Listening],
    "activities": [crunch, fail_often],
}


async def test_an_open_run_shows_its_deadlines_and_the_time_that_they_leave(database_url: str) -> None:
    async with TestEnvironment(url=database_url, **PROGRAMS) as env:
        options = StartOptions(
            execution_timeout=7200, run_timeout=3600.5, memo={"customer": "c-7"}, priority=2
        )
        began = env.now()
        handle = await env.client.start(nap, 1000, id="n", options=options)
        await env.sleep(100)
        found = await handle.describe()
    assert (found.workflow_id, found.workflow_type) == ("n", "nap")
    assert found.execution_timeout_seconds == 7200
    assert found.run_count == 1
    assert found.attention == ()
    assert found.failures == ()
    run = found.run
    assert run.status is RunStatus.RUNNING
    assert run.run_id == run.first_run_id == handle.run_id
    assert (run.run_number, run.previous_run_id, run.next_run_id) == (1, None, None)
    assert (run.task_queue, run.priority, run.attempt) == ("default", 2, 1)
    assert run.created_at == began
    assert run.execution_deadline_at == began + timedelta(hours=2)
    assert run.run_timeout_seconds == 3600.5
    assert run.run_deadline_at == began + timedelta(seconds=3600.5)
    assert run.execution_time_left_seconds == 7100
    assert run.run_time_left_seconds == 3500.5
    assert run.memo == {"customer": "c-7"}
    assert run.closed_at is None
    assert run.history_length == 3
    assert run.history_bytes > 0
    assert run.owner is not None
    assert run.owner.alive
    assert (run.owner.worker_id, run.owner.pid is not None) == (env.worker.worker_id, True)
    assert [timer.fire_at for timer in found.pending_timers] == [began + timedelta(seconds=1000)]
    assert found.described_at == began + timedelta(seconds=100)


async def test_an_activity_shows_its_attempts_deadlines_heartbeat_and_failure(database_url: str) -> None:
    async with TestEnvironment(url=database_url, **PROGRAMS) as env:
        began = env.now()
        handle = await env.client.start(both, 9, id="b")
        await env.sleep(5)
        waiting = await handle.describe()
        await env.sleep(15)
        running = await handle.describe()
        assert await handle.result() == 9
        closed = await handle.describe()

    def after(seconds: float) -> datetime:
        return began + timedelta(seconds=seconds)

    (retry,) = waiting.pending_activities
    assert (retry.activity_id, retry.activity_type, retry.task_queue, retry.priority) == (
        2,
        "crunch",
        "default",
        3,
    )
    assert (retry.status, retry.attempt, retry.max_attempts) == (ActivityStatus.PENDING, 1, 7)
    assert retry.available_at == after(10)
    assert retry.schedule_to_start_deadline_at == after(60)
    assert retry.start_to_close_deadline_at is None
    assert retry.schedule_to_close_deadline_at == after(600)
    assert retry.next_deadline_at == after(60)
    assert retry.worker is None
    assert retry.last_failure is not None
    assert (retry.last_failure.exception_class, retry.last_failure.message) == (
        "ConnectionError",
        "the line is dead",
    )
    (failure,) = waiting.failures
    assert (failure.source_kind, failure.source_id) == ("activity_execution", "2")
    assert failure.failure_category is FailureCategory.APPLICATION
    assert failure.propagation_kind is PropagationKind.ACTIVITY

    (attempt,) = running.pending_activities
    assert (attempt.status, attempt.attempt, attempt.available_at) == (ActivityStatus.RUNNING, 2, None)
    assert attempt.started_at == after(10)
    assert attempt.schedule_to_start_deadline_at is None
    assert attempt.start_to_close_deadline_at == after(70)
    assert attempt.heartbeat_deadline_at is not None
    assert attempt.last_heartbeat_at is not None
    assert attempt.heartbeat_deadline_at == attempt.last_heartbeat_at + timedelta(seconds=30)
    assert attempt.next_deadline_at == attempt.heartbeat_deadline_at
    assert attempt.heartbeat_details == ({"row": 9}, "so far")
    assert attempt.worker is not None
    assert attempt.worker.worker_id == env.worker.worker_id
    (timer,) = running.pending_timers
    assert timer.fire_at == after(3600)

    assert closed.run.status is RunStatus.COMPLETED
    assert closed.run.closed_at == after(35)
    assert (closed.pending_activities, closed.pending_timers) == ((), ())
    assert closed.run.owner is None
    assert len(closed.failures) == 1


async def test_a_chain_carries_one_deadline_and_a_handle_follows_it(database_url: str) -> None:
    async with TestEnvironment(url=database_url, **PROGRAMS) as env:
        began = env.now()
        options = StartOptions(execution_timeout=100, run_timeout=15)
        handle = await env.client.start(hop, 2, id="h", options=options)
        await env.sleep(12)
        second = await handle.describe()
        assert handle.run_id is not None
        first = await env.client.describe("h", handle.run_id)
        pinned = await env.client.handle("h", run_id=handle.run_id).describe()
        assert await handle.result() == 0
        last = await handle.describe()
        again = await env.client.start(hop, 0, id="h")
        await env.settle()
        old, new = await handle.describe(), await env.client.describe("h")
        old_first = await env.client.describe("h", handle.run_id)
    assert second.run.run_number == second.run_count == 2
    assert second.execution_timeout_seconds == 100
    assert second.run.execution_deadline_at == began + timedelta(seconds=100)
    assert second.run.run_deadline_at == began + timedelta(seconds=25)
    assert second.run.execution_time_left_seconds == 88
    assert second.run.previous_run_id == second.run.first_run_id == handle.run_id
    assert first.run.status is RunStatus.CONTINUED_AS_NEW
    assert first.run.next_run_id == second.run.run_id
    assert (first.run.run_number, first.run_count) == (1, 2)
    assert first.run.execution_time_left_seconds is None
    assert pinned.run.run_id == first.run.run_id
    assert (last.run.run_number, last.run_count, last.run.status) == (3, 3, RunStatus.COMPLETED)
    # The id belongs to a new chain now; the handle still means its own.
    assert old.run == last.run
    assert (old.run_count, old_first.run_count) == (3, 3)
    assert (new.run.run_id, new.run_count) == (again.run_id, 1)


async def test_what_is_not_there_is_not_found(database_url: str) -> None:
    async with TestEnvironment(url=database_url, **PROGRAMS) as env:
        one = await env.client.start(nap, 1, id="one")
        two = await env.client.start(nap, 1, id="two")
        with pytest.raises(WorkflowNotFoundError, match="there is no workflow 'three'"):
            await env.client.describe("three")
        for run_id in (two.run_id, "nonsense"):
            with pytest.raises(RunNotFoundError, match="of workflow 'one'"):
                await env.client.describe("one", run_id)
            with pytest.raises(RunNotFoundError):
                async for _ in env.client.handle("one", run_id=run_id).history():
                    pass
        with pytest.raises(WorkflowNotFoundError):
            async for _ in env.client.handle("three").history():
                pass
        assert [found.seq for found in await env.client.handle("one").history_page(1)][:1] == [2]
        await one.result()
        await two.result()


async def test_a_start_delay_shows_when_the_run_begins(database_url: str) -> None:
    async with TestEnvironment(url=database_url, **PROGRAMS) as env:
        options = StartOptions(start_delay=100, run_timeout=10, execution_timeout=1000)
        began = env.now()
        handle = await env.client.start(nap, 1, id="later", options=options)
        await env.sleep(30)
        run = (await handle.describe()).run
        await handle.result()
        done = (await handle.describe()).run
    assert (run.status, run.start_delayed) == (RunStatus.PENDING, True)
    assert run.begins_at == began + timedelta(seconds=100)
    assert run.run_time_left_seconds == 80
    assert done.begins_at is None


async def test_the_latest_failures_come_first_and_only_so_many(database_url: str) -> None:
    async with TestEnvironment(url=database_url, **PROGRAMS) as env:
        handle = await env.client.start(stubborn, id="s")
        with pytest.raises(WorkflowFailedError):
            await handle.result()
        found = await handle.describe()
    assert len(found.failures) == MOST_FAILURES
    assert [one.failure_id for one in found.failures] == sorted(
        (one.failure_id for one in found.failures), reverse=True
    )
    latest = found.failures[0]
    assert (latest.source_kind, latest.event_seq) == ("workflow_run", found.run.history_length)
    assert (latest.failure_category, latest.propagation_kind) == (
        FailureCategory.ACTIVITY,
        PropagationKind.TERMINAL,
    )


async def test_a_failed_task_is_not_shown_as_an_end(database_url: str) -> None:
    async with TestEnvironment(url=database_url, **PROGRAMS) as env:
        handle = await env.client.start(broken, id="b")
        await env.settle()
        found = await handle.describe()
        await handle.terminate()
        ended = await handle.describe()
    (failure,) = found.failures
    assert (failure.source_kind, failure.failure_category) == ("workflow_task", FailureCategory.TASK_FAILURE)
    assert failure.propagation_kind is PropagationKind.TASK
    assert failure.exception_class == "DurableCallError"
    assert [one.propagation_kind for one in ended.failures] == [
        PropagationKind.TERMINATED,
        PropagationKind.TASK,
    ]


async def test_a_workflow_timeout_names_its_kind_and_deadline(database_url: str) -> None:
    async with TestEnvironment(url=database_url, **PROGRAMS) as env:
        handle = await env.client.start(nap, 1000, id="late", options=StartOptions(run_timeout=5))
        await env.sleep(6)
        found = await handle.describe()
    assert found.run.status is RunStatus.TIMED_OUT
    (failure,) = found.failures
    assert failure.timeout_kind is TimeoutKind.RUN_TIMEOUT
    assert failure.deadline_at == found.run.run_deadline_at
    assert failure.failure_category is FailureCategory.TIMEOUT


# --- attention ------------------------------------------------------------------------------------------------------


async def _attention(client: Client, workflow_id: str) -> tuple[Attention, ...]:
    """What describe says, which is also what the listing says."""
    found = (await client.describe(workflow_id)).attention
    page = await client.list(workflow_id=workflow_id, page_size=1).page()
    assert page.runs[0].attention == found
    assert await client.count(workflow_id=workflow_id, attention=True) == (1 if found else 0)
    assert await client.count(workflow_id=workflow_id, overdue=True) == (
        1 if Attention.OVERDUE in found else 0
    )
    return found


async def test_a_run_that_waits_for_a_minute_without_a_worker_has_no_poller(database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env:
        await env.client.start("nap", 1, id="n", options=StartOptions(start_delay=100))
        await env.sleep(159)
        assert await _attention(env.client, "n") == ()
        await env.sleep(1)
        assert await _attention(env.client, "n") == (Attention.NO_POLLER,)
        elsewhere = env.new_worker(workflows=[nap], task_queue="other")
        async with elsewhere:
            assert await _attention(env.client, "n") == (Attention.NO_POLLER,)
        async with env.new_worker(workflows=[hop]):
            await env.settle()
            assert await _attention(env.client, "n") == (Attention.UNKNOWN_TYPE,)
        async with env.new_worker(workflows=[nap]):
            await env.settle()
            assert await _attention(env.client, "n") == ()
            await env.client.handle("n").result()


@workflow.defn
async def waits_for_nobody() -> None:
    await workflow.execute_activity("absent", schedule_to_close_timeout=3600)


async def test_an_activity_of_a_type_that_nobody_has_is_seen_at_its_run(database_url: str) -> None:
    async with TestEnvironment(url=database_url, workflows=[waits_for_nobody]) as env:
        handle = await env.client.start(waits_for_nobody, id="w")
        await env.sleep(59)
        assert await _attention(env.client, "w") == ()
        await env.sleep(2)
        assert await _attention(env.client, "w") == (Attention.UNKNOWN_TYPE,)
        await handle.terminate()
        assert await _attention(env.client, "w") == ()


async def test_a_deadline_that_nobody_enforces_is_overdue(database_url: str) -> None:
    async with TestEnvironment(url=database_url) as env:
        await env.client.start("nap", 1, id="n", options=StartOptions(run_timeout=20))
        await env.sleep(29)
        assert await _attention(env.client, "n") == ()
        assert (await env.client.describe("n")).run.run_time_left_seconds == -9
        await env.sleep(1)
        assert await _attention(env.client, "n") == (Attention.OVERDUE,)


async def test_a_task_that_keeps_failing_is_flagged_as_stored(database_url: str) -> None:
    async with TestEnvironment(url=database_url, **PROGRAMS) as env:
        handle = await env.client.start(broken, id="b")
        await env.sleep(120)
        assert await _attention(env.client, "b") == (Attention.TASK_KEEPS_FAILING,)
        run = (await handle.describe()).run
        assert run.task_failures >= 3
        assert run.attention_since is not None
        await handle.terminate()


# --- the form -------------------------------------------------------------------------------------------------------


class Backwards:
    name = "backwards"

    def encode(self, data: bytes) -> bytes:
        return data[::-1]

    def decode(self, data: bytes) -> bytes:
        return data[::-1]


async def test_what_a_codec_wrote_is_decoded_and_without_it_shown_as_stored(database_url: str) -> None:
    converter = DataConverter(Backwards())
    async with TestEnvironment(url=database_url, converter=converter, **PROGRAMS) as env:
        handle = await env.client.start(both, 9, id="b", options=StartOptions(memo={"a": 1}))
        await env.sleep(20)
        found = await handle.describe()
        client = env.client
        bare = Client(client.url, client.runtime, DataConverter(), client.limits)
        stored = await bare.describe("b")
        await handle.terminate()
    assert found.run.memo == {"a": 1}
    assert found.pending_activities[0].heartbeat_details == ({"row": 9}, "so far")
    assert stored.run.memo is not None
    assert stored.run.memo["$codec"] == "backwards"
    (details,) = stored.pending_activities[0].heartbeat_details
    assert details["$codec"] == "backwards"


async def test_waiting_for_a_result_may_end_first(database_url: str) -> None:
    async with TestEnvironment(url=database_url, **PROGRAMS) as env:
        handle = await env.client.start(nap, 100, id="n")
        began = env.now()
        with pytest.raises(StillRunningError, match="'n' did not end within 30 s: it is still running"):
            await handle.result(30)
        assert env.now() == began + timedelta(seconds=30)
        await handle.result(timeout=600)
        assert env.now() == began + timedelta(seconds=100)
        late = await env.client.start(nap, 100, id="late", options=StartOptions(run_timeout=5))
        with pytest.raises(WorkflowTimeoutError):  # the workflow's own, which is a TimeoutError, too
            await late.result(timeout=600)


async def test_children_updates_and_signals_that_wait_are_shown_until_they_are_done(
    database_url: str,
) -> None:
    async with TestEnvironment(url=database_url, **PROGRAMS) as env:
        began = env.now()
        handle = await env.client.start(Listening.run, id="l")
        await handle.start_update(Listening.ponder, id="u-1")
        for name in ("hear", "haer", "haer"):
            await handle.signal(name)
        await env.settle()
        found = await handle.describe()
        unserved = await env.client.start(Listening.run, id="u", task_queue="nowhere")
        await unserved.signal(Listening.hear)
        asking = asyncio.create_task(unserved.start_update(Listening.ponder, id="u-2"))
        await env.settle()
        unseen = await unserved.describe()
        asking.cancel()
        await unserved.terminate()
        await handle.terminate()
        ended = await handle.describe()
    (child,) = found.pending_children
    assert (child.workflow_id, child.workflow_type, child.status) == ("its-child", "nap", RunStatus.RUNNING)
    (update,) = found.pending_updates
    assert (update.update_id, update.name, update.accepted, update.asked_at) == ("u-1", "ponder", True, began)
    (signal,) = found.pending_signals
    assert (signal.name, signal.count, signal.without_handler) == ("haer", 2, True)
    assert [(one.update_id, one.accepted) for one in unseen.pending_updates] == [("u-2", False)]
    (signal,) = unseen.pending_signals
    assert (signal.name, signal.count, signal.without_handler) == ("hear", 1, False)
    assert (ended.pending_updates, ended.pending_signals) == ((), ())


async def test_its_json_has_instants_with_an_offset_and_whole_seconds_as_integers(database_url: str) -> None:
    async with TestEnvironment(url=database_url, **PROGRAMS) as env:
        handle = await env.client.start(nap, 100, id="n", options=StartOptions(execution_timeout=7200))
        found = await handle.describe()
        await handle.terminate()
    document = json.loads(found.model_dump_json())
    assert document["execution_timeout_seconds"] == 7200
    assert isinstance(document["run"]["execution_time_left_seconds"], int)
    assert document["run"]["execution_deadline_at"].endswith("+00:00")
    assert document["described_at"].endswith("+00:00")
    assert document["run"]["status"] == "running"
    assert type(found).model_validate_json(found.model_dump_json()) == found


async def test_describing_takes_few_statements_however_much_is_open(database_url: str) -> None:
    statements: list[str] = []
    async with TestEnvironment(url=database_url, **PROGRAMS) as env:
        handle = await env.client.start(both, 9, id="b")
        await env.sleep(20)
        engine = env.client.runtime.database._reader_engine
        event.listen(engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
        await handle.describe()
        reads = [text for text in statements if text.startswith(("SELECT", "WITH"))]
        statements.clear()
        await handle.terminate()
    assert len(reads) == 14
