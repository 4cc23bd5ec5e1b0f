"""Durable waiting and the time of a run."""

from __future__ import annotations

import math
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, cast

from outlast_workflow.api.context import checked_summary, current_machine, reading_machine
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.loop.sleep import SleepFuture
from outlast_workflow.options.validation import duration_seconds
from outlast_workflow.primitives.times import from_iso, to_datetime


def sleep(duration: float | timedelta, *, summary: str | None = None) -> Coroutine[Any, Any, None]:
    """Wait durably. Zero or less yields once to the run's other tasks.

    Args:
        duration: Seconds, or a timedelta.
        summary: What the wait is for, in at most 200 characters of plain text, shown to everybody and not encoded by
            codecs.
    """
    machine = current_machine()
    seconds: Any = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if type(seconds) not in (int, float) or not -math.inf < seconds <= 0:
        try:
            seconds = duration_seconds("sleep duration", seconds)
        except InvalidOptionError as error:
            raise machine.log.refuse(error) from None
    if summary is not None:
        summary = checked_summary(machine, "sleep summary", summary)
    return cast("Coroutine[Any, Any, None]", SleepFuture(machine.loop, seconds, summary))


def now() -> datetime:
    """Return the workflow task's time (aware, UTC), the same on every replay and until the code waits."""
    return to_datetime(reading_machine().time)


def time_remaining() -> timedelta | None:
    """Return the time until the nearer deadline of the run: None if it has none, negative if it has passed."""
    machine = reading_machine()
    started = machine.started
    deadlines = [from_iso(text) for text in (started.execution_deadline_at, started.run_deadline_at) if text]
    return timedelta(microseconds=min(deadlines) - machine.time) if deadlines else None
