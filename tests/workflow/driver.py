"""A tiny engine in memory: it keeps one run's history by the rules of workflow task records, in a random but seeded
way.

Activities end in any order, some next to the decision they lead to (*own*), some landing from outside at any time, also
while a workflow task runs; timers fire when the clock passes them; a cancel request may come. All choices are made by
one seeded source and depend on nothing but the history so far, so two drives of the same run are the same, unless the
run itself is not deterministic.
"""

from __future__ import annotations

from random import Random
from typing import Any

from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import activity_timeout_failure, failure_of
from outlast_workflow.declare.definitions import WorkflowDefinition, definition_of
from outlast_workflow.history.events import (
    ActivityCancelled,
    ActivityCancelRequested,
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    ActivityTimedOut,
    Event,
    TimerCancelled,
    TimerFired,
    TimerScheduled,
    WorkflowCancelRequested,
    WorkflowCompleted,
    WorkflowStarted,
    from_json,
)
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import ActivityOptions
from outlast_workflow.primitives.enums import RetryState, TimeoutKind
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.primitives.times import iso
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import Row, replay, task_record

START = 1_700_000_000_000_000
CONVERTER = DataConverter()
BOUNDED = ActivityOptions(start_to_close_timeout=10)

made: list[WorkflowMachine] = []
"""The machines of the test that runs; they are evicted at its end."""


def new_machine(workflow: object, limits: StructuralLimits | None = None, **kwargs: Any) -> WorkflowMachine:
    """A machine whose activities are bounded by default."""
    kwargs.setdefault("default_activity_options", BOUNDED)
    kwargs.setdefault("converter", CONVERTER)
    machine = WorkflowMachine(definition_of(workflow), "run-1", limits=limits or StructuralLimits(), **kwargs)
    made.append(machine)
    return machine


def started(*args: Any, workflow_type: str = "program", seed: int = 7, **fields: Any) -> WorkflowStarted:
    """A run's first event."""
    return WorkflowStarted(
        workflow_id=fields.pop("workflow_id", "w-1"),
        workflow_type=workflow_type,
        task_queue="default",
        input=Payload.of(list(args)),
        first_run_id="run-1",
        run_number=1,
        attempt=1,
        seed=seed,
        priority=5,
        **fields,
    )


def result_of(machine: WorkflowMachine) -> Any:
    """What a run that has completed returned."""
    assert isinstance(machine.terminal, WorkflowCompleted), machine.terminal
    return machine.terminal.result.value


