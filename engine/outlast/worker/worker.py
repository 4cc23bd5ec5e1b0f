"""A worker: runs the workflows and activities of some task queues in this process."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Never, Self, cast

from outlast.client.client import Client
from outlast.worker.settings import COROUTINE_SLOTS, SLOTS, WorkerSettings, checked_queues
from outlast.worker.tuning import tune_process
from outlast_activities.definitions import ActivityDefinition
from outlast_activities.definitions import definition_of as activity_definition_of
from outlast_workflow.data.converter import load_readers
from outlast_workflow.declare.definitions import WorkflowDefinition
from outlast_workflow.declare.definitions import definitions_of as workflow_definitions_of
from outlast_workflow.errors import InvalidOptionError, QueueNotFoundError, StoreError
from outlast_workflow.options.failure_types import FailureType, FailureTypes
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import ActivityOptions, timeout_seconds
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.queues import Queue
from outlast_workflow.primitives.lazy_names import names_of_class

if TYPE_CHECKING:
    from outlast.alerts.channels import AlertChannel
    from outlast.checking.checker import StaticChecks
    from outlast.client.interceptors import Interceptor
    from outlast.histories.retention_policy import RetentionPolicy
    from outlast.worker.loop_worker import LoopWorker
    from outlast.worker.threaded_worker import WorkerThread
    from outlast_store.database.urls import DatabaseUrl
    from outlast_workflow.data.signatures import CallSignature

logger = logging.getLogger("outlast.worker")


OPTIONS = (
    "task_queue",
    "workflows",
    "activities",
    "watchdog",
    "watchdog_interval",
    "lease_duration",
    "max_cached_workflows",
    "max_concurrent_activities",
    "max_activities_per_second",
    "graceful_shutdown_timeout",
    "default_activity_options",
    "build_id",
    "limits",
    "workflow_failure_types",
    "workflow_task_failure_types",
    "static_checks",
    "runtime_guard",
    "own_thread",
    "interceptors",
    "retention",
    "queues",
    "alert_channels",
)


class Worker:
    """Runs workflows and activities. An async context manager; :meth:`run` is for a main program.

    Args:
        client: The client to work for; they share its database.
        task_queue: The task queue that it serves, or several.
        workflows: Workflow classes and functions.
        activities: Activities.
        watchdog: Whether it also runs a :class:`~outlast.watchdog.TaskWatchdog`.
        watchdog_interval: Seconds between the watchdog's passes at most.
        lease_duration: Seconds after which others may claim the work of a worker that no longer renews its lease.
        max_cached_workflows: How many idle runs stay in memory; 0 replays each run for each workflow task.
        max_concurrent_activities: How many activities run at a time. By default 1,000 where all are coroutines, else
            100: what needs a thread, a process or a transaction is not begun before there can be one.
        max_activities_per_second: How many activities this worker starts in a second at most, retries included; local
            ones aside. By default as many as it can.
        graceful_shutdown_timeout: Seconds that running activities get to end when the worker stops.
        default_activity_options: The options of activities where neither declaration nor call sets one.
        build_id: Names the code; recorded with each workflow task.
        limits: The structural limits.
        workflow_failure_types: Exceptions, as classes or names, that fail the run although they would fail only the
            workflow task, such as ``NonDeterminismError``. Subclasses count; ``@workflow.defn`` is asked first.
        workflow_task_failure_types: Exceptions of workflow code that fail only the workflow task, which is then
            retried, in addition to those that always do.
        static_checks: What to do about workflow code that looks as if it may not replay: ``"warn"`` logs a warning,
            once for each workflow, ``"error"`` refuses it, ``"off"`` checks nothing.
        runtime_guard: Whether workflow code is kept from files, sockets, processes, threads and ``time.sleep``. Using
            them fails the workflow task, not the run.
        own_thread: Whether the worker has its own thread, event loop and client. For web applications, whose request
            handlers then neither wait for the worker nor slow it down. Not for a database in memory.
        retention: What is kept of closed workflows; by default everything.
        queues: The queues from which it admits workflows, by name or as a :class:`~outlast.Queue`, which the worker
            defines when it starts unless there is one of that name; ``None`` for all, an empty list for none. Workflows
            that are started without a queue do not depend on it.
        alert_channels: What stands behind the names of channels that alert policies give: a
            :class:`~outlast.alerts.Webhook`, or an ``async def`` that takes a list of alerts. The worker delivers to
            these channels.
        interceptors: Interceptors around what the worker runs, inside those of the client.

    Raises:
        InvalidOptionError: An option is out of range, or two definitions share a name.
    """

    if not TYPE_CHECKING:
        __getattr__ = names_of_class("Worker")

    def __init__(
        self,
        client: Client,
        *,
        task_queue: str | Sequence[str] = "default",
        workflows: Iterable[Any] = (),
        activities: Iterable[Any] = (),
        watchdog: bool = True,
        watchdog_interval: float = 1.0,
        lease_duration: float = 30.0,
        max_cached_workflows: int = 1000,
        max_concurrent_activities: int | None = None,
        max_activities_per_second: float | None = None,
        graceful_shutdown_timeout: float = 10.0,
        default_activity_options: ActivityOptions | None = None,
        build_id: str | None = None,
        limits: StructuralLimits | None = None,
        workflow_failure_types: Iterable[FailureType] = (),
        workflow_task_failure_types: Iterable[FailureType] = (),
        static_checks: StaticChecks = "warn",
        runtime_guard: bool = True,
        own_thread: bool = False,
        interceptors: Iterable[Interceptor] = (),
        retention: RetentionPolicy | None = None,
        queues: Iterable[str | Queue] | None = None,
        alert_channels: Mapping[str, AlertChannel] | None = None,
        **unknown: Never,
    ) -> None:
        if unknown:
            refuse_unknown("Worker", unknown, OPTIONS)
        # The first worker loads what interceptors need; a process that only imports Worker does without it.
        from outlast.client.interceptors import checked_interceptors

        if not isinstance(client, Client):
            raise InvalidOptionError(
                f"client must be a Client, not {type(client).__name__}: `await Client.connect(url)` gives one",
                field="client",
            )
        self.client = client
        task_queues = (task_queue,) if isinstance(task_queue, str) else tuple(task_queue)
        admits_from = None if queues is None else checked_queues(queues)
        channels = _checked_channels(alert_channels)
        self._defines = [queue for queue in (admits_from or {}).values() if queue is not None]
        self.settings = WorkerSettings(
            worker_id=client.runtime.environment.ids.next(),
            task_queues=task_queues,
            converter=client.converter,
            lease_duration=lease_duration,
            max_cached_workflows=max_cached_workflows,
            max_concurrent_activities=SLOTS
            if max_concurrent_activities is None
            else max_concurrent_activities,
            max_activities_per_second=max_activities_per_second,
            graceful_shutdown_timeout=graceful_shutdown_timeout,
            build_id=build_id,
            limits=limits or client.limits,
            default_activity_options=default_activity_options,
            runtime_guard=runtime_guard,
            retention=retention,
            queues=None if admits_from is None else frozenset(admits_from),
            failure_types=FailureTypes(run=workflow_failure_types, task=workflow_task_failure_types),
            alert_queues=_queues_of(channels),
        )
        if channels:
            # Only a worker that delivers alerts loads what that needs.
            from outlast.worker.alert_delivery import DELIVER, sending

            workflows = (*_listed("workflows", workflows), DELIVER)
            activities = (*_listed("activities", activities), sending(channels))
        self._register_code(workflows, activities, static_checks)
        if max_concurrent_activities is None and _are_coroutines(self.activities.values()):
            self.settings.max_concurrent_activities = COROUTINE_SLOTS
        self._intercept((*client.interceptors, *checked_interceptors(interceptors)))
        interval = timeout_seconds("watchdog interval", watchdog_interval)
        self._watchdog_interval = float(interval) if watchdog else None
        if own_thread and client.runtime.url.memory:
            raise InvalidOptionError(
                "a database in memory has one thread: leave own_thread out", field="own_thread"
            )
        self._own_thread = own_thread
        self._worker: LoopWorker | WorkerThread | None = None
        self._stop_requested = asyncio.Event()
        self._replaced: StoreError | None = None
        self._was_signalled = False
        self.unfinished = 0
        """How many activities were still running when the worker had stopped."""

    def _register_code(
        self, workflows: Iterable[Any], activities: Iterable[Any], static_checks: StaticChecks
    ) -> None:
        """Look up the definitions of workflows and activities, and check the workflows' code."""
        # The first worker loads the checker; a process that only imports Worker does without it.
        from outlast.checking.checker import report

        self.workflows: dict[str, WorkflowDefinition] = _by_name(
            "workflow", workflow_definitions_of(_listed("workflows", workflows))
        )
        self.activities: dict[str, ActivityDefinition[..., Any]] = _by_name(
            "activity", map(activity_definition_of, _listed("activities", activities))
        )
        for definition in self.activities.values():
            if definition.transactional:
                _check_transactional(definition, self.client.runtime.url)
        report(self.workflows.values(), static_checks)
        if not self.workflows and not self.activities:
            raise InvalidOptionError("a worker needs workflows or activities to run", field="workflows")

    def _intercept(self, interceptors: tuple[Interceptor, ...]) -> None:
        """Put interceptors around everything that the worker runs."""
        # As in __init__.
        from outlast_activities.interceptors import intercepted as activity_around
        from outlast_workflow.run.interceptors import intercepted as workflow_around

        if interceptors:
            self.settings.interceptors = interceptors
            self.workflows = {
                name: workflow_around(definition, interceptors) for name, definition in self.workflows.items()
            }
            self.activities = {
                name: activity_around(definition, interceptors)
                for name, definition in self.activities.items()
            }

    @property
    def worker_id(self) -> str:
        """The id that the worker is registered under."""
        return self.settings.worker_id

    @property
    def local(self) -> LoopWorker:
        """The running worker, if it works on the caller's event loop."""
        assert self._worker is not None, "the worker is not running"
        assert not self._own_thread, "the worker is not running on this loop"
        return cast("LoopWorker", self._worker)

    async def start(self) -> None:
        """Register, and begin to work.

        Raises:
            InvalidOptionError: The worker is running already.
            StoreError: The database did not take the registration.
        """
        if self._worker is not None:
            raise InvalidOptionError("the worker is running already: make another one, or stop it first")
        # A worker that starts needs the machinery; one that is only imported does without it.
        from outlast.worker.loop_worker import LoopWorker
        from outlast.worker.threaded_worker import WorkerThread

        load_readers(self._signatures())
        for queue in self._defines:
            await self.client.queues.define_queue(queue, "keep")
        await self._warn_of_unknown_queues()
        parts = (self.settings, self.workflows, self.activities, self._watchdog_interval)
        make = WorkerThread if self._own_thread else LoopWorker
        worker = make(self.client, *parts)
        worker.on_replaced = self._store_replaced
        self._worker = worker
        try:
            await worker.start()
        except BaseException:
            self._worker = None
            raise
        queues = self.settings.queues
        logger.info(
            "worker %s serves task queue %s on %s: workflows %s; activities %s%s",
            self.worker_id,
            ", ".join(self.settings.task_queues),
            self.client.runtime.url.display,
            ", ".join(sorted(self.workflows)) or "none",
            ", ".join(sorted(self.activities)) or "none",
            "" if queues is None else f"; queues {', '.join(sorted(queues)) or 'none'}",
            extra={"worker_id": self.worker_id},
        )

    def _signatures(self) -> Iterator[CallSignature]:
        for workflow in self.workflows.values():
            # Other workflows take their input as plain JSON.
            if not workflow.takes_input:
                yield workflow.signature
            for handler in workflow.handlers.all():
                yield handler.signature
        for activity in self.activities.values():
            yield activity.signature

    async def _warn_of_unknown_queues(self) -> None:
        """Log the queues to admit from that nobody has defined: a name may be mistyped, and nobody would see it."""
        named = (self.settings.queues or frozenset()) - {queue.name for queue in self._defines}
        for name in sorted(named):
            try:
                await self.client.queues.describe(name)
            except QueueNotFoundError as error:
                logger.warning(
                    "the worker is to admit from a queue that is not there: %s", error, extra={"queue": name}
                )

    async def stop(self) -> None:
        """Release the runs, give activities their grace period, and hand back those that run on."""
        worker, self._worker = self._worker, None
        self._stop_requested.set()
        if worker is not None:
            await worker.stop()
            self.unfinished = worker.unfinished

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    async def run(self, *, started: Callable[[], None] | None = None) -> None:
        """Work until SIGINT, SIGTERM or :meth:`request_stop`; then stop in good order.

        A second signal during the stop ends the process at once; others claim its work when its lease expires.

        The process is taken to be the worker's own, so its garbage collector and thread switching are tuned for that
        (:mod:`outlast.worker.tuning`). Inside another program, use the worker as a context manager.

        Args:
            started: Is called once the worker works and the signals are handled.

        Raises:
            StoreReplacedError: The SQLite file was deleted, moved or replaced under the worker. A supervisor that
                starts the process again makes it work on the file that is there then.
        """
        tune_process()
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            try:
                loop.add_signal_handler(number, self._signalled, number)
            except (NotImplementedError, RuntimeError, ValueError):
                logger.debug("signal %s cannot be handled here", number)
        try:
            async with self:
                if started is not None:
                    started()
                await self._stop_requested.wait()
            if self._replaced is not None:
                raise self._replaced
        finally:
            for number in signals:
                try:
                    loop.remove_signal_handler(number)
                except (NotImplementedError, RuntimeError, ValueError):
                    logger.debug("signal %s was not handled here", number)

    def _signalled(self, number: int) -> None:
        if self._was_signalled:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self._was_signalled = True
        logger.info("worker %s stops in good order; another signal ends it at once", self.worker_id)
        self.request_stop()

    def _store_replaced(self, error: StoreError) -> None:
        self._replaced = error
        self.request_stop()

    def request_stop(self) -> None:
        """Make :meth:`run` return; call this on the worker's event loop."""
        self._stop_requested.set()


