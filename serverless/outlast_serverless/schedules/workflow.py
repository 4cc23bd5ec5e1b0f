"""The workflow that starts a document by its schedule, where that is no matter of time alone: ``after`` and ``on``.

It is open for as long as the document is scheduled. Another version of the document reaches it as a signal, so that no
event is lost in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NoReturn

from outlast import workflow
from outlast_serverless.events.names import EVENT, SUBSCRIBE
from outlast_serverless.interpreter.faults import Fault
from outlast_serverless.interpreter.inbox import Inbox
from outlast_serverless.interpreter.interpreter import Interpreter
from outlast_serverless.interpreter.pace import Pace
from outlast_serverless.interpreter.request import StartRequest, load
from outlast_serverless.jq import Evaluator
from outlast_serverless.schedules.turns import Turns
from outlast_workflow.errors import ActivityError, ChildWorkflowError

SCHEDULE_PREFIX: Final = "serverless-schedule:"
"""The type of the workflow, and its id, is this and ``namespace/name``."""
RESCHEDULE: Final = "serverless.reschedule"
START: Final = "serverless.start"
"""The local activity that starts a run for events."""
_STARTING_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class ScheduleRequest:
    """What the workflow of a schedule is started with.

    Attributes:
        definition: The definition of the document.
        type: The workflow type of its runs.
        request: What runs are started with that need no events.
        execution_timeout: Their execution timeout in seconds.
        memo: The memo of runs.
        pending: Events that wait for others.
        after: The key of the last event that is not seen; ``None`` before it is known.
        started: How many runs were started.
    """

    definition: dict[str, Any]
    type: str
    request: dict[str, Any]
    execution_timeout: float | None
    memo: dict[str, Any]
    pending: list[dict[str, Any]] = field(default_factory=list)
    after: int | None = None
    started: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the request as it is recorded."""
        return asdict(self)

    def is_of(self, other: ScheduleRequest) -> bool:
        """Return whether two requests schedule the same document."""
        return (self.definition, self.execution_timeout) == (other.definition, other.execution_timeout)


def schedule_workflow_of(evaluator: Evaluator, runtime: Mapping[str, Any]) -> Any:
    """Return the workflow of schedules.

    Args:
        evaluator: Evaluates expressions.
        runtime: What ``$runtime`` is.
    """

    @workflow.defn(name=f"{SCHEDULE_PREFIX}*")
    class DocumentSchedule:
        def __init__(self) -> None:
            self.next: ScheduleRequest | None = None
            self.arrived: deque[dict[str, Any]] = deque()

        @workflow.run
        async def run(self, request: dict[str, Any]) -> None:
            """Start runs until it is ended."""
            asked = ScheduleRequest(**request)
            schedule = load(asked.definition).plan.schedule
            assert schedule is not None
            if schedule.after is not None:
                await self.by_ends(asked, schedule.after.microseconds / 1_000_000)
            else:
                await self.by_events(asked)

        async def by_ends(self, asked: ScheduleRequest, pause_s: float) -> None:
            """Start a run, and the next one some time after its end."""
            started = asked.started
            while True:
                child = workflow.start_child(
                    asked.type,
                    asked.request,
                    execution_timeout=asked.execution_timeout,
                    memo=asked.memo,
                    parent_close_policy="abandon",
                    cancellation_type="try",
                    summary="run /schedule/after",
                )
                try:
                    await child
                except ChildWorkflowError as error:
                    workflow.logger.info("run %s did not complete: %s", child.workflow_id, error)
                started += 1
                pausing = asyncio.ensure_future(workflow.sleep(pause_s, summary="after /schedule/after"))
                changing = asyncio.ensure_future(workflow.wait_condition(lambda: self.changes(asked)))
                try:
                    await asyncio.wait((pausing, changing), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    pausing.cancel()
                    changing.cancel()
                if self.changes(asked) or workflow.info().continue_as_new_suggested:
                    self.go_on(asked, [], started)

        async def by_events(self, asked: ScheduleRequest) -> None:
            """Start a run for each turn of events."""
            started = asked.started
            loaded = load(asked.definition)
            schedule = loaded.plan.schedule
            assert schedule is not None
            request = StartRequest(asked.definition, None)
            interpreter = Interpreter(loaded, request, evaluator, runtime, Pace(), Inbox())
            turns = Turns(interpreter, schedule, interpreter.common)
            after = asked.after
            if after is None:
                after = await self.subscribe(turns, loaded.plan.schedule_lookback_us)
            # These were seen, and wait for others; of another version of the document they may now be enough.
            self.arrived.extendleft({"event": event} for event in reversed(asked.pending))
            while True:
                await workflow.wait_condition(lambda: bool(self.arrived) or self.changes(asked))
                while self.arrived:
                    signal = self.arrived.popleft()
                    key = signal.get("key")
                    if key is not None and key <= after:
                        continue
                    try:
                        given = turns.offer(signal["event"])
                    except Fault as fault:
                        workflow.logger.error("event %s starts no run: %s", signal["event"]["id"], fault)
                        continue
                    if given is not None:
                        started += 1
                        await self.start(asked, given, started)
                if self.changes(asked):
                    self.go_on(asked, turns.events, started)
                if workflow.info().continue_as_new_suggested:
                    self.go_on(asked, turns.events, started, after)

        async def subscribe(self, turns: Turns, lookback_us: int | None) -> int:
            """Subscribe to the events of the schedule; return the key of the last one that it does not see."""
            info = workflow.info()
            wanted = {
                "workflow_id": info.workflow_id,
                "first_run_id": info.first_run_id,
                "execution": "/schedule/on",
                "interests": tuple(dict.fromkeys(turns.consuming().interests())),
                "lookback": lookback_us,
            }
            after: int = await workflow.execute_local_activity(
                SUBSCRIBE, wanted, start_to_close_timeout=_STARTING_S, summary="subscribe /schedule/on"
            )
            return after

        async def start(self, asked: ScheduleRequest, given: list[Any], number: int) -> None:
            """Start the run of a turn, once: its id says which turn it is of."""
            info = workflow.info()
            wanted = {
                "definition": asked.definition,
                "input": given,
                "id": f"{asked.type}:{info.first_run_id}:{number}",
                "task_queue": info.task_queue,
            }
            try:
                await workflow.execute_local_activity(
                    START, wanted, start_to_close_timeout=_STARTING_S, summary="start /schedule/on"
                )
            except ActivityError as error:
                workflow.logger.error("events start no run: %s", error.__cause__ or error)

        def changes(self, asked: ScheduleRequest) -> bool:
            """Return whether the document has changed."""
            return self.next is not None and not self.next.is_of(asked)

        def go_on(
            self,
            asked: ScheduleRequest,
            pending: list[dict[str, Any]],
            started: int,
            after: int | None = None,
        ) -> NoReturn:
            """Go on with a fresh history, and with what the schedule is by now."""
            following = self.next or asked
            going = ScheduleRequest(
                following.definition,
                following.type,
                following.request,
                following.execution_timeout,
                following.memo,
                pending,
                after,
                started,
            )
            workflow.continue_as_new(going.to_json(), memo=following.memo)

        @workflow.signal(name=RESCHEDULE)
        def reschedule(self, request: dict[str, Any]) -> None:
            """Schedule another version of the document from now on."""
            self.next = ScheduleRequest(**request)

        @workflow.signal(name=EVENT)
        def event(self, arrived: dict[str, Any]) -> None:
            """Take an event."""
            self.arrived.append(arrived)

    return DocumentSchedule