class Driver:
    """One run, from its start to its end."""

    def __init__(
        self,
        workflow: object,
        *args: Any,
        seed: int = 0,
        evict: float = 0,
        cancel: bool = False,
        machine_options: dict[str, Any] | None = None,
    ) -> None:
        self.definition: WorkflowDefinition = definition_of(workflow)
        self.machine_options = machine_options or {}
        self.random = Random(seed)
        self.evictions = Random(seed)  # apart, so that evicting changes no other choice
        self.evict = evict
        self.cancel_at = self.random.randrange(1, 5) if cancel else None
        self.now = START
        self.rows: list[Row] = []
        self.events: list[Event] = []
        self.boundaries: list[int] = []  # lengths of history after each commit
        self.unapplied: list[tuple[int, Event]] = []
        self.activities: dict[int, ActivityScheduled] = {}
        self.cancel_requested: set[int] = set()
        self.timers: dict[int, int] = {}
        self.workflow_tasks = 0
        self.machine = self.new_machine()
        self.land(started(*args, workflow_type=self.definition.name, seed=seed + 1))

    def new_machine(self) -> WorkflowMachine:
        return new_machine(self.definition, **self.machine_options)

    @property
    def commands(self) -> list[Event]:
        """What the run asked for, all along."""
        return [event for event in self.events if event.command]

    # --- history --------------------------------------------------------------------------------------------------

    def append(self, event: Event) -> int:
        """Write an event as a row, and keep it as that row reads."""
        text = event.to_json().decode()
        self.rows.append((len(self.rows) + 1, event.type, text))
        self.events.append(from_json(event.type, text))
        return len(self.rows)

    def land(self, event: Event) -> None:
        """An event from outside, in a commit of its own."""
        seq = self.append(event)
        self.unapplied.append((seq, self.events[-1]))
        self.boundaries.append(seq)

    # --- the run --------------------------------------------------------------------------------------------------

    def run(self, most_workflow_tasks: int = 500) -> Event:
        """Drive the run to its end."""
        while self.machine.terminal is None:
            assert self.workflow_tasks < most_workflow_tasks, "the run does not end"
            self.step()
        terminal = self.machine.terminal
        self.machine.evict()
        return terminal

    def step(self) -> None:
        """Let things happen, then activate with some of them."""
        own: list[Event] = []
        if not self.unapplied or self.random.random() < 0.5:
            self.world_moves(own)
        assert self.unapplied or own, "the run waits for nothing that could happen"
        if self.evictions.random() < self.evict:
            self.come_back()
        self.run_workflow_task(own)

    def world_moves(self, own: list[Event]) -> None:
        if self.cancel_at is not None and self.workflow_tasks >= self.cancel_at:
            self.cancel_at = None
            self.land(WorkflowCancelRequested("enough"))
        for command_id in self.random.sample(
            sorted(self.activities), k=self.random.randint(0, len(self.activities))
        ):
            event = self.end_of(self.activities.pop(command_id))
            if self.random.random() < 0.4:
                own.append(event)
            else:
                self.land(event)
        if self.timers and (self.random.random() < 0.3 or not (own or self.unapplied)):
            self.now = max(self.now, min(self.timers.values()))
            self.fire_due()
        elif not (own or self.unapplied) and self.activities:
            command_id = self.random.choice(sorted(self.activities))
            self.land(self.end_of(self.activities.pop(command_id)))

    def fire_due(self) -> None:
        for command_id, fire_at in sorted(self.timers.items(), key=lambda item: (item[1], item[0])):
            if fire_at <= self.now:
                del self.timers[command_id]
                self.land(TimerFired(command_id, fire_at))

    def end_of(self, command: ActivityScheduled) -> Event:
        """How an activity ends: mostly well, and not always told in time that nobody wants it any more."""
        command_id, chance = command.command_id, self.random.random()
        if command_id in self.cancel_requested and chance < 0.5:
            return ActivityCancelled(command_id)
        if chance < 0.8:
            return ActivityCompleted(command_id, Payload.of([command.activity_type, command_id]), 1)
        if chance < 0.9:
            failure = failure_of(ValueError("no"), CONVERTER)
            return ActivityFailed(command_id, failure, 3, RetryState.MAXIMUM_ATTEMPTS_REACHED)
        deadline_at = self.now
        failure = activity_timeout_failure(
            timeout_kind=TimeoutKind.START_TO_CLOSE,
            deadline_at=deadline_at,
            activity_type=command.activity_type,
            activity_id=command_id,
            attempt=1,
        )
        return ActivityTimedOut(
            command_id,
            TimeoutKind.START_TO_CLOSE,
            iso(deadline_at),
            failure,
            1,
            RetryState.MAXIMUM_ATTEMPTS_REACHED,
        )

    def come_back(self) -> None:
        """Evict the run and replay it."""
        self.machine.evict()
        self.machine = self.new_machine()
        replayed = replay(self.machine, self.rows)
        assert [seq for seq, _ in replayed.unapplied] == [seq for seq, _ in self.unapplied]
        assert replayed.workflow_tasks == self.workflow_tasks
        self.unapplied = replayed.unapplied

    def run_workflow_task(self, own: list[Event]) -> None:
        """One workflow task, as an owner does it; events may land while it runs."""
        self.now += self.random.randrange(0, 50_000)
        seen, self.unapplied = self.unapplied, []
        through = len(self.rows)
        # What is bundled is applied as it will be read again.
        own = [from_json(event.type, event.to_json()) for event in own]
        commands = self.machine.run_workflow_task(
            [*(event for _, event in seen), *own], self.now, history_events=len(self.rows), history_bytes=0
        )
        self.workflow_tasks += 1
        if self.activities and self.random.random() < 0.3 and self.machine.terminal is None:
            self.land(self.end_of(self.activities.pop(self.random.choice(sorted(self.activities)))))
        self.commit(own, commands, through)

    def commit(self, own: list[Event], commands: list[Event], through: int) -> None:
        for event in own:
            self.append(event)
        record = task_record(self.machine, commands, through=through, own=len(own), python=11)
        if record is not None:
            self.append(record)
        for command in commands:
            if command.terminal:
                self.close_what_is_open()
            self.append(command)
            self.obey(command)
        self.boundaries.append(len(self.rows))

    def close_what_is_open(self) -> None:
        for command_id in sorted(self.activities):
            self.append(ActivityCancelled(command_id, by="workflow_closed"))
        for command_id in sorted(self.timers):
            self.append(TimerCancelled(command_id, by="workflow_closed"))
        self.activities.clear()
        self.timers.clear()

    def obey(self, command: Event) -> None:
        if isinstance(command, ActivityScheduled):
            self.activities[command.command_id] = command
        elif isinstance(command, TimerScheduled):
            self.timers[command.command_id] = command.fire_at
        elif isinstance(command, TimerCancelled):
            self.timers.pop(command.command_id, None)
        elif isinstance(command, ActivityCancelRequested):
            self.cancel_requested.add(command.command_id)