def _listed(what: str, given: Any) -> Iterable[Any]:
    try:
        return tuple(given)
    except TypeError:
        raise InvalidOptionError(
            f"{what} must be a list, not one thing: {what}=[{getattr(given, '__name__', '…')}]", field=what
        ) from None


def _are_coroutines(activities: Collection[ActivityDefinition[..., Any]]) -> bool:
    """Return whether there are activities, and none needs a thread, a process or a transaction."""
    return bool(activities) and all(one.is_async and not one.transactional for one in activities)


def _checked_channels(given: Mapping[str, AlertChannel] | None) -> dict[str, AlertChannel]:
    if given is None:
        return {}
    # As in __init__.
    from outlast.alerts.channels import checked_channels

    return checked_channels(given)


def _queues_of(channels: Mapping[str, AlertChannel]) -> list[str]:
    if not channels:
        return []
    # As in __init__.
    from outlast_store.alerts.channels import task_queue_of

    return [task_queue_of(channel) for channel in channels]


def _check_transactional(definition: ActivityDefinition[..., Any], url: DatabaseUrl) -> None:
    """Check that the database can host an activity's transaction."""
    if url.memory:
        raise InvalidOptionError(
            f"activity {definition.name} is transactional, and a database in memory has one connection, which the "
            "engine uses: name a file (in a test, one in tmp_path)",
            field="activities",
        )
    if definition.is_async and url.backend == "sqlite":
        raise InvalidOptionError(
            f"activity {definition.name} is transactional and async, which needs PostgreSQL: make it a plain def, "
            "which runs in a thread",
            field="activities",
        )


def _by_name(noun: str, definitions: Iterable[Any]) -> dict[str, Any]:
    found: dict[str, WorkflowDefinition | ActivityDefinition[..., Any]] = {}
    for definition in definitions:
        known = found.get(definition.name)
        if known is not None and known is not definition and known.fn is not definition.fn:
            raise InvalidOptionError(f"two definitions of {noun} {definition.name!r}: give one another name")
        found[definition.name] = definition
    return found
