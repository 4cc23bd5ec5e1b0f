"""Acknowledging alerts: somebody says that he has seen one, so that others need not look."""

from __future__ import annotations

from typing import NamedTuple

from outlast_store.alerts.reads import FIND_ALERT
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema.rows import AlertRow


class Acknowledged(NamedTuple):
    """What became of an acknowledgement.

    Attributes:
        alert: The alert as it stands; ``None`` if there is none.
        now_first: Whether this was the first.
    """

    alert: AlertRow | None
    now_first: bool


class AcknowledgeAlert(BaseChange):
    """Acknowledge an alert that was fired. The first one stands; no later one changes anything.

    Args:
        alert_id: The alert.
        by: Who has seen it.
    """

    def __init__(self, alert_id: str, by: str) -> None:
        self.alert_id = alert_id
        self.by = by

    def apply(self, batch: Batch) -> Acknowledged:
        """Write who has seen it, unless somebody has; return how it stands."""
        # It was fired by another process, perhaps with another clock.
        text = (
            "UPDATE alerts SET acknowledged_at = CASE WHEN fired_at > ? THEN fired_at ELSE ? END, "
            "acknowledged_by = ? WHERE alert_id = ? AND acknowledged_at IS NULL"
        )
        changed = batch.execute(text, (batch.now, batch.now, self.by, self.alert_id))
        rows = batch.scan(FIND_ALERT, (self.alert_id,))
        return Acknowledged(AlertRow(*rows[0]) if rows else None, changed == 1)
