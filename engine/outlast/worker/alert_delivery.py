"""Delivering alerts: the workflow ``outlast.deliver`` and its activity.

An alert names its channels; the transaction that fires it starts a delivery for each (:mod:`outlast_store.transitions.
alerts.deliveries`). Whoever serves a channel runs its deliveries, as a worker runs any workflow: so retries, backoff,
what happens when the process dies, and the record of what failed are the engine's own. A delivery is repeated until the
channel has taken it, so that it takes it at least once, each time under the same id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from outlast.alerts.channels import AlertChannel
from outlast.alerts.webhook import Webhook
from outlast.client.client import Client
from outlast.visibility.alerts import alert_view
from outlast.visibility.views import Alert
from outlast.worker.lent_client import lent_client
from outlast_activities import context
from outlast_activities.definitions import ActivityDefinition, defn
from outlast_store.alerts.channels import task_queue_of
from outlast_store.alerts.reads import find_by_ids
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.declare.definitions import WorkflowDefinition
from outlast_workflow.options.alerts import DELIVERY
from outlast_workflow.options.retry_policy import RetryPolicy
from outlast_workflow.primitives.enums import AlertKind
from outlast_workflow.primitives.times import to_datetime

START_TO_CLOSE_S: Final = 15
SCHEDULE_TO_CLOSE_S: Final = 86_400
RETRY: Final = RetryPolicy(initial_interval=5, backoff_coefficient=2, max_interval=900, jitter=0.2)


_declared = defn(
    name=DELIVERY,
    start_to_close_timeout=START_TO_CLOSE_S,
    schedule_to_close_timeout=SCHEDULE_TO_CLOSE_S,
    retry_policy=RETRY,
)


@_declared
async def _send(channel: str, alert_ids: list[str], test: bool) -> None:
    raise NotImplementedError("each worker registers the one that serves its channels")


async def _deliver(channel: str, alert_ids: list[str], test: bool = False) -> None:
    await _send(channel, alert_ids, test)


DELIVER: Final = WorkflowDefinition(
    DELIVERY,
    None,
    _deliver,
    CallSignature.of(_deliver),
    f"{_deliver.__code__.co_filename}:{_deliver.__code__.co_firstlineno}",
)
"""The workflow that delivers alerts."""


def sending(channels: Mapping[str, AlertChannel]) -> ActivityDefinition[..., Any]:
    """Return the activity that brings alerts to some channels.

    Args:
        channels: The channels that its worker serves.
    """

    async def send(channel: str, alert_ids: list[str], test: bool) -> None:
        client = cast(Client, lent_client())
        if test:
            alerts = [_sample(client, channel)]
        else:
            alerts = [alert_view(row, {}) for row in await client.runtime.read(find_by_ids, alert_ids)]
        # Alerts are deleted with their workflows.
        if not alerts:
            return
        serving = channels[channel]
        if isinstance(serving, Webhook):
            now = client.runtime.environment.clock.now()
            unique = context.info().workflow_id.rpartition("/")[2]
            await serving.post(unique, now, alerts, test=test)
        else:
            await serving(alerts)

    return _declared(send)


def _sample(client: Client, channel: str) -> Alert:
    now = to_datetime(client.runtime.environment.clock.now())
    info = context.info()
    return Alert(
        alert_id=info.workflow_id.rpartition("/")[2],
        workflow_id=info.workflow_id,
        run_id=info.run_id,
        workflow_type=DELIVERY,
        task_queue=task_queue_of(channel),
        activity_id=None,
        activity_type=None,
        attempt=None,
        kind=AlertKind.AFTER,
        mark="+0s",
        text=f"this is a test of channel {channel}",
        deadline_at=None,
        due_at=now,
        fired_at=now,
    )
