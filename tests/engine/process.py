"""A worker process for tests that its parent can kill, and that tells its parent what it does.

It appends a line to a file when something happens that a test waits for; the parent waits for lines, not for seconds.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

from outlast import StructuralLimits, activity, workflow
from outlast.client.client import Client
from outlast.errors import ChildWorkflowError
from outlast.worker.worker import Worker
from outlast_workflow.options.options import RetryPolicy

ROOT = Path(__file__).parents[2]
NEXT_ATTEMPT = RetryPolicy(initial_interval=0.01, max_interval=0.01)


def tell(text: str) -> None:
    """Append a line to this process's diary, in one write; a replay has no diary."""
    if "DIARY" not in os.environ:
        return
    with open(os.environ["DIARY"], "a") as diary:
        diary.write(f"{text}\n")


@activity.defn(start_to_close_timeout=60)
async def step(number: int) -> int:
    tell(f"step {number}")
    return number


@activity.defn(start_to_close_timeout=60, retry_policy=NEXT_ATTEMPT)
async def hold(number: int) -> int:
    """Run forever in the first process; end at once in any other."""
    tell(f"hold {number} {os.environ['NAME']}")
    if os.environ["NAME"] == "first":
        await asyncio.sleep(3600)
    return number


@activity.defn(start_to_close_timeout=60, retry_policy=NEXT_ATTEMPT)
def hold_thread(number: int) -> int:
    """Do the same in a thread that checks whether it is to stop."""
    tell(f"hold_thread {number} {os.environ['NAME']}")
    while os.environ["NAME"] == "first":
        time.sleep(0.01)
        activity.heartbeat()
    return number


@workflow.defn
async def steps(count: int) -> int:
    """Run a number of steps, then one that the first process never finishes, then as many again."""
    total = 0
    for number in range(count):
        total += await step(number)
    total += await hold(1000)
    for number in range(count, 2 * count):
        total += await step(number)
    return total


@workflow.defn
async def fan_out(count: int) -> int:
    return sum(await asyncio.gather(*[step(number) for number in range(count)]))


@workflow.defn
async def sleeps_then_steps(seconds: float) -> int:
    with workflow.unsafe.allow_io():
        tell("asleep")  # outlast: allow
    await asyncio.sleep(seconds)
    return await step(1)


@activity.defn(start_to_close_timeout=60)
async def mark(name: str, number: int) -> int:
    await asyncio.sleep(0.05)
    tell(f"mark {name} {number}")
    return number


@workflow.defn
class Marks:
    """Run steps that each write a line, until it is told to finish; return how many there were."""

    def __init__(self) -> None:
        self.finishing = False

    @workflow.run
    async def run(self, name: str) -> int:
        number = 0
        while not self.finishing:
            await mark(name, number)
            number += 1
        return number

    @workflow.signal
    def finish(self) -> None:
        self.finishing = True


@workflow.defn
async def holds_thread() -> int:
    return await hold_thread(7)


@workflow.defn
async def holds_locally(count: int) -> int:
    """Run a local activity that the first process never finishes, between others."""
    total = await workflow.execute_local_activity(step, count)
    total += await workflow.execute_local_activity(hold, 1000)
    return total + await step(1)


@workflow.defn
class Answers:
    """Answers an update with an activity that the first process never finishes."""

    def __init__(self) -> None:
        self.answered: list[int] = []

    @workflow.run
    async def run(self, count: int) -> list[int]:
        await workflow.wait_condition(lambda: len(self.answered) == count)
        await workflow.wait_condition(workflow.all_handlers_finished)
        return self.answered

    @workflow.update
    async def ask(self, number: int) -> int:
        self.answered.append(await hold(number))
        return number

    @ask.validator
    def check(self, number: int) -> None:
        with workflow.unsafe.allow_io():
            tell(f"validate {number}")  # outlast: allow

    @workflow.query
    def count(self) -> int:
        return len(self.answered)


@workflow.defn
async def poison() -> None:
    """Take the process down, as a crash in a C library does."""
    with workflow.unsafe.allow_io():
        tell(f"poison {os.environ['NAME']}")  # outlast: allow
        os.kill(os.getpid(), signal.SIGKILL)  # outlast: allow


@workflow.defn
async def kills_victims() -> str:
    """Take down the processes that are named so, and no others."""
    with workflow.unsafe.allow_io():
        tell(f"strike {os.environ['NAME']}")  # outlast: allow
        if os.environ["NAME"].startswith("victim"):
            os.kill(os.getpid(), signal.SIGKILL)  # outlast: allow
    return "spared"


@workflow.defn
async def parent_of_poison() -> str:
    """Wait for a child that takes its workers down; say what it died of."""
    try:
        await workflow.execute_child(poison, id="poison")
    except ChildWorkflowError as error:
        return type(error.__cause__).__name__
    return "nothing"


WORKFLOWS = [
    steps,
    fan_out,
    sleeps_then_steps,
    holds_thread,
    Marks,
    holds_locally,
    Answers,
    poison,
    kills_victims,
    parent_of_poison,
]
ACTIVITIES = [step, hold, hold_thread, mark]


async def main(url: str, lease: float, grace: float, most_losses: int) -> None:
    async with Client.connect(url, limits=StructuralLimits(owner_losses=most_losses)) as client:
        worker = Worker(
            client,
            workflows=WORKFLOWS,
            activities=ACTIVITIES,
            lease_duration=lease,
            watchdog_interval=0.1,
            graceful_shutdown_timeout=grace,
        )
        asyncio.get_running_loop().call_soon(tell, f"working {os.environ['NAME']}")
        await worker.run()
    tell(f"stopped {os.environ['NAME']}")


class WorkerProcess:
    """One such process."""

    def __init__(
        self,
        name: str,
        url: str,
        diary: Path,
        *,
        lease: float = 1.0,
        grace: float = 0.2,
        most_losses: int = 100,
    ) -> None:
        self.name = name
        self.diary = diary
        diary.touch()
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "DIARY": str(diary), "NAME": name, "PYTHONPATH": path}
        given = [url, str(lease), str(grace), str(most_losses)]
        command = [sys.executable, "-m", "tests.engine.process", *given]
        self.process = subprocess.Popen(command, env=environment, cwd=ROOT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)

    def kill(self) -> None:
        """Kill it, as the kernel does when memory is short."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def stop(self) -> int:
        """Ask it to stop in good order."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def _told(diary: Path, line: str) -> bool:
    return line in diary.read_text().splitlines()


async def until(diary: Path, line: str) -> None:
    """Wait until some process has written a line."""

    async def written() -> bool:
        return _told(diary, line)

    await until_so(written)


async def until_so(ask: Callable[[], Awaitable[bool]], *, within_s: float = 30) -> None:
    """Wait for what another process does, which no event in this one announces."""
    async with asyncio.timeout(within_s):
        while not await ask():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])))
