"""The clients of a simulation, and their ledger: what they asked for, and what they were told about it.

The ledger is outside of every process: it survives crashes. What a client does not hear about (its process crashed,
or the database was away too long) is unknown: it may have happened or not. A keyed request is sent again until it is
known.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from tests.rows import latest_row
from tests.simulation import programs, scheduled

from outlast import Client, SignalTo, StartOptions, UpdateHandle
from outlast.errors import (
    InvalidOptionError,
    NoWorkerError,
    QueueNotFoundError,
    RequestTimeoutError,
    ResetRefusedError,
    RunNotFoundError,
    ScheduleNotFoundError,
    StructuralLimitError,
    UpdateFailedError,
    UpdateRejectedError,
    WorkflowAlreadyBegunError,
    WorkflowAlreadyStartedError,
    WorkflowClosedError,
    WorkflowNotFoundError,
    WorkflowResultError,
)
from outlast_workflow.errors import JournalClosedError, StoreError
from outlast_workflow.options.options import RetryPolicy

ASKED_AGAIN = ("start", "cancel", "terminate", "result", "query", "schedule", "fork")
"""What may be asked for once more: it does the same again, or nothing."""
UNKNOWN, DONE, REFUSED = "unknown", "done", "refused"


@dataclass
class Answer:
    """What a client was told of an update or by a query; ``run_id`` where it was sent."""

    run_id: str | None
    value: Any = None
    error: str | None = None


@dataclass
class Request:
    """Something that a client asked for."""

    kind: str
    workflow_id: str
    token: str = ""
    key: str | None = None
    state: str = UNKNOWN
    tries: int = 0
    run_id: str | None = None
    problem: str | None = None
    before: list[str] = field(default_factory=list)
    """What was acknowledged to the same client, for the same workflow, before this was sent: signals and updates."""
    whom: list[str] = field(default_factory=list)
    """The workflows that signals were sent to together."""
    answers: list[Answer] = field(default_factory=list)
    """What an update's or a query's client was told, each time that it asked."""


@dataclass
class Result:
    """What a client was told of a workflow's end."""

    workflow_id: str
    run_id: str | None
    value: Any = None
    error: str | None = None


