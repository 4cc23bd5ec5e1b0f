"""A handler that returns ``activity.defer()``, wherever it runs; and what it takes for that to be allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from tests.activities.importing import imported
from tests.activities.running import START

from outlast_activities import context as activity
from outlast_activities.attempts import AttemptEnd
from outlast_activities.context import Deferred
from outlast_activities.definitions import defn
from outlast_activities.heartbeats import Due
from outlast_activities.task_token import read_token
from outlast_workflow.environment import Environment
from outlast_workflow.errors.context import NotInActivityError
from outlast_workflow.errors.refusals import DeferRefusedError

BOUNDED = {"start_to_close_deadline_at": START + 60_000_000}

JOBS = """
from outlast_activities import context as activity
from outlast_activities.definitions import defn


@defn(executor="process")
def ask() -> str:
    activity.heartbeat("asked")
    return activity.defer()


@defn(executor="process")
def token() -> str:
    return activity.info().task_token
"""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """A module that another process can import too."""
    yield from imported(tmp_path_factory, "outlast_deferring_jobs", JOBS)


def refused(outcome: Any, type: str = "ApplicationError") -> str:
    """The message of an attempt that failed for good."""
    assert isinstance(outcome, AttemptEnd)
    assert outcome.failure is not None
    assert (outcome.failure["type"], outcome.failure["non_retryable"]) == (type, True)
    return str(outcome.failure["message"])


@defn
async def ask() -> str:
    return activity.defer()


@defn
def ask_plainly() -> str:
    return activity.defer()


@pytest.mark.parametrize("column", ["start_to_close", "schedule_to_close", "heartbeat"])
async def test_each_kind_of_timeout_lets_a_handler_defer(bench: Any, column: str):
    bound = {f"{column}_deadline_at": START + 60_000_000}
    assert isinstance(await bench.run(ask, **bound), Deferred)
    assert isinstance(await bench.run(ask_plainly, **bound), Deferred)
    assert bench.runner.free == 10
    assert not bench.runner.running


async def test_a_handler_defers_in_place_and_in_another_process(
    new_bench: Callable[..., Any], jobs: ModuleType
):
    in_place = new_bench(environment=Environment(threads=False))
    assert isinstance(await in_place.run(ask_plainly, **BOUNDED), Deferred)
    elsewhere = new_bench(max_concurrent=2)
    task = elsewhere.task(jobs.token)
    assert elsewhere.runner.reserve()
    elsewhere.runner.start(task)
    assert read_token(await elsewhere.end()) == task.key

    taken: list[Due | None] = []
    told = elsewhere.runner._on_end

    def take(task: Any, outcome: Any) -> None:
        taken.append(elsewhere.heartbeats.take_newest(task.key))
        told(task, outcome)

    elsewhere.runner._on_end = take
    assert isinstance(await elsewhere.run(jobs.ask, **BOUNDED), Deferred)
    assert [due and due.details for due in taken] == ['["asked"]'], "its last heartbeat comes home"


async def test_the_token_names_the_attempt(bench: Any):
    @defn
    async def token() -> str:
        return activity.info().task_token

    task = bench.start(token, attempt=5, uncharged=2)
    assert read_token(await bench.end()) == task.key == ("run-1", task.activity_id, 5)


async def test_without_a_timeout_it_is_refused_where_it_is_called(bench: Any):
    seen: list[DeferRefusedError] = []

    @defn
    async def unbounded() -> str:
        try:
            return activity.defer()
        except DeferRefusedError as error:
            seen.append(error)
            raise

    message = refused(await bench.run(unbounded), "DeferRefusedError")
    assert "nothing bounds unbounded" in message
    assert "start_to_close_timeout" in message
    assert len(seen) == 1
    assert "local activity" in refused(await bench.run(ask, local=True, **BOUNDED), "DeferRefusedError")


async def test_what_defers_must_return_that(bench: Any):
    @defn
    async def forgetful() -> None:
        activity.defer()

    @defn
    def wrapping() -> dict[str, str]:
        return {"approval": activity.defer()}

    @defn
    async def raising() -> str:
        activity.defer()
        raise ValueError("after all")

    for definition in (forgetful, wrapping):
        message = refused(await bench.run(definition, **BOUNDED))
        assert "`return activity.defer()`" in message
    assert (await bench.run(raising, **BOUNDED)).failure["type"] == "ValueError", "it failed like any other"


async def test_a_worker_that_stops_does_not_take_the_attempt_back(bench: Any):
    """Somebody outside may have its token by then."""
    begun = asyncio.Event()

    @defn
    async def slow() -> str:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            return activity.defer()  # noqa: B012

    for reason in ("worker_shutdown", "cancel_requested"):
        begun.clear()
        task = bench.start(slow, **BOUNDED)
        await begun.wait()
        assert bench.tell(task, reason)
        assert isinstance(await bench.end(), Deferred)


def test_outside_an_activity_there_is_nothing_to_defer():
    with pytest.raises(NotInActivityError, match=r"activity\.defer\(\)"):
        activity.defer()
