"""What the history of a run says of its DAG.

The fold *is* the interpreter: it replays the history with the code that wrote it, and looks at its progress. So it
needs no worker, no code of the user and no second account of what an event means to each kind of nodes. It goes on
where it stood, and a look costs what is new.

Inbound events that no workflow task has applied yet are not in the progress. What they say of single calls is kept in
:attr:`DagFold.ended`: an activity that has returned while no worker is there is shown as over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from outlast_dag.run.actions import NodeState
from outlast_dag.run.approvals import HANDLERS, Approvals
from outlast_dag.run.documents import run_document
from outlast_dag.run.interpreter import follow
from outlast_dag.run.progress import Progress
from outlast_dag.spec.dag import ANY_DAG, DagSpec
from outlast_dag.spec.reading import read_spec
from outlast_workflow.api.markers import side_effect
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.declare.definitions import WorkflowDefinition
from outlast_workflow.history.events import (
    ActivityCancelled,
    ActivityCompleted,
    ActivityFailed,
    ActivityTimedOut,
    ChildWorkflowCancelled,
    ChildWorkflowCompleted,
    ChildWorkflowFailed,
    ChildWorkflowStartFailed,
    ChildWorkflowTerminated,
    ChildWorkflowTimedOut,
    Event,
)
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import Replay, Row

ENDS: Final[Mapping[type[Event], NodeState]] = {
    ActivityCompleted: "completed",
    ActivityFailed: "failed",
    ActivityTimedOut: "timed_out",
    ActivityCancelled: "cancelled",
    ChildWorkflowCompleted: "completed",
    ChildWorkflowFailed: "failed",
    ChildWorkflowTimedOut: "timed_out",
    ChildWorkflowCancelled: "cancelled",
    ChildWorkflowTerminated: "failed",
    ChildWorkflowStartFailed: "failed",
}
"""What the end of a call makes of it."""


class States(dict[str, NodeState]):
    """The states of nodes, and when each began and ended."""

    def __init__(self, states: Mapping[str, NodeState], machine: WorkflowMachine) -> None:
        super().__init__(states)
        self._machine = machine
        self.began: dict[str, int] = {}
        self.ended: dict[str, int] = {}

    def __setitem__(self, name: str, state: NodeState) -> None:
        if state == "running":
            self.began[name] = self._machine.time
        else:
            self.ended[name] = self._machine.time
        super().__setitem__(name, state)


class DagFold:
    """One run of a DAG, as far as its history was read.

    Args:
        run_id: The run.
        workflow_type: Its type.
        converter: Decodes its payloads.

    Attributes:
        spec: The DAG that it follows, once it has begun.
        progress: How far it is, once it has begun.
        seq: How far its history was read.
    """

    def __init__(self, run_id: str, workflow_type: str, converter: DataConverter) -> None:
        self.spec: DagSpec | None = None
        self.progress: Progress | None = None
        self.seq = 0
        self._labels: dict[int, str] = {}
        code = self._document if workflow_type == ANY_DAG else self._recorded
        signature = CallSignature(workflow_type, (), (), var_positional="args")
        self._machine = WorkflowMachine(
            WorkflowDefinition(
                workflow_type, Approvals, code, signature, "history", HANDLERS, plain_input=True
            ),
            run_id,
            converter=converter,
            limits=StructuralLimits(),
            guarded=False,
        )
        self._replay = Replay(self._machine, self._loads)

    def feed(self, rows: Iterable[Row]) -> None:
        """Go on with the next events.

        Args:
            rows: What follows the events before, in order, without a gap.

        Raises:
            NonDeterminismError: The run has made calls that its DAG does not make: an interceptor's, for example.
            PayloadCodecError: Its payloads need another codec.
            DamagedHistoryError: An event cannot be read.
        """
        self._replay.feed(rows)
        self.seq = self._replay.replayed.last_seq

    @property
    def states(self) -> Mapping[str, NodeState]:
        """The state of each node, as the last workflow task has left it; empty before the first."""
        return self.progress.states if self.progress is not None else {}

    @property
    def ended(self) -> dict[str, NodeState]:
        """How calls have ended that no workflow task knows of yet, by what they are labelled with."""
        found: dict[str, NodeState] = {}
        for _, event in self._replay.replayed.unapplied:
            state = ENDS.get(type(event))
            label = self._labels.get(getattr(event, "command_id", 0))
            if state is not None and label is not None:
                found[label] = state
        return found

    def began(self, name: str) -> int | None:
        """Return when a node began, in µs since the epoch."""
        return self._states.began.get(name)

    def over(self, name: str) -> int | None:
        """Return when it was decided how a node ended, in µs since the epoch."""
        return self._states.ended.get(name)

    def close(self) -> None:
        """Let go of the run."""
        self._machine.evict()

    async def _recorded(self, approvals: Approvals, *arguments: Any) -> Any:
        # In a replay the function is not called: the value is the recorded one.
        found: dict[str, Any] = side_effect(dict, result_type=dict[str, Any])
        return await follow(approvals, read_spec(found["spec"]), arguments, self._watch)

    async def _document(self, approvals: Approvals, document: Any, *arguments: Any) -> Any:
        return await run_document(approvals, document, *arguments, watch=self._watch)

    def _watch(self, progress: Progress) -> None:
        self.spec, self.progress = progress.spec, progress
        progress.states = self._states = States(progress.states, self._machine)

    def _loads(self, payload: Any) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(payload)
        label = found.get("summary")
        if label is not None and "command_id" in found:
            self._labels[found["command_id"]] = label
        return found
