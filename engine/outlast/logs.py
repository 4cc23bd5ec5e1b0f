"""Logging that carries run ids: ``from outlast.logs import RunIds``.

``workflow.logger`` and ``activity.logger`` add the ids of the run (and of the attempt) to what they log. A handler with
this filter does the same for every other logger: what libraries log while the code of a workflow or an activity runs
then says for which run. Where no such code runs, the fields are present and empty, so that a format may name them.

::

    handler = logging.StreamHandler()
    handler.addFilter(RunIds())
    handler.setFormatter(logging.Formatter("%(levelname)s [%(workflow_id)s] %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler])
"""

from __future__ import annotations

import logging
from asyncio import events
from typing import Final

from outlast_activities.context import CURRENT
from outlast_workflow.run.machine import RunLoop

__all__ = ["FIELDS", "RunIds"]

FIELDS: Final = ("workflow_id", "run_id", "activity_id", "activity_type", "attempt")
"""The fields that each record gets."""


class RunIds(logging.Filter):
    """Adds to every record the ids of the run whose code is running; fields that a record has already are kept."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Fill in the fields, and keep the record."""
        found = _ids()
        for name in FIELDS:
            if not hasattr(record, name):
                setattr(record, name, found.get(name, ""))
        return True


def _ids() -> dict[str, object]:
    loop = events._get_running_loop()
    if isinstance(loop, RunLoop):
        machine = loop.machine
        return (
            {} if machine is None else {"workflow_id": machine.started.workflow_id, "run_id": machine.run_id}
        )
    running = CURRENT.get()
    if running is None:
        return {}
    row = running.task.row
    return {
        "workflow_id": running.task.workflow_id,
        "run_id": row.run_id,
        "activity_id": row.activity_id,
        "activity_type": row.activity_type,
        "attempt": row.charged_attempt,
    }
