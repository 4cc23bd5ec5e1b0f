"""Planted bugs: each makes one function of the engine wrong, as somebody might. The simulation must see every one."""

from tests.simulation.bugs import (
    activities,
    alerts,
    chains,
    dags,
    guests,
    journal,
    limits,
    messages,
    outbox,
    ownership,
    queues,
    schedules,
    streams,
)
from tests.simulation.bugs.planting import BUGS, planted

__all__ = [
    "BUGS",
    "WITHIN",
    "activities",
    "alerts",
    "chains",
    "dags",
    "guests",
    "journal",
    "limits",
    "messages",
    "outbox",
    "ownership",
    "planted",
    "queues",
    "schedules",
    "streams",
]

WITHIN = 438
"""Each is seen by one of so many seeds."""
