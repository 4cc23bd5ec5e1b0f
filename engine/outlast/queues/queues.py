"""What a client does to queues: ``client.queues``."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from outlast.runtime.runtime import Runtime
from outlast_store.journal.batch import Change
from outlast_store.queues.definitions import (
    DefineQueue,
    DeleteQueue,
    PauseQueue,
    ResumeQueue,
    UpdateQueue,
    definition_of,
)
from outlast_store.reads.queues import PAGE, QueueLoad, queue_load, queue_loads, unknown_queue
from outlast_store.schema.rows import QueueRow
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.other_names import explained
from outlast_workflow.options.queues import Queue, QueueOptions, Rate, checked_limits
from outlast_workflow.options.validation import (
    IfExists,
    check_if_exists,
    integer,
    validate_after,
    validate_note,
    validate_queue,
)

if TYPE_CHECKING:
    from outlast.queues.descriptions import QueueDescription

logger = logging.getLogger("outlast.client")


class Queues:
    """The queues of one database. A queue decides *when* a workflow begins, and its task queue *where*.

    Definitions are stored. Every process goes by them at once: none keeps a copy.

    Args:
        runtime: The database.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @explained("define", "queues.define('mails', concurrency=5)")
    async def define(
        self, name: str, *, if_exists: IfExists = "error", **limits: Unpack[QueueOptions]
    ) -> QueueDescription:
        """Define a queue: ``await client.queues.define("emails", concurrency=5)``. What is not given is not limited.

        Args:
            name: The queue. ``outlast`` and what continues it with a dot or an underscore are the engine's own names.
            if_exists: What to do about a queue that is defined already: ``error``, ``keep`` it as it is, or ``update``
                it to these limits and no others.
            **limits: As for :class:`outlast.Queue`.

        Raises:
            InvalidOptionError: The name or a limit cannot be used; nothing was written.
            QueueExistsError: It is defined already.
        """
        given: dict[str, Any] = {**limits}
        return await self.define_queue(Queue(name, **given), if_exists)

    @explained("update", "queues.update('mails', concurrency=5)")
    async def update(self, name: str, **limits: Unpack[QueueOptions]) -> QueueDescription:
        """Change the limits that are given; ``None`` lifts one. The next admission goes by them.

        What holds a slot goes on, also where a limit is now lower than what is under way.

        Args:
            name: The queue.
            **limits: As for :class:`outlast.Queue`.

        Raises:
            InvalidOptionError: A limit cannot be used, or contradicts one that stays; nothing was written.
            QueueNotFoundError: There is no such queue.
        """
        queue, changed = validate_queue(name), checked_limits("update", limits)
        if not changed:
            raise InvalidOptionError(
                "update needs a limit to change: give concurrency= or another one", field="limits"
            )
        return await self._written(await self._apply(UpdateQueue(queue, changed)))

    @explained("pause", "queues.pause('mails', 'why')")
    async def pause(self, name: str, note: str | None = None) -> None:
        """Admit nothing from a queue until it is resumed. What holds a slot goes on, and more may join the line.

        Args:
            name: The queue.
            note: Why, for the people who look at the queue.

        Raises:
            QueueNotFoundError: There is no such queue.
        """
        await self._apply(PauseQueue(validate_queue(name), validate_note(note)))

    @explained("resume", "queues.resume('mails')")
    async def resume(self, name: str) -> None:
        """Admit from a paused queue again; one that is not paused stays as it is.

        Raises:
            QueueNotFoundError: There is no such queue.
        """
        await self._apply(ResumeQueue(validate_queue(name)))

    @explained("delete", "queues.delete('mails')")
    async def delete(self, name: str) -> None:
        """Delete a queue.

        Raises:
            QueueNotFoundError: There is no such queue.
            QueueInUseError: Something waits in it or holds a slot.
        """
        await self._apply(DeleteQueue(validate_queue(name)))

    @explained("describe", "queues.describe('mails')")
    async def describe(self, name: str) -> QueueDescription:
        """Describe a queue: its limits, and what is in it now.

        Raises:
            QueueNotFoundError: There is no such queue.
        """
        queue, runtime = validate_queue(name), self._runtime
        now = runtime.environment.clock.now()
        load = await runtime.read(queue_load, now, queue)
        if load is None:
            raise await runtime.read(unknown_queue, queue)
        return _description(load, now)

    @explained("list", "queues.list()")
    async def list(self, *, after: str = "", limit: int | None = None) -> Sequence[QueueDescription]:
        """Return the queues, by name.

        Args:
            after: Only those whose names come after this one.
            limit: How many at most; ``None`` for all.

        Raises:
            InvalidOptionError: The limit cannot be used, or ``after`` is no text.
        """
        most = None if limit is None else integer("limit", limit, 0)
        after = validate_after(after)
        found: list[QueueDescription] = []
        while most is None or len(found) < most:
            wanted = PAGE if most is None else min(most - len(found), PAGE)
            now = self._runtime.environment.clock.now()
            # Each queue takes some statements, so the event loop leaves them to a thread.
            page = await self._runtime.read_aside(queue_loads, now, after, wanted)
            found += [_description(load, now) for load in page]
            if len(page) < wanted:
                break
            after = page[-1].row.queue
        return found

    async def define_queue(self, queue: Queue, if_exists: IfExists = "error") -> QueueDescription:
        """Define a queue that is given as a whole; see :meth:`define`.

        Args:
            queue: The definition.
            if_exists: What to do about a queue that is defined already.

        Raises:
            InvalidOptionError: It is no :class:`outlast.Queue`; nothing was written.
        """
        given: object = queue
        if not isinstance(given, Queue):
            raise InvalidOptionError(
                f"define_queue takes a Queue, not {type(given).__name__}: Queue('mails', concurrency=5)",
                field="queue",
            )
        check_if_exists(if_exists)
        row = await self._apply(DefineQueue(queue, if_exists))
        kept = definition_of(row)
        if kept != queue:
            # Two programs may each take their own limits for those that hold.
            logger.warning(
                "queue %s is defined already and keeps its limits, which are others than those given here: %s; "
                "`%s` changes them to these",
                queue.name,
                _differences(kept, queue),
                _update_command(kept, queue),
                extra={"queue": queue.name},
            )
        return await self._written(row)

    async def _written(self, row: QueueRow) -> QueueDescription:
        """Describe a queue that was just written, also where somebody has deleted it since: then nothing was in it."""
        now = self._runtime.environment.clock.now()
        load = await self._runtime.read(queue_load, now, row.queue)
        return _description(QueueLoad(row) if load is None else load, now)

    async def _apply(self, change: Change[QueueRow]) -> QueueRow:
        return await self._runtime.journal.apply(change)


def _differences(kept: Queue, given: Queue) -> str:
    return ", ".join(
        f"{name} is {_in_words(kept.limits[name])}, given {_in_words(limit)}"
        for name, limit in given.limits.items()
        if kept.limits[name] != limit
    )


def _in_words(limit: int | Rate | None) -> str:
    return "none" if limit is None else str(limit)


def _update_command(kept: Queue, given: Queue) -> str:
    options = [
        f"--{name.replace('_', '-')} {f'{limit.limit}/{limit.per:g}s' if isinstance(limit, Rate) else _in_words(limit)}"
        for name, limit in given.limits.items()
        if kept.limits[name] != limit
    ]
    return " ".join(["outlast queue update", shlex.quote(given.name), *options])


def _description(load: QueueLoad, now: int) -> QueueDescription:
    # A worker asks for none, and does without pydantic.
    from outlast.queues.descriptions import queue_description

    return queue_description(load, now)
