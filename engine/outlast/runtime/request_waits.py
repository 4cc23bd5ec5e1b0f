"""Answers to requests, on their way to whoever waits for them in this process.

What this process writes is heard from the journal, with the answer: nobody asks the database. What others write is
found when the notifier rings: the rows of all requests that are waited for are asked for in one statement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import orjson

from outlast_store.journal.commit_news import Answer, Committed
from outlast_store.reads.histories import find_event
from outlast_store.reads.requests import answered_among, deleted_among
from outlast_store.schema.rows import RequestKey, RequestRow
from outlast_store.transitions.requests import ACCEPTED, COMPLETED, DELETED, OPEN, REJECTED
from outlast_workflow.errors import JournalClosedError
from outlast_workflow.history.events import from_json

MOST_KEYS = 200

Read = Callable[..., Awaitable[Any]]


class Subscription:
    """What this process hears of the requests with one id; held by those who wait, made before they ask."""

    __slots__ = ("__weakref__", "heard")

    def __init__(self) -> None:
        self.heard: dict[RequestKey, Answer] = {}

    def learn(self, row: RequestRow) -> bool:
        """Take in what a row says; returns whether it is news."""
        answer, before = answer_of(row), self.heard.get(row.key)
        if answer is None or (before is not None and (before[0] != ACCEPTED or answer[0] == ACCEPTED)):
            return False
        self.heard[row.key] = answer
        return True


class Waiter:
    """Somebody who waits for news of one request."""

    __slots__ = ("future", "key", "run_id", "subscription")

    def __init__(
        self, subscription: Subscription, key: RequestKey, run_id: str, future: asyncio.Future[None]
    ) -> None:
        self.subscription = subscription
        self.key = key
        self.run_id = run_id
        self.future = future

    def wake(self) -> None:
        """There is news."""
        if not self.future.done():
            self.future.set_result(None)


class Answers:
    """Who waits for answers in this process.

    Args:
        read: Asks the database.
        is_here: Whether a worker of this process owns a run: then news that are not ours are rare.
        watch: See to it that :meth:`look` is called when others may have written.
    """

    def __init__(self, read: Read, is_here: Callable[[str], bool], watch: Callable[[], None]) -> None:
        self._read = read
        self._is_here = is_here
        self._watch = watch
        self._subscriptions: WeakValueDictionary[tuple[str, str], Subscription] = WeakValueDictionary()
        self._waiters: dict[RequestKey, set[Waiter]] = {}
        self._closed = False

    @property
    def awaited(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiters)

    def subscription(self, kind: str, request_id: str) -> Subscription:
        """What will be heard of a request from now on, as long as somebody holds on to it."""
        subscription = self._subscriptions.get((kind, request_id))
        if subscription is None:
            subscription = self._subscriptions[kind, request_id] = Subscription()
        return subscription

    def on_commit(self, committed: Committed) -> None:
        """This process has written."""
        for key, answer in committed.answered.items():
            subscription = self._subscriptions.get(key[1:])
            if subscription is not None:
                subscription.heard[key] = answer
                self._wake(key)

    async def wait(
        self, subscription: Subscription, key: RequestKey, run_id: str, *, accepted: bool = False
    ) -> Answer:
        """Wait for the answer of a request of a run; with ``accepted`` that is enough.

        Raises:
            JournalClosedError: The last client has been closed.
        """
        while True:
            answer = subscription.heard.get(key)
            if answer is not None and (accepted or answer[0] != ACCEPTED):
                return await self._whole(key, answer)
            if self._closed:
                raise JournalClosedError
            await self._news(subscription, key, run_id, before=answer)

    async def _news(
        self, subscription: Subscription, key: RequestKey, run_id: str, *, before: Answer | None
    ) -> None:
        waiter = Waiter(subscription, key, run_id, asyncio.get_running_loop().create_future())
        self._waiters.setdefault(key, set()).add(waiter)
        self._watch()
        try:
            if not self._is_here(run_id):
                await self._look_at([waiter])
                if subscription.heard.get(key) != before:
                    return
            await waiter.future
        finally:
            waiting = self._waiters[key]
            waiting.discard(waiter)
            if not waiting:
                del self._waiters[key]

    async def _whole(self, key: RequestKey, answer: Answer) -> Answer:
        """An answer with what it says: another process put that into a history."""
        state, place = answer
        if state == COMPLETED and isinstance(place, tuple):
            event = await self._read(find_event, *place)
            return (state, from_json(*event)) if event is not None else (DELETED, None)
        return answer

    async def look(self, *, everywhere: bool = False) -> None:
        """Others may have written; ``everywhere``: about runs that a worker of this process owns, too."""
        waiters = [waiter for waiting in self._waiters.values() for waiter in waiting]
        if not everywhere:
            waiters = [waiter for waiter in waiters if not self._is_here(waiter.run_id)]
        for start in range(0, len(waiters), MOST_KEYS):
            await self._look_at(waiters[start : start + MOST_KEYS])
        if everywhere:
            await self._look_for_deleted()

    async def _look_for_deleted(self) -> None:
        """Updates that went with their workflow will have no answer. (Queries go when nobody waits any more.)"""
        keys = [key for key in self._waiters if key[1] == "update"]
        for start in range(0, len(keys), MOST_KEYS):
            for key in await self._read(deleted_among, keys[start : start + MOST_KEYS]):
                for waiter in self._waiters.get(key, ()):
                    known = waiter.subscription.heard.get(key)
                    if known is None or known[0] == ACCEPTED:
                        waiter.subscription.heard[key] = DELETED, None
                self._wake(key)

    async def _look_at(self, waiters: Sequence[Waiter]) -> None:
        rows = await self._read(answered_among, sorted({waiter.key for waiter in waiters}))
        for row in rows:
            subscription = self._subscriptions.get(row.key[1:])
            if subscription is not None and subscription.learn(row):
                self._wake(row.key)

    def _wake(self, key: RequestKey) -> None:
        for waiter in self._waiters.get(key, ()):
            waiter.wake()

    def close(self) -> None:
        """Nobody will hear anything more, and who waits is told so."""
        self._closed = True
        for waiting in self._waiters.values():
            for waiter in waiting:
                waiter.wake()


def answer_of(row: RequestRow) -> Answer | None:
    """What a row says; of what is in a history, where."""
    if row.state == OPEN:
        return (ACCEPTED, None) if row.answer_seq is not None else None
    if row.state == COMPLETED:
        return COMPLETED, (row.run_id, row.answer_seq)
    if row.state == REJECTED:
        return REJECTED, orjson.loads(row.answer or "{}")
    return row.state, row.answer
