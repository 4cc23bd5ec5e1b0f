"""What must hold at each step, not only at the end: a batch that looks at what it is asked to write.

The checker reads what is there when all is over. Some wrongs leave no trace by then, because the protocol heals them:
a workflow task by a worker that does not own the run, a worker declared dead while its lease lasts. The witness stands
beside the journal's batches and notes them; what it notes counts when the batch is committed.
"""

from __future__ import annotations

from typing import Any, ClassVar

from tests.simulation.alerts import look_at_alert
from tests.simulation.queues.admissions import Admissions, Key, Place
from tests.simulation.scheduled import Watched
from tests.simulation.streams.published import Items

from outlast_activities.deadlines import options_of
from outlast_activities.deferred_attempts import DeferAttempt
from outlast_runs.admission import AdmitFromQueue
from outlast_runs.start import StartRun
from outlast_runs.task_commit import CommitWorkflowTask
from outlast_store.database.sql_text import Values
from outlast_store.journal.batch import ActivityKey, Batch
from outlast_store.schema.rows import AlertRow, AttemptRow, QueueRow, RunRow, StreamItemRow
from outlast_store.transitions.requests import open_updates
from outlast_watchdog.enforcement import DeclareWorkerLost
from outlast_workflow.history.events import (
    REGISTRY,
    ActivityCompleted,
    ChildWorkflowStarted,
    Event,
    WorkflowTaskCompleted,
)


