"""What stands in the line of a queue, and why it is not admitted: one answer for runs, activities and whole queues."""

from __future__ import annotations

from typing import NamedTuple

from outlast_store.queues.contents import Scan
from outlast_store.queues.hold_ups import hold_up
from outlast_store.reads.serving import ACTIVITY, Polled


class Place(NamedTuple):
    """Something that stands in line: where, and which worker it takes.

    Attributes:
        queue: The queue.
        partition: Its partition there.
        noun: ``workflow`` or ``activity``.
        type: Its type.
        task_queue: Its task queue.
    """

    queue: str
    partition: str
    noun: str
    type: str
    task_queue: str


def why_waiting(scan: Scan, place: Place, polled: Polled, now: int) -> str | None:
    """Return what holds up the line in which something stands; ``None`` where the queue has room for it.

    Args:
        scan: How to read.
        place: What stands there.
        polled: The live workers.
        now: Microseconds since the epoch.
    """
    lack_of = polled.lack_of_activity if place.noun == ACTIVITY else polled.lack_of_workflow
    lack = lack_of(place.task_queue, place.type, place.queue)
    return hold_up(
        scan,
        place.queue,
        place.partition,
        now,
        workers=polled.able(place.noun, place.type, place.task_queue, place.queue),
        lack=None if lack is None else f"{lack.cause}: {lack.remedy}",
    )
