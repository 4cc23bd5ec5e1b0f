"""What is shown of alerts: in a description, and in the list of all, ``client.alerts``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson

from outlast.runtime.alert_log import in_words
from outlast.runtime.runtime import Runtime
from outlast.visibility.columns import instant
from outlast.visibility.views import Alert, AlertDelivery, AlertPage, AlertsView, ArmedAlert
from outlast_store.alerts.reads import (
    AlertFilter,
    DeliveryState,
    count_unacknowledged,
    named_deliveries,
    read_deliveries,
    read_page_with_deliveries,
)
from outlast_store.schema.rows import AlertRow, AlertTimerRow
from outlast_store.transitions.alerts.acknowledgements import AcknowledgeAlert
from outlast_store.transitions.alerts.deliveries import delivery_run
from outlast_store.transitions.new_runs import started_event
from outlast_workflow.errors import AlertAcknowledgedError, AlertNotFoundError, InvalidOptionError
from outlast_workflow.options.alerts import channel_name
from outlast_workflow.options.validation import integer, validate_name
from outlast_workflow.primitives.enums import OPEN_RUN_STATUSES, AlertKind, DuplicatePolicy, RunStatus
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.primitives.times import iso, to_datetime


class Alerts:
    """The alerts of one database that were fired.

    Args:
        runtime: The database.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def list(
        self,
        *,
        workflow_id: str | None = None,
        workflow_type: str | None = None,
        kind: AlertKind | str | None = None,
        acknowledged: bool | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> AlertPage:
        """Return a page of alerts, the newest first.

        Args:
            workflow_id: Only those of this workflow.
            workflow_type: Only those of workflows of this type.
            kind: Only those of this kind, for example ``execution`` or ``start_to_close``.
            acknowledged: Only those that somebody has acknowledged, or (``False``) only those that nobody has.
            cursor: The ``cursor`` of the page before; ``None`` for the first page.
            limit: Alerts at most, 1 to 1000.

        Raises:
            InvalidOptionError: Something cannot be used.
        """
        for field, value in (
            ("workflow id", workflow_id),
            ("workflow type", workflow_type),
            ("cursor", cursor),
        ):
            if value is not None:
                validate_name(field, value)
        if acknowledged is not None and not isinstance(acknowledged, bool):
            raise InvalidOptionError("acknowledged must be True, False or None", field="acknowledged")
        wanted = AlertFilter(workflow_id, workflow_type, checked_kind(kind), acknowledged)
        limit = integer("limit", limit, 1, 1000)
        page, deliveries = await self._runtime.read_aside(read_page_with_deliveries, wanted, cursor, limit)
        return AlertPage(
            alerts=tuple(alert_view(row, deliveries) for row in page.found),
            cursor=None if page.last is None else page.last.alert_id,
            stopped=page.stopped,
        )

    async def acknowledge(self, alert_id: str, *, by: str) -> Alert:
        """Say that somebody has seen an alert and takes care of it. The first one who says so stands.

        It may be said again by the same one, for example after a crash.

        Args:
            alert_id: The alert.
            by: Who has seen it.

        Returns:
            The alert.

        Raises:
            AlertAcknowledgedError: Somebody else has acknowledged it before: ``acknowledged_by`` says who.
            AlertNotFoundError: There is no such alert.
            InvalidOptionError: The id, or who has seen it, is no name.
        """
        validate_name("alert id", alert_id)
        validate_name("by", by)
        done = await self._runtime.journal.apply(AcknowledgeAlert(alert_id, by))
        if done.alert is None:
            raise AlertNotFoundError(alert_id)
        alert = alert_view(done.alert, await self._runtime.read(read_deliveries, [done.alert]))
        if not done.now_first and alert.acknowledged_by != by:
            raise AlertAcknowledgedError(
                alert_id,
                acknowledged_by=alert.acknowledged_by or "",
                acknowledged_at=iso(done.alert.acknowledged_at or 0),
            )
        return alert

    async def unacknowledged(self) -> int:
        """Return how many alerts nobody has acknowledged, counted up to 10,000."""
        return await self._runtime.read(count_unacknowledged)

    async def test(self, channel: str) -> str:
        """Start a delivery of one alert that says it is a test; it goes the way of all others.

        Args:
            channel: The channel.

        Returns:
            The id of the workflow that delivers it: ``await client.handle(…).result()`` waits until it is delivered.

        Raises:
            InvalidOptionError: No channel can have that name.
        """
        # Those who only list alerts do without it.
        from outlast_runs.start import StartRun

        runtime = self._runtime
        ids, now = runtime.environment.ids, runtime.environment.clock.now()
        run = delivery_run(channel_name(channel), ids.next(), ids.next(), now)
        input = Payload(orjson.dumps([channel, [], True]))
        started = started_event(run, input=input, seed=runtime.environment.random.getrandbits(52))
        await runtime.journal.apply(StartRun(run, started, DuplicatePolicy.ALLOW_DUPLICATE))
        return run.workflow_id


def checked_kind(kind: str | None) -> str | None:
    """Return the kind of alerts to list.

    Raises:
        InvalidOptionError: There is no such kind.
    """
    if kind is None:
        return None
    try:
        return AlertKind(kind).value
    except ValueError:
        raise InvalidOptionError(
            f"alert kind must be one of {', '.join(AlertKind)}, not {kind!r:.40}", field="kind"
        ) from None


def alert_view(row: AlertRow, deliveries: Mapping[str, DeliveryState]) -> Alert:
    """Return an alert as people and programs are shown it.

    Args:
        row: The alert.
        deliveries: How far deliveries are, by workflow id.
    """
    return Alert(
        alert_id=row.alert_id,
        workflow_id=row.workflow_id,
        run_id=row.run_id,
        workflow_type=row.workflow_type,
        task_queue=row.task_queue,
        activity_id=row.activity_id or None,
        activity_type=row.activity_type,
        attempt=row.attempt or None,
        kind=AlertKind(row.kind),
        mark=row.mark,
        text=in_words(row),
        deadline_at=instant(row.deadline_at),
        due_at=to_datetime(row.due_at),
        fired_at=to_datetime(row.fired_at),
        acknowledged_at=instant(row.acknowledged_at),
        acknowledged_by=row.acknowledged_by,
        deliveries=tuple(
            _delivery(channel, workflow_id, deliveries.get(workflow_id or ""))
            for channel, workflow_id in named_deliveries(row).items()
        ),
    )


def _delivery(channel: str, workflow_id: str | None, state: DeliveryState | None) -> AlertDelivery:
    status = None if state is None else RunStatus(state.status)
    at = state.closed_at if state is not None and status is RunStatus.COMPLETED else None
    return AlertDelivery(channel=channel, workflow_id=workflow_id, status=status, delivered_at=instant(at))


def alerts_view(
    armed: Sequence[AlertTimerRow], fired: Sequence[AlertRow], deliveries: Mapping[str, DeliveryState]
) -> AlertsView:
    """Return the alerts of a description.

    Args:
        armed: What is armed.
        fired: What was fired.
        deliveries: How far the deliveries of that are, by workflow id.
    """
    return AlertsView(
        armed=tuple(
            ArmedAlert(
                activity_id=row.activity_id or None,
                attempt=row.attempt or None,
                kind=AlertKind(row.kind),
                mark=row.mark,
                deadline_at=instant(row.deadline_at),
                due_at=to_datetime(row.due_at),
            )
            for row in armed
        ),
        fired=tuple(alert_view(row, deliveries) for row in fired),
    )


def delivery_words(alert: Alert) -> str:
    """Return how far the deliveries of an alert are: ``oncall: delivered``; empty where it goes to no channel."""
    return ", ".join(f"{one.channel}: {how_far(one)}" for one in alert.deliveries)


def how_far(one: AlertDelivery) -> str:
    """Return how far a delivery is, in words."""
    if one.status is None:
        return "deleted"
    if one.status is RunStatus.COMPLETED:
        return "delivered"
    return "under way" if one.status in OPEN_RUN_STATUSES else f"not delivered ({one.status.value})"
