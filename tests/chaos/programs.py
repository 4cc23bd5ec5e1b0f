"""What runs under fire: workflows whose results can be foretold, and activities that leave a trace outside."""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path

from outlast import ActivityError, ActivityTimeoutError, activity, workflow
from outlast_activities.context import CURRENT
from outlast_workflow.options.options import RetryPolicy

EFFECTS = "OUTLAST_CHAOS_EFFECTS"
QUESTIONS = "OUTLAST_CHAOS_QUESTIONS"
SOON = RetryPolicy(initial_interval=0.05, max_interval=0.2)
ANSWERED_WITHIN_S = 1.5
"""The start-to-close timeout of what somebody outside answers."""
HANG_S = 0.4
"""The start-to-close timeout of what hangs."""


def note_effect() -> int:
    """Append whose attempt this is to the effects' file: the world outside, which no rollback reaches.

    Returns its claim token, which is to be part of its result: so the judge sees whose result was taken.
    """
    running = CURRENT.get()
    assert running is not None
    row = running.task.row
    line = f"{row.run_id} {row.activity_id} {row.attempt}\n"
    _append(EFFECTS, line)
    return row.attempt


def _append(where: str, line: str) -> None:
    handle = os.open(os.environ[where], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


@activity.defn(start_to_close_timeout=30, retry_policy=SOON)
async def step(number: int) -> tuple[int, int]:
    """Takes a moment; a few take longer than a lease, in every attempt, so that attempts overlap; some fail."""
    token = note_effect()
    info = activity.info()
    chance = random.Random(f"{info.run_id} {info.activity_id}")
    await asyncio.sleep(chance.uniform(0, 0.02) if chance.random() < 0.95 else chance.uniform(0.5, 2))
    if random.random() < 0.02:
        raise ConnectionError("by chance")
    return number, token


@activity.defn(start_to_close_timeout=30, heartbeat_timeout=10, retry_policy=SOON)
def blocking_step(number: int) -> tuple[int, int]:
    """In a thread, with heartbeats."""
    token = note_effect()
    activity.heartbeat(number)
    time.sleep(random.uniform(0, 0.02))
    return number, token


@activity.defn(start_to_close_timeout=HANG_S, retry_policy=RetryPolicy(initial_interval=0.05, max_attempts=2))
async def hang() -> tuple[int, int]:
    """Never returns in time."""
    token = note_effect()
    await asyncio.sleep(60)
    return 0, token


@activity.defn(start_to_close_timeout=ANSWERED_WITHIN_S, retry_policy=SOON)
async def ask() -> tuple[str, int]:
    """Asks somebody outside, who may answer before this has returned, and before its worker is killed."""
    note_effect()
    info = activity.info()
    _append(QUESTIONS, f"{info.workflow_id} {info.task_token}\n")
    await asyncio.sleep(random.choice((0, 0.02, 0.2)))
    return activity.defer()


async def surely(number: int) -> int:
    """A step, and another one where the workers died of it too often: in this war that says nothing about it."""
    while True:
        try:
            done, _ = await (step if number % 4 else blocking_step)(number)
        except ActivityError:
            await workflow.sleep(0.05)
        else:
            return done


@workflow.defn(name="Tally")
class Tally:
    """Steps in sequence and side by side, naps, and so many signals, each to be counted once."""

    @workflow.init
    def __init__(self, steps: int, signals: int) -> None:
        self.got: list[int] = []

    @workflow.run
    async def run(self, steps: int, signals: int) -> list[int]:
        total = 0
        for number in range(steps):
            total += await surely(number)
        await workflow.sleep(0.05)
        total += sum(await asyncio.gather(*[surely(number) for number in range(steps, 2 * steps)]))
        await workflow.wait_condition(lambda: len(self.got) >= signals)
        return [total, *sorted(self.got)]

    @workflow.signal
    def add(self, number: int) -> None:
        self.got.append(number)


@workflow.defn(name="Laps")
async def laps(left: int) -> int:
    """A chain of runs: one step, one nap each."""
    await surely(left)
    await workflow.sleep(0.02)
    if left:
        workflow.continue_as_new(left - 1)
    return 0


@workflow.defn(name="Family")
async def family(children: int) -> int:
    """Children, each of which does a step."""
    handles = [workflow.start_child(child, number) for number in range(children)]
    return sum([await handle for handle in handles])


@workflow.defn(name="Child")
async def child(number: int) -> int:
    """One of a family."""
    return await surely(number)


@workflow.defn(name="Till")
class Till:
    """A chain of runs that takes so many updates, side by side: each run takes one or more, then the next goes on."""

    @workflow.init
    def __init__(self, updates: int, taken: list[int]) -> None:
        self.taken = list(taken)

    @workflow.run
    async def run(self, updates: int, taken: list[int]) -> list[int]:
        await workflow.wait_condition(lambda: len(self.taken) > len(taken))
        await workflow.wait_condition(workflow.all_handlers_finished)
        if len(self.taken) < updates:
            workflow.continue_as_new(updates, self.taken)
        return sorted(self.taken)

    @workflow.update
    async def put(self, number: int) -> list[int]:
        """Answers with what has been taken so far, in order: that can't be foretold, only looked up."""
        await surely(number)
        self.taken.append(number)
        return list(self.taken)

    @workflow.query
    def seen(self) -> list[int]:
        return self.taken


@workflow.defn(name="Errand")
async def errand(questions: int) -> list[str]:
    """Asks somebody outside, again and again; one question at a time, then two at once."""
    answers = [await surely_asked() for _ in range(questions)]
    return [*answers, *await asyncio.gather(surely_asked(), surely_asked())]


async def surely_asked() -> str:
    """An answer, whatever became of those who were asked before."""
    while True:
        try:
            answer, _ = await ask()
        except ActivityError:
            await workflow.sleep(0.05)
        else:
            return answer


@workflow.defn(name="Vigil")
async def vigil(children: int) -> None:
    """Waits for ever, and so do its children: it ends because somebody says so, or by its deadline."""
    waiting = [workflow.start_child(vigil, 0) for _ in range(children)]
    try:
        await surely(children)
        await asyncio.gather(*waiting)
        await workflow.wait_condition(lambda: False)
    finally:
        await surely(children + 1)


@workflow.defn(name="Patience")
async def patience() -> str:
    """Waits for what hangs; returns by which timeout that ended."""
    while True:
        try:
            await hang()
        except ActivityTimeoutError as error:
            return error.timeout_kind
        except ActivityError:  # its workers died of it too often
            await workflow.sleep(0.05)
        else:
            return "it came back"


@workflow.defn(name="Brief")
async def brief() -> str:
    """Ends within a moment."""
    await workflow.sleep(workflow.random().uniform(0, 0.1))
    return "brief"


WORKFLOWS = [Tally, laps, family, child, Till, errand, vigil, patience, brief]
ACTIVITIES = [step, blocking_step, hang, ask]


def trace(path: Path) -> list[tuple[str, int, int]]:
    """The effects: (run id, activity id, claim token), in the order in which they happened."""
    if not path.exists():
        return []
    lines = (line.split() for line in path.read_text().splitlines())
    return [(run_id, int(activity_id), int(attempt)) for run_id, activity_id, attempt in lines]


def questions(path: Path, workflow_id: str) -> list[str]:
    """The task tokens that activities of a workflow have given away, in that order; a line may be half written."""
    if not path.exists():
        return []
    lines = (line.split() for line in path.read_text().splitlines(keepends=True) if line.endswith("\n"))
    return [token for asking, token in lines if asking == workflow_id]
