"""The workflow that runs documents: one definition for the whole family of their types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from outlast import workflow
from outlast_serverless.events.names import EVENT
from outlast_serverless.interpreter.inbox import Inbox
from outlast_serverless.interpreter.interpreter import Interpreter
from outlast_serverless.interpreter.messages import MESSAGE, TAKEN, Mailboxes
from outlast_serverless.interpreter.pace import Pace
from outlast_serverless.interpreter.request import TYPE_PREFIX, StartRequest, load
from outlast_serverless.jq import Evaluator

SUSPEND = "serverless.suspend"
RESUME = "serverless.resume"


def workflow_of(
    evaluator: Evaluator,
    runtime: Mapping[str, Any],
    *,
    interpreter: Callable[..., Interpreter] = Interpreter,
    pace: Callable[..., Pace] = Pace,
) -> Any:
    """Return the workflow that runs documents.

    Args:
        evaluator: Evaluates expressions.
        runtime: What ``$runtime`` is.
        interpreter: Makes the interpreter of a run; who looks at runs has another one.
        pace: Makes the pace of a run, likewise.
    """

    @workflow.defn(name=f"{TYPE_PREFIX}*")
    class DocumentWorkflow:
        @workflow.init
        def __init__(self, request: dict[str, Any]) -> None:
            asked = StartRequest.of(request)
            if workflow.info().attempt > 1:
                # The run before has failed and is tried again: from its beginning, not from where it was continued.
                asked = replace(asked, state=None)
            state, self.asked = asked.state, asked
            self.pace = pace() if state is None else pace(state.tasks, suspended=state.suspended)
            self.inbox = Inbox() if state is None else Inbox(state.inbox)
            self.mailboxes = Mailboxes()

        @workflow.run
        async def run(self, request: dict[str, Any]) -> Any:
            """Run a document: its own argument says which."""
            asked = self.asked
            loaded = load(asked.definition)
            evaluator.compare(asked.jq, loaded.name)
            described = dict(runtime)
            if asked.state is not None and asked.state.runtime is not None:
                described = asked.state.runtime
            elif loaded.mentions_runtime:
                # A replay by another version, or with other metadata, sees what the run has seen.
                described = workflow.side_effect(lambda: described, result_type=dict[str, Any])
            made = interpreter(loaded, asked, evaluator, described, self.pace, self.inbox, self.mailboxes)
            return await made.run()

        @workflow.signal(name=SUSPEND)
        def suspend(self) -> None:
            """Begin no further task. What is under way goes on, and so do deadlines."""
            self._suspended(True)

        @workflow.signal(name=EVENT)
        def event(self, arrived: dict[str, Any]) -> None:
            """Take an event, for the tasks that listen."""
            self.inbox.add(arrived)

        @workflow.signal(name=MESSAGE)
        def message(self, arrived: dict[str, Any]) -> None:
            """Take a message, for the task that subscribes."""
            self.mailboxes.add(arrived)

        @workflow.query(name=TAKEN)
        def taken(self, execution: str) -> int:
            """Return how many of its messages a task has begun with."""
            return self.mailboxes.taken(execution)

        @workflow.signal(name=RESUME)
        def resume(self) -> None:
            """Go on."""
            self._suspended(False)

        def _suspended(self, suspended: bool) -> None:
            if suspended != self.pace.suspended:
                self.pace.suspended = suspended
                workflow.upsert_memo({"suspended": suspended})

    return DocumentWorkflow
