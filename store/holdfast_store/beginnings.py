"""The row of a chain's first run."""

from __future__ import annotations

import orjson

from holdfast_store.rows import RunRow
from holdfast_store.runs import earliest
from holdfast_workflow.options import StartOptions
from holdfast_workflow.payloads import Payload
from holdfast_workflow.search_attributes import Document


def first_run(
    *,
    run_id: str,
    workflow_id: str,
    workflow_type: str,
    task_queue: str,
    options: StartOptions,
    memo: Payload | None,
    search_attributes: Document | None = None,
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
        search_attributes=orjson.dumps(search_attributes).decode() if search_attributes else None,
    )