class WitnessBatch(Batch):
    """A batch under observation."""

    found: ClassVar[list[str]] = []
    admissions: ClassVar[Admissions | None] = None
    """The witness of queues, where there are some."""
    most_losses: ClassVar[int] = 0
    """How many owners in a row a run may lose."""

    latest: ClassVar[int] = 0
    """The instant of the newest transaction."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._noted: list[str] = []
        self._begun: set[ActivityKey] = set()
        self._unseen: list[tuple[RunRow, list[str]]] = []
        self._places: dict[Key, Place] = {}
        self.items = Items()
        self._watched: list[Watched] = []
        """What the change at work has written of schedules."""

    def append(self, run: RunRow, event: Event) -> int:
        if type(event) is WorkflowTaskCompleted:
            self._activated(run)
        elif type(event) is ActivityCompleted:
            self._noted += self.items.completed(self, run.run_id, event.command_id)
        return super().append(run, event)

    def _activated(self, run: RunRow) -> None:
        change = self.change
        workflow_task = change.workflow_task if isinstance(change, CommitWorkflowTask | StartRun) else None
        if workflow_task is None:
            return
        if (run.owner_id, run.fence) != (workflow_task.worker_id, workflow_task.fence):
            self._noted.append(
                f"run {run.run_id} was activated by {workflow_task.worker_id} with fence {workflow_task.fence}; "
                f"its owner is {run.owner_id} with fence {run.fence}"
            )

        accepted = workflow_task.considered.accepted if workflow_task.considered is not None else ()
        seen = run.last_seq - len(workflow_task.own) - len(accepted)
        if seen > workflow_task.seen_seq:
            types = self.event_types(run.run_id, workflow_task.seen_seq)[: seen - workflow_task.seen_seq]
            if any(REGISTRY[name].inbound and name != ChildWorkflowStarted.type for name in types):
                self._unseen.append((run, types))
        # A rule of alerts is told by the inbox too, and leaves nothing to read there.
        ruled = '"rules"' in (run.alerts or "")
        if run.inbox > workflow_task.seen_inbox and (
            not ruled or open_updates(self, run.run_id, accepted=False)
        ):
            self._unseen.append((run, ["an update that waits"]))

    def add_stream_item(self, row: StreamItemRow) -> None:
        self._noted += self.items.added(self, row)
        super().add_stream_item(row)

    def fire_alert(self, row: AlertRow) -> bool:
        self._noted += look_at_alert(self, row)
        return super().fire_alert(row)

    def add_attempt(self, row: AttemptRow) -> None:
        where = f"attempt {row.attempt} of activity {row.activity_id} of run {row.run_id}"
        if row.outcome == "rescued":
            text = "SELECT 1 FROM workers WHERE worker_id = ? AND lease_expires_at > ?"
            if self.scan(text, (row.worker_id, self.now)):
                self._noted.append(f"{where} was rescued from {row.worker_id}, which is alive")
        elif row.outcome == "timed_out":
            self._timed_out(where, row)
        super().add_attempt(row)

    def _timed_out(self, where: str, attempt: AttemptRow) -> None:
        """Not before its time: by the rules, whatever the row's deadline columns say."""
        row = self.activity(attempt.run_id, attempt.activity_id)
        if row is None:
            return
        options = options_of(row)
        beaten = row.heartbeat_at if row.heartbeat_at is not None else row.started_at
        since = {
            "heartbeat": (beaten, options.heartbeat_us),
            "start_to_close": (row.started_at, options.start_to_close_us),
            "schedule_to_close": (row.scheduled_at, options.schedule_to_close_us),
            "schedule_to_start": (row.available_at, options.schedule_to_start_us),
        }
        begun_at, limit = since[attempt.timeout_kind or ""]
        if begun_at is None or limit is None or self.now < begun_at + limit:
            self._noted.append(f"{where} timed out ({attempt.timeout_kind}) before its time was over")

    def execute(self, text: str, values: Values) -> int:
        if self.admissions is not None and isinstance(self.change, AdmitFromQueue):
            clock: Any = self._clock
            self.admissions.wrote(self.change.queue, self.now - clock.offset_us, clock.offset_us)
        if text.startswith("UPDATE schedules"):
            watched = Watched(self, values)
            changed = super().execute(text, values)
            if changed:
                self._watched.append(watched)
            return changed
        if isinstance(self.change, DeclareWorkerLost):
            text_of_lease = "SELECT lease_expires_at, lease_duration FROM workers WHERE worker_id = ?"
            rows = self.scan(text_of_lease, values[:1])
            # One that ends further ahead than it lasts says nothing: now, or when it was first seen.
            ahead = self.change.not_renewed is not None
            if rows and not ahead and 0 < rows[0][0] - self.now <= rows[0][1]:
                self._noted.append(
                    f"worker {values[0]} is declared dead, its lease lasts {rows[0][0] - self.now} µs"
                )
                changed = super().execute(text, values)
                if not changed:
                    self._noted.pop()
                return changed
        return super().execute(text, values)

    def begin(self, change: object) -> None:
        self._look_at_change()
        super().begin(change)

    def _look_at_change(self) -> None:
        """Judge the change that has just been applied."""
        self._look_at_schedules()
        self._look_for_begun()
        self._look_for_deferred()
        self._look_for_losses()
        if self.admissions is not None:
            clock: Any = self._clock
            try:
                self._noted += self.admissions.judge(self, self._places, clock.offset_us)
            except Exception as error:  # the journal would take it for the change's own
                self.found.append(f"the witness of admissions has failed: {error!r}")
                raise

    def note_queue(self, row: QueueRow) -> None:
        super().note_queue(row)
        if self.admissions is not None:
            self.admissions.defined(row)

    def _look_at_schedules(self) -> None:
        for watched in self._watched:
            self._noted += watched.wrong()
        self._watched.clear()

    def _look_for_begun(self) -> None:
        """A local activity begins where its run is: after the change that begins it, whatever comes next."""
        for key, row in self.activity_rows.items():
            before = self.activity_rows.before.get(key)
            if not row.local or row.status != "running" or key in self._begun:
                continue
            self._begun.add(key)
            if before is None or before["status"] != "running":
                run = self.run(row.run_id)
                if run is None or run.owner_id != row.claimed_by:
                    self._noted.append(
                        f"local activity {row.activity_id} of run {row.run_id} begins at {row.claimed_by}, "
                        f"and its run is at {run and run.owner_id}"
                    )

    def _look_for_deferred(self) -> None:
        """An attempt that was left to the outside is with no worker, whose death would end it otherwise."""
        change = self.change
        if isinstance(change, DeferAttempt):
            row = self.activity(*change.activities[0])
            same = row is not None and row.attempt == change.attempt and row.status == "running"
            if row is not None and same and row.claimed_by is not None:
                self._noted.append(
                    f"attempt {row.attempt} of activity {row.activity_id} of run {row.run_id} was deferred, "
                    f"and is still with {row.claimed_by}"
                )

    def _look_for_losses(self) -> None:
        """A workflow task makes up for the owners that were lost before it, and too many of them end the run."""
        change = self.change
        run = self.run(change.run_id) if isinstance(change, CommitWorkflowTask) else None
        if run is not None and run.is_open and run.owner_losses and self._has_gone_on(run.run_id, change):
            self._noted.append(
                f"run {run.run_id} has gone on, and has {run.owner_losses} lost owners all the same"
            )
        for row in self.run_rows.values():
            if row.is_open and 0 < self.most_losses < row.owner_losses:
                self._noted.append(f"run {row.run_id} is open and has lost {row.owner_losses} owners")

    def _has_gone_on(self, run_id: str, change: object) -> bool:
        """Whether a change has recorded a workflow task of a run."""
        return any(
            type(event) is WorkflowTaskCompleted and by is change for _, event, by in self.appended(run_id)
        )

    def flush(self) -> None:
        self._look_at_change()
        for run, types in self._unseen:
            if run.is_open and run.wake_at is None:
                self._noted.append(f"run {run.run_id} is put to sleep, and its code has not seen {types}")
        super().flush()
        WitnessBatch.latest = max(WitnessBatch.latest, self.now)
        self.found.extend(self._noted)
