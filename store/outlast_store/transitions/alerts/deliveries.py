"""Deliveries: the workflows that bring alerts to their channels, started in the transaction that fires the alerts.

All alerts that a batch fires for a channel share its deliveries, a hundred each. What a delivery is given is the name
of its channel and the ids of its alerts. Each channel has a task queue of its own, so that whoever serves a channel
gets its deliveries only, and one that nobody serves is seen as any task queue without a worker is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import orjson

from outlast_store.alerts.channels import delivery_id, task_queue_of
from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import AlertRow, RunRow
from outlast_store.transitions.new_runs import first_run, new_instance, new_seed, started_event
from outlast_workflow.options.alerts import DELIVERY
from outlast_workflow.options.start import StartOptions
from outlast_workflow.primitives.payloads import Payload

ALERTS_IN_A_DELIVERY: Final = 100
EXECUTION_TIMEOUT_S: Final = 7 * 86_400
"""How long a delivery waits for somebody who serves its channel, and may be reset after it has failed."""
_MEMO: Final = "deliveries"


_OPTIONS: Final = StartOptions(execution_timeout=EXECUTION_TIMEOUT_S, priority=0)


def delivery_run(channel: str, unique: str, run_id: str, now: int) -> RunRow:
    """Return the row of a delivery's first run.

    Args:
        channel: The channel.
        unique: What no other delivery has.
        run_id: The run's id.
        now: When it is created, in microseconds.
    """
    return first_run(
        run_id=run_id,
        workflow_id=delivery_id(channel, unique),
        workflow_type=DELIVERY,
        task_queue=task_queue_of(channel),
        options=_OPTIONS,
        memo=None,
        now=now,
        owner_id=None,
    )


@dataclass(slots=True)
class _Delivery:
    """A delivery that a batch is to start."""

    channel: str
    unique: str
    alert_ids: list[str] = field(default_factory=list)


class Deliveries:
    """The deliveries that one batch starts.

    Args:
        batch: The batch.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._last: dict[str, _Delivery] = {}
        self._all: list[_Delivery] = []

    @classmethod
    def of(cls, batch: Batch) -> Deliveries:
        """Return the deliveries of a batch, which starts them at its end."""
        found: Deliveries | None = batch.memo.get(_MEMO)
        if found is None:
            found = batch.memo[_MEMO] = cls(batch)
            batch.at_end(found.start)
        return found

    def add(self, alert: AlertRow, channels: Iterable[str]) -> None:
        """Let an alert be delivered, and note in it by what.

        Args:
            alert: The alert.
            channels: The channels to which it goes.
        """
        named: dict[str, str] = {}
        for channel in channels:
            delivery = self._last.get(channel)
            if delivery is None or len(delivery.alert_ids) == ALERTS_IN_A_DELIVERY:
                delivery = _Delivery(channel, self._batch.ids.next())
                self._last[channel] = delivery
                self._all.append(delivery)
            delivery.alert_ids.append(alert.alert_id)
            named[channel] = delivery_id(channel, delivery.unique)
        alert.deliveries = orjson.dumps(named).decode()

    def start(self, fired: frozenset[str]) -> None:
        """Start those deliveries that have something to deliver.

        Args:
            fired: The ids of the alerts that the batch has fired: others may have come first with some marks.
        """
        batch = self._batch
        for delivery in self._all:
            alert_ids = [alert_id for alert_id in delivery.alert_ids if alert_id in fired]
            if not alert_ids:
                continue
            run = delivery_run(delivery.channel, delivery.unique, batch.ids.next(), batch.now)
            input = Payload(orjson.dumps([delivery.channel, alert_ids]))
            batch.add_instance(new_instance(run))
            row = batch.add_run(run)
            batch.append(row, started_event(row, input=input, seed=new_seed(batch)))
