"""The durable calls and waits that nodes are, as futures: each is labelled with its node in the history."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from outlast_dag.run.actions import Cancelled, Completed, Failed, Outcome, Start
from outlast_dag.run.approvals import Approvals, Late
from outlast_dag.run.plans import PlanFuture, planned, problems_of_plan
from outlast_dag.run.values import matches
from outlast_dag.run.waits import seconds_of, timeout_of
from outlast_dag.spec.dag import ANY_DAG, DagSpec
from outlast_dag.spec.nodes import Approval, Call, Child, Map, Node, Plan, Sleep, WaitFor
from outlast_workflow.api.context import current_machine
from outlast_workflow.api.markers import side_effect
from outlast_workflow.errors import (
    ActivityTimeoutError,
    ApplicationError,
    DagValidationError,
    WorkflowTimeoutError,
)
from outlast_workflow.errors.documents import Problem
from outlast_workflow.loop.sleep import SleepFuture
from outlast_workflow.options.activity import ActivityOptions
from outlast_workflow.options.start import StartOptions
from outlast_workflow.primitives.enums import CancellationType, ParentClosePolicy
from outlast_workflow.run.child_calls import ChildOptions, ChildWorkflowHandle
from outlast_workflow.run.mailbox import NO_DEFAULT

STOPPING = ActivityOptions(cancellation_type=CancellationType.WAIT)
"""A call that is asked to stop is waited for: only its handler knows what it did."""


class Calls:
    """Begins what the nodes of one run are.

    Args:
        spec: The DAG.
        approvals: The approvals of the run.
    """

    def __init__(self, spec: DagSpec, approvals: Approvals) -> None:
        self.spec = spec
        self.machine = current_machine()
        self.approvals = approvals
        self.options: dict[str, ActivityOptions] = {}
        events = {node.event for node in spec.nodes if isinstance(node, WaitFor)}
        if events:
            # A signal that comes before its wait has a receiver, who has not begun.
            self.machine.handling.mailbox.received |= events

    def begin(self, node: Node, start: Start) -> asyncio.Future[Any]:
        """Begin a call or a wait.

        Args:
            node: The node.
            start: What the core says of it.
        """
        if isinstance(node, Plan):
            return PlanFuture(self.machine.loop, self._activity(node, start), partial(self._planned, node))
        if isinstance(node, Map) and node.chunks_of:
            return self._run_dag(start.args, f"{node.id}[{start.index}]")
        if isinstance(node, Call):
            return self._activity(node, start)
        if isinstance(node, Child):
            return self._child(node, start)
        if isinstance(node, Sleep):
            seconds = seconds_of(node, start, self.machine.time)
            return self._refused(seconds) if isinstance(seconds, Failed) else self.timer(node.id, seconds)
        assert isinstance(node, WaitFor | Approval)
        assert node.timeout is not None
        if isinstance(node, Approval):
            return self.approvals.ask(node.id, node.timeout, timeout_of(node))
        accepts = None if start.match is None else partial(matches, start.match)
        return self.machine.handling.mailbox.receive(
            node.event, node.timeout, NO_DEFAULT, None, accepts=accepts, summary=node.id
        )

    def timer(self, name: str, seconds: float) -> asyncio.Future[None]:
        """Begin a durable timer.

        Args:
            name: The node that it belongs to.
            seconds: How long it takes.
        """
        return SleepFuture(self.machine.loop, seconds, name)

    def _activity(self, node: Call, start: Start) -> asyncio.Future[Any]:
        options = self.options.get(node.id)
        if options is None:
            options = self.options[node.id] = self.spec.options_of(node).merged(STOPPING)
        label = node.id if start.index is None else f"{node.id}[{start.index}]"
        return self.machine.calls.schedule(node.type, start.args, None, options, None, summary=label)

    def _child(self, node: Child, start: Start) -> asyncio.Future[Any]:
        options = None
        if not self.machine.replaying:
            options = ChildOptions(
                StartOptions(execution_timeout=node.timeout, summary=node.id),
                node.task_queue,
                node.priority if node.priority is not None else self.spec.options.priority,
                ParentClosePolicy(node.parent_close_policy),
            )
        handle = self.machine.children.schedule(
            node.type, start.args, None, None, options, None, CancellationType.WAIT
        )
        return self._detached(handle) if node.parent_close_policy == "abandon" else handle

    def _planned(self, node: Plan, value: Any) -> asyncio.Future[Any]:
        """Begin the DAG that a planner has returned.

        Raises:
            DagValidationError: It cannot be run, or does what the planner may not.
        """
        dag = self.spec.name
        # What is wrong with it is said by the version that runs it first, and recorded.
        problems = side_effect(lambda: problems_of_plan(value, dag, node), result_type=list[Problem])
        if problems:
            raise DagValidationError(f"{dag}.{node.id}", problems)
        return self._run_dag((planned(value, dag, node).document,), node.id, node.run_timeout)

    def _run_dag(
        self, args: tuple[Any, ...], label: str, timeout: float | None = None
    ) -> asyncio.Future[Any]:
        """Run another DAG as a child.

        Args:
            args: Its spec and its input.
            label: What it is called in the history.
            timeout: How long it may run.
        """
        options = None
        if not self.machine.replaying:
            options = ChildOptions(
                StartOptions(execution_timeout=timeout, summary=label),
                None,
                self.spec.options.priority,
                # It may have something to undo.
                ParentClosePolicy.REQUEST_CANCEL,
            )
        return self.machine.children.schedule(ANY_DAG, args, None, None, options, None, CancellationType.WAIT)

    def _detached(self, handle: ChildWorkflowHandle[Any]) -> asyncio.Future[Any]:
        """Return a future of the child's ids. To cancel it cancels nothing: the child lives on its own."""
        future = self.machine.loop.create_future()

        def started(start: asyncio.Future[str]) -> None:
            if future.done():
                return
            error = start.exception()
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result({"workflow_id": handle.workflow_id, "run_id": start.result()})

        handle.add_done_callback(_seen)
        begun: Any = handle.started()
        begun.add_done_callback(started)
        return future

    def _refused(self, failure: Failed) -> asyncio.Future[Any]:
        future = self.machine.loop.create_future()
        future.set_exception(Late(failure))
        return future


def _seen(future: asyncio.Future[Any]) -> None:
    """Take note of an end that nobody waits for."""
    if not future.cancelled():
        future.exception()


def outcome_of(future: asyncio.Future[Any], node: Node) -> Outcome:
    """Return how a call or a wait ended.

    Args:
        future: Its future.
        node: The node.
    """
    if future.cancelled():
        return Cancelled()
    error = future.exception()
    if error is None:
        return Completed(future.result())
    if isinstance(error, Late):
        return error.outcome
    if isinstance(node, WaitFor) and isinstance(error, TimeoutError):
        return timeout_of(node)
    cause = error.__cause__ or error
    name = cause.type if isinstance(cause, ApplicationError) else type(cause).__name__
    message = cause.message if isinstance(cause, ApplicationError) else str(cause)
    late = isinstance(error, ActivityTimeoutError) or isinstance(cause, WorkflowTimeoutError)
    return Failed(name, message, late, cause=error)
