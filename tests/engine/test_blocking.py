"""The client for code without an event loop, with a worker on a loop of its own elsewhere in the process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.worker_thread import worker_in_a_thread

from outlast import ActivityIds, RunStatus, StartOptions, activity, starting, workflow
from outlast.blocking import BlockedLoopError, BlockingHandle, Client, StillRunningError
from outlast.errors import (
    AttemptNotRunningError,
    InvalidOptionError,
    InvalidUrlError,
    JournalClosedError,
    OutlastError,
    RefusedError,
    StoreUnreachableError,
    WorkflowAlreadyBegunError,
    WorkflowAlreadyStartedError,
    WorkflowCancelledError,
    WorkflowClosedError,
    WorkflowFailedError,
    WorkflowNotFoundError,
    WorkflowTerminatedError,
    WorkflowTimeoutError,
)

OPTIONS = StartOptions(execution_timeout=60)


@activity.defn(start_to_close_timeout=30)
async def double(number: int) -> int:
    return 2 * number


@workflow.defn
class Doubling:
    @workflow.run
    async def run(self, number: int) -> int:
        return await double(number)


@activity.defn(start_to_close_timeout=30)
def ask() -> str:
    return activity.defer()


@workflow.defn
async def asks() -> str:
    return await ask()


@workflow.defn
async def fail() -> None:
    raise ValueError("no")


@workflow.defn
async def sleep_long() -> str:
    await workflow.sleep(3600)
    return "late"


@workflow.defn
class Till:
    def __init__(self) -> None:
        self.sum = 0

    @workflow.run
    async def run(self) -> int:
        await workflow.wait_condition(lambda: self.sum > 100)
        return self.sum

    @workflow.update
    async def add(self, amount: int) -> int:
        self.sum += await double(amount)
        return self.sum

    @workflow.query
    def total(self) -> int:
        return self.sum


@pytest.fixture
def url(shared_url: str) -> str:
    return shared_url


@pytest.fixture
def worker(url: str) -> Iterator[None]:
    """A worker in a thread of its own."""
    with worker_in_a_thread(
        url, workflows=[Doubling, Till, asks, fail, sleep_long], activities=[double, ask]
    ):
        yield


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client.connect(url) as client:
        yield client


def _blocking_threads() -> int:
    return sum(thread.name == "outlast-blocking" for thread in threading.enumerate())


@pytest.mark.usefixtures("worker")
def test_an_activity_is_ended_from_outside(client: Client):
    handle = client.start(asks, id="a", options=OPTIONS)
    here = ActivityIds("a", 1)
    while not any(one.deferred for one in handle.describe().pending_activities):
        time.sleep(0.01)
    client.heartbeat_activity(here, "half-way")
    with pytest.raises(RefusedError, match="nobody has asked to cancel"):
        client.cancel_activity(here)
    client.fail_activity(here, "not yet")
    while not any(one.deferred and one.attempt == 2 for one in handle.describe().pending_activities):
        time.sleep(0.01)
    client.complete_activity(here, "done")
    assert handle.result() == "done"
    with pytest.raises(AttemptNotRunningError):
        client.complete_activity(here)


@pytest.mark.usefixtures("worker")
def test_a_workflow_is_started_and_its_result_waited_for(client: Client) -> None:
    handle = client.start(Doubling.run, 21, id="d", options=OPTIONS)
    assert isinstance(handle, BlockingHandle)
    assert handle.workflow_id == "d"
    assert handle.result() == 42
    assert handle.result(timeout=5) == 42
    assert client.execute(Doubling.run, 4) == 8
    assert client.execute("Doubling", 5, result_type=float) == 10
    assert client.handle("d").result() == 42
    description = handle.describe()
    assert description.run.status is RunStatus.COMPLETED
    assert description == client.describe("d", handle.run_id).model_copy(
        update={"described_at": description.described_at}
    )
    events = list(handle.history())
    assert [event.seq for event in events] == list(range(1, description.run.history_length + 1))
    assert events[-1].type == "WorkflowCompleted"
    assert [event.seq for event in handle.history(after_seq=events[-2].seq)] == [events[-1].seq]
    assert repr(handle) == f"<BlockingHandle 'd' run {handle.run_id}>"


def test_a_handle_says_whether_its_start_found_the_workflow_there(client: Client) -> None:
    options = StartOptions.return_existing().with_execution_timeout(60)
    found = [client.start(sleep_long, id="once", options=options).existed for _ in range(2)]
    assert found == [False, True]


@pytest.mark.usefixtures("worker")
def test_a_workflow_is_updated_and_queried(client: Client) -> None:
    made = client.update_with_start(Till.run, update=Till.add(5), update_id="five", id="till")
    assert made.result(timeout=30) == 10
    assert (made.id, made.workflow_id) == ("five", "till")
    handle = client.handle("till")
    assert handle.query(Till.total) == 10
    assert handle.query("total", result_type=float) == 10
    assert handle.execute_update(Till.add, 5, id="five") == 10
    assert handle.execute_update("add", 1) == 12
    last = handle.start_update(Till.add, 50)
    assert repr(last) == f"<BlockingUpdateHandle 'add' ({last.id}) of 'till'>"
    assert last.result() == 112
    assert handle.result() == 112
    assert handle.query(Till.total()) == 112
    with pytest.raises(WorkflowClosedError):
        handle.execute_update(Till.add, 1)


@pytest.mark.usefixtures("worker")
def test_ends_without_a_result_raise_what_the_other_client_raises(client: Client) -> None:
    with pytest.raises(WorkflowFailedError) as failed:
        client.execute(fail)
    assert str(failed.value).endswith(str(failed.value.__cause__))
    with pytest.raises(WorkflowTimeoutError):
        client.execute(sleep_long, options=StartOptions(run_timeout=1))
    cancelled = client.start(sleep_long, id="c")
    cancelled.cancel("enough")
    with pytest.raises(WorkflowCancelledError, match="enough"):
        cancelled.result()
    terminated = client.start(sleep_long, id="t")
    with pytest.raises(WorkflowAlreadyStartedError):
        client.start(sleep_long, id="t")
    terminated.terminate("now")
    with pytest.raises(WorkflowTerminatedError, match="now"):
        terminated.result()


@pytest.mark.usefixtures("worker")
def test_waiting_may_end_before_the_workflow(client: Client) -> None:
    handle = client.start(sleep_long, id="s")
    began = time.monotonic()
    with pytest.raises(
        StillRunningError, match=r"'s' did not end within 0.05 s: it is still running"
    ) as caught:
        handle.result(timeout=0.05)
    assert time.monotonic() - began < 5
    assert isinstance(caught.value, TimeoutError)
    assert caught.type is StillRunningError
    assert handle.describe().run.closed_at is None
    wrong: Any
    for wrong in (0, -1, float("nan"), "1", True):
        with pytest.raises(InvalidOptionError, match="timeout must be"):
            handle.result(timeout=wrong)


@pytest.mark.usefixtures("worker")
def test_many_threads_share_one_client(client: Client) -> None:
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda number: client.execute(Doubling.run, number), range(200)))
    assert results == [2 * number for number in range(200)]
    assert client.count(status="completed") == 200


def test_lists_and_counts(client: Client) -> None:
    ids = [client.start("Order", id=f"o-{number}").run_id for number in range(5)]
    listing = client.list(page_size=2)
    assert [run.run_id for run in listing] == ids[::-1]
    assert [run.run_id for run in listing] == ids[::-1]
    first = listing.page()
    assert listing.page(first.cursor).runs[0].run_id == ids[2]
    assert client.count(open=True) == 5
    assert client.workers() == []
    with pytest.raises(InvalidOptionError, match="status must be one of"):
        client.list(status="done")
    with pytest.raises(WorkflowNotFoundError):
        client.describe("nope")
    with pytest.raises(WorkflowNotFoundError):
        next(client.handle("nope").history())


def test_a_scope_reaches_what_a_blocking_client_starts(client: Client) -> None:
    with starting(run_timeout=60):
        in_scope = client.start(Doubling.run, 1).describe()
        on_its_own = client.start(Doubling.run, 1, options=StartOptions(run_timeout=None)).describe()
    assert (in_scope.run.run_timeout_seconds, on_its_own.run.run_timeout_seconds) == (60, None)


@pytest.mark.usefixtures("worker")
def test_starts_of_a_key_are_debounced(client: Client) -> None:
    handles = [client.debounce(Doubling.run, number, key="k", period=0.2, timeout=30) for number in (1, 2)]
    assert [handle.result(20) for handle in handles] == [4, 4]


def test_starts_are_moved(client: Client) -> None:
    first, second = datetime(2990, 1, 1, tzinfo=UTC), datetime(2991, 1, 1, tzinfo=UTC)
    handle = client.start(sleep_long, id="moved", options=StartOptions(start_delay=1000))
    handle.set_start_delay(until=first)
    assert handle.describe().run.begins_at == first
    assert all(one.done for one in client.bulk(workflow_id="moved").set_start_delay(until=second))
    assert handle.describe().run.begins_at == second
    handle.terminate()
    with pytest.raises(WorkflowAlreadyBegunError):
        handle.set_start_delay(1)


@pytest.mark.usefixtures("worker")
def test_one_thing_is_done_to_many(client: Client) -> None:
    for number in range(5):
        client.start(sleep_long, id=f"late-{number}", options=OPTIONS)
    told = client.bulk(id_prefix="late-", at_once=2).cancel("enough")
    first = next(told)
    assert (first.workflow_id, first.done) == ("late-4", True)
    assert [outcome.workflow_id for outcome in told] == ["late-3", "late-2", "late-1", "late-0"]
    for number in range(5):
        with pytest.raises(WorkflowCancelledError):
            client.handle(f"late-{number}").result(timeout=20)
    refused = list(client.bulk(id_prefix="late-").terminate("all"))
    assert [type(outcome.error) for outcome in refused] == [WorkflowClosedError] * 5
    gone = [one.workflow_id for one in client.bulk(id_prefix="late-", open=False).delete() if one.done]
    assert gone == ["late-4", "late-3", "late-2", "late-1", "late-0"]
    client.execute(Doubling.run, 2, id="d", options=OPTIONS)
    assert [one.done for one in client.bulk(workflow_id="d").reset("first-workflow-task")] == [True]
    assert client.handle("d").result(timeout=20) == 4
    with pytest.raises(InvalidOptionError, match="at once"):
        client.bulk(at_once=0)
    with pytest.raises(InvalidOptionError, match="reason"):
        client.bulk().cancel("x" * 10_001)


def test_a_walk_over_many_is_taken_up_at_a_cursor(client: Client) -> None:
    handles = [client.start(sleep_long, id=f"l-{number:03}", options=OPTIONS) for number in range(103)]
    seen = list(client.bulk(id_prefix="l-").signal("any", 1))
    assert len(seen) == len(handles)
    more = list(client.bulk(id_prefix="l-", cursor=seen[-1].cursor).terminate())
    assert [one.workflow_id for one in more] == ["l-002", "l-001", "l-000"]


def test_clients_share_one_thread_which_ends_with_the_last(url: str) -> None:
    assert _blocking_threads() == 0
    first = Client.connect(url)
    second = Client.connect(url)
    assert _blocking_threads() == 1
    assert first._client.runtime is second._client.runtime
    first.close()
    first.close()
    with pytest.raises(JournalClosedError):
        first.count()
    assert second.count() == 0
    second.close()
    assert _blocking_threads() == 0
    with Client.connect(url) as third:
        assert third.count() == 0


def test_a_connection_that_fails_leaves_no_thread_behind(tmp_path: Path) -> None:
    with pytest.raises(InvalidUrlError):
        Client.connect("mysql://here")
    with pytest.raises(StoreUnreachableError):
        Client.connect(f"sqlite:///{tmp_path}/none/x.db")
    assert _blocking_threads() == 0


def test_a_database_in_memory_lives_as_long_as_its_client() -> None:
    with Client.connect("sqlite://") as client:
        client.start("Order", id="o")
        assert client.count() == 1
    with Client.connect("sqlite://") as client:
        assert client.count() == 0


def test_on_an_event_loop_it_refuses_to_block(sqlite_url: str) -> None:
    with Client.connect(sqlite_url) as client:

        async def wrong() -> None:
            for call in (
                lambda: client.count(),
                lambda: Client.connect(sqlite_url),
                lambda: client.start("Order"),
            ):
                with pytest.raises(BlockedLoopError, match=r"use `await` with outlast.Client"):
                    call()
            assert await asyncio.to_thread(client.count) == 0

        asyncio.run(wrong())
        assert issubclass(BlockedLoopError, OutlastError)


FORKING = """
import os, sys, threading
from outlast.blocking import Client
from outlast.errors import ForkedConnectionError

url = sys.argv[1]
client = Client.connect(url)
handle = client.start("Order", id="parent")
child = os.fork()
if child == 0:
    try:
        for call in (client.count, handle.describe, lambda: next(handle.history())):
            try:
                call()
            except ForkedConnectionError:
                continue
            os._exit(3)
        client.close()  # the parent still has it: nothing to close
        with Client.connect(url) as own:
            own.start("Order", id="child")
        os._exit(0)
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        os._exit(4)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert client.count() == 2
client.close()
"""


def test_it_does_not_survive_a_fork_but_a_child_may_connect_anew(url: str, tmp_path: Path) -> None:
    script = tmp_path / "forking.py"
    script.write_text(FORKING)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
