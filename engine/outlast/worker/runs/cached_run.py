"""A cached run: one run in its owner's memory.

It keeps what the next workflow task needs: the machine that holds the run's code, the inbound events that no workflow
task has applied, and the results of activities that ran here and are not committed yet. At most one workflow task is in
flight: the next begins, and every effect of this one, only when its change is durable.

What it knows of the history is a gapless prefix, up to ``seen_seq``. News beyond the next seq leaves a *gap*: somebody
else has written, and the owner must read what is between before it goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from outlast.worker.blocked_monitor import WorkflowTaskInterrupted, monitor
from outlast_activities.task import ActivityTask
from outlast_runs.start import StartRun
from outlast_runs.workflow_task import CommitWorkflowTask, OwnResult, WorkflowTask
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.children import NewChild
from outlast_workflow.history.events import (
    ActivityCompleted,
    ChildWorkflowStarted,
    Event,
    UpdateAccepted,
    WorkflowTaskCompleted,
)
from outlast_workflow.history.open_commands import note_open
from outlast_workflow.options.options import ActivityOptions
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import task_record

PYTHON = sys.version_info[1]


class CachedRun:
    """One run in memory. Only its worker's loop touches it."""

    __slots__ = (
        "change",
        "gap",
        "machine",
        "open_ids",
        "own",
        "own_in_flight",
        "own_tasks",
        "pending",
        "questions",
        "queued",
        "quiet",
        "run",
        "run_id",
        "seen_inbox",
        "seen_seq",
        "tail",
        "updates",
    )

    def __init__(self, run: RunRow, machine: WorkflowMachine, *, seen_seq: int, open_ids: set[int]) -> None:
        self.run_id = run.run_id
        self.run = run
        self.machine = machine
        self.seen_seq = seen_seq
        self.open_ids = open_ids
        """The command ids of open activities, timers and children."""
        self.tail: dict[int, Event | None] = {}
        self.pending: list[Event] = []
        self.quiet = False
        """Whether what is pending is no reason for a workflow task: starts of children that no code waits for."""
        self.own: list[OwnResult] = []
        self.own_tasks: list[tuple[ActivityTask, Payload]] = []
        self.own_in_flight: list[tuple[ActivityTask, Payload]] = []
        self.change: CommitWorkflowTask | StartRun | None = None
        self.gap = False
        self.queued = False
        self.questions: list[tuple[Any, Any, int]] = []
        """Queries that wait until the run is at rest; see :mod:`outlast.worker.runs.query_answers`."""
        self.seen_inbox = 0
        """What the run's inbox was when the updates that wait were last read."""
        self.updates: Sequence[UpdateAccepted] = ()
        """Those that wait, as the events that they become if they are accepted."""

    @property
    def busy(self) -> bool:
        """Whether a workflow task is in flight."""
        return self.change is not None

    @property
    def has_work(self) -> bool:
        """Whether there is anything to activate for."""
        return bool(
            (self.pending and not self.quiet)
            or self.own
            or self.gap
            or self.updates
            or self.run.inbox != self.seen_inbox
        )

    @property
    def asked(self) -> bool:
        """Whether updates may wait that have not been read."""
        return self.run.inbox != self.seen_inbox

    @property
    def idle(self) -> bool:
        """Whether it may leave memory without losing anything."""
        return self.change is None and not self.has_work and not self.queued

    # --- news -------------------------------------------------------------------------------------------------------

    def hear(self, run: RunRow, events: Iterable[tuple[int, Event, object]]) -> bool:
        """Take in what a batch of this process did to the run.

        Returns ``False`` where a workflow task was written that is not this cached run's, for one that was given up can
        arrive late: what is in memory here is no longer the run's state.
        """
        self.run = run
        tail, change, seen = self.tail, self.change, self.seen_seq
        recorded = False  # what stands after the record of its own workflow task was not applied by it
        for seq, event, author in events:
            if seq > seen:
                if type(event) is WorkflowTaskCompleted:
                    if author is not change:
                        return False
                    recorded = True
                news = (
                    event.inbound
                    and (recorded or author is not change)
                    and getattr(event, "by", None) is None
                )
                tail[seq] = event if news else None
        self.advance()
        return True

    def advance(self) -> None:
        """Move along the gapless prefix, and note whether something is missing after it."""
        tail, seq = self.tail, self.seen_seq
        while (seq + 1) in tail:
            seq += 1
            event = tail.pop(seq)
            if event is not None:
                self.quiet = (
                    type(event) is ChildWorkflowStarted
                    and (self.quiet or not self.pending)
                    and not self.machine.children.awaits_start(event.command_id)
                )
                self.pending.append(event)
                note_open(self.open_ids, (event,))
        self.seen_seq = seq
        self.gap = self.run.last_seq > seq

    def fill(self, rows: Sequence[tuple[int, Event]]) -> bool:
        """Take in events that were read to close a gap; those known already stay as they are.

        Returns ``False`` where another owner has activated the run: what is in memory here is no longer its state.
        """
        for seq, event in rows:
            if seq > self.seen_seq and seq not in self.tail:
                if type(event) is WorkflowTaskCompleted:
                    return False
                news = event.inbound and getattr(event, "by", None) is None
                self.tail[seq] = event if news else None
        self.advance()
        return True

    def add_result(self, task: ActivityTask, payload: Payload) -> None:
        """Take the result of an activity that ran here, to be committed with what it leads to."""
        event = ActivityCompleted(task.activity_id, payload, task.row.charged_attempt)
        self.own.append(OwnResult(task.activity_id, task.attempt, event))
        self.own_tasks.append((task, payload))

    # --- activating -------------------------------------------------------------------------------------------------

    def run_workflow_task(self, now: int) -> tuple[list[Event], list[OwnResult], int]:
        """Run the code over everything that is known. Raises what fails the task.

        Returns the commands, the results that are to be committed with them, and the seq seen.
        """
        own, seen = self.own, self.seen_seq
        events = self.pending + [result.event for result in own] if own else self.pending
        run = self.run
        watch = monitor()
        if watch is not None:
            watch.enter(self.machine)
        try:
            try:
                commands = self.machine.run_workflow_task(
                    events,
                    now,
                    history_events=run.last_seq,
                    history_bytes=run.history_bytes,
                    updates=self.updates,
                )
            finally:
                if watch is not None:
                    watch.leave()
        except (
            WorkflowTaskInterrupted
        ) as stop:  # it met the loop's own code, or the way out: say why all the same
            if watch is not None:
                watch.leave()
            raise self.machine.log.refusal or stop from None
        self.pending = []
        self.quiet = False
        self.updates = ()
        self.own = []
        self.own_in_flight, self.own_tasks = self.own_tasks, []
        return commands, own, seen

    def decide(
        self,
        commands: list[Event],
        own: list[OwnResult],
        seen: int,
        *,
        worker_id: str,
        build_id: str | None,
        eager: dict[int, ActivityOptions],
        next_run_id: str | None,
        next_owner_id: str | None,
        children: Mapping[int, NewChild],
    ) -> WorkflowTask:
        """The workflow task to be committed."""
        considered = self.machine.considered
        count = len(own) if considered is None else len(own) + len(considered.accepted)
        record = None
        if considered is None or not considered.alone:
            record = task_record(
                self.machine, commands, through=seen, own=count, python=PYTHON, build_id=build_id
            )
        note_open(self.open_ids, [*[result.event for result in own], *commands])
        return WorkflowTask(
            worker_id=worker_id,
            fence=self.run.fence,
            seen_seq=seen,
            seen_inbox=self.seen_inbox,
            record=record,
            commands=commands,
            own=own,
            considered=considered,
            eager=eager,
            nothing_open=not self.open_ids,
            build_id=build_id,
            next_run_id=next_run_id,
            next_owner_id=next_owner_id,
            children=children,
            buffered=self.machine.buffered,
            limits=self.machine.limits,
        )
