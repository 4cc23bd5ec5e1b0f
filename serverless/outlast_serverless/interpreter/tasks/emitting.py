"""Emit: publish an event. What it does not say of itself comes from the run, so that a retry publishes it once."""

from __future__ import annotations

from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from outlast import workflow
from outlast_serverless.events.cloud_events import checked_event
from outlast_serverless.events.names import PUBLISH
from outlast_serverless.interpreter.data_flow import check_recordable
from outlast_serverless.interpreter.faults import fault, from_failure
from outlast_serverless.interpreter.scope import Execution, Interpreting
from outlast_serverless.plan.model import Directive, EmitTask
from outlast_workflow.errors import ActivityError, InvalidOptionError

_PUBLISHING_S: Final = 60.0


async def run_emit(self: Interpreting, task: EmitTask, run: Execution) -> tuple[Any, Directive | None]:
    """Publish an event, and return it."""
    given = self.evaluate(task.event, run.input, run.during(), task.pointer)
    head = run.common["workflow"]["definition"]["document"]
    told = {
        "id": str(uuid5(NAMESPACE_URL, f"{workflow.info().run_id}:{run.id}")),
        "source": f"/{head['namespace']}/{head['name']}/{head['version']}",
        "time": workflow.now().isoformat().replace("+00:00", "Z"),
    }
    said = {name: value for name, value in given.items() if value is not None or name == "data"}
    try:
        event = checked_event({**told, **said})
    except InvalidOptionError as error:
        raise fault("validation", str(error), task.pointer) from None
    check_recordable([event], "event", task.pointer)
    try:
        await workflow.execute_local_activity(
            PUBLISH, event, start_to_close_timeout=_PUBLISHING_S, summary=run.label("emit")
        )
    except ActivityError as error:
        raise from_failure(error, task.pointer) from None
    return event, None
