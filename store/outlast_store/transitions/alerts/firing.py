"""Firing an alert, whoever does it: its row, its deliveries, and the signal to its workflow."""

from __future__ import annotations

import orjson

from outlast_store.alerts.marks import document_of, policies_of
from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import ActivityRow, AlertRow, RunRow
from outlast_store.transitions.alerts.deliveries import Deliveries
from outlast_workflow.history.events import SignalReceived
from outlast_workflow.options.alerts import AlertPolicy
from outlast_workflow.primitives.payloads import Payload


def fire_alert(
    batch: Batch, run: RunRow, activity: ActivityRow | None, alert: AlertRow, *, ends: bool = False
) -> None:
    """Insert the row of an alert, start its deliveries, and tell its run.

    Args:
        batch: The batch.
        run: The run.
        activity: The activity that the alert is about, if it is about one.
        alert: The alert.
        ends: Whether the run ends with it, so that a signal would tell nobody.
    """
    policies = _asking(run, activity, alert)
    channels = dict.fromkeys(channel for policy in policies for channel in policy.channels)
    if not batch.fire_alert(alert):
        return
    if channels:
        Deliveries.of(batch).add(alert, channels)
    if not ends:
        tell(batch, run, activity, alert)


def tell(batch: Batch, run: RunRow, activity: ActivityRow | None, alert: AlertRow) -> None:
    """Tell an open run of an alert, where a policy names a signal; that ends no start delay and no backoff.

    Args:
        batch: The batch.
        run: The run.
        activity: The activity that the alert is about, if it is about one.
        alert: The alert.
    """
    policies = _asking(run, activity, alert)
    for signal in dict.fromkeys(policy.signal for policy in policies if policy.signal is not None):
        batch.append(run, SignalReceived(signal, Payload(orjson.dumps([document_of(alert)]))))
        if run.not_before <= batch.now:
            run.wake(batch.now)


def _asking(run: RunRow, activity: ActivityRow | None, alert: AlertRow) -> list[AlertPolicy]:
    return [one for one in policies_of(run, activity) if one.asks_for(alert.kind, alert.mark)]
