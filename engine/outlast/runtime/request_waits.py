"""Request waits: the answers to updates and queries, on their way to the callers in this process that wait for them.

The journal reports the answers that this process writes, so nobody reads the database for those. Answers that another
process writes are found when the notifier announces a commit: one query covers all requests that somebody waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

from outlast.runtime.unserved_waits import UnservedWaits
from outlast_store.journal.commit_news import Answer, Committed
from outlast_store.reads.histories import find_event
from outlast_store.reads.requests import answer_to, find_answered, find_deleted
from outlast_store.schema.rows import RequestKey, RequestRow
from outlast_store.transitions.requests import ACCEPTED, COMPLETED, DELETED, OPEN, REJECTED
from outlast_workflow.errors import DamagedHistoryError, JournalClosedError
from outlast_workflow.history.events import stored_event

MOST_KEYS: Final = 200
"""How many requests one query asks about."""

Read = Callable[..., Awaitable[Any]]


class RequestSubscription:
    """The answers to all requests with one id, as this process learns them.

    Callers hold it while they wait, and make it before they send the request, so that they miss nothing.
    """

    __slots__ = ("__weakref__", "answers")

    def __init__(self) -> None:
        self.answers: dict[RequestKey, Answer] = {}

    def take_in(self, row: RequestRow) -> bool:
        """Note what a request's row says; return whether that is new."""
        answer, before = answer_of(row), self.answers.get(row.key)
        if answer is None or (before is not None and (before[0] != ACCEPTED or answer[0] == ACCEPTED)):
            return False
        self.answers[row.key] = answer
        return True


class RequestWait:
    """One caller that waits for an answer to one request."""

    __slots__ = ("future", "key", "run_id", "subscription")

    def __init__(
        self,
        subscription: RequestSubscription,
        key: RequestKey,
        run_id: str | None,
        future: asyncio.Future[None],
    ) -> None:
        self.subscription = subscription
        self.key = key
        self.run_id = run_id
        self.future = future

    def wake(self) -> None:
        """Let the caller read its subscription again."""
        if not self.future.done():
            self.future.set_result(None)

    def fail(self, error: BaseException) -> None:
        """Tell the caller that it waits in vain."""
        if not self.future.done():
            self.future.set_exception(error)


