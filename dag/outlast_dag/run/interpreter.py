"""The workflow that runs a DAG: it makes durable calls as the core says, and tells the core how they ended.

The first command records the spec. From then on the run follows what is recorded, whatever the code says by now, so
that a deploy never breaks an open run. What nodes return stays plain JSON: to decode it would need the types of that
day.

There is one coroutine and no task for a node. The end of a call is told by a callback of its future, in the order of
history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from outlast_dag.run.actions import Action, Cancel, ClearTimer, Failed, Finish, SetTimer, Start, Timer
from outlast_dag.run.approvals import Approvals
from outlast_dag.run.calls import Calls, outcome_of
from outlast_dag.run.progress import Progress
from outlast_dag.run.values import DATA_ERROR
from outlast_dag.spec.dag import DagSpec
from outlast_dag.spec.reading import read_spec
from outlast_workflow.api.context import current_machine
from outlast_workflow.api.current_run import limit
from outlast_workflow.api.markers import set_reserved_attributes, side_effect
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.errors import ApplicationError
from outlast_workflow.errors.control_flow import CancelRun
from outlast_workflow.errors.documents import DagDataError, DagFailedError, DagTimeoutError
from outlast_workflow.loop.loop import DeterministicLoop
from outlast_workflow.options.search_attributes import OUTCOME_ATTRIBUTE
from outlast_workflow.primitives.times import MICROSECONDS_PER_SECOND, from_iso, microseconds
from outlast_workflow.run.machine import WorkflowMachine

RESERVE_SUMMARY = "reserve before the deadline"
"""How the timer is labelled that ends a run in time to compensate. No id of a node has spaces."""


async def interpret(
    approvals: Approvals, spec: DagSpec, arguments: Sequence[Any], signature: CallSignature | None = None
) -> Any:
    """Run a DAG, and return its result.

    Args:
        approvals: The approvals of the run.
        spec: The DAG, as the code has it now; one that the run has recorded wins.
        arguments: The input, as plain JSON.
        signature: The types that the input is checked against before anything is scheduled.

    Raises:
        DagFailedError: Nodes failed.
        DagTimeoutError: The reserve before the deadline began.
        CancelledError: The run was cancelled.
        PayloadDecodeError: The input does not fit the types; fails the task, not the run.
    """
    machine = current_machine()
    if not machine.replaying and signature is not None:
        machine.converter.decode_args(machine.started.input, signature)
    return await follow(approvals, _recorded(spec), arguments)


async def follow(
    approvals: Approvals,
    spec: DagSpec,
    arguments: Sequence[Any],
    watch: Callable[[Progress], None] | None = None,
) -> Any:
    """Run a DAG whose spec the history has, and return its result.

    Args:
        approvals: The approvals of the run.
        spec: The DAG.
        arguments: The input, as plain JSON.
        watch: Told of the progress before the DAG begins.

    Raises:
        OutlastError: As for :func:`interpret`.
    """
    machine = current_machine()
    if spec.timeout is not None and machine.started.run_timeout_seconds is None:
        # It was started by name, so nobody has told the start how long it may take.
        limit(spec.timeout)
    run = _Run(approvals, spec, arguments)
    if watch is not None:
        watch(run.progress)
    return await run.result()


def _recorded(spec: DagSpec) -> DagSpec:
    """Return the spec that the run follows: the one that it recorded, and records now if it has just begun."""
    found: dict[str, Any] = side_effect(lambda: record_of(spec), result_type=dict[str, Any])
    return spec if found["hash"] == spec.hash else read_spec(found["spec"])


def record_of(spec: DagSpec) -> dict[str, Any]:
    """Return what a run records of its spec."""
    return {
        "outlast_dag": 1,
        "name": spec.name,
        "version": spec.version,
        "hash": spec.hash,
        "spec": spec.document,
    }


class _Run:
    """One run of a DAG.

    Args:
        approvals: Its approvals.
        spec: The DAG.
        arguments: Its input.
    """

    def __init__(self, approvals: Approvals, spec: DagSpec, arguments: Sequence[Any]) -> None:
        self.spec = spec
        self.machine = current_machine()
        self.progress = Progress(spec, arguments)
        self.nodes = spec.graph.nodes
        self.beginning = Calls(spec, approvals)
        self.calls: dict[tuple[str, int | None], asyncio.Future[Any]] = {}
        self.timers: dict[tuple[str, Timer], asyncio.Future[None]] = {}
        self.finish: Finish | None = None
        self.waiter: asyncio.Future[None] | None = None
        self.left = False

    async def result(self) -> Any:
        """Run it, and return its result."""
        cancelled: asyncio.CancelledError | None = None
        try:
            self.forget_outcome()
            late = self.reserve_has_begun()
            self.listen()
            self.do(self.progress.begin(late=late))
            while self.finish is None:
                self.waiter = asyncio.get_running_loop().create_future()
                try:
                    await self.waiter
                except asyncio.CancelledError as error:
                    cancelled = error
                    self.do(self.progress.cancel())
        finally:
            # A run that is evicted ends its calls, which has nothing to do with the DAG.
            self.left = True
        return self.outcome(self.finish, cancelled)

    def outcome(self, finish: Finish, cancelled: asyncio.CancelledError | None) -> Any:
        """Return the result, or raise what ended the DAG without one."""
        if finish.status == "completed":
            return finish.result
        if finish.compensated or finish.uncompensated:
            set_reserved_attributes(
                {OUTCOME_ATTRIBUTE: "compensation_failed" if finish.uncompensated else "compensated"}
            )
        if finish.status == "cancelled":
            raise cancelled if cancelled is not None else CancelRun(f"signal {self.spec.cancel_on}")
        cause = cause_of(*finish.failures[0]) if finish.failures else None
        if finish.status == "timed_out":
            raise DagTimeoutError(
                self.spec.name,
                finish.stopped,
                self.spec.reserve,
                compensated=finish.compensated,
                uncompensated=finish.uncompensated,
            ) from cause
        assert cause is not None
        nodes = [name for name, _ in finish.failures if name]
        if not nodes and not finish.compensated and not finish.uncompensated:
            raise cause
        raise DagFailedError(
            self.spec.name,
            nodes,
            item=finish.failures[0][1].item,
            compensated=finish.compensated,
            uncompensated=finish.uncompensated,
        ) from cause

    # --- what ends it before its nodes do -----------------------------------------------------------------------------

    def forget_outcome(self) -> None:
        """Take away what the run before this one of the chain has left to be found by."""
        if OUTCOME_ATTRIBUTE in (self.machine.started.search_attributes or {}):
            set_reserved_attributes({OUTCOME_ATTRIBUTE: None})

    def reserve_has_begun(self) -> bool:
        """Return whether the reserve before the deadline has begun; if not, wait for it.

        What is left until then is recorded: a run that was reset has another deadline, and its replay must not tell
        otherwise what was decided by the old one. Its timer wakes too early, and is set again.
        """
        if not self.spec.reserve:
            return False
        reserve = microseconds(self.spec.reserve)
        left: int | None = side_effect(lambda: until_deadline(self.machine, reserve))
        if left is None:
            return False
        if left <= 0:
            return True
        loop = asyncio.get_running_loop()
        assert isinstance(loop, DeterministicLoop)
        loop.call_later(left / MICROSECONDS_PER_SECOND, self.wake_for_reserve, summary=RESERVE_SUMMARY)
        return False

    def wake_for_reserve(self) -> None:
        """Look again whether the reserve has begun, now that it should."""
        if not self.left and self.finish is None and self.reserve_has_begun():
            self.do(self.progress.expire())

    def listen(self) -> None:
        """Wait for the signal that cancels the run."""
        if self.spec.cancel_on is not None:
            mailbox = self.machine.handling.mailbox
            signal = mailbox.receive(self.spec.cancel_on, None, None, None)
            signal.add_done_callback(self.signalled)

    def signalled(self, signal: asyncio.Future[Any]) -> None:
        """Cancel the run because the signal has come."""
        if not self.left and not signal.cancelled():
            self.do(self.progress.cancel())

    # --- what its nodes do --------------------------------------------------------------------------------------------

    def do(self, actions: Sequence[Action]) -> None:
        """Carry out what the core says."""
        for action in actions:
            if isinstance(action, Start):
                self.start(action)
            elif isinstance(action, Finish):
                self.finish = action
                if self.waiter is not None and not self.waiter.done():
                    self.waiter.set_result(None)
            elif isinstance(action, SetTimer):
                timer = self.beginning.timer(action.node, action.seconds)
                self.timers[action.node, action.timer] = timer
                timer.add_done_callback(partial(self.elapsed, action.node, action.timer))
            elif isinstance(action, ClearTimer):
                self.timers.pop((action.node, action.timer)).cancel()
            else:
                assert isinstance(action, Cancel)
                self.calls[action.node, action.index].cancel()

    def start(self, action: Start) -> None:
        """Begin a call or a wait."""
        name, index = action.node, action.index
        future = self.beginning.begin(self.nodes[name], action)
        self.calls[name, index] = future
        future.add_done_callback(partial(self.ended, name, index))

    def ended(self, name: str, index: int | None, future: asyncio.Future[Any]) -> None:
        """Tell the core how a call or a wait ended."""
        outcome = outcome_of(future, self.nodes[name])
        if self.left:
            return
        del self.calls[name, index]
        self.do(self.progress.offer(name, index, outcome))

    def elapsed(self, name: str, timer: Timer, future: asyncio.Future[None]) -> None:
        """Tell the core that a timer has fired."""
        if self.left or self.timers.get((name, timer)) is not future:
            return
        del self.timers[name, timer]
        self.do(self.progress.elapsed(name, timer))


def until_deadline(machine: WorkflowMachine, reserve: int) -> int | None:
    """Return how long it is until the reserve before the run's deadline begins, in µs; ``None`` without a deadline.

    Args:
        machine: The run.
        reserve: How long the reserve is, in µs.
    """
    started = machine.started
    deadlines = [from_iso(text) for text in (started.execution_deadline_at, started.run_deadline_at) if text]
    return min(deadlines) - reserve - machine.time if deadlines else None


def cause_of(node: str, failure: Failed) -> BaseException:
    """Return the error of a node that failed.

    Args:
        node: The node; empty for the result of the DAG.
        failure: How it failed.
    """
    if failure.cause is not None:
        return failure.cause
    if failure.type == DATA_ERROR:
        return DagDataError(node, failure.message, item=failure.item)
    return ApplicationError(failure.message, type=failure.type)
