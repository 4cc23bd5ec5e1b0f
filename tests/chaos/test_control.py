"""Workflows are resumed and forked while whoever does it, waits for it or works on it is killed: real processes."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any

import pytest
from tests.chaos import control
from tests.chaos.control import PROCESSES, Steps, process, striking_parent, worker_of

from outlast import Client, WorkflowHandle
from outlast.errors import (
    OwnersDiedError,
    ResetRefusedError,
    WorkflowAlreadyStartedError,
    WorkflowCancelledError,
    WorkflowFailedError,
    WorkflowNotResumableError,
)
from outlast.testing import check_database

PATIENCE_S = 60
KILLED = -signal.SIGKILL
STATEMENTS = 100
"""No verb has as many."""


async def ended(some: ForkServerProcess) -> int | None:
    """Wait for a process; return its exit code."""
    await asyncio.to_thread(some.join, PATIENCE_S)
    return some.exitcode


@asynccontextmanager
async def running(*some: ForkServerProcess) -> AsyncGenerator[None]:
    """Leave none of these processes behind."""
    try:
        yield
    finally:
        for one in some:
            one.kill()
            await ended(one)


async def heard(told: Connection) -> Any:
    """Wait for what another process tells."""
    assert await asyncio.to_thread(told.poll, PATIENCE_S), "the other process tells nothing"
    return told.recv()


def sound(client: Client) -> None:
    with client.runtime.database.reader() as connection:
        assert check_database(connection) == []


async def cancelled(client: Client, workflow_id: str) -> WorkflowHandle[list[int]]:
    """Start a workflow that takes one of two steps and waits, and cancel it there; a worker is running."""
    handle = await client.start(Steps.run, 2, 1, id=workflow_id)
    assert await handle.memo_value("waits", timeout=PATIENCE_S)
    await handle.cancel("to be resumed")
    with pytest.raises(WorkflowCancelledError):
        await handle.result()
    return handle


async def chain_of(client: Client, workflow_id: str) -> list[str]:
    """The statuses of all runs of a workflow, in order."""
    runs = [run async for run in client.list(workflow_id=workflow_id)]
    return [str(run.status) for run in sorted(runs, key=lambda run: run.run_number)]


# --- runs that take their workers down ----------------------------------------------------------------------------


async def take_down(url: str, most_losses: int, done: Callable[[], Any]) -> int:
    """Let workers die of their code until something holds; return how many have died."""
    for deaths in range(4 * most_losses):
        victim = process(control.work_and_die, url, most_losses)
        async with running(victim), asyncio.timeout(PATIENCE_S):
            while victim.is_alive():
                if await done():
                    return deaths
                await asyncio.sleep(0.02)
        assert victim.exitcode == KILLED
    raise AssertionError("the workflows take all workers down")


@pytest.mark.parametrize("budget", [1, pytest.param(4, marks=pytest.mark.nightly)])
async def test_a_parent_and_a_child_that_kill_their_workers_both_end_and_are_both_resumed(
    shared_url: str, budget: int
) -> None:
    async with Client.connect(shared_url) as client:
        parent = await client.start(striking_parent, id="p")
        child = client.handle("p/child")

        async def both_ended() -> bool:
            return await client.count(status="failed") == 2

        assert await take_down(shared_url, budget, both_ended) > budget
        for handle in (parent, child):
            with pytest.raises(WorkflowFailedError) as failed:
                await handle.result()
            assert isinstance(failed.value.__cause__, OwnersDiedError)
            assert (failed.value.__cause__.owner_losses, failed.value.__cause__.limit) == (budget + 1, budget)
        sound(client)
        # The budget is a new one: as many workers may die again, of code that is still broken.
        for handle in (child, parent):
            await handle.resume(reason="try again")
            assert (await client.describe(handle.workflow_id)).run.owner_losses == 0
        again = await client.handle("p").resolve()
        for _ in range(budget):
            victim = process(control.work_and_die, shared_url, budget)
            async with running(victim):
                assert await ended(victim) == KILLED
        async with worker_of(client), asyncio.timeout(PATIENCE_S):
            assert await parent.result() == ["parent", "child"]
            assert await child.result() == "child"
        assert await client.handle("p").resolve() == again, "it went on, and no other run was needed"
        assert await client.count(workflow_ids=["p", "p/child"], status="completed") == 2
        sound(client)


# --- handles that wait --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stopped", [False, True], ids=["awake", "stopped"])
async def test_an_old_handle_in_another_process_gets_the_result_of_the_resumed_run(
    shared_url: str, stopped: bool
) -> None:
    """It waits from the beginning; a process that is stopped until the resume sees both at once."""
    control.make_tables(shared_url)
    async with Client.connect(shared_url) as client, worker_of(client):
        handle = await client.start(Steps.run, 2, 1, id="w")
        here, there = PROCESSES.Pipe(duplex=False)
        waiter = process(control.wait_for_result, shared_url, "w", there)
        async with running(waiter):
            assert await heard(here) == "waiting"
            assert await handle.memo_value("waits", timeout=PATIENCE_S)
            if stopped:
                os.kill(waiter.pid or 0, signal.SIGSTOP)
            await handle.cancel()
            with pytest.raises(WorkflowCancelledError):
                await handle.result()
            if not stopped:
                assert await heard(here) == "cancelled"
            again = await handle.resume()
            if stopped:
                os.kill(waiter.pid or 0, signal.SIGCONT)
            await again.signal(Steps.go)
            assert await again.result() == [0, 1]
            assert await heard(here) == [0, 1]
            assert await ended(waiter) == 0
        sound(client)
    assert control.steps_taken(shared_url) == {"w": {0: 1, 1: 1}}


# --- whoever does it is killed ------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["resume", "fork"])
async def test_a_verb_whose_process_is_killed_at_any_statement_is_done_whole_or_not_at_all(
    shared_url: str, verb: str
) -> None:
    control.make_tables(shared_url)
    expected: dict[str, Counter[int]] = {}
    outcomes: list[bool] = []
    async with Client.connect(shared_url) as client, worker_of(client):
        for at in range(STATEMENTS):
            workflow_id = f"w-{at}"
            made_id = workflow_id if verb == "resume" else f"{workflow_id}-fork"
            original = await cancelled(client, workflow_id)
            operator = process(getattr(control, f"{verb}_one"), shared_url, workflow_id, at)
            async with running(operator):
                code = await ended(operator)
            done = await client.count(workflow_ids=[made_id]) == 1
            if verb == "resume":
                chain = await chain_of(client, workflow_id)
                assert chain == ["cancelled", "running"][: len(chain)]
                done = len(chain) == 2
            outcomes.append(done)
            sound(client)
            # Whoever does not know what became of it does it again.
            try:
                if verb == "resume":
                    await original.resume()
                else:
                    await original.fork("before-cancel", id=made_id, duplicate_policy="reject_duplicate")
                assert not done
            except (WorkflowNotResumableError, WorkflowAlreadyStartedError):
                assert done
            made = client.handle(made_id, result_type=list[int])
            await made.signal(Steps.go)
            assert await made.result() == [0, 1]
            expected[workflow_id] = Counter({0: 1})
            expected.setdefault(made_id, Counter()).update({1: 1})
            if code == 0:
                break
            assert code == KILLED
        sound(client)
    assert control.steps_taken(shared_url) == expected
    # It was killed before it had begun, in between, after the commit of which it had not heard, and at last not at all.
    assert outcomes == sorted(outcomes)
    assert outcomes.count(False) > 3
    assert outcomes.count(True) >= 2


@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=pytest.mark.nightly)], ids=["few", "many"])
async def test_bulk_verbs_whose_worker_is_killed_have_done_each_whole_or_not_at_all(
    shared_url: str, rounds: int
) -> None:
    rng = random.Random(5)
    control.make_tables(shared_url)
    killed = 0
    async with Client.connect(shared_url) as client:
        for number in range(rounds):
            ids = [f"w-{number}-{one}" for one in range(6)]
            async with worker_of(client):
                await asyncio.gather(*[cancelled(client, workflow_id) for workflow_id in ids])
            # An activity whose workers have died four times fails, so it is not more often.
            for verbs in (("resume", "fork"), ("fork", "resume")):
                operator = process(control.treat_all, shared_url, ids, verbs, rng.randint(0, 50))
                async with running(operator):
                    code = await ended(operator)
                assert code in (0, KILLED)
                killed += code == KILLED
                sound(client)
                for workflow_id in ids:
                    chain = await chain_of(client, workflow_id)
                    assert chain == ["cancelled", "running"][: len(chain)]
            again = [outcome async for outcome in client.bulk(workflow_ids=ids).resume()]
            assert all(one.done or isinstance(one.error, WorkflowNotResumableError) for one in again)
            forks = {
                run.workflow_id async for run in client.list(was_forked_from=False) if run.forked_from in ids
            }
            async with worker_of(client), asyncio.timeout(PATIENCE_S):
                for workflow_id in (*ids, *forks):
                    await client.signal(workflow_id, Steps.go)
                    assert await client.handle(workflow_id).result() == [0, 1]
            for workflow_id in ids:
                assert await chain_of(client, workflow_id) == ["cancelled", "completed"]
            sound(client)
            taken = control.steps_taken(shared_url)
            assert all(taken[workflow_id] == {0: 1, 1: 1} for workflow_id in (*ids, *forks))
    assert killed


# --- forks at any step --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "kills"), [(4, 2), pytest.param(40, 20, marks=pytest.mark.nightly)], ids=["few", "many"]
)
async def test_forks_at_each_event_take_exactly_the_steps_after_it_while_workers_are_killed(
    shared_url: str, count: int, kills: int
) -> None:
    rng = random.Random(6)
    control.make_tables(shared_url)
    expected = {"w": Counter(range(count))}
    async with Client.connect(shared_url) as client:
        async with worker_of(client):
            original = await client.start(Steps.run, count, id="w")
            assert await original.result() == list(range(count))
        events = [event async for event in original.history()]
        completed = {
            event.payload["result"]: event.seq for event in events if event.type == "ActivityCompleted"
        }
        points: list[int] = []
        for event in events:
            try:
                await original.fork(event.seq, id=f"at-{event.seq}")
            except ResetRefusedError:
                continue
            points.append(event.seq)
            expected[f"at-{event.seq}"] = Counter(
                number for number, seq in completed.items() if seq > event.seq
            )
        for event in events:
            if event.type == "ActivityScheduled":
                number = event.payload["input"][0]
                await original.fork(before=event.payload["command_id"], id=f"before-{number}")
                expected[f"before-{number}"] = Counter(range(number, count))
        done = asyncio.gather(*[client.handle(made).result() for made in expected])
        workers = [process(control.work, shared_url) for _ in range(2)]
        try:
            for _ in range(kills):
                await asyncio.wait([done], timeout=rng.uniform(0.3, 1.0))
                place = rng.randrange(2)
                workers[place].kill()
                await ended(workers[place])
                workers[place] = process(control.work, shared_url)
            async with asyncio.timeout(PATIENCE_S):
                assert all(result == list(range(count)) for result in await done)
        finally:
            async with running(*workers):
                pass
        sound(client)
    assert len(points) >= count
    taken = control.steps_taken(shared_url)
    assert taken == {made: steps for made, steps in expected.items() if steps}
