"""The runner: runs the attempts that this worker has claimed, and reports how each ended.

===================== =============================================================================================
handler               runs
===================== =============================================================================================
``async def``         as one task of the worker's loop; nothing else is made for it
``def``               in a thread, in a copy of the runner's context; in place where there may be no threads
``def``, ``process``  in another process, started when first needed
===================== =============================================================================================

``on_end`` is called on the loop exactly once per attempt, with its outcome. There are two exceptions. An attempt that
is lost (timed out, rescued, fenced) is not reported, because its outcome would be refused. An attempt whose activity is
closed as cancelled, alone or with its run, is reported only if it fails: a cleanup that did not succeed must be seen.

==================== ================================================= ==============================================
asked to stop for    the handler ends by                               the attempt is
==================== ================================================= ==============================================
cancel_requested     ``CancelledError``                                cancelled
cancel_requested     another exception; a result                       failed; completed
that, and closed     another exception                                 recorded as failed, though it is cancelled
that, and closed     ``CancelledError``; a result                      not reported
worker_shutdown      anything, once it has seen that                   released
worker_shutdown      anything, in a thread that never checked          as if it had not been asked
lost, timed_out      anything                                          not reported
nothing              ``CancelledError``, or any other exception        failed
==================== ================================================= ==============================================

The runner enforces no deadlines: no timeout is made for a handler. A handler whose outcome nobody waits for any longer
keeps its slot until it ends, because it keeps using the machine.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import Context, copy_context
from types import MappingProxyType
from typing import Any, Protocol

from outlast_activities.attempt_outcome import Completed, HandlerOutcome, OutcomeEncoder, let_go
from outlast_activities.attempts import HANDED_BACK, AttemptEnd
from outlast_activities.context import CURRENT, Cancelled, RunningActivity
from outlast_activities.definitions import ActivityDefinition
from outlast_activities.heartbeats import Heartbeats
from outlast_activities.process_pool import ProcessRunner
from outlast_activities.stop_reason import StopReason
from outlast_activities.stream_buffers import StreamBuffers
from outlast_activities.task import ActivityTask, AttemptKey
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.environment import Environment
from outlast_workflow.options.ambient import leave_scopes
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.primitives.enums import AttemptOutcome

logger = logging.getLogger("outlast.activities")

MOST_THREADS = 512
EXTRA_LOCAL_SLOTS = 100
"""Extra slots reserved for local activities, which no other worker can run."""
CANCEL_GRACE_S = 5.0

_IGNORED = (StopReason.LOST, StopReason.TIMED_OUT)


class Transactional(Protocol):
    """What runs the attempts of transactional activities: :class:`outlast_activities.transactions.Transactions`."""

    def run(self, running: RunningActivity) -> HandlerOutcome:
        """Run a plain function's attempt in the calling thread."""
        ...

    async def run_async(self, running: RunningActivity) -> HandlerOutcome:
        """Run an ``async`` function's attempt."""
        ...


