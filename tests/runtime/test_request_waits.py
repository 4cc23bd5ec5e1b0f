"""Who waits for the answer to a request gets it once, from this process or from a row."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from outlast.runtime.request_waits import RequestWaits
from outlast.runtime.unserved_waits import UnservedWaits
from outlast_store.journal.commit_news import Committed
from outlast_store.reads.requests import find_answered, find_deleted
from outlast_store.schema.rows import RequestKey, RequestRow
from outlast_store.transitions.requests import ACCEPTED, COMPLETED, DELETED, OPEN, REJECTED
from outlast_workflow.errors import JournalClosedError

KEY: RequestKey = ("first-run", "update", "u")


def row(state: str, answer: str | None = None, answer_seq: int | None = None) -> RequestRow:
    return RequestRow("first-run", "update", "u", "run", "put", "[]", state, answer, answer_seq, 0, None)


class NobodyLooks:
    """Waits that nobody looks after."""

    armed = True


NOBODY_LOOKS = cast("UnservedWaits", NobodyLooks())


class Database:
    """Rows that a test puts there, and what was asked of them."""

    def __init__(self) -> None:
        self.rows: list[RequestRow] = []
        self.deleted: list[RequestKey] = []
        self.owned_here = True
        self.asked: list[Any] = []
        self.watched = 0
        self.waits = RequestWaits(self.read, lambda run_id: self.owned_here, self.watch, NOBODY_LOOKS)

    async def read(self, query: Any, keys: list[RequestKey]) -> list[Any]:
        self.asked.append(query)
        found: dict[Any, list[Any]] = {find_answered: self.rows, find_deleted: self.deleted}
        return found[query]

    def watch(self) -> None:
        self.watched += 1

    def commit(self, answer: Any) -> None:
        committed = Committed(now=0)
        committed.answered[KEY] = answer
        self.waits.on_commit(committed)


@pytest.fixture
def database() -> Database:
    return Database()


async def started(waiting: Any) -> asyncio.Task[Any]:
    """A task that waits: it has run up to there once the loop has gone round."""
    task: asyncio.Task[Any] = asyncio.ensure_future(waiting)
    await asyncio.sleep(0)
    return task


async def test_what_this_process_writes_is_not_read(database: Database) -> None:
    subscription = database.waits.subscribe("update", "u")
    waiting = await started(database.waits.wait(subscription, KEY, "run"))
    assert database.watched == 1
    database.commit((REJECTED, {"type": "No"}))
    assert await waiting == (REJECTED, {"type": "No"})
    assert database.asked == []


async def test_an_answer_that_came_before_the_wait_is_there(database: Database) -> None:
    subscription = database.waits.subscribe("update", "u")
    assert database.waits.subscribe("update", "u") is subscription
    database.commit((REJECTED, {}))
    assert await database.waits.wait(subscription, KEY, "run") == (REJECTED, {})


async def test_accepted_is_enough_only_for_whom_it_is_enough(database: Database) -> None:
    subscription = database.waits.subscribe("update", "u")
    both = [
        await started(database.waits.wait(subscription, KEY, "run", accepted=accepted))
        for accepted in (True, False)
    ]
    database.commit((ACCEPTED, None))
    assert await both[0] == (ACCEPTED, None)
    assert not both[1].done()
    database.commit((REJECTED, {}))
    assert await both[1] == (REJECTED, {})


async def test_what_another_process_writes_is_found_by_a_poll(database: Database) -> None:
    subscription = database.waits.subscribe("update", "u")
    waiting = await started(database.waits.wait(subscription, KEY, "run"))
    database.rows = [row(REJECTED, '{"type": "No"}')]
    await database.waits.poll()
    assert not waiting.done(), "a run of this process is looked up only everywhere"
    await database.waits.poll(everywhere=True)
    assert await waiting == (REJECTED, {"type": "No"})


@pytest.mark.parametrize("run_id", ["run", None])
async def test_a_request_of_a_run_elsewhere_is_looked_up_at_once(
    database: Database, run_id: str | None
) -> None:
    database.owned_here = run_id is None
    database.rows = [row(REJECTED, "{}")]
    subscription = database.waits.subscribe("update", "u")
    assert await database.waits.wait(subscription, KEY, run_id) == (REJECTED, {})


async def test_an_update_that_went_with_its_workflow_is_answered_so(database: Database) -> None:
    subscription = database.waits.subscribe("update", "u")
    waiting = await started(database.waits.wait(subscription, KEY, "run"))
    database.deleted = [KEY]
    await database.waits.poll(everywhere=True)
    assert await waiting == (DELETED, None)


def test_a_row_is_new_only_if_it_says_more(database: Database) -> None:
    subscription = database.waits.subscribe("update", "u")
    assert not subscription.take_in(row(OPEN))
    assert subscription.take_in(row(OPEN, answer_seq=4))
    assert not subscription.take_in(row(OPEN, answer_seq=4))
    assert subscription.take_in(row(COMPLETED, answer_seq=7))
    assert not subscription.take_in(row(OPEN, answer_seq=4))
    assert subscription.answers[KEY] == (COMPLETED, ("run", 7))


async def test_who_waits_when_all_is_closed_is_told_so(database: Database) -> None:
    subscription = database.waits.subscribe("update", "u")
    waiting = await started(database.waits.wait(subscription, KEY, "run"))
    database.waits.close()
    with pytest.raises(JournalClosedError):
        await waiting
    with pytest.raises(JournalClosedError):
        await database.waits.wait(subscription, KEY, "run")


async def test_who_waits_first_is_told_first(database: Database) -> None:
    subscription = database.waits.subscribe("update", "u")
    told: list[int] = []

    async def wait(number: int) -> None:
        await database.waits.wait(subscription, KEY, "run")
        told.append(number)

    waiting = [await started(wait(number)) for number in range(50)]
    database.commit((REJECTED, {"type": "No"}))
    await asyncio.gather(*waiting)
    assert told == list(range(50))
