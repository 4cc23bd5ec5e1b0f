"""The alerts, for code without an event loop."""

from __future__ import annotations

from collections.abc import Sequence

from outlast.blocking.thread import Caller
from outlast.visibility.alerts import Alerts
from outlast.visibility.views import Alert
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
        after: str | None = None,
        limit: int = 100,
    ) -> Sequence[Alert]:
        """Return a page of alerts, the newest first. See :meth:`outlast.visibility.alerts.Alerts.list`.

        Args:
            workflow_id: Only those of this workflow.
            workflow_type: Only those of workflows of this type.
            kind: Only those of this kind.
            after: The id of the last alert of the page before.
            limit: Alerts at most.
        """
        return self._caller.call(
            lambda: self._alerts.list(
                workflow_id=workflow_id, workflow_type=workflow_type, kind=kind, after=after, limit=limit
            )
        )