class ActivityRunner:
    """Runs attempts; see the module. Call its methods on the loop that it was created on.

    Args:
        definitions: The activities by name.
        converter: Decodes inputs and encodes results.
        environment: Says whether threads are allowed.
        max_concurrent: How many attempts may run at once.
        heartbeats: Gets the heartbeats of handlers.
        streams: Gets what handlers write to streams.
        on_end: Called with the outcome of each attempt.
        thread_pool: Where plain functions run; by default a pool of the runner's own, one thread per slot, 512 at most.
        limits: Their payload limit applies to results.
        transactions: Makes what runs transactional activities, when the first one begins.
    """

    def __init__(
        self,
        definitions: Mapping[str, ActivityDefinition[..., Any]],
        *,
        converter: DataConverter,
        environment: Environment,
        max_concurrent: int,
        heartbeats: Heartbeats,
        streams: StreamBuffers,
        on_end: Callable[[ActivityTask, HandlerOutcome], None],
        thread_pool: ThreadPoolExecutor | None = None,
        limits: StructuralLimits | None = None,
        transactions: Callable[[OutcomeEncoder], Transactional] | None = None,
    ) -> None:
        self.max_concurrent = max_concurrent
        self._definitions = definitions
        self._converter = converter
        self._in_place = not environment.threads and environment.executor is None
        self._heartbeats = heartbeats
        self._streams = streams
        self._on_end = on_end
        self._outcomes = OutcomeEncoder(converter, limits if limits is not None else StructuralLimits())
        self._pool: Executor | None = thread_pool if thread_pool is not None else environment.executor
        self._own_pool: ThreadPoolExecutor | None = None
        self._processes: ProcessRunner | None = None
        self._make_transactions = transactions
        self._transactions: Transactional | None = None
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._context.run(leave_scopes)
        self._context.run(CURRENT.set, None)
        self._running: dict[AttemptKey, RunningActivity] = {}
        self._reserved = 0
        self._draining = False
        self._emptied: asyncio.Event | None = None
        self._ended: list[tuple[RunningActivity, HandlerOutcome]] = []
        self._ended_lock = threading.Lock()

    # --- slots ------------------------------------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """The number of free slots; none while draining."""
        return 0 if self._draining else self.max_concurrent - self._reserved

    @property
    def free_for_local(self) -> int:
        """The number of local attempts that may begin; these must not wait for other attempts to end."""
        return 0 if self._draining else self.max_concurrent + EXTRA_LOCAL_SLOTS - self._reserved

    def reserve(self, n: int = 1, *, local: bool = False) -> bool:
        """Reserve slots, all or none; return whether there were enough.

        This comes before the commit that makes attempts run here.

        Args:
            n: How many slots.
            local: Whether they are for local activities.
        """
        slots = self.max_concurrent + EXTRA_LOCAL_SLOTS if local else self.max_concurrent
        if self._draining or self._reserved + n > slots:
            return False
        self._reserved += n
        return True

    def free_slots(self, n: int = 1) -> None:
        """Free slots that were reserved for attempts which do not start after all."""
        self._reserved -= n

    @property
    def running(self) -> Mapping[AttemptKey, RunningActivity]:
        """The attempts that run here, by run id, activity id and attempt."""
        return MappingProxyType(self._running)

    # --- starting ---------------------------------------------------------------------------------------------------

    def start(self, task: ActivityTask) -> None:
        """Run an attempt. Its slot was reserved before, and is freed when the attempt ends."""
        definition = self._definitions.get(task.row.activity_type)
        if definition is None:
            logger.warning(
                "activity type %s is not known here: the attempt is released", task.row.activity_type
            )
            self.decline(task)
            return
        if definition.transactional and self._transactions is None:
            # Here on the loop: threads that need it at the same time would each make one, with connections of its own.
            assert self._make_transactions is not None, "this runner has no database"
            self._transactions = self._make_transactions(self._outcomes)
        running = RunningActivity(task, definition, self._converter, self._heartbeats, self._streams)
        self._running[task.key] = running
        context = self._context.copy()
        if definition.is_async:
            running.handle = self._loop.create_task(self._run_async(running), context=context)
        elif self._in_place:
            self._loop.call_soon(self._run_in_place, running, context=context)
        else:
            self._start_elsewhere(running, context)

    def decline(self, task: ActivityTask) -> None:
        """Release an attempt that a slot was reserved for, without starting it."""
        self._loop.call_soon(self._declined, task, context=self._context.copy())

    def _start_elsewhere(self, running: RunningActivity, context: Context) -> None:
        try:
            if running.definition.executor == "process":
                self._process_runner().start(running)
            else:
                pool = self._thread_pool()
                running.handle = pool.submit(context.run, self._run_in_thread, running)
        except RuntimeError as error:
            # The pool was shut down: this process is about to end.
            logger.warning("%r cannot be run here and is released: %s", running.task, error)
            self._loop.call_soon(self._finish, running, HANDED_BACK, context=self._context.copy())

    def _thread_pool(self) -> Executor:
        if self._pool is None:
            workers = min(self.max_concurrent + EXTRA_LOCAL_SLOTS, MOST_THREADS)
            self._pool = self._own_pool = ThreadPoolExecutor(workers, thread_name_prefix="outlast-activity")
        return self._pool

    def _process_runner(self) -> ProcessRunner:
        if self._processes is None:
            self._processes = ProcessRunner(
                self._outcomes,
                self._heartbeats,
                self._streams,
                slots=self.max_concurrent + EXTRA_LOCAL_SLOTS,
                on_end=self._end_from_thread,
            )
        return self._processes

    # --- running ----------------------------------------------------------------------------------------------------

    async def _run_async(self, running: RunningActivity) -> None:
        outcomes = self._outcomes
        CURRENT.set(running)
        running.begun = True
        try:
            if running.stopped is not None:
                running.raise_if_stopped()
            definition = running.definition
            if definition.transactional:
                assert self._transactions is not None
                outcome: HandlerOutcome = await self._transactions.run_async(running)
            else:
                try:
                    args = self._converter.decode_args(running.task.input, definition.signature)
                except Exception as error:
                    outcome = outcomes.unusable(error)
                    let_go(error)
                else:
                    outcome = outcomes.returned(await definition.fn(*args), running)
        except BaseException as error:
            if isinstance(error, GeneratorExit) and not self._loop.is_running():
                # The loop is gone: nobody is left to report to.
                raise
            outcome = outcomes.raised(error, running)
            let_go(error)
        # Not in the handler's context: what `on_end` starts must not inherit it.
        self._context.copy().run(self._finish, running, outcome)

    def _run_sync(self, running: RunningActivity) -> HandlerOutcome:
        outcomes = self._outcomes
        CURRENT.set(running)
        running.begun = True
        try:
            if running.stopped is not None:
                running.raise_if_stopped()
            definition = running.definition
            if definition.transactional:
                assert self._transactions is not None
                outcome: HandlerOutcome = self._transactions.run(running)
            else:
                try:
                    args = self._converter.decode_args(running.task.input, definition.signature)
                except Exception as error:
                    outcome = outcomes.unusable(error)
                    let_go(error)
                else:
                    outcome = outcomes.returned(definition.fn(*args), running)
        except BaseException as error:
            outcome = outcomes.raised(error, running)
            let_go(error)
        finally:
            CURRENT.set(None)
        return outcome

    def _run_in_place(self, running: RunningActivity) -> None:
        outcome = self._run_sync(running)
        self._context.copy().run(self._finish, running, outcome)

    def _run_in_thread(self, running: RunningActivity) -> None:
        self._end_from_thread(running, self._run_sync(running))

    # --- ending -----------------------------------------------------------------------------------------------------

    def _end_from_thread(self, running: RunningActivity, outcome: HandlerOutcome) -> None:
        with self._ended_lock:
            self._ended.append((running, outcome))
            if len(self._ended) > 1:
                return
        try:
            self._loop.call_soon_threadsafe(self._collect_ended, context=self._context.copy())
        except RuntimeError:
            # The loop is closed: a rescue will find the attempt.
            logger.debug("%r ended after its worker", running.task)

    def _collect_ended(self) -> None:
        with self._ended_lock:
            ended, self._ended = self._ended, []
        for running, outcome in ended:
            self._finish(running, outcome)

    def _declined(self, task: ActivityTask) -> None:
        self._reserved -= 1
        self._report(task, HANDED_BACK)

    def _finish(self, running: RunningActivity, outcome: HandlerOutcome) -> None:
        task = running.task
        running.handle = None
        del self._running[task.key]
        self._reserved -= 1
        if isinstance(outcome, Completed) or (
            running.stopped not in _IGNORED and (not running.closed or _is_failure(outcome))
        ):
            self._report(task, outcome)
        else:
            self._streams.forget(task.key)
        self._heartbeats.forget(task.key)
        if not self._running and self._emptied is not None:
            self._emptied.set()

    def _report(self, task: ActivityTask, outcome: HandlerOutcome) -> None:
        try:
            self._on_end(task, outcome)
        except Exception:
            logger.exception("the end of %r could not be reported", task)

    # --- stopping ---------------------------------------------------------------------------------------------------

    def request_stop(
        self, run_id: str, activity_id: int, attempt: int, reason: str, *, closed: bool = False
    ) -> bool:
        """Ask a handler to stop: ``async`` ones are cancelled once, others notice when they check.

        Args:
            run_id: The run.
            activity_id: The activity.
            attempt: The attempt.
            reason: One of :class:`StopReason`.
            closed: Whether the activity is closed as cancelled already.

        Returns:
            Whether such an attempt runs here.
        """
        running = self._running.get((run_id, activity_id, attempt))
        if running is None:
            return False
        running.closed = running.closed or closed
        self._stop(running, StopReason(reason))
        return True

    def _stop(self, running: RunningActivity, reason: StopReason) -> None:
        before, handle = running.stopped, running.handle
        if before is None or reason in _IGNORED:
            running.stopped = reason
        if before is not None or handle is None:
            return
        if isinstance(handle, Future):
            # If it had not begun, nobody else will report how it ended.
            if handle.cancel():
                running.handle = None
                outcome = self._outcomes.raised(Cancelled(reason), running)
                self._loop.call_soon(self._finish, running, outcome, context=self._context.copy())
            elif self._processes is not None and running.definition.executor == "process":
                self._processes.stop(running, reason)
        # A task that is cancelled before its first step would never take it.
        elif running.begun:
            running.seen = True
            handle.cancel()

    async def drain(self, grace_s: float, *, cancel_grace_s: float = CANCEL_GRACE_S) -> list[ActivityTask]:
        """Accept no more attempts, wait for those that run, then release them.

        For ``grace_s`` seconds handlers may end by themselves. Then they are asked to stop, ``async`` ones by
        cancelling them once, and each is released when it ends, for which up to ``cancel_grace_s`` seconds are waited.
        An attempt is never released while it still runs here: one that runs on is reported when it ends, or is left to
        a rescue.

        Args:
            grace_s: How long handlers may end by themselves, in seconds.
            cancel_grace_s: How long to wait for them after that, in seconds.

        Returns:
            The attempts that still run.
        """
        self._draining = True
        if not await self._empty(grace_s):
            for running in tuple(self._running.values()):
                self._stop(running, StopReason.WORKER_SHUTDOWN)
            await self._empty(cancel_grace_s)
        return [running.task for running in self._running.values()]

    async def _empty(self, within_s: float) -> bool:
        """Wait until nothing runs, for some seconds at most; return whether nothing runs."""
        if not self._running:
            return True
        self._emptied = emptied = asyncio.Event()
        timer = self._loop.call_later(within_s, emptied.set)
        try:
            await emptied.wait()
        finally:
            timer.cancel()
            self._emptied = None
        return not self._running

    def close(self) -> None:
        """Shut down threads and processes, after :meth:`drain`, without waiting for handlers that still run."""
        if self._own_pool is not None:
            self._own_pool.shutdown(wait=False, cancel_futures=True)
        if self._processes is not None:
            self._processes.close()


def _is_failure(outcome: HandlerOutcome) -> bool:
    return isinstance(outcome, AttemptEnd) and outcome.outcome is AttemptOutcome.FAILED
