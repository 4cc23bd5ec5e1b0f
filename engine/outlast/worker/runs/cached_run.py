"""A cached run: one run in the memory of the worker that owns it.

It holds what the next workflow task needs: the machine with the run's code, the inbound events that no workflow task
has applied, and the results of activities that ran here and are not committed yet. At most one workflow task is in
flight. The next one, and every effect of this one, starts only when its change is durable.

What a cached run knows of the history is a gapless prefix, up to ``seen_seq``. If it receives an event beyond the next
seq, it has a *gap*: another process has written, and the owner must read the events between before it continues.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from outlast.worker.blocked_monitor import HERE, WorkflowTaskInterrupted
from outlast_activities.task import ActivityTask
from outlast_runs.queries import QueryRequest, QueryResult
from outlast_runs.start import StartRun
from outlast_runs.task_commit import CommitWorkflowTask
from outlast_runs.workflow_task import OwnResult, WorkflowTask
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

PYTHON: Final = sys.version_info[1]
"""The minor version, recorded with each workflow task."""

WaitingQuery = tuple[QueryRequest, asyncio.Future[QueryResult | None], int]
"""A query, its result, and how many commits it still waits for; the result is ``None`` if the run leaves memory."""


class CachedRun:
    """One run in memory, used only on its worker's event loop."""

    __slots__ = (
        "change",
        "gap",
        "machine",
        "open_ids",
        "own",
        "own_in_flight",
        "own_tasks",
        "pending",
        "queries",
        "queued",
        "quiet",
        "roused",
        "run",
        "run_id",
        "seen_inbox",
        "seen_seq",
        "tail",
        "updates",
    )

    def __init__(self, run: RunRow, machine: WorkflowMachine, *, seen_seq: int, open_ids: set[int]) -> None:
        """Make the cached run of a replayed or new run.

        Args:
            run: Its row.
            machine: Its machine, replayed up to ``seen_seq``.
            seen_seq: The last event of the known prefix.
            open_ids: The command ids of open activities, timers and children.
        """
        self.run_id = run.run_id
        self.run = run
        self.machine = machine
        self.seen_seq = seen_seq
        self.open_ids = open_ids
        self.tail: dict[int, Event | None] = {}
        """Events behind the prefix, by seq; ``None`` for those that the code need not see."""
        self.pending: list[Event] = []
        """Inbound events that no workflow task has applied."""
        self.quiet = False
        """Whether the pending events need no workflow task: starts of children that no code waits for."""
        self.roused = False
        """Whether the code goes on although there is no event: a condition holds where its history was taken over."""
        self.own: list[OwnResult] = []
        """Results of activities that ran here, for the next workflow task."""
        self.own_tasks: list[tuple[ActivityTask, Payload]] = []
        """The same results, as they are committed if there is no such workflow task."""
        self.own_in_flight: list[tuple[ActivityTask, Payload]] = []
        """The results that are bundled with the workflow task in flight."""
        self.change: CommitWorkflowTask | StartRun | None = None
        """The workflow task in flight."""
        self.gap = False
        """Whether events are missing behind the prefix."""
        self.queued = False
        """Whether a workflow task is queued, or a read of what others wrote is under way."""
        self.queries: list[WaitingQuery] = []
        """Queries that wait for a workflow task; see :mod:`outlast.worker.runs.query_answers`."""
        self.seen_inbox = 0
        """The run's inbox counter when its waiting updates were last read."""
        self.updates: Sequence[UpdateAccepted] = ()
        """The waiting updates, as the events that they become if they are accepted."""

    @property
    def has_work(self) -> bool:
        """Whether there is a reason for a workflow task."""
        return bool(
            (self.pending and not self.quiet)
            or self.roused
            or self.own
            or self.gap
            or self.updates
            or self.run.inbox != self.seen_inbox
        )

    @property
    def idle(self) -> bool:
        """Whether the run can be evicted without losing anything."""
        return self.change is None and not self.has_work and not self.queued

    def abandon_queries(self) -> None:
        """Tell waiting queries that the run leaves memory; they find their answers elsewhere."""
        waiting, self.queries = self.queries, []
        for _, future, _ in waiting:
            if not future.done():
                future.set_result(None)

    # --- events -----------------------------------------------------------------------------------------------------

    def receive(
        self,
        run: RunRow,
        events: Iterable[tuple[int, Event, object]],
        updates: Sequence[UpdateAccepted] = (),
    ) -> bool:
        """Take in what a batch of this process did to the run.

        Args:
            run: The run's row after the batch.
            events: The events that the batch appended, as ``(seq, event, author)``.
            updates: The updates that the batch added, as the events that they become if they are accepted.

        Returns:
            ``False`` if a workflow task was written that this cached run did not decide, as when one that was given up
            arrives late. What is in memory is then no longer the run's state.
        """
        self.run = run
        # Where the inbox counts anything else, its updates are read.
        if updates and self.seen_inbox + len(updates) == run.inbox:
            self.updates = [*self.updates, *updates]
            self.seen_inbox = run.inbox
        tail, change, seen = self.tail, self.change, self.seen_seq
        # Events behind the record of our own workflow task were not applied by it.
        recorded = False
        for seq, event, author in events:
            if seq > seen:
                if type(event) is WorkflowTaskCompleted:
                    if author is not change:
                        return False
                    recorded = True
                unseen = (
                    event.inbound
                    and (recorded or author is not change)
                    and getattr(event, "by", None) is None
                )
                tail[seq] = event if unseen else None
        self.advance()
        return True

    def advance(self) -> None:
        """Extend the gapless prefix by the tail, and note whether events are missing behind it."""
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

    def fill_gap(self, events: Sequence[tuple[int, Event]]) -> bool:
        """Take in events that were read to close a gap; known ones stay as they are.

        Args:
            events: The events behind the known prefix, as ``(seq, event)``.

        Returns:
            ``False`` if another owner has run a workflow task. What is in memory is then no longer the run's state.
        """
        for seq, event in events:
            if seq > self.seen_seq and seq not in self.tail:
                if type(event) is WorkflowTaskCompleted:
                    return False
                unseen = event.inbound and getattr(event, "by", None) is None
                self.tail[seq] = event if unseen else None
        self.advance()
        return True

    def add_result(self, task: ActivityTask, payload: Payload) -> None:
        """Take the result of an activity that ran here, to be committed with the workflow task that it leads to.

        Args:
            task: The attempt.
            payload: Its result.
        """
        _, activity_id, attempt = task.key
        event = ActivityCompleted(activity_id, payload, attempt - task.row.uncharged)
        self.own.append(OwnResult(activity_id, attempt, event))
        self.own_tasks.append((task, payload))

    # --- workflow tasks ---------------------------------------------------------------------------------------------

    def run_workflow_task(self, now: int) -> tuple[list[Event], list[OwnResult], int]:
        """Run the run's code with everything that is known.

        Args:
            now: The instant that the code sees, in microseconds.

        Returns:
            The commands, the results that are committed with them, and the last event that the code has seen.

        Raises:
            BaseException: Whatever fails the workflow task.
        """
        own, seen = self.own, self.seen_seq
        events = self.pending + [result.event for result in own] if own else self.pending
        run = self.run
        if now < run.created_at:
            # The clock of the process that started it is ahead of this one's: no time passes before a run begins.
            now = run.created_at
        watch = HERE.monitor
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
        except WorkflowTaskInterrupted as stop:
            # The interruption hit the loop's own code or the way out: the refusal that it was sent with says why.
            if watch is not None:
                watch.leave()
            raise self.machine.log.refusal or stop from None
        self.pending = []
        self.quiet = self.roused = False
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
        """Return the workflow task that is committed.

        Args:
            commands: The commands of the run's code.
            own: The results that are committed with them.
            seen: The last event that the code has seen.
            worker_id: The owner.
            build_id: Names the owner's code.
            eager: The activities that start here once the workflow task is durable, by command id.
            next_run_id: The id of the next run of a continue-as-new.
            next_owner_id: The owner of that run.
            children: The children that start with the workflow task, by command id.
        """
        considered = self.machine.considered
        count = len(own) if considered is None else len(own) + len(considered.accepted)
        record = None
        if considered is None or not considered.alone:
            record = task_record(
                self.machine, commands, through=seen, own=count, python=PYTHON, build_id=build_id
            )
        streams, handling = self.machine.streams, self.machine.handling_so_far
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
            buffered=handling.buffered if handling is not None else (),
            limits=self.machine.limits,
            progress=self.machine.progress,
            started=self.machine.started,
            streams=streams.take() if streams is not None else (),
            closed_streams=tuple(streams.closed) if streams is not None else (),
        )
