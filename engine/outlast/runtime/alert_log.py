"""The alert log: each alert is logged once, by the process that fired it, under ``outlast.alerts``.

An alert is a WARNING, and so is a mark that nobody saw before its deadline. A record carries ids, kind, mark and
instants as attributes, and no payload. The rows are the truth: a process that dies between the commit and the log has
fired the alert all the same.
"""

from __future__ import annotations

import logging

from outlast_store.journal.commit_news import Committed
from outlast_store.schema.rows import AlertRow, AlertTimerRow
from outlast_workflow.options.alerts import ENFORCED
from outlast_workflow.primitives.enums import AlertKind
from outlast_workflow.primitives.times import MICROSECONDS_PER_SECOND, iso

logger = logging.getLogger("outlast.alerts")


def log_alerts(committed: Committed) -> None:
    """Log the alerts of a committed batch."""
    for alert in committed.alerts:
        late_s = (alert.fired_at - alert.due_at) / MICROSECONDS_PER_SECOND
        extra = {
            "workflow_id": alert.workflow_id,
            "run_id": alert.run_id,
            "workflow_type": alert.workflow_type,
            "alert_id": alert.alert_id,
            "kind": alert.kind,
            "mark": alert.mark,
            "deadline_at": iso(alert.deadline_at) if alert.deadline_at is not None else None,
            "late_s": late_s,
        }
        if alert.activity_type is not None:
            extra |= {
                "activity_type": alert.activity_type,
                "activity_id": alert.activity_id,
                "attempt": alert.attempt,
            }
        logger.warning("%s: %s, %.3f s late", _subject(alert), in_words(alert), late_s, extra=extra)
    for timer in committed.missed_alerts:
        logger.warning(
            "nobody saw mark %s of the %s of run %s before its deadline",
            timer.mark,
            _noun(timer.kind),
            timer.run_id,
            extra={
                "run_id": timer.run_id,
                "activity_id": timer.activity_id or None,
                "kind": timer.kind,
                "mark": timer.mark,
            },
        )


def in_words(alert: AlertRow | AlertTimerRow) -> str:
    """Return what a mark says, once it is reached."""
    mark, noun = alert.mark, _noun(alert.kind)
    if alert.kind == AlertKind.AT_INSTANT:
        return f"it is {mark}"
    if alert.kind == AlertKind.AFTER:
        return f"it has taken {mark[1:-1]} s"
    if mark == ENFORCED:
        return f"its {noun} is over"
    if mark.endswith("%"):
        return f"{mark} of its {noun} is used up"
    return f"{mark[1:-1]} s of its {noun} are left"


def _noun(kind: str) -> str:
    """Return how people call the timeout of a kind of deadline: ``start-to-close timeout``."""
    return f"{kind.replace('_', '-')} timeout"


def _subject(alert: AlertRow) -> str:
    workflow = f"workflow {alert.workflow_id}"
    if alert.activity_type is None:
        return f"{workflow} ({alert.workflow_type})"
    attempt = f", attempt {alert.attempt}" if alert.attempt else ""
    return f"activity {alert.activity_type} ({alert.activity_id}{attempt}) of {workflow}"
