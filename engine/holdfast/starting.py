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

import orjson

from holdfast.activation import Activation, Applied, apply_activation
from holdfast_store.batch import BaseChange, Batch
from holdfast_store.rows import InstanceRow, RunRow
from holdfast_store.runs import close_run, earliest, new_instance, run_failure
from holdfast_workflow.errors import InvalidOptionError, WorkflowAlreadyStartedError
from holdfast_workflow.events import WorkflowStarted, WorkflowTerminated
from holdfast_workflow.kinds import DuplicatePolicy, FailureCategory, PropagationKind, RunStatus
from holdfast_workflow.options import StartOptions
from holdfast_workflow.payloads import Payload


def first_run(
    *,
    run_id: str,
    workflow_id: str,
    workflow_type: str,
    task_queue: str,
    options: StartOptions,
    memo: Payload | None,
    now: int,
    owner_id: str | None,
) -> RunRow:
    """The row of a chain's first run. The execution deadline counts from now, the run deadline from its beginning."""
    delay = options.start_delay_us
    begins = now + delay if delay else now
    execution_deadline = (
        now + options.execution_timeout_us if options.execution_timeout_us is not None else None
    )
    run_deadline = begins + options.run_timeout_us if options.run_timeout_us is not None else None
    policy = options.retry_policy
    return RunRow(
        run_id=run_id,
        workflow_id=workflow_id,
        run_number=1,
        first_run_id=run_id,
        previous_run_id=None,
        next_run_id=None,
        workflow_type=workflow_type,
        task_queue=task_queue,
        priority=options.priority,
        status="pending",
        created_at=now,
        started_at=None,
        closed_at=None,
        execution_timeout=options.execution_timeout_us,
        execution_deadline_at=execution_deadline,
        run_timeout=options.run_timeout_us,
        run_deadline_at=run_deadline,
        next_deadline_at=earliest(execution_deadline, run_deadline),
        last_seq=0,
        last_event_at=now,
        inbox=0,
        wake_at=begins,
        not_before=begins if delay else 0,
        start_delayed=bool(delay),
        owner_id=owner_id,
        fence=1 if owner_id is not None else 0,
        owner_losses=0,
        parent_run_id=None,
        parent_command_id=None,
        parent_close_policy=None,
        cascade_at=None,
        attempt=1,
        retry_policy=orjson.dumps(policy.to_document()).decode() if policy is not None else None,
        memo=memo.json.decode() if memo is not None else None,
        cancel_requested_at=None,
        task_failures=0,
        attention=None,
        attention_since=None,
        build_id=None,
        history_bytes=0,
    )


@dataclass(slots=True)
class Started:
    """What a start did: the run that stands for the id, and what became of its first activation if it was folded in."""

    run_id: str
    first_run_id: str
    created: bool
    applied: Applied | None = None


class StartRun(BaseChange):
    """Start a workflow; with ``activation`` (an *eager* start) its first activation is part of the same change."""

    def __init__(
        self,
        run: RunRow,
        started: WorkflowStarted,
        policy: DuplicatePolicy,
        activation: Activation | None = None,
    ) -> None:
        self.run = run
        self.started = started
        self.policy = policy
        self.activation = activation
        self.new_instance: InstanceRow = new_instance(run)
        self.weight = 2048 + len(started.input.json)

    def apply(self, batch: Batch) -> Started:
        """Start it, or return the run that stands for the id already.

        Raises:
            WorkflowAlreadyStartedError: by the duplicate policy; nothing was written.
        """
        run = self.run
        instance = batch.instance(run.workflow_id)
        if instance is None:
            batch.confirm_instance(self.new_instance)
            return self._begin(batch)
        current = batch.run(instance.current_run_id)
        if current is not None:
            if current.is_open:
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

    def _begin(self, batch: Batch) -> Started:
        row = batch.add_run(self.run)
        batch.append(row, self.started)
        if self.activation is None:
            return Started(row.run_id, row.run_id, created=True)
        return Started(
            row.run_id, row.run_id, created=True, applied=apply_activation(batch, row, self.activation)
        )


def terminate(batch: Batch, run: RunRow, reason: str | None) -> None:
    """End an open run at once, without its code."""
    failure = run_failure(
        batch,
        run,
        FailureCategory.TERMINATED,
        PropagationKind.TERMINATED,
        exception_class="WorkflowTerminatedError",
        message=reason or "the workflow was terminated",
    )
    close_run(batch, run, WorkflowTerminated(reason), RunStatus.TERMINATED, by="terminated", failure=failure)


def check_memo(memo: Payload | None, limit: int) -> None:
    """Refuse a memo over its limit before anything is written."""
    if memo is not None and limit and len(memo.json) > limit:
        raise InvalidOptionError(
            f"the memo has {len(memo.json):,} bytes, more than the limit of {limit:,}: keep large data elsewhere"
        )
