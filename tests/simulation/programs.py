"""What the simulated workers run: one workflow that does what its input says, and activities that do likewise.

A program is a list of steps, made by a seed (:func:`draw`). Every program ends by itself, whatever happens: each
activity is bounded, each wait for a signal has a timeout.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from outlast import ActivityError, AlertPolicy, ApplicationError, ChildWorkflowError, activity, workflow
from outlast_activities.context import CURRENT
from outlast_activities.stop_reason import StopReason
from outlast_workflow.errors import StreamClosedError, WorkflowClosedError, WorkflowNotFoundError
from outlast_workflow.options.options import ActivityOptions, RetryPolicy

Step = dict[str, Any]

QUEUES = ("main", "other")
UNHEARD = "unheard"
"""A signal that has no handler: it waits to be received, from run to run."""
ALERTED = "alerted"
"""The signal of alerts."""


@dataclass
class Question:
    """What an activity has asked of the party outside before it deferred; see :mod:`tests.simulation.outside`."""

    token: str
    key: tuple[str, int, int]
    behaviour: Step
    answer: int
    tries: int = 0
    settled: bool = False
    acknowledged: bool = False
    """Whether the first try was acknowledged."""
    refused: bool = False
    """Whether it was refused, because the attempt was not running."""


class Executions:
    """What activities of the simulation returned, each with a token of its own."""

    def __init__(self) -> None:
        self.count = 0
        self.returned: dict[int, tuple[str, int, int]] = {}
        """The run, the activity and the attempt (as the engine counts) that returned a token."""
        self.kinds: Counter[str] = Counter()
        self.beaten_at: dict[tuple[str, int], int] = {}
        """When each activity was last heard of, by the clocks of its handlers: claimed, or beating."""
        self.failed_after_cancel: dict[tuple[str, int, int], Any] = {}
        """The attempts that failed after they were asked to stop, with the clock of their process."""
        self.said: dict[tuple[str, int, int], dict[str, list[Any]]] = {}
        """What each attempt has written to streams, by their names."""
        self.questions: list[Question] = []
        """What the party outside was asked; each question has the token that its answer is to return."""

    def beat(self, details: Any) -> None:
        running = CURRENT.get()
        assert running is not None
        row = running.task.row
        key = row.run_id, row.activity_id
        heartbeats: Any = running._heartbeats
        now = heartbeats._clock.now()
        self.beaten_at[key] = max(self.beaten_at.get(key, 0), row.started_at or 0, now)
        activity.heartbeat(details)

    def end(self, how: str) -> None:
        running = CURRENT.get()
        assert running is not None
        if how != "ok" and running.stopped is StopReason.CANCEL_REQUESTED:
            heartbeats: Any = running._heartbeats
            self.failed_after_cancel[running.task.key] = heartbeats._clock

    def say(self, names: Sequence[str]) -> None:
        """Write an item to each of some streams."""
        running = CURRENT.get()
        assert running is not None
        key = running.task.key
        for name in names:
            said = self.said.setdefault(key, {}).setdefault(name, [])
            value = [*key, len(said)]
            activity.stream(name).write(value)
            said.append(value)

    def ask(self, behaviour: Step) -> None:
        running = CURRENT.get()
        assert running is not None
        key = running.task.key
        self.questions.append(Question(activity.info().task_token, key, behaviour, self.token()))

    def token(self) -> int:
        running = CURRENT.get()
        assert running is not None
        self.count += 1
        self.returned[self.count] = running.task.key
        return self.count


executions = Executions()


# --- activities -------------------------------------------------------------------------------------------------------


def _behaviour(script: list[Step]) -> Step:
    return script[min(activity.info().attempt, len(script)) - 1]


def _end(how: str) -> int:
    executions.kinds[how] += 1
    executions.end(how)
    if how == "fail":
        raise ConnectionError("simulated")
    if how == "fatal":
        raise ApplicationError("simulated", type="Fatal", non_retryable=True)
    if how == "later":
        raise ApplicationError("simulated", type="Later", next_retry_delay=2)
    return executions.token()


@activity.defn
async def work(script: list[Step]) -> int:
    """Takes its time, and beats now and then."""
    behaviour = _behaviour(script)
    beats = behaviour.get("beats", 0)
    executions.say(behaviour.get("first", ()))
    for beat in range(beats):
        await asyncio.sleep(behaviour["for"] / (beats + 1))
        executions.beat(beat)
    await asyncio.sleep(behaviour["for"] / (beats + 1))
    executions.say(behaviour.get("last", ()))
    return _end(behaviour["end"])


@activity.defn
async def stubborn(script: list[Step]) -> int:
    """Does not stop when it is told to."""
    behaviour = _behaviour(script)
    try:
        await asyncio.sleep(behaviour["for"])
    except asyncio.CancelledError:
        await asyncio.sleep(behaviour["for"] / 2)
    executions.say(behaviour.get("last", ()))
    return _end(behaviour["end"])


@activity.defn
def plain(script: list[Step]) -> int:
    """A plain function."""
    behaviour = _behaviour(script)
    if behaviour.get("beats"):
        executions.beat("plain")
    executions.say(behaviour.get("last", ()))
    return _end(behaviour["end"])


@activity.defn
async def ask(script: list[Step]) -> int:
    """Leaves its end to the party outside, which may answer before this has returned."""
    behaviour = _behaviour(script)
    executions.ask(behaviour)
    await asyncio.sleep(behaviour["for"] / 3)
    return activity.defer()


@activity.defn(transactional=True)
def book(script: list[Step]) -> int:
    """Writes to the user's table in the transaction of its completion."""
    behaviour = _behaviour(script)
    if behaviour.get("beats"):
        executions.beat("book")
    running = CURRENT.get()
    assert running is not None
    # The attempt as the engine counts: those that were rescued too.
    activity.connection().exec_driver_sql("INSERT INTO bookings VALUES (?, ?, ?)", running.task.key)
    return _end(behaviour["end"])


