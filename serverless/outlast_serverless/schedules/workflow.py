"""The workflow that starts a document by its schedule, where that is no matter of time alone: ``after`` and ``on``.

It is open for as long as the document is scheduled. Another version of the document reaches it as a signal, so that no
event is lost in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NoReturn

from outlast import workflow
from outlast_serverless.events.names import EVENT, SUBSCRIBE
from outlast_serverless.interpreter.faults import Fault
from outlast_serverless.interpreter.inbox import Inbox
from outlast_serverless.interpreter.interpreter import Interpreter
from outlast_serverless.interpreter.pace import Pace
from outlast_serverless.interpreter.request import RULES, StartRequest, check_rules, load, type_of
from outlast_serverless.jq import Evaluator
from outlast_serverless.plan.model import Schedule
from outlast_serverless.schedules.groups import EventGroups
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
        task_queue: The task queue whose workers run the schedule, and what it starts.
        timeout_us: The timeout of its runs in microseconds, where that is too short for the engine's own.
        execution_timeout: Their execution timeout in seconds.
        memo: The memo of the schedule and of its runs.
        pending: Events that wait for others.
        after: The key of the last event that is not seen; ``None`` before it is known.
        started: How many runs events have started.
        rules: The version of the rulings that it follows; the runs that it starts begin with the newest ones.
    """

    definition: dict[str, Any]
    task_queue: str
    timeout_us: int | None
    execution_timeout: float | None
    memo: dict[str, Any]
    pending: list[dict[str, Any]] = field(default_factory=list)
    after: int | None = None
    started: int = 0
    rules: int = RULES

    def to_json(self) -> dict[str, Any]:
        """Return the request as it is recorded."""
        return asdict(self)

    def is_of(self, other: ScheduleRequest) -> bool:
        """Return whether two requests schedule the same document in the same way."""
        return (self.definition, self.task_queue) == (other.definition, other.task_queue)


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
            check_rules(asked.rules)
            schedule = load(asked.definition).plan.schedule
            assert schedule is not None
            if schedule.after is not None:
                await self.by_ends(asked, schedule.after.microseconds / 1_000_000)
            else:
                await self.by_events(asked, schedule)

        async def by_ends(self, asked: ScheduleRequest, pause_s: float) -> None:
            """Start a run, and the next one some time after its end."""
            request = StartRequest(
                asked.definition, None, timeout_us=asked.timeout_us, jq=evaluator.version
            ).to_json()
            while True:
                child = workflow.start_child(
                    type_of(asked.definition),
                    request,
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
                pausing = asyncio.ensure_future(workflow.sleep(pause_s, summary="after /schedule/after"))
                changing = asyncio.ensure_future(workflow.wait_condition(lambda: self.changes(asked)))
                try:
                    await asyncio.wait((pausing, changing), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    pausing.cancel()
                    changing.cancel()
                if self.changes(asked) or workflow.info().continue_as_new_suggested:
                    self.go_on(asked, [], asked.started)

        async def by_events(self, asked: ScheduleRequest, schedule: Schedule) -> None:
            """Start a run for each group of events."""
            started = asked.started
            loaded = load(asked.definition)
            request = StartRequest(asked.definition, None, rules=asked.rules)
            interpreter = Interpreter(loaded, request, evaluator, runtime, Pace(), Inbox())
            groups = EventGroups(interpreter, schedule, interpreter.common)
            after = asked.after
            if after is None:
                after = await self.subscribe(groups, loaded.plan.schedule_lookback_us)
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
                        given = groups.offer(signal["event"])
                    except Fault as fault:
                        workflow.logger.error("event %s starts no run: %s", signal["event"]["id"], fault)
                        continue
                    if given is not None:
                        started += 1
                        await self.start(asked, given, started)
                if self.changes(asked):
                    self.go_on(asked, groups.events, started)
                if workflow.info().continue_as_new_suggested:
                    self.go_on(asked, groups.events, started, after)

        async def subscribe(self, groups: EventGroups, lookback_us: int | None) -> int:
            """Subscribe to the events of the schedule; return the key of the last one that it does not see."""
            info = workflow.info()
            wanted = {
                "workflow_id": info.workflow_id,
                "first_run_id": info.first_run_id,
                "execution": "/schedule/on",
                "interests": tuple(dict.fromkeys(groups.consuming().interests())),
                "lookback": lookback_us,
            }
            after: int = await workflow.execute_local_activity(
                SUBSCRIBE, wanted, start_to_close_timeout=_STARTING_S, summary="subscribe /schedule/on"
            )
            return after

        async def start(self, asked: ScheduleRequest, given: list[Any], number: int) -> None:
            """Start the run of a group, once: its id says which group it is of."""
            info = workflow.info()
            wanted = {
                "definition": asked.definition,
                "input": given,
                "id": f"{type_of(asked.definition)}:{info.first_run_id}:{number}",
                "task_queue": asked.task_queue,
            }
            try:
                await workflow.execute_local_activity(
                    START, wanted, start_to_close_timeout=_STARTING_S, summary="start /schedule/on"
                )
            except ActivityError as error:
                workflow.logger.error("events start no run: %s", error.__cause__ or error)

        def changes(self, asked: ScheduleRequest) -> bool:
            """Return whether the document is scheduled otherwise by now."""
            return self.next is not None and not self.next.is_of(asked)

        def go_on(
            self,
            asked: ScheduleRequest,
            pending: list[dict[str, Any]],
            started: int,
            after: int | None = None,
        ) -> NoReturn:
            """Go on with a fresh history, and with what the schedule is by now."""
            following = replace(self.next or asked, pending=pending, after=after, started=started)
            workflow.continue_as_new(
                following.to_json(), task_queue=following.task_queue, memo=following.memo
            )

        @workflow.signal(name=RESCHEDULE)
        def reschedule(self, request: dict[str, Any]) -> None:
            """Schedule another version of the document from now on."""
            self.next = ScheduleRequest(**request)

        @workflow.signal(name=EVENT)
        def event(self, arrived: dict[str, Any]) -> None:
            """Take an event."""
            self.arrived.append(arrived)

    return DocumentSchedule