class Ledger:
    """What clients asked for and were told."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.results: list[Result] = []
        self.tokens = 0

    def of(self, kind: str) -> list[Request]:
        return [one for one in self.requests if one.kind == kind]


Action = dict[str, Any]


class Session:
    """One client's plan. It goes on where its last process was when that crashed."""

    def __init__(self, name: str, plan: list[Action], ledger: Ledger, rng: random.Random) -> None:
        self.name = name
        self.plan = plan
        self.ledger = ledger
        self.rng = rng
        self.place = 0
        self.request: Request | None = None
        self.acknowledged: dict[str, list[str]] = {}

    @property
    def done(self) -> bool:
        return self.place >= len(self.plan)

    async def run(self, client: Client) -> None:
        """Carry out the plan."""
        while not self.done:
            action = self.plan[self.place]
            await asyncio.sleep(action["after"])
            if self.request is None:
                self.request = self._begin(action)
            await self._carry_out(client, action, self.request)
            self.request = None
            self.place += 1

    def _begin(self, action: Action) -> Request:
        request = Request(action["do"], action["id"], whom=action.get("whom", []))
        if request.kind in ("signal", "signal_many", "signal_with_start", "update"):
            self.ledger.tokens += 1
            request.token = f"{'u' if request.kind == 'update' else 's'}{self.ledger.tokens}"
            request.key = f"key {request.token}" if action.get("keyed", True) else None
        request.before = list(self.acknowledged.get(request.workflow_id, ()))
        self.ledger.requests.append(request)
        return request

    async def _carry_out(self, client: Client, action: Action, request: Request) -> None:
        """Until it is known what became of it, or asking again would be asking for more."""
        if request.tries and not self._may_ask_again(request):
            return
        while True:
            request.tries += 1
            try:
                await self._ask(client, action, request)
            except JournalClosedError:
                raise
            except (StoreError, RequestTimeoutError, NoWorkerError) as error:
                request.problem = type(error).__name__
                if not self._may_ask_again(request):
                    return
                await asyncio.sleep(0.2)
                continue
            except QueueNotFoundError as error:
                request.problem = type(error).__name__
                await asyncio.sleep(0.2)  # nothing was written, and the queue will be there again
                continue
            except (
                WorkflowNotFoundError,
                RunNotFoundError,
                WorkflowClosedError,
                WorkflowAlreadyBegunError,
                StructuralLimitError,
                UpdateRejectedError,
                ResetRefusedError,
                InvalidOptionError,
                ScheduleNotFoundError,
            ) as error:
                if request.state != DONE:
                    request.state, request.problem = REFUSED, type(error).__name__
                return
            except WorkflowAlreadyStartedError as error:
                request.problem = type(error).__name__
                again = request.tries > 1 and request.kind in ("start", "fork")
                request.state = DONE if again else REFUSED
                return
            if request.kind == "result":
                request.state = DONE
                return
            request.state = DONE
            if request.whom:
                return
            if request.token and not any(answer.error for answer in request.answers):
                self.acknowledged.setdefault(request.workflow_id, []).append(request.token)
            if not (request.key and self.rng.random() < 0.3 and request.tries < 3):
                return

    @staticmethod
    def _may_ask_again(request: Request) -> bool:
        return request.key is not None or request.kind in ASKED_AGAIN

    async def _ask(self, client: Client, action: Action, request: Request) -> None:
        kind, workflow_id = request.kind, request.workflow_id
        if kind == "start":
            args: tuple[Any, list[str], list[Any]] = (action["steps"], [], [])
            handle = await client.start(
                programs.Program.run,
                *args,
                id=workflow_id,
                task_queue=action["queue"],
                options=_options(action),
            )
            request.run_id = handle.run_id
        elif kind == "signal_with_start":
            handle = await client.signal_with_start(
                programs.Program.run,
                action["steps"],
                [],
                [],
                signal="take",
                signal_args=[request.token],
                request_id=request.key,
                id=workflow_id,
                task_queue=action["queue"],
                options=_options(action),
            )
            request.run_id = handle.run_id
        elif kind == "signal":
            await client.signal(workflow_id, action["name"], request.token, request_id=request.key)
        elif kind == "signal_many":
            sent = [
                SignalTo(whom, programs.UNHEARD, request.token, request_id=request.key)
                for whom in request.whom
            ]
            await client.signal_many(sent)
        elif kind == "update":
            await self._update(client, action, request)
        elif kind == "query":
            value = await client.handle(workflow_id).query("seen", timeout=5.0)
            request.answers.append(Answer(value["run_id"], value))
        elif kind == "cancel":
            await client.handle(workflow_id).cancel("simulated")
        elif kind == "terminate":
            await client.handle(workflow_id).terminate("simulated")
        elif kind == "schedule":
            await scheduled.ask(client, action)
        elif kind == "set_start_delay":
            await client.handle(workflow_id).set_start_delay(action["delay"])
        elif kind == "resume":
            request.run_id = (await client.resume(workflow_id, reason="simulated")).run_id
        elif kind == "fork":
            policy = "reject_duplicate"
            made = await client.fork(workflow_id, action["to"], id=action["fork"], duplicate_policy=policy)
            request.run_id = made.run_id
        elif kind == "reset":
            request.run_id = (await client.handle(workflow_id).reset(action["to"])).run_id
        else:
            await self._result(client, workflow_id)

    @staticmethod
    async def _update(client: Client, action: Action, request: Request) -> None:
        made: UpdateHandle[Any] | None = None
        handle = client.handle(request.workflow_id)
        arguments = request.token, action["fits"]
        try:
            made = await handle.start_update(
                action["name"], *arguments, id=request.key, timeout=action["patience"]
            )
            request.answers.append(Answer(made.run_id, await made.result(action["patience"])))
        except UpdateFailedError as error:
            request.answers.append(Answer(made.run_id if made else None, error=type(error).__name__))
        except UpdateRejectedError as error:
            request.answers.append(Answer(None, error=type(error).__name__))
            raise

    async def _result(self, client: Client, workflow_id: str) -> None:
        handle = client.handle(workflow_id)
        run_id = (await latest_row(handle)).first_run_id
        handle = client.handle(workflow_id, run_id=run_id)
        result = Result(workflow_id, run_id)
        try:
            result.value = await handle.result()
        except WorkflowResultError as error:
            result.error = type(error).__name__
        self.ledger.results.append(result)


def _options(action: Action) -> StartOptions:
    given = dict(action["options"])
    policy, given["alerts"] = given.pop("retry", None), programs.alerts_of(given)
    return StartOptions(**given, retry_policy=RetryPolicy(**policy) if policy is not None else None)


# --- plans ------------------------------------------------------------------------------------------------------------


