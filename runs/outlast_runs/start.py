"""Starting a workflow: the rows of a chain's first run, and what becomes of an id that exists already.

=================== ====================== ==================
policy              the id is open         the id is closed
=================== ====================== ==================
allow_duplicate     error                  a new chain
reject_duplicate    error                  error
return_existing     its handle             a new chain
terminate_existing  terminated, then new   a new chain
=================== ====================== ==================
"""

from __future__ import annotations

from dataclasses import dataclass

from outlast_runs.signals import deliver
from outlast_runs.task_commit import apply_workflow_task
from outlast_runs.updates import UpdateRequest, ask, known_update
from outlast_runs.workflow_task import Applied, WorkflowTask
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema.rows import RequestRow, RunRow
from outlast_store.transitions.new_runs import first_run as first_run
from outlast_store.transitions.new_runs import new_instance
from outlast_store.transitions.run_deadlines import deadline_passed
from outlast_store.transitions.run_ends import Ended, open_run, terminate
from outlast_workflow.errors import InvalidOptionError, WorkflowAlreadyStartedError
from outlast_workflow.history.events import SignalReceived, WorkflowStarted
from outlast_workflow.options.limits import DEFAULT_LIMITS
from outlast_workflow.options.options import StartOptions
from outlast_workflow.primitives.enums import DuplicatePolicy


@dataclass(slots=True)
class Started:
    """What a start did: the run that stands for the id, and what became of its first workflow task if it was folded
    in.
    """

    run_id: str
    first_run_id: str
    created: bool
    applied: Applied | None = None
    update: RequestRow | None = None
    """The update that was asked with the start."""


class StartRun(BaseChange):
    """Start a workflow; with ``workflow_task`` (an *eager* start) its first task is part of the same change."""

    def __init__(
        self,
        run: RunRow,
        started: WorkflowStarted,
        policy: DuplicatePolicy,
        workflow_task: WorkflowTask | None = None,
        *,
        signal: SignalReceived | None = None,
        update: UpdateRequest | None = None,
    ) -> None:
        self.signal = signal
        """What to send to the run that stands for the id then, be it new or not."""
        self.update = update
        """What to ask of that run; not both."""
        self.limits = DEFAULT_LIMITS
        self.run = run
        self.started = started
        self.policy = policy
        self.workflow_task: WorkflowTask | None = None
        self.new_instances = [new_instance(run)]
        if workflow_task is not None:
            self.fold(workflow_task)
        self.weight = 2048 + len(started.input.json)

    def fold(self, workflow_task: WorkflowTask) -> None:
        """Make the first workflow task part of the start."""
        self.workflow_task = workflow_task
        self.new_instances = [
            *self.new_instances,
            *[child.instance for child in workflow_task.children.values()],
        ]

    def apply(self, batch: Batch) -> Started:
        """Start it, or return the run that stands for the id already.

        Raises:
            WorkflowAlreadyStartedError: by the duplicate policy; nothing was written.
        """
        run = self.run
        instance = batch.instance(run.workflow_id)
        if instance is None:
            batch.confirm_instance(self.new_instances[0])
            return self._begin(batch)
        current = batch.run(instance.current_run_id)
        if current is not None:
            if self.update is not None:
                known = known_update(batch, current, self.update)
                if (
                    known is not None
                ):  # whether it has ended since or not: asked again, it gets the same answer
                    return Started(current.run_id, current.first_run_id, created=False, update=known)
            current = self._enforce_deadline(batch, current)
            if current.is_open:
                if self._speaks and self.policy is not DuplicatePolicy.TERMINATE_EXISTING:
                    row = self._speak(batch, current)
                    return Started(current.run_id, current.first_run_id, created=False, update=row)
                if self.policy is DuplicatePolicy.RETURN_EXISTING:
                    return Started(current.run_id, current.first_run_id, created=False)
                if self.policy is not DuplicatePolicy.TERMINATE_EXISTING:
                    raise self._refused(current)
                terminate(batch, current, "replaced by a new start of the same id")
            elif self.policy is DuplicatePolicy.REJECT_DUPLICATE:
                raise self._refused(current)
        instance.workflow_type = run.workflow_type
        instance.current_run_id = run.run_id
        instance.run_count = 1
        return self._begin(batch)

    def _refused(self, current: RunRow) -> WorkflowAlreadyStartedError:
        return WorkflowAlreadyStartedError(self.run.workflow_id, run_id=current.run_id, status=current.status)

    @property
    def _speaks(self) -> bool:
        """Whether there is something to send to the run, or to ask of it."""
        return self.signal is not None or self.update is not None

    def _enforce_deadline(self, batch: Batch, current: RunRow) -> RunRow:
        """Return the run that stands for the id once a deadline of ``current`` that has passed is enforced.

        Raises:
            WorkflowAlreadyStartedError: The policy refuses this start: then it enforces nothing either.
        """
        only_starts = self.policy is DuplicatePolicy.ALLOW_DUPLICATE and not self._speaks
        refuses = only_starts or self.policy is DuplicatePolicy.REJECT_DUPLICATE
        if refuses and current.is_open and deadline_passed(current, batch.now) is not None:
            raise self._refused(current)
        found = open_run(batch, current)
        if not isinstance(found, Ended) or found.passed is None or found.next_run_id is None:
            return current
        return batch.run(found.next_run_id) or current

    def _speak(self, batch: Batch, run: RunRow) -> RequestRow | None:
        if self.signal is not None:
            deliver(batch, run, self.signal, self.limits)
        return ask(batch, run, self.update) if self.update is not None else None

    def _begin(self, batch: Batch) -> Started:
        row = batch.add_run(self.run)
        batch.append(row, self.started)
        update = self._speak(batch, row) if self._speaks else None
        if self.workflow_task is None:
            return Started(row.run_id, row.run_id, created=True, update=update)
        applied = apply_workflow_task(batch, row, self.workflow_task)
        return Started(row.run_id, row.run_id, created=True, applied=applied, update=update)


_DEFAULTS = StartOptions()


def start_options(options: object) -> StartOptions:
    """The options that a caller gave, or none.

    Raises:
        InvalidOptionError: it gave something else.
    """
    if options is None:
        return _DEFAULTS
    if not isinstance(options, StartOptions):
        raise InvalidOptionError(
            f"options must be StartOptions, not {type(options).__name__}", field="options"
        )
    return options
