"""The alerts, for code without an event loop."""

from __future__ import annotations

from outlast.blocking.thread import Caller
from outlast.visibility.alerts import Alerts
from outlast.visibility.views import Alert, AlertPage
from outlast_workflow.primitives.enums import AlertKind


class BlockingAlerts:
    """The alerts of one database. See ``alerts`` of :class:`outlast.Client`, which has the same methods and errors."""

    def __init__(self, alerts: Alerts, caller: Caller) -> None:
        self._alerts = alerts
        self._caller = caller

    def test(self, channel: str) -> str:
        """Start a delivery of a test. See :meth:`outlast.visibility.alerts.Alerts.test`."""
        return self._caller.call(lambda: self._alerts.test(channel))

    def list(
        self,
        *,
        workflow_id: str | None = None,
        workflow_type: str | None = None,
        kind: AlertKind | str | None = None,
        acknowledged: bool | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> AlertPage:
        """Return a page of alerts, the newest first. See :meth:`outlast.visibility.alerts.Alerts.list`.

        Args:
            workflow_id: Only those of this workflow.
            workflow_type: Only those of workflows of this type.
            kind: Only those of this kind.
            acknowledged: Only those that somebody has acknowledged, or (``False``) only those that nobody has.
            cursor: The cursor of the page before.
            limit: Alerts at most.
        """
        return self._caller.call(
            lambda: self._alerts.list(
                workflow_id=workflow_id,
                workflow_type=workflow_type,
                kind=kind,
                acknowledged=acknowledged,
                cursor=cursor,
                limit=limit,
            )
        )

    def acknowledge(self, alert_id: str, *, by: str) -> Alert:
        """Say that somebody has seen an alert. See :meth:`outlast.visibility.alerts.Alerts.acknowledge`.

        Args:
            alert_id: The alert.
            by: Who has seen it.
        """
        return self._caller.call(lambda: self._alerts.acknowledge(alert_id, by=by))

    def unacknowledged(self) -> int:
        """Return how many alerts nobody has acknowledged, counted up to 10,000."""
        return self._caller.call(self._alerts.unacknowledged)
