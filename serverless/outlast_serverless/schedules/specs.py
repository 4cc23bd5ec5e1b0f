"""Schedules of time: the engine's own, made of what a document says."""

from __future__ import annotations

from typing import Any, Final

from outlast import Cron, Every
from outlast_serverless.documents.document import Document
from outlast_serverless.interpreter.request import TYPE_PREFIX
from outlast_workflow.errors import InvalidOptionError

_US: Final = 1_000_000


def schedule_id_of(namespace: str, name: str) -> str:
    """Return the id of the schedule of a document."""
    return f"{TYPE_PREFIX}{namespace}/{name}"


def spec_of(document: Document, now: int) -> Cron | Every | None:
    """Return when a document is started; ``None`` if it is not by time alone, but ``after`` its end or ``on`` events.

    Args:
        document: The document.
        now: Microseconds since the epoch: ``every`` counts from here.

    Raises:
        InvalidOptionError: It has no schedule, or one that never fires.
    """
    name = f"{document.namespace}/{document.name}:{document.version}"
    schedule = document.plan.schedule
    if schedule is None:
        raise InvalidOptionError(
            f"{name} has no `schedule`: give it every, cron, after or on", field="document"
        )
    if schedule.cron is not None:
        return Cron(schedule.cron, _time_zone(document))
    if schedule.every is not None:
        period = schedule.every.microseconds
        return Every(period / _US, now % period / _US)
    return None


def _time_zone(document: Document) -> str:
    """Return the time zone of a cron text: what the document's metadata say, otherwise UTC."""
    metadata: dict[str, Any] = document.definition["document"].get("metadata") or {}
    said = metadata.get("outlast")
    return str(said.get("timezone", "UTC")) if isinstance(said, dict) else "UTC"