def draw_plans(rng: random.Random, clients: int) -> list[list[Action]]:
    """What each client is going to do."""
    plans: list[list[Action]] = [[] for _ in range(clients)]
    workflows = rng.randint(2, 5)
    ids = [f"w{number}" for number in range(1, workflows + 1)]
    for workflow_id in ids:
        plan = rng.choice(plans)
        plan.append(_start(rng, workflow_id, rng.choice(ids)))
        for _ in range(rng.choice((0, 1, 2, 4))):
            plan.append(_further(rng, workflow_id, ids))
        if rng.random() < 0.4:
            plan.append({"do": "result", "id": workflow_id, "after": 0.1})
    for plan in plans:
        for _ in range(rng.randint(0, 2)):
            plan.append(_further(rng, rng.choice(ids), ids))
    return plans


def draw_operator(seed: int) -> list[Action]:
    """What an operator does beside the clients, in a third of the seeds: stop workflows, resume and fork them.

    In one of thirty more he only forks, at many points.
    """
    rng = random.Random(f"operator {seed}")
    if seed % 30 == 25:
        return _forks(rng)
    if seed % 3 != 2:
        return []
    plan: list[Action] = []
    for number in range(rng.randint(2, 6)):
        workflow_id = f"w{rng.randint(1, 3)}"
        kind = rng.choice(("stopped", "stopped", "fork", "resume"))
        if kind == "stopped":
            stop = rng.choice(("cancel", "terminate"))
            plan.append({"do": stop, "id": workflow_id, "after": rng.choice((0.2, 1, 2))})
            kind = "resume"
        action: Action = {"do": kind, "id": workflow_id, "after": rng.choice((0.1, 0.5, 2))}
        if kind == "fork":
            points = ("first-workflow-task", "last-workflow-task", "last-successful", rng.randint(2, 30))
            action.update(to=rng.choice(points), fork=f"{workflow_id}-fork-{number}")
        plan.append(action)
    return plan


def _forks(rng: random.Random) -> list[Action]:
    """Fork what is open at whatever events, again and again: while there are children, among others."""
    return [
        {
            "do": "fork",
            "id": f"w{rng.randint(1, 3)}",
            "after": rng.choice((0, 0.1, 0.3)),
            "to": rng.randint(3, 30),
            "fork": f"w-fork-{number}",
        }
        for number in range(40)
    ]


def _start(rng: random.Random, workflow_id: str, whom: str) -> Action:
    options: dict[str, Any] = {}
    if rng.random() < 0.15:
        options["execution_timeout"] = rng.choice((3, 10))
    if rng.random() < 0.15:
        options["run_timeout"] = rng.choice((2, 6))
    if rng.random() < 0.15:
        options["start_delay"] = rng.choice((0.5, 2))
    if rng.random() < 0.25:
        options["retry"] = {"initial_interval": 0.5, "max_attempts": rng.randint(1, 3)}
    return {
        "do": "start",
        "id": workflow_id,
        "steps": programs.draw(rng, size=4, whom=whom),
        "queue": rng.choice(programs.QUEUES),
        "options": options,
        "after": rng.choice((0, 0, 0.2, 1)),
    }


def _further(rng: random.Random, workflow_id: str, ids: list[str]) -> Action:
    kind = rng.choice(
        ["signal"] * 8
        + ["update"] * 5
        + ["query"] * 3
        + ["cancel", "cancel", "terminate", "signal_with_start"]
        + ["reset"] * 3
    )
    action: Action = {"do": kind, "id": workflow_id, "after": rng.choice((0, 0, 0.1, 0.7, 2))}
    if kind in ("signal", "signal_with_start"):
        action["keyed"] = rng.random() < 0.5
        action["name"] = rng.choice(("take", "take", "take", "take_slowly", "take_slowly", programs.UNHEARD))
    if kind == "update":
        action["name"] = rng.choice(("put", "put", "put_slowly", "put_slowly", "put_badly"))
        action["fits"] = rng.random() < 0.8
        action["patience"] = rng.choice((None, None, 1.0, 5.0))
    if kind == "reset":
        points = ("first-workflow-task", "last-workflow-task", "last-successful", rng.randint(2, 30))
        action["to"] = rng.choice(points)
    if kind == "signal_with_start":
        if rng.random() < 0.5:
            action["id"] = f"sws{rng.randint(1, 2)}"
        action.update(
            steps=programs.draw(rng, size=2, whom=rng.choice(ids)),
            queue=rng.choice(programs.QUEUES),
            options={},
        )
    return action
