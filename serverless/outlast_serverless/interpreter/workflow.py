"""The workflow that runs documents: one definition for the whole family of their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outlast import workflow
from outlast_serverless.events.names import EVENT
from outlast_serverless.interpreter.inbox import Inbox
from outlast_serverless.interpreter.interpreter import Interpreter
from outlast_serverless.interpreter.pace import Pace
from outlast_serverless.interpreter.request import TYPE_PREFIX, StartRequest, load
from outlast_serverless.jq import Evaluator

SUSPEND = "serverless.suspend"
RESUME = "serverless.resume"


def workflow_of(evaluator: Evaluator, runtime: Mapping[str, Any]) -> Any:
    """Return the workflow that runs documents.

    Args:
        evaluator: Evaluates expressions.
        runtime: What ``$runtime`` is.
    """

    @workflow.defn(name=f"{TYPE_PREFIX}*")
    class DocumentWorkflow:
        def __init__(self) -> None:
            self.pace = Pace()
            self.inbox = Inbox()

        @workflow.run
        async def run(self, request: dict[str, Any]) -> Any:
            """Run a document: its own argument says which."""
            asked = StartRequest.of(request)
            loaded = load(asked.definition)
            return await Interpreter(loaded, asked, evaluator, runtime, self.pace, self.inbox).run()

        @workflow.signal(name=SUSPEND)
        def suspend(self) -> None:
            """Begin no further task. What is under way goes on, and so do deadlines."""
            self._suspended(True)

        @workflow.signal(name=EVENT)
        def event(self, arrived: dict[str, Any]) -> None:
            """Take an event, for the tasks that listen."""
            self.inbox.add(arrived)

        @workflow.signal(name=RESUME)
        def resume(self) -> None:
            """Go on."""
            self._suspended(False)

        def _suspended(self, suspended: bool) -> None:
            if suspended != self.pace.suspended:
                self.pace.suspended = suspended
                workflow.upsert_memo({"suspended": suspended})

    return DocumentWorkflow
