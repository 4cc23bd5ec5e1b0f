"""Programs and processes for what operators do: they resume, fork and wait, and are killed at a chosen statement.

Each step of a workflow is an effect in the database, written in the transaction that completes its activity. So the
rows say exactly how often a step was taken, whatever was killed. Processes come from a fork server, which has imported
the engine already: a kill costs some hundredths of a second.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any, Final

from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, select

from outlast import Client, StructuralLimits, Worker, WorkflowHandle, activity, workflow
from outlast.errors import WorkflowCancelledError
from outlast.watchdog import TaskWatchdog
from outlast_store.database.raw_connection import RawConnection
from outlast_store.database.urls import DatabaseUrl

LEASE_S: Final = 1.0
VICTIMS_LEASE_S: Final = 3.0
"""Each process that dies counts, so a busy machine must not take one that lives for dead."""
PROCESSES: Final = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.chaos.control"])

metadata = MetaData()
effects = Table(
    "control_effects",
    metadata,
    # No key forbids a second one: the engine has to.
    Column("workflow_id", String(200)),
    Column("step", Integer),
)

broken = False
"""Whether the code of :func:`strike` takes its process down; so it is in the processes of :func:`work_and_die`."""


# --- programs ---------------------------------------------------------------------------------------------------------


@activity.defn(start_to_close_timeout=20, transactional=True)
def step(number: int) -> int:
    row = {"workflow_id": activity.info().workflow_id, "step": number}
    activity.connection().execute(effects.insert().values(**row))
    return number


@workflow.defn
class Steps:
    """Take so many steps; before one of them, wait until somebody says to go on."""

    def __init__(self) -> None:
        self.going = False

    @workflow.run
    async def run(self, count: int, halt: int = -1) -> list[int]:
        taken: list[int] = []
        for number in range(count):
            if number == halt:
                workflow.upsert_memo({"waits": True})
                await workflow.wait_condition(lambda: self.going)
            taken.append(await step(number))
        return taken

    @workflow.signal
    def go(self) -> None:
        self.going = True


def strike() -> None:
    """Take the process down, as a crash in a C library does, unless the code is mended."""
    with workflow.unsafe.allow_io():
        if broken:
            os.kill(os.getpid(), signal.SIGKILL)  # outlast: allow


@workflow.defn
async def striking_child() -> str:
    strike()
    return "child"


@workflow.defn
async def striking_parent() -> list[str]:
    """Take the process down once the child has begun, so that both lose their owners."""
    child = workflow.start_child(striking_child, id=f"{workflow.info().workflow_id}/child")
    await child.started()
    strike()
    return ["parent", await child]


WORKFLOWS: Final[list[Any]] = [Steps, striking_child, striking_parent]


# --- what is done and found -------------------------------------------------------------------------------------------


def make_tables(url: str) -> None:
    """Make the table of effects."""
    engine = create_engine(DatabaseUrl.parse(url).sqlalchemy_url)
    metadata.create_all(engine)
    engine.dispose()


def steps_taken(url: str) -> dict[str, Counter[int]]:
    """Return how often each workflow has taken each step."""
    engine = create_engine(DatabaseUrl.parse(url).sqlalchemy_url)
    found: dict[str, Counter[int]] = {}
    with engine.connect() as connection:
        for workflow_id, number in connection.execute(select(effects.c.workflow_id, effects.c.step)):
            found.setdefault(workflow_id, Counter())[number] += 1
    engine.dispose()
    return found


def worker_of(client: Client, lease_s: float = LEASE_S) -> Worker:
    """Return a worker that notices soon when others die."""
    return Worker(
        client, workflows=WORKFLOWS, activities=[step], lease_duration=lease_s, watchdog_interval=0.1
    )


# --- processes --------------------------------------------------------------------------------------------------------


def process(target: Callable[..., None], *args: object) -> ForkServerProcess:
    """Start a function in a process of its own."""
    started = PROCESSES.Process(target=target, args=args, daemon=True)
    started.start()
    return started


def work(url: str) -> None:
    """Be a worker."""

    async def main() -> None:
        async with Client.connect(url) as client:
            await worker_of(client).run()

    asyncio.run(main())


def watch(url: str) -> None:
    """Be a watchdog, and nothing else."""

    async def main() -> None:
        async with Client.connect(url) as client:
            TaskWatchdog(client, interval=0.05).start()
            await asyncio.Event().wait()

    asyncio.run(main())


def work_and_die(url: str, most_losses: int) -> None:
    """Be a worker whose code takes it down."""

    async def main() -> None:
        async with Client.connect(url, limits=StructuralLimits(owner_losses=most_losses)) as client:
            await worker_of(client, VICTIMS_LEASE_S).run()

    global broken
    broken = True
    asyncio.run(main())


def wait_for_result(url: str, workflow_id: str, told: Connection) -> None:
    """Wait with one handle for a result, also after it was cancelled; tell what comes."""

    async def main() -> None:
        async with Client.connect(url) as client:
            handle = client.handle(workflow_id)
            await handle.describe()
            told.send("waiting")
            try:
                told.send(await handle.result())
            except WorkflowCancelledError:
                told.send("cancelled")
                told.send(await _the_next_result(handle))

    asyncio.run(main())


async def _the_next_result(handle: WorkflowHandle[Any]) -> Any:
    while True:
        try:
            return await handle.result()
        except WorkflowCancelledError:
            # Nobody has resumed it so far.
            await asyncio.sleep(0.05)


def resume_one(url: str, workflow_id: str, at: int) -> None:
    """Resume a workflow, and be killed at a statement of that."""
    _operate(url, at, lambda client: client.resume(workflow_id))


def fork_one(url: str, workflow_id: str, at: int) -> None:
    """Fork a workflow, and be killed at a statement of that."""
    _operate(url, at, lambda client: client.fork(workflow_id, "before-cancel", id=f"{workflow_id}-fork"))


def treat_all(url: str, ids: Sequence[str], verbs: Sequence[str], at: int) -> None:
    """Resume or fork many in bulk while a worker goes on with them, and be killed at a statement of either."""

    async def both(client: Client) -> None:
        async with worker_of(client):
            for verb in verbs:
                if verb == "resume":
                    found = client.bulk(status="cancelled").resume()
                else:
                    found = client.bulk(workflow_ids=ids).fork("first-workflow-task")
                async for outcome in found:
                    assert outcome.done, outcome.error

    _operate(url, at, both)


def _operate(url: str, at: int, act: Callable[[Client], Any]) -> None:
    async def main() -> None:
        async with Client.connect(url) as client:
            await act(client)

    _kill_at(at)
    asyncio.run(main())


def _kill_at(at: int) -> None:
    """Kill this process before a statement of its journal, or right after a commit.

    Each commit counts twice: as a statement, before which nothing is done, and when it is done and nobody has heard of
    it.
    """
    left = at

    def count() -> None:
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    patched: Any = RawConnection
    begin, together = patched.__init__, patched.together

    def counted(raw: Any, connection: Any) -> None:
        begin(raw, connection)
        execute = raw._execute

        def counting(text: str, *values: Any) -> Any:
            count()
            answer = execute(text, *values)
            if text == "COMMIT" and not raw.pipelined:
                count()
            return answer

        raw._execute = raw.exec_driver_sql = counting

    def all_together(raw: Any) -> Any:
        class Block:
            def __enter__(self) -> None:
                self.block = together(raw)
                self.block.__enter__()

            def __exit__(self, *error: Any) -> Any:
                handled = self.block.__exit__(*error)
                if error[0] is None:
                    count()
                return handled

        return Block()

    patched.__init__, patched.together = counted, all_together