# --- the workflow -----------------------------------------------------------------------------------------------------


class NoteWorthy(Exception):
    """Raised by no one outside."""


def updates_in(log: list[Any]) -> list[str]:
    """The tokens of the updates in a log, in order."""
    return [what for kind, what in log if kind == "update"]


@workflow.defn
class Program:
    """Carries out its steps; says which signals it got, in order, and what became of each step and update."""

    @workflow.init
    def __init__(self, steps: list[Step], got: list[str], log: list[Any]) -> None:
        self.got = list(got)
        self.log = list(log)
        self.published = 0
        self.alerts: list[str] = []

    @workflow.signal
    def take(self, token: str) -> None:
        self.got.append(token)

    @workflow.signal
    async def take_slowly(self, token: str) -> None:
        await workflow.sleep(0.3)
        self.got.append(token)

    @workflow.signal
    def alerted(self, alert: dict[str, Any]) -> None:
        self.alerts.append(alert["alert_id"])

    @workflow.update
    def put(self, token: str, fits: bool) -> list[Any]:
        self.log.append(["update", token])
        return [token, len(self.log)]

    @put.validator
    def check(self, token: str, fits: bool) -> None:
        if not fits:
            raise ValueError("it does not fit")

    @workflow.update
    async def put_slowly(self, token: str, fits: bool) -> list[Any]:
        await asyncio.sleep(0.3)
        self.log.append(["update", token])
        return [token, len(self.log)]

    @workflow.update
    async def put_badly(self, token: str, fits: bool) -> None:
        await asyncio.sleep(0.1)
        raise ApplicationError("simulated", type="Bad")

    @workflow.query
    def seen(self) -> dict[str, Any]:
        return {"run_id": workflow.info().run_id, "got": self.got, "updates": updates_in(self.log)}

    @workflow.run
    async def run(self, steps: list[Step], got: list[str], log: list[Any]) -> dict[str, Any]:
        for place, step in enumerate(steps):
            if step["do"] == "continue":
                if not workflow.all_handlers_finished():
                    await workflow.wait_condition(workflow.all_handlers_finished)
                workflow.continue_as_new(steps[place + 1 :], self.got, self.log)
            await self.perform(step)
        await workflow.wait_condition(workflow.all_handlers_finished)
        return {"got": self.got, "log": self.log}

    async def perform(self, step: Step) -> None:
        try:
            outcome = await getattr(self, f"do_{step['do']}")(step)
        except ActivityError as error:
            outcome = type(error).__name__
        except ChildWorkflowError:
            outcome = "the child failed"
        self.log.append([step["do"], outcome])

    async def do_call(self, step: Step) -> Any:
        call = workflow.execute_local_activity if step["local"] else workflow.execute_activity
        return await call(step["activity"], step["script"], options=options_of(step))

    async def do_sleep(self, step: Step) -> None:
        await asyncio.sleep(step["for"])

    async def do_all(self, step: Step) -> None:
        await asyncio.gather(*[self.do_steps(branch) for branch in step["branches"]])

    async def do_steps(self, steps: list[Step]) -> None:
        for step in steps:
            await self.perform(step)

    async def do_race(self, step: Step) -> int:
        tasks = [asyncio.ensure_future(self.do_steps(branch)) for branch in step["branches"]]
        _, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return len(late)

    async def do_limit(self, step: Step) -> str:
        try:
            async with asyncio.timeout(step["for"]):
                await self.do_steps(step["steps"])
        except TimeoutError:
            return "no time left"
        return "in time"

    async def do_lower(self, step: Step) -> None:
        workflow.limit(step["for"])

    async def do_wait(self, step: Step) -> bool:
        wanted = len(self.got) + step["signals"]
        try:
            await workflow.wait_condition(lambda: len(self.got) >= wanted, timeout=step["for"])
        except TimeoutError:
            return False
        return True

    async def do_read(self, step: Step) -> Any:
        """Receive a message; whatever cancels the wait, the message is not lost."""
        return await workflow.receive(UNHEARD, timeout=step["for"], default=None)

    async def do_pair(self, step: Step) -> None:
        """Two wait for a message, and the first that has one cancels the other."""

        async def listen() -> None:
            try:
                token = await workflow.receive(UNHEARD, timeout=step["for"])
            except TimeoutError:
                return
            self.log.append(["read", token])
            for one in listeners:
                if one is not asyncio.current_task():
                    one.cancel()

        listeners: list[asyncio.Future[None]] = []
        listeners += [asyncio.ensure_future(listen()) for _ in range(2)]
        await asyncio.gather(*listeners, return_exceptions=True)

    async def do_publish(self, step: Step) -> int:
        """Write an item to each of some streams, until one is closed."""
        for place, name in enumerate(step["names"]):
            try:
                workflow.stream(name).write({"run": workflow.info().run_id, "n": self.published})
            except StreamClosedError:
                return place
            self.published += 1
        return len(step["names"])

    async def do_shut(self, step: Step) -> None:
        workflow.stream(step["name"]).close()

    async def do_child(self, step: Step) -> Any:
        info = workflow.info()
        handle = workflow.start_child(
            "Program",
            step["steps"],
            [],
            [],
            id=f"{info.workflow_id}/{step['name']}",
            parent_close_policy=step["policy"],
            cancellation_type=step["cancellation"],
            execution_timeout=step.get("execution_timeout"),
            task_queue=step.get("queue"),
            alerts=alerts_of(step),
            **step.get("line", {}),
        )
        if not step["await"]:
            return await handle.started() if step["hear"] else None
        return (await handle)["log"]

    async def do_tell(self, step: Step) -> str:
        try:
            await workflow.external(step["whom"]).signal(
                "take", f"from {workflow.info().run_id} {step['name']}"
            )
        except (WorkflowClosedError, WorkflowNotFoundError) as error:
            return type(error).__name__
        return "told"

    async def do_careful(self, step: Step) -> str:
        """When it is cancelled, it cleans up first; and then gives way, or does not."""
        try:
            await self.do_steps(step["steps"])
        except asyncio.CancelledError:
            await self.perform(step["cleanup"])
            if step["gives_way"]:
                raise
            return "went on"
        return "undisturbed"

    async def do_fact(self, step: Step) -> Any:
        number = workflow.side_effect(lambda: executions.count, result_type=int)
        if workflow.patched("simulated"):
            await asyncio.sleep(0.01)
        return [number, str(workflow.uuid4()), workflow.random().random()]

    async def do_fail(self, step: Step) -> None:
        if workflow.info().attempt <= step["attempts"]:
            raise ApplicationError("simulated", type="Failed")


