"""The failure log: what fails is logged once, by the process that committed it, under ``outlast.failures``.

======================================================================= ========
an attempt of an activity that failed or timed out, and is tried again   WARNING
an activity that failed or timed out for good                            ERROR
an activity that failed after it was cancelled, alone or with its run    WARNING
a run that failed or timed out, and is followed by another run           WARNING
a run that failed or timed out for good                                  ERROR
======================================================================= ========

It is taken from the failure rows of each committed batch, so it is the same whoever wrote them: a worker, a watchdog,
a client. A batch without failures costs nothing. A record has the type, the message and the stack of an exception, and
never its details, nor any other payload.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator
from typing import Any, Final

import orjson

from outlast_activities.deadlines import options_of
from outlast_store.journal.commit_news import Committed
from outlast_store.schema.rows import ActivityRow, FailureRow, RunRow
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import exception_of, in_words
from outlast_workflow.errors import OutlastError
from outlast_workflow.history.events import (
    ActivityFailed,
    ActivityTimedOut,
    Failure,
    WorkflowFailed,
    WorkflowTimedOut,
)
from outlast_workflow.primitives.enums import PropagationKind
from outlast_workflow.primitives.times import MICROSECONDS_PER_SECOND, iso

logger = logging.getLogger("outlast.failures")

_PAYLOADS: Final = ("details", "heartbeat_details")
_CALL: Final = re.compile(r'File "(.*)", line (\d+), in (.*)')


def log_failures(committed: Committed) -> None:
    """Log the failures of a committed batch."""
    if not logger.isEnabledFor(logging.ERROR):
        return
    activities = {(row.run_id, row.activity_id): row for row in committed.activities}
    for values in committed.failures:
        failure = FailureRow(*values)
        run = committed.failed_runs.get(failure.run_id)
        if run is None:
            continue
        if failure.source_kind == "activity_execution":
            row = activities.get((run.run_id, int(failure.source_id or 0)))
            if row is not None:
                _log_activity(committed, run, row, failure)
        elif failure.source_kind == "workflow_run" and failure.propagation_kind in (
            PropagationKind.TERMINAL,
            PropagationKind.TIMEOUT,
        ):
            _log_run(committed, run, failure)


def _log_activity(committed: Committed, run: RunRow, row: ActivityRow, failure: FailureRow) -> None:
    event = _event(committed, failure)
    most = options_of(row).policy.max_attempts
    attributes = {
        **_of_run(run),
        **_deadline(failure),
        "activity_id": row.activity_id,
        "activity_type": row.activity_type,
        "attempt": row.charged_attempt,
        "max_attempts": most,
        "closed": row.closed_at is not None,
    }
    attempt = f"attempt {row.charged_attempt}" + (f" of {most}" if most else "")
    if row.closed_at is None:
        level, attributes["next_attempt_at"] = logging.WARNING, iso(row.available_at)
        then = f"{attempt}; next try in {_wait(row.available_at - committed.now)}"
    elif isinstance(event, ActivityFailed | ActivityTimedOut):
        level, then = logging.ERROR, f"{attempt}, {event.retry_state.replace('_', ' ')}"
    else:
        # The code of its workflow does not get to see it.
        level, then = logging.WARNING, f"{attempt}, after it was asked to stop"
    if isinstance(event, ActivityFailed | ActivityTimedOut):
        document: Failure | None = event.failure
    else:
        document = None if row.last_failure is None else orjson.loads(row.last_failure)
    what = f"activity {row.activity_type} ({row.activity_id}) of workflow {run.workflow_id}"
    _log(level, what, then, failure, document, attributes)


def _log_run(committed: Committed, run: RunRow, failure: FailureRow) -> None:
    event = _event(committed, failure)
    following = event.next_run_id if isinstance(event, WorkflowFailed | WorkflowTimedOut) else None
    attributes = {**_of_run(run), **_deadline(failure), "attempt": run.attempt, "next_run_id": following}
    level, then = logging.ERROR, f"attempt {run.attempt}" if run.attempt > 1 else ""
    if following is not None:
        next_run = committed.runs.get(following)
        wait = "" if next_run is None else f" in {_wait(next_run.not_before - committed.now)}"
        level, then = logging.WARNING, f"attempt {run.attempt}; next run{wait}"
    what = f"workflow {run.workflow_id} ({run.workflow_type}, run {run.run_id})"
    _log(level, what, then, failure, event.failure if isinstance(event, WorkflowFailed) else None, attributes)


def _log(
    level: int,
    what: str,
    then: str,
    failure: FailureRow,
    document: Failure | None,
    attributes: dict[str, Any],
) -> None:
    then = f" ({then})" if then else ""
    if failure.timeout_kind is not None:
        lack = (document or {}).get("lack")
        late = f"{failure.timeout_kind}, {attributes['lateness_s']:.3f} s late"
        text = f"{what} timed out{then}: {late}{f'; {lack}' if lack else ''}"
        logger.log(level, "%s", text, extra=attributes)
        return
    if document is None:
        document = {"type": failure.exception_class, "message": failure.message}
    document = _without_payloads(document)
    error = exception_of(document, DataConverter())
    exc_info = error if error.__cause__ is not None or document.get("stack") else None
    for cause in _chain(error):
        if isinstance(cause, OutlastError) and cause.stack:
            # As Python prints it; the lines are read here, where that is not I/O of workflow code.
            cause.__notes__ = [
                "Traceback (most recent call last):\n" + "".join(_frames(cause.stack)).rstrip()
            ]
    logger.log(level, "%s failed%s: %s", what, then, in_words(document), exc_info=exc_info, extra=attributes)


def _without_payloads(document: Failure) -> Failure:
    kept = {name: value for name, value in document.items() if name not in _PAYLOADS}
    if kept.get("cause") is not None:
        kept["cause"] = _without_payloads(kept["cause"])
    return kept


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _frames(stack: str) -> list[str]:
    calls = (_CALL.fullmatch(line) for line in stack.splitlines())
    return traceback.StackSummary.from_list(
        [(call[1], int(call[2]), call[3], None) for call in calls if call]
    ).format()


def _event(committed: Committed, failure: FailureRow) -> object:
    """Return the event that a failure led to."""
    if failure.event_seq is None:
        return None
    appended = committed.events.get(failure.run_id, ())
    return next((event for seq, event, _ in appended if seq == failure.event_seq), None)


def _wait(us: int) -> str:
    return f"{max(0, round(us / MICROSECONDS_PER_SECOND, 3)):g} s"


def _of_run(run: RunRow) -> dict[str, Any]:
    return {"workflow_id": run.workflow_id, "run_id": run.run_id, "workflow_type": run.workflow_type}


def _deadline(failure: FailureRow) -> dict[str, Any]:
    if failure.timeout_kind is None or failure.deadline_at is None:
        return {}
    return {
        "timeout_kind": failure.timeout_kind,
        "deadline_at": iso(failure.deadline_at),
        "lateness_s": max(0.0, (failure.recorded_at - failure.deadline_at) / MICROSECONDS_PER_SECOND),
    }