class RequestWaits:
    """Who waits for the answer to a request in this process.

    Args:
        read: Reads the database.
        is_owned_here: Tells whether a worker of this process owns a run, so that this process most likely writes the
            answer.
        watch: Makes sure that :meth:`poll` is called when other processes may have written.
        unserved: Looks after waits that no worker could end.
    """

    def __init__(
        self,
        read: Read,
        is_owned_here: Callable[[str], bool],
        watch: Callable[[], None],
        unserved: UnservedWaits,
    ) -> None:
        self._unserved = unserved
        self._read = read
        self._is_owned_here = is_owned_here
        self._watch = watch
        self._subscriptions: WeakValueDictionary[tuple[str, str], RequestSubscription] = WeakValueDictionary()
        self._waits: dict[RequestKey, dict[RequestWait, None]] = {}
        """By request, in the order in which they began, which is the order in which they are woken."""
        self._closed = False

    @property
    def awaited(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waits)

    @property
    def awaited_runs(self) -> set[str]:
        """The runs from which somebody waits for an answer."""
        waits = (wait for waiting in self._waits.values() for wait in waiting)
        return {wait.run_id for wait in waits if wait.run_id is not None}

    def subscribe(self, kind: str, request_id: str) -> RequestSubscription:
        """Return where answers are noted from now on, for as long as somebody holds it.

        Args:
            kind: ``update`` or ``query``.
            request_id: The id of the requests.
        """
        subscription = self._subscriptions.get((kind, request_id))
        if subscription is None:
            subscription = self._subscriptions[kind, request_id] = RequestSubscription()
        return subscription

    def on_commit(self, committed: Committed) -> None:
        """Note the answers that this process has written."""
        for key, answer in committed.answered.items():
            subscription = self._subscriptions.get(key[1:])
            if subscription is not None:
                subscription.answers[key] = answer
                self._wake(key)

    async def wait(
        self,
        subscription: RequestSubscription,
        key: RequestKey,
        run_id: str | None,
        *,
        accepted: bool = False,
    ) -> Answer:
        """Wait for the answer to a request.

        Args:
            subscription: The subscription to the request's id.
            key: The request.
            run_id: The run that answers; ``None`` if the answer comes from another process, whichever owns the run.
            accepted: Whether to return as soon as the request is accepted.

        Raises:
            JournalClosedError: The last client has been closed.
        """
        while True:
            answer = subscription.answers.get(key)
            if answer is not None and (accepted or answer[0] != ACCEPTED):
                return await self._whole(key, answer)
            if self._closed:
                raise JournalClosedError
            await self._next_answer(subscription, key, run_id, before=answer)

    async def _next_answer(
        self, subscription: RequestSubscription, key: RequestKey, run_id: str | None, *, before: Answer | None
    ) -> None:
        wait = RequestWait(subscription, key, run_id, asyncio.get_running_loop().create_future())
        self._waits.setdefault(key, {})[wait] = None
        self._watch()
        if run_id is not None and not self._unserved.armed:
            self._unserved.arm(run_id)
        try:
            if run_id is None or not self._is_owned_here(run_id):
                await self._look_up([wait])
                if subscription.answers.get(key) != before:
                    return
            await wait.future
        finally:
            waiting = self._waits[key]
            del waiting[wait]
            if not waiting:
                del self._waits[key]

    async def _whole(self, key: RequestKey, answer: Answer) -> Answer:
        """Return an answer with its event, which another process has put into a history."""
        state, place = answer
        if state == COMPLETED and isinstance(place, tuple):
            event = await self._read(find_event, *place)
            return (state, stored_event(*place, *event)) if event is not None else (DELETED, None)
        return answer

    async def poll(self, *, everywhere: bool = False) -> None:
        """Look for answers that other processes have written.

        Args:
            everywhere: Whether to look for answers by runs that a worker of this process owns, too.
        """
        waits = [wait for waiting in self._waits.values() for wait in waiting]
        if not everywhere:
            waits = [wait for wait in waits if wait.run_id is None or not self._is_owned_here(wait.run_id)]
        for start in range(0, len(waits), MOST_KEYS):
            await self._look_up(waits[start : start + MOST_KEYS])
        if everywhere:
            await self._look_for_deleted()

    async def _look_for_deleted(self) -> None:
        """Find updates that were deleted with their workflow and will have no answer.

        Queries need no such look: they are deleted when nobody waits for them any more.
        """
        keys = [key for key in self._waits if key[1] == "update"]
        for start in range(0, len(keys), MOST_KEYS):
            for key in await self._read(find_deleted, keys[start : start + MOST_KEYS]):
                for wait in self._waits.get(key, ()):
                    known = wait.subscription.answers.get(key)
                    if known is None or known[0] == ACCEPTED:
                        wait.subscription.answers[key] = DELETED, None
                self._wake(key)

    async def _look_up(self, waits: Sequence[RequestWait]) -> None:
        rows = await self._read(find_answered, sorted({wait.key for wait in waits}))
        for row in rows:
            subscription = self._subscriptions.get(row.key[1:])
            try:
                if subscription is not None and subscription.take_in(row):
                    self._wake(row.key)
            except DamagedHistoryError as error:
                # Only those who wait for this one: the others' answers are whole.
                for wait in self._waits.get(row.key, ()):
                    wait.fail(error)

    def fail(self, run_id: str, error: BaseException) -> None:
        """Fail those who wait now for an answer of a run.

        Args:
            run_id: The run.
            error: Why waiting is in vain.
        """
        for waiting in self._waits.values():
            for wait in waiting:
                if wait.run_id == run_id:
                    wait.fail(error)

    def _wake(self, key: RequestKey) -> None:
        for wait in self._waits.get(key, ()):
            wait.wake()

    def close(self) -> None:
        """Wake all who wait; they fail because the client is closed."""
        self._closed = True
        for waiting in self._waits.values():
            for wait in waiting:
                wait.wake()


def answer_of(row: RequestRow) -> Answer | None:
    """Return what a request's row says; for an answer that is in a history, its place.

    Raises:
        DamagedHistoryError: The answer cannot be read.
    """
    if row.state == OPEN:
        return (ACCEPTED, None) if row.answer_seq is not None else None
    if row.state == COMPLETED:
        return COMPLETED, (row.run_id, row.answer_seq)
    if row.state == REJECTED:
        return REJECTED, answer_to(row)
    return row.state, row.answer
