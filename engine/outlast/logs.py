"""Logging that carries run ids: ``from outlast.logs import RunIds``.

``workflow.logger`` and ``activity.logger`` put the ids of the run (and of the attempt) beside what they log. A handler
with this filter does the same for every other logger: whatever libraries log while a workflow's or an activity's code
runs, says for which run. Where no such code runs, the fields are there and empty, so that a format may name them.

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
"""What each record gets."""


class RunIds(logging.Filter):
    """Gives every record the ids of the run that its code runs for; what a record says itself stays."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Fill in the fields; keeps every record."""
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
