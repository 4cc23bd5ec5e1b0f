"""What fails is logged once, with its type, its stack and what follows; what succeeds is not logged at all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Client, RetryPolicy, StartOptions, Worker, activity, workflow
from outlast.errors import ApplicationError, WorkflowFailedError, WorkflowTimeoutError
from outlast.runtime import runtime as runtimes
from outlast.testing import TestEnvironment
from outlast_migrations import HEAD
from outlast_store.journal.commit_news import Committed

TWICE = RetryPolicy(initial_interval=2, max_attempts=2)
CARD = "4111-1111"


@activity.defn(start_to_close_timeout=10, retry_policy=TWICE)
async def charge(card: str) -> int:
    return {"other": 1}["missing"]


@activity.defn(start_to_close_timeout=10)
async def refuse(card: str) -> None:
    raise ApplicationError("declined", {"card": card}, type="Declined", non_retryable=True)


@activity.defn(start_to_close_timeout=5, retry_policy=TWICE)
async def hang(card: str) -> None:
    await asyncio.sleep(1000)


@activity.defn(start_to_close_timeout=5)
async def fine(card: str) -> str:
    return card


@workflow.defn
async def order(name: str, card: str) -> Any:
    calls: dict[str, Any] = {"charge": charge, "refuse": refuse, "hang": hang, "fine": fine}
    return await calls[name](card)


@workflow.defn
async def nap(card: str) -> None:
    await workflow.sleep(1000)


def environment() -> TestEnvironment:
    return TestEnvironment(workflows=[order, nap], activities=[charge, refuse, hang, fine])


@pytest.fixture
def failures(caplog: pytest.LogCaptureFixture) -> Iterator[list[logging.LogRecord]]:
    """The records of the failure log, as they come."""
    found: list[logging.LogRecord] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    keeper = Keeper()
    logger = logging.getLogger("outlast.failures")
    logger.addHandler(keeper)
    yield found
    logger.removeHandler(keeper)


def lines(records: list[logging.LogRecord]) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in records]


async def test_an_attempt_that_failed_is_a_warning_and_the_last_one_an_error(
    failures: list[logging.LogRecord],
) -> None:
    async with environment() as env:
        with pytest.raises(WorkflowFailedError):
            await env.client.execute(order, "charge", CARD, id="o-1")
    first, last, run = failures
    what = "activity charge (1) of workflow o-1"
    assert lines([first, last]) == [
        (
            "WARNING",
            f"{what} failed (attempt 1 of 2; next try in 2 s): KeyError: 'missing'",
        ),
        (
            "ERROR",
            f"{what} failed (attempt 2 of 2, maximum attempts reached): KeyError: 'missing'",
        ),
    ]
    assert run.levelname == "ERROR"
    assert run.getMessage().startswith("workflow o-1 (order, run ")
    assert run.getMessage().endswith(
        " failed: activity charge failed (attempt 2, maximum attempts reached): KeyError: 'missing'"
    )
    shown = logging.Formatter().format(first)
    assert f'File "{__file__}", line ' in shown
    assert "\noutlast.errors.ApplicationError: KeyError: 'missing'\n" in shown
    assert "in charge\n    return {" in shown, "the stack shows the line of code"
    told = vars(first)
    assert {
        name: told[name]
        for name in ("workflow_id", "workflow_type", "activity_type", "attempt", "max_attempts")
    } == {
        "workflow_id": "o-1",
        "workflow_type": "order",
        "activity_type": "charge",
        "attempt": 1,
        "max_attempts": 2,
    }
    assert (told["closed"], vars(last)["closed"]) == (False, True)
    assert told["next_attempt_at"].endswith("+00:00")
    assert CARD not in "".join(logging.Formatter().format(record) + str(vars(record)) for record in failures)


async def test_the_details_of_an_exception_are_not_logged(failures: list[logging.LogRecord]) -> None:
    async with environment() as env:
        with pytest.raises(WorkflowFailedError):
            await env.client.execute(order, "refuse", CARD, id="o-2")
    assert lines(failures)[0] == (
        "ERROR",
        "activity refuse (1) of workflow o-2 failed (attempt 1, non retryable failure): Declined: declined",
    )
    assert len(failures) == 2
    assert CARD not in "".join(logging.Formatter().format(record) + str(vars(record)) for record in failures)


async def test_a_timeout_that_the_watchdog_finds_is_logged_alike_and_once(
    failures: list[logging.LogRecord],
) -> None:
    async with environment() as env:
        with pytest.raises(WorkflowFailedError):
            await env.client.execute(order, "hang", CARD, id="o-3")
        with pytest.raises(WorkflowTimeoutError):
            await env.client.execute(nap, CARD, id="n-1", options=StartOptions(run_timeout=10))
    first, last, run, napped = failures
    assert first.getMessage().startswith(
        "activity hang (1) of workflow o-3 timed out (attempt 1 of 2; next try in 2 s): start_to_close, "
    )
    assert last.getMessage().startswith(
        "activity hang (1) of workflow o-3 timed out (attempt 2 of 2, maximum attempts reached): start_to_close, "
    )
    assert napped.getMessage().startswith("workflow n-1 (nap, run ")
    assert " timed out: run_timeout, " in napped.getMessage()
    assert [record.levelname for record in (first, last, run, napped)] == [
        "WARNING",
        "ERROR",
        "ERROR",
        "ERROR",
    ]
    for record in (first, last, napped):
        assert vars(record)["lateness_s"] >= 0
        assert vars(record)["deadline_at"].endswith("+00:00")


async def test_a_run_that_is_followed_by_another_is_a_warning(failures: list[logging.LogRecord]) -> None:
    policy = RetryPolicy(initial_interval=30, max_attempts=2)
    async with environment() as env:
        with pytest.raises(WorkflowTimeoutError):
            await env.client.execute(
                nap, CARD, id="n-2", options=StartOptions(run_timeout=10, retry_policy=policy)
            )
    assert [record.levelname for record in failures] == ["WARNING", "ERROR"]
    assert "timed out (attempt 1; next run in 30 s): run_timeout" in failures[0].getMessage()
    assert "timed out (attempt 2): run_timeout" in failures[1].getMessage()


async def test_what_succeeds_never_reaches_the_failure_log(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[Committed] = []
    monkeypatch.setattr(runtimes, "log_failures", reached.append)
    async with environment() as env:
        await env.client.execute(order, "fine", CARD, id="o-4")
        assert not reached
        with pytest.raises(WorkflowFailedError):
            await env.client.execute(order, "refuse", CARD, id="o-5")
        assert reached


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """What an application with ``logging.basicConfig(level=INFO)`` would print."""
    found: list[logging.LogRecord] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    root, keeper = logging.getLogger(), Keeper()
    before = root.level
    root.addHandler(keeper)
    root.setLevel(logging.INFO)
    yield found
    root.removeHandler(keeper)
    root.setLevel(before)
    logging.getLogger("alembic").setLevel(logging.NOTSET)


@pytest.mark.usefixtures("migrated_step_by_step")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_worker_says_what_it_serves_and_libraries_are_quiet(
    logged: list[logging.LogRecord], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    async with (
        Client.connect(url) as client,
        Worker(client, task_queue=["fast", "slow"], workflows=[order, nap], activities=[fine]) as worker,
    ):
        assert await client.execute(order, "fine", CARD, task_queue="fast") == CARD
        async with Client.connect(url):
            pass
    assert [(record.name, record.getMessage()) for record in logged] == [
        ("outlast.runtime", f"{url} was migrated from no schema to version {HEAD}"),
        (
            "outlast.worker",
            f"worker {worker.worker_id} serves task queue fast, slow on {url}: workflows nap, order; activities fine",
        ),
    ]


@pytest.mark.usefixtures("migrated_step_by_step")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_level_that_the_application_sets_for_alembic_is_obeyed(
    logged: list[logging.LogRecord], tmp_path: Path
) -> None:
    logging.getLogger("alembic").setLevel(logging.INFO)
    async with Client.connect(f"sqlite:///{tmp_path}/app.db"):
        pass
    assert any(record.name == "alembic.runtime.migration" for record in logged)
    assert logging.getLogger("alembic").level == logging.INFO
