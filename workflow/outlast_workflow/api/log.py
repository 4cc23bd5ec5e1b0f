"""``workflow.logger``: a logger that is silent during replay, so that each record appears once."""

from __future__ import annotations

import logging
from asyncio import events
from collections.abc import MutableMapping
from typing import Any

from outlast_workflow.run.machine import RunLoop, WorkflowMachine


class WorkflowLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that is silent during replay and whose records carry ``workflow_id`` and ``run_id``."""

    def isEnabledFor(self, level: int) -> bool:
        """Return whether a record of this level would be written now."""
        machine = _machine()
        if machine is not None and machine.replaying:
            return False
        return self.logger.isEnabledFor(level)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the workflow id and the run id to a record."""
        machine = _machine()
        if machine is not None:
            kwargs["extra"] = {
                "workflow_id": machine.started.workflow_id,
                "run_id": machine.run_id,
                **(kwargs.get("extra") or {}),
            }
        return msg, kwargs


def _machine() -> WorkflowMachine | None:
    loop = events._get_running_loop()
    return loop.machine if isinstance(loop, RunLoop) else None


logger = WorkflowLogger(logging.getLogger("outlast.workflow"))