WORKFLOWS = [Program]
ACTIVITIES = [work, stubborn, plain, ask, book]


def options_of(step: Step) -> ActivityOptions:
    given = dict(step["options"])
    policy, given["alerts"] = given.pop("retry", None), alerts_of(given)
    return ActivityOptions(**given, retry_policy=RetryPolicy(**policy) if policy is not None else None)


def alerts_of(given: dict[str, Any]) -> AlertPolicy | None:
    policy = given.get("alerts")
    return AlertPolicy(**policy) if policy is not None else None


# --- drawing programs ------------------------------------------------------------------------------------------------


def draw(rng: random.Random, *, size: int, depth: int = 0, whom: str = "w1") -> list[Step]:
    """Some steps."""
    kinds = ["call"] * 6 + ["sleep"] * 3 + ["wait"] * 2 + ["fact", "tell"]
    if depth < 2:
        kinds += ["all", "race", "race", "limit", "child", "child", "careful"]
    if depth == 0:
        kinds += ["continue"]
    steps = [_step(rng, rng.choice(kinds), depth, whom) for _ in range(rng.randint(1, size))]
    if depth == 0 and rng.random() < 0.15:
        steps.append({"do": "fail", "attempts": rng.choice((1, 2, 99))})
    return steps


def _step(rng: random.Random, kind: str, depth: int, whom: str) -> Step:
    def more(size: int) -> list[Step]:
        return draw(rng, size=size, depth=depth + 1, whom=whom)

    step: Step = {"do": kind}
    if kind == "call":
        return draw_call(rng)
    if kind in ("sleep", "limit"):
        step["for"] = rng.choice((0.001, 0.1, 1, 3, 5))
    if kind == "wait":
        step.update(signals=rng.randint(1, 2), **{"for": rng.choice((0.5, 3, 8))})
    if kind in ("all", "race"):
        step["branches"] = [more(2) for _ in range(rng.randint(1, 3))]
    if kind == "limit":
        step["steps"] = more(2)
    if kind == "careful":
        step.update(steps=more(2), cleanup=draw_call(rng), gives_way=rng.random() < 0.7)
    if kind == "tell":
        step.update(whom=whom, name=rng.getrandbits(40))
    if kind == "child":
        step.update(
            steps=more(2),
            name=f"c{rng.getrandbits(32)}",
            policy=rng.choice(("terminate", "abandon", "request_cancel")),
            cancellation=rng.choice(("wait", "try", "abandon")),
            hear=rng.random() < 0.5,
            **{"await": rng.random() < 0.5},
        )
        if rng.random() < 0.2:
            step["execution_timeout"] = rng.choice((2, 5))
        if rng.random() < 0.3:
            step["queue"] = rng.choice(QUEUES)
    return step


