"""What a committed batch leaves in memory: news for the listeners, and rows that only this process writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from outlast_store.schema.rows import (
    ActivityRow,
    AlertRow,
    AlertTimerRow,
    QueueRow,
    RequestKey,
    RunRow,
    StreamKey,
    StreamRow,
)
from outlast_workflow.history.events import Event, UpdateAccepted

ActivityKey = tuple[str, int]
"""A run's id and an activity's."""
Answer = tuple[str, Any]
"""What became of a request: ``accepted``, or how it ended with its answer (an event, a failure, JSON text)."""


_NONE: Final[Mapping[str, QueueRow]] = MappingProxyType({})
_NO_STREAMS: Final[Mapping[StreamKey, StreamRow]] = MappingProxyType({})
_NO_UPDATES: Final[Mapping[str, Sequence[UpdateAccepted]]] = MappingProxyType({})
MOST_STREAMS_CACHED: Final = 1000


class Committed:
    """What a committed batch did, for listeners in this process, which then need not read it back."""

    __slots__ = (
        "activities",
        "alerts",
        "answered",
        "asked",
        "attempts",
        "begun",
        "ended",
        "events",
        "failed_runs",
        "failures",
        "late",
        "missed_alerts",
        "now",
        "queues",
        "runs",
        "streams",
        "timers",
        "updates",
    )

    def __init__(self, now: int) -> None:
        self.now = now
        self.late = False
        """True if callers were already given an error because the commit's outcome was unknown at the time."""
        self.runs: dict[str, RunRow] = {}
        self.begun: list[str] = []
        """The ids of the runs that are new."""
        self.ended: list[str] = []
        """The ids of the runs that are closed."""
        self.events: dict[str, list[tuple[int, Event, object]]] = {}
        self.activities: list[ActivityRow] = []
        self.attempts: Sequence[tuple[Any, ...]] = ()
        """The rows of attempts that ended without success. The row of each one's activity changed as well."""
        self.failures: Sequence[tuple[Any, ...]] = ()
        """The failure rows that it wrote."""
        self.failed_runs: dict[str, RunRow] = {}
        """The runs of those, whether or not their rows changed."""
        self.alerts: Sequence[AlertRow] = ()
        """The alerts that it fired."""
        self.missed_alerts: Sequence[AlertTimerRow] = ()
        """The marks that nobody saw before their deadlines."""
        self.queues: Mapping[str, QueueRow] = _NONE
        """The queues that were defined, changed or deleted."""
        self.streams: Mapping[StreamKey, StreamRow] = _NO_STREAMS
        """The streams that were written to, closed or reopened."""
        self.timers: list[int] = []
        """When the timers fire that it wrote, and when the schedules are due that it changed."""
        self.answered: dict[RequestKey, Answer] = {}
        """The requests that were accepted or answered."""
        self.asked = False
        """Whether a query request was written that another process may answer."""
        self.updates: Mapping[str, Sequence[UpdateAccepted]] = _NO_UPDATES
        """By run, the updates that its inbox counts since, as the events that they become if they are accepted."""


class Cache:
    """Rows that only this process writes: runs owned here, activities running here, streams that it wrote to last."""

    __slots__ = ("activities", "owners", "runs", "streams")

    def __init__(self) -> None:
        self.owners: set[str] = set()
        self.runs: dict[str, RunRow] = {}
        self.activities: dict[ActivityKey, ActivityRow] = {}
        self.streams: dict[StreamKey, StreamRow] = {}
        """The one written last comes last."""

    def remember(self, committed: Committed) -> None:
        """Keep the rows of a committed batch; drop those that other processes may write from now on."""
        owners = self.owners
        for run_id, run in committed.runs.items():
            if run.owner_id in owners and run.closed_at is None:
                self.runs[run_id] = run
            else:
                self.runs.pop(run_id, None)
        for activity in committed.activities:
            key = (activity.run_id, activity.activity_id)
            if activity.claimed_by in owners and activity.status == "running":
                self.activities[key] = activity
            else:
                self.activities.pop(key, None)
        if committed.streams:
            streams = self.streams
            for name, stream in committed.streams.items():
                streams.pop(name, None)
                if stream.closed_at is None:
                    streams[name] = stream
            while len(streams) > MOST_STREAMS_CACHED:
                del streams[next(iter(streams))]

    def forget(
        self, runs: Iterable[str], activities: Iterable[ActivityKey], streams: Iterable[StreamKey] = ()
    ) -> None:
        """Drop rows that turned out to be stale, or whose run was evicted."""
        for stream in streams:
            self.streams.pop(stream, None)
        for run_id in runs:
            self.runs.pop(run_id, None)
        for key in activities:
            self.activities.pop(key, None)
