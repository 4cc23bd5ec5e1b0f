"""The stage of the kit: a database, a client that asks, and the process of a worker, which may die at any commit.

All live in one loop, in virtual time. The worker's process has a client of its own: when it dies, its journal and its
readers are cut off and its tasks are cancelled, so that nothing more of it reaches the database, and the leases of the
dead end at once.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from contextvars import Context
from typing import Any, Final, Literal, Self
from unittest.mock import patch

import psycopg
from tests.serverless.conformance.loop import Crashed, KitLoop, Life
from tests.serverless.conformance.stub import HOSTS

from outlast import Client, StructuralLimits, Worker, workflow
from outlast.interceptors import Interceptor, RunActivity
from outlast.runtime import notifier
from outlast.runtime.notifier import LoopNotifier
from outlast.testing import VirtualClock
from outlast.testing.environment import ALWAYS_S
from outlast.testing.invariants import activities as judged
from outlast_activities import attempts
from outlast_serverless import HttpPolicy, ProcessPolicy, Runtime, Secrets
from outlast_serverless.bus import router
from outlast_serverless.jq import Evaluator
from outlast_serverless.runtime import runtime as runtimes
from outlast_store.database.sql_text import fetch
from outlast_store.journal.batch import Committed
from outlast_store.reads.workers import end_leases
from outlast_watchdog.enforcement import DeclareWorkerLost
from outlast_workflow.environment import Environment
from outlast_workflow.errors import JournalClosedError

MANY: Final = 1_000_000
CACHED: Final = {"plain": 1000, "replayed": 0}
"""How many runs the worker of each task queue keeps; one that keeps none replays a run for each workflow task."""
_SOON_S: Final = (0.001, 0.002, 0.01, 0.02)
_OUTSIDE: Final = frozenset(
    {"serverless.http", "serverless.openapi", "serverless.shell", "serverless.script"}
)

Moment = Literal["before", "lost", "after"]
Fate = Callable[[int, Moment, Committed | None], bool]
"""Says of a commit, by its number, whether the process dies ``before`` it, whether its answer is ``lost`` although it
is done, and whether the process dies ``after`` it; then it is told what was written."""


@workflow.defn
async def idle() -> None:
    """Something else, whose worker has a watchdog."""


class Kept(Evaluator):
    """An evaluator that outlives its processes: to start jq for each of them would be most of the work."""

    def close(self) -> None:
        """Stay."""

    def end(self) -> None:
        """End at last."""
        super().close()


@contextmanager
def calm(evaluator: Evaluator, *, long: bool) -> Generator[None]:
    """Give the engine the patience that the kit needs, only while the kit's loop runs: other tests are in the process.

    Args:
        evaluator: Evaluates jq for every process.
        long: Whether stories take days, so that nobody looks for anything that he was not told of.
    """
    patches: list[Any] = [
        patch.object(runtimes, "Evaluator", lambda: evaluator),
        # Each death is one too many for what runs meanwhile, and here nothing else happens.
        patch.object(attempts, "MOST_RESCUES", MANY),
        patch.object(judged, "MOST_RESCUES", MANY),
        patch.object(router, "_IDLE_S", ALWAYS_S if long else 3600.0),
        patch.object(router, "_BUSY_S", ALWAYS_S if long else 5.0),
    ]
    if long:
        patches.append(patch.object(notifier, "POLL_INTERVAL_S", ALWAYS_S))
    with ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        yield


class _Patience(Interceptor):
    """Lets no time pass while an activity waits for what is outside."""

    def __init__(self, loop: KitLoop) -> None:
        self._loop = loop

    async def run_activity(
        self, call: RunActivity, next: Callable[[RunActivity], Coroutine[Any, Any, Any]]
    ) -> Any:
        if call.info.activity_type not in _OUTSIDE:
            return await next(call)
        async with self._loop.outside():
            return await next(call)


class WorkerProcess:
    """The process of a worker.

    Args:
        stage: Where it lives.
        fate: What happens at its commits.
        documents: Whether it serves documents; otherwise it only has a watchdog.
    """

    def __init__(self, stage: Stage, fate: Fate | None = None, *, documents: bool = True) -> None:
        self._stage = stage
        self._fate = fate
        self._documents = documents
        self.life = Life()
        self.client: Client
        self.runtime: Runtime
        self.workers: list[Worker] = []
        self.begun = False
        """Whether its commits count: from when it has started until it is stopped."""

    async def start(self) -> Self:
        """Begin to live."""
        loop = asyncio.get_running_loop()
        await loop.create_task(self._begin(), context=self.life.context())
        return self

    async def _begin(self) -> None:
        self.client = await self._stage.connect()
        if self._fate is not None:
            self._watch(self.client.runtime.journal.committer, self._fate)
        self.runtime = self._stage.new_runtime(self.client)
        await self.runtime.__aenter__()
        served: dict[str, Any] = {"workflows": self.runtime.workflows, "activities": self.runtime.activities}
        queues: dict[str, int] = CACHED
        if not self._documents:
            served, queues = {"workflows": [idle]}, {"elsewhere": 1}
        for queue, most in queues.items():
            worker = Worker(
                self.client,
                task_queue=queue,
                max_cached_workflows=most,
                lease_duration=ALWAYS_S,
                watchdog=not self.workers,
                watchdog_interval=ALWAYS_S,
                **served,
            )
            self.workers.append(worker)
            await worker.start()
        self.begun = True

    def _watch(self, committer: Any, fate: Fate) -> None:
        """Let things happen at commits."""
        transaction, settle = committer._transaction, committer._settled
        postgresql = self.client.runtime.database.backend == "postgresql"
        lost: set[int] = set()

        def watched(changes: Any, cache: Any) -> Any:
            if not self.begun:
                return transaction(changes, cache)
            self._stage.commits += 1
            self._crash_if(fate(self._stage.commits, "before", None))
            result = transaction(changes, cache)
            self._crash_if(fate(self._stage.commits, "after", result[1][0]))
            return result

        def settled() -> Any:
            number = self._stage.commits
            if self.begun and number not in lost and fate(number, "lost", None):
                lost.add(number)
                self._stage.lost += 1
                if postgresql:
                    raise psycopg.OperationalError("the connection is lost")
                raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
            return settle()

        committer._transaction, committer._settled = watched, settled

    def _crash_if(self, dies: bool) -> None:
        if dies and not self.life.dead:
            self.cut()
            asyncio.get_running_loop().call_soon(self._stage.crashed, self, context=Context())
            raise Crashed

    def cut(self) -> None:
        """Let nothing more of it reach the database."""
        self.life.dead = True
        engine: Any = self.client.runtime
        engine._closed = True
        engine.journal.submit = _gone
        engine.journal.committer.run = _gone
        engine.journal.queue.clear()
        for task in list(self.life.tasks):
            task.cancel()

    async def bury(self) -> None:
        """Wait until nothing of it is under way, and close what it had open."""
        while under_way := [task for task in self.life.tasks if not task.done()]:
            for task in under_way:
                task.cancel()
            await asyncio.sleep(0)
        engine = self.client.runtime
        owners: list[Any] = list(engine.workers)
        for owner in owners:
            for cached in owner.cache.runs.values():
                cached.machine.evict()
        engine.ticker.stop()
        if engine._notifier is not None:
            await engine._notifier.stop()
        engine.journal.committer._drop_connection()
        engine.database.dispose()

    async def stop(self) -> None:
        """Stop in good order."""
        self.begun = False
        for worker in self.workers:
            await worker.stop()
        await self.runtime.__aexit__(None, None, None)
        await self.client.close()


def _gone(*_: Any) -> Any:
    raise JournalClosedError("its process is dead")


class Stage:
    """See the module.

    Args:
        url: The database.
        loop: The loop.
        server: The URL of the server that plays all hosts.
        limits: The structural limits.
    """

    def __init__(
        self,
        url: str,
        loop: KitLoop,
        server: str = "http://127.0.0.1:9",
        *,
        limits: StructuralLimits | None = None,
    ) -> None:
        self.url = url
        self._loop = loop
        self._server = server
        self._limits = limits or StructuralLimits(owner_losses=MANY)
        self._stack = AsyncExitStack()
        self._seeds = random.Random(0)
        self.commits = 0
        self.lost = 0
        self.deaths = 0
        self.process: WorkerProcess | None = None
        self._watchdog: WorkerProcess | None = None
        self._fate: Fate | None = None
        self._coming: set[asyncio.Task[Any]] = set()
        self.client: Client
        self.runtime: Runtime

    async def __aenter__(self) -> Self:
        self.clock = VirtualClock()
        self.client = await self.connect()
        self.runtime = await self._stack.enter_async_context(self.new_runtime(self.client))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.nobody()
        await self._stack.aclose()
        await self.client.close()

    async def connect(self) -> Client:
        """Connect a process."""
        environment = Environment(self.clock, rng=random.Random(self._seeds.random()), threads=False)
        return await Client.connect(
            self.url,
            environment=environment,
            limits=self._limits,
            interceptors=[_Patience(self._loop)],
        )

    def new_runtime(self, client: Client) -> Runtime:
        """Return the runtime of a process."""
        return Runtime(
            client,
            secrets=Secrets.mapping({"token": "t0ken", "login": {"username": "ada", "password": "pw"}}),
            http=HttpPolicy(rewrite=dict.fromkeys(HOSTS, self._server)),
            processes=ProcessPolicy(shell=True, scripts={"python": [sys.executable]}, grace=0.2),
            metadata={"kit": True},
        )

    # --- who is there -------------------------------------------------------------------------------------------------

    async def somebody(self, fate: Fate | None = None) -> None:
        """Have the process of a worker, and no other.

        Args:
            fate: What happens at its commits; a process without one may stay from story to story.
        """
        if self.process is None or fate is not None or self._fate is not None:
            await self.nobody()
            self._fate, self.commits = fate, 0
            self.process = await WorkerProcess(self, fate).start()

    async def nobody(self) -> None:
        """Have no process at all."""
        await self._stop()
        self._fate = None

    async def again(self) -> None:
        """Have a worker's process again, with the fate of the one before, and no other process."""
        await self._stop()
        self.process = await WorkerProcess(self, self._fate).start()

    async def _stop(self) -> None:
        if self._coming:
            await asyncio.wait(self._coming)
        for one in (self.process, self._watchdog):
            if one is not None:
                await one.stop()
        self.process = self._watchdog = None

    async def only_a_watchdog(self) -> None:
        """Have nobody but a watchdog."""
        self._watchdog = await WorkerProcess(self, documents=False).start()

    async def kill(self, *, again: bool) -> None:
        """Kill the worker's process.

        Args:
            again: Whether another one takes its place at once.
        """
        process = self.process
        assert process is not None
        process.cut()
        if again:
            await self._next(process)
        else:
            self.process = None
            await self._end(process)

    def crashed(self, process: WorkerProcess) -> None:
        """A process has died at a commit: the next one takes its place."""
        task = self._loop.create_task(self._next(process))
        self._coming.add(task)
        task.add_done_callback(self._coming.discard)

    async def _next(self, process: WorkerProcess) -> None:
        await self._end(process)
        self.process = await WorkerProcess(self, self._fate).start()
        self._ring(self.process.client)

    def _ring(self, client: Client) -> None:
        """Let a process look soon for what the dead have left; otherwise that takes it up to a second."""
        bell = client.runtime._notifier
        assert isinstance(bell, LoopNotifier)
        for seconds in _SOON_S:
            self._loop.call_later(seconds, bell._notified.set)

    async def _end(self, process: WorkerProcess) -> None:
        self.deaths += 1
        await process.bury()
        engine, now = self.client.runtime, self.clock.now()
        with closing(engine.database.writer()) as connection:
            end_leases(connection, ending_after=now, now=now)
            lost = fetch(connection, "SELECT worker_id FROM workers")
        for (worker_id,) in lost:
            await engine.journal.apply(DeclareWorkerLost(worker_id))
