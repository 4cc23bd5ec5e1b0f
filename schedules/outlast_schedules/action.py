"""What a schedule starts: the options of each start as JSON, and the rows of a start made from them."""

from __future__ import annotations

from typing import Any, Final

import orjson

from outlast_runs.stored_options import from_document, to_document
from outlast_store.schema.rows import RunRow, ScheduleRow
from outlast_store.transitions.new_runs import first_run, started_event
from outlast_workflow.environment import Environment
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.history.events import WorkflowStarted
from outlast_workflow.options.options import StartOptions
from outlast_workflow.options.search_attributes import SCHEDULE_ATTRIBUTE, Document
from outlast_workflow.options.validation import refuse_reserved, validate_name
from outlast_workflow.primitives.enums import DuplicatePolicy
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.primitives.times import to_datetime

MOST_ID: Final = 150
"""How long a schedule's id may be, so that a workflow id has room for a slot too."""
MOST_REQUEST_ID: Final = 40


def validate_schedule_id(value: Any) -> str:
    """Return the id of a schedule.

    Raises:
        InvalidOptionError: It cannot be one.
    """
    schedule_id = validate_name("schedule id", value, segment=True)
    refuse_reserved("schedule id", schedule_id)
    if len(schedule_id) > MOST_ID:
        raise InvalidOptionError(
            f"schedule id must be at most {MOST_ID} characters, not {len(schedule_id)}: workflow ids begin with it",
            field="schedule_id",
        )
    return schedule_id


def action_of(options: StartOptions, memo: Payload | None, attributes: Document | None) -> str:
    """Return the options of each start as JSON text.

    Args:
        options: The options.
        memo: Their memo, encoded.
        attributes: Their search attributes.

    Raises:
        InvalidOptionError: They have a duplicate policy or an execution deadline, which make no sense here.
    """
    if options.duplicate_policy is not DuplicatePolicy.ALLOW_DUPLICATE:
        raise InvalidOptionError(
            "a schedule's starts have no duplicate policy: each has an id of its own, and overlap= says what happens "
            "while one is open",
            field="duplicate_policy",
        )
    if options.execution_deadline is not None:
        raise InvalidOptionError(
            "an execution deadline is one instant for all starts of a schedule: give each an execution_timeout, and "
            "end_at= to end the schedule",
            field="execution_deadline",
        )
    return orjson.dumps(to_document(options, memo, attributes)).decode()


def options_of(action: str) -> tuple[StartOptions, Payload | None, Document | None]:
    """Return the options of each start from JSON text, with their memo and their search attributes beside them."""
    return from_document(orjson.loads(action))


def slot_text(at: int) -> str:
    """Return an instant as workflow ids have it: ISO 8601 in UTC, with microseconds only if there are any."""
    return f"{to_datetime(at).replace(tzinfo=None).isoformat()}Z"


def slot_workflow_id(schedule_id: str, slot: int) -> str:
    """Return the workflow id of a slot, the same in every process."""
    return f"{schedule_id}-{slot_text(slot)}"


def first_run_of(
    row: ScheduleRow, workflow_id: str, scheduled_at: int, environment: Environment
) -> tuple[RunRow, WorkflowStarted]:
    """Return the row and the first event of a workflow that a schedule starts.

    Args:
        row: The schedule.
        workflow_id: The workflow's id.
        scheduled_at: The slot that it is for.
        environment: The source of ids, randomness and time.
    """
    options, memo, attributes = options_of(row.action)
    run = first_run(
        run_id=environment.ids.next(),
        workflow_id=workflow_id,
        workflow_type=row.workflow_type,
        task_queue=row.task_queue,
        options=options,
        memo=memo,
        search_attributes={**(attributes or {}), SCHEDULE_ATTRIBUTE: row.schedule_id},
        now=environment.clock.now(),
        owner_id=None,
    )
    started = started_event(
        run,
        input=Payload(row.input.encode()),
        seed=environment.random.getrandbits(52),
        schedule={"schedule_id": row.schedule_id, "scheduled_at": slot_text(scheduled_at)},
    )
    return run, started