def draw_call(rng: random.Random) -> Step:
    """A step that calls an activity."""
    name = rng.choice(("work", "work", "work", "stubborn", "plain"))
    script = [_attempt(rng) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.7:
        script[-1]["end"] = "ok"
    given: dict[str, Any] = {}
    if rng.random() < 0.6:
        given["start_to_close_timeout"] = rng.choice((2, 4, 8))
    if rng.random() < 0.5 or not given:
        given["schedule_to_close_timeout"] = rng.choice((8, 12))
    if rng.random() < 0.4:
        given["heartbeat_timeout"] = rng.choice((0.5, 1, 2))
    if rng.random() < 0.25:
        given["schedule_to_start_timeout"] = rng.choice((0.2, 1, 4))
    attempts = rng.randint(1, 4) if "schedule_to_close_timeout" not in given else rng.choice((0, 2, 4))
    given["retry"] = {
        "initial_interval": rng.choice((0.01, 0.5, 1)),
        "max_attempts": attempts,
        "max_interval": 2,
    }
    local = rng.random() < 0.2
    if rng.random() < 0.3 and not local:
        given["task_queue"] = rng.choice(QUEUES)
    if rng.random() < 0.3:
        given["cancellation_type"] = rng.choice(("try", "wait", "abandon"))
    if rng.random() < 0.2:
        given["priority"] = rng.randint(0, 9)
    # Nothing is drawn for this: the other seeds stay as they were.
    if name == "plain" and not local and script[0]["for"] >= 0.5:
        name = "ask"
    return {"do": "call", "activity": name, "script": script, "options": given, "local": local}


def _attempt(rng: random.Random) -> Step:
    behaviour: Step = {
        "end": rng.choice(("ok", "ok", "ok", "fail", "fail", "fatal", "later")),
        "for": rng.choice((0, 0, 0.05, 0.5, 1.5, 3)),
    }
    if rng.random() < 0.5:
        behaviour["beats"] = rng.randint(1, 4)
    return behaviour
