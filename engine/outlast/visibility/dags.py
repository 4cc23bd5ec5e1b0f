"""What is shown of a run of a DAG, and who can tell it: packages above this one, found by entry point."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Final, Literal, Protocol

from outlast.runtime.runtime import Runtime
from outlast.visibility.views import FailureCause, Instant, View, WorkflowDescription
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.primitives.enums import RunStatus

GROUP: Final = "outlast.describers"

NodeState = Literal[
    "waiting",
    "running",
    "backing_off",
    "completed",
    "skipped",
    "failed",
    "timed_out",
    "cancelled",
    "recovered",
    "upstream_failed",
    "compensated",
    "compensation_failed",
]
"""How a node stands: ``waiting`` until it is decided, ``backing_off`` between two attempts, ``upstream_failed`` if what
it needs has failed, ``recovered`` if it failed and another one took its place."""

WaitKind = Literal[
    "node",
    "failure",
    "undoing",
    "room",
    "worker",
    "queue",
    "backoff",
    "timer",
    "event",
    "approval",
    "child",
    "decision",
]
FiringKind = Literal[
    "schedule_to_start", "start_to_close", "schedule_to_close", "heartbeat", "next_attempt", "timer"
]


class NodeWait(View):
    """What a node waits for.

    Attributes:
        kind: ``node``: another node; ``failure`` and ``undoing``: what the node ``name`` has this one for; ``room``:
            fewer calls of the DAG at once; ``worker``: of the task queue ``name``; ``queue``: its turn there;
            ``backoff``: its next attempt; ``timer``, ``event``, ``approval`` and ``child``: those; ``decision``: a
            workflow task, in which a worker decides what comes next.
        name: What it is called.
    """

    kind: WaitKind
    name: str = ""


class NodeFiring(View):
    """What fires next of a node: a deadline, its next attempt, or a timer."""

    kind: FiringKind
    at: Instant


class ItemCounts(View):
    """How far a map is.

    Attributes:
        left: How many have not begun.
    """

    total: int
    completed: int
    failed: int
    running: int
    left: int


class DagNode(View):
    """One node of a run.

    Attributes:
        id: Its id in the DAG.
        kind: ``task``, ``map``, …
        type: The activity, workflow or event that it names.
        depends_on: The nodes that it comes after, or has data from.
        rule: How those must have ended.
        conditional: Whether a condition may skip it.
        on_failure: The node that runs if this one fails.
        compensate: The node that undoes this one.
        critical: Whether it lies on the chain that takes longest.
        state: How it stands.
        attempt: The number of its attempt, while an activity is open; of a map, the highest.
        max_attempts: 0 is unlimited.
        began_at: When it was decided that it begins.
        ended_at: When it was decided how it ended.
        items: How far it is, if it is a map that has begun.
        iterations: How many calls it has made, if it repeats them.
        waits_for: What it waits for.
        fires: What fires next of it.
        last_failure: Why it failed, or why an attempt did.
    """

    id: str
    kind: str
    type: str | None
    depends_on: tuple[str, ...]
    rule: str
    conditional: bool
    on_failure: str | None
    compensate: str | None
    critical: bool
    state: NodeState
    attempt: int | None = None
    max_attempts: int | None = None
    began_at: Instant | None = None
    ended_at: Instant | None = None
    items: ItemCounts | None = None
    iterations: int | None = None
    waits_for: tuple[NodeWait, ...] = ()
    fires: NodeFiring | None = None
    last_failure: FailureCause | None = None


class DagDescription(View):
    """One run of a DAG.

    Attributes:
        name: The DAG.
        version: What its author calls this version.
        hash: The hash of the spec that the run follows.
        nodes: Its nodes, in topological order, those that only failures need behind those that name them.
        deadline_at: The nearer deadline of the run.
        left_seconds: How long what is left takes, if each first attempt succeeds as late as it may; while it is open.
        slack_seconds: What the deadline leaves beyond that and the DAG's reserve. If it is negative, the run is
            ``at_risk``.
    """

    workflow_id: str
    run_id: str
    status: RunStatus
    name: str
    version: str
    hash: str
    nodes: tuple[DagNode, ...]
    deadline_at: Instant | None
    left_seconds: float | None
    slack_seconds: float | None
    at_risk: bool
    described_at: Instant


class Describer(Protocol):
    """What a package above this one can tell of runs."""

    async def describe(
        self, runtime: Runtime, converter: DataConverter, found: WorkflowDescription
    ) -> DagDescription | None:
        """Describe a run as a DAG.

        Args:
            runtime: The database.
            converter: Decodes what the run has recorded.
            found: The run.

        Returns:
            The description; ``None`` if the run is not one of a DAG.

        Raises:
            PayloadCodecError: The run's payloads need another codec.
            OutlastError: The run's history cannot be followed.
        """
        ...

    def svg(self, found: DagDescription) -> str:
        """Return a picture of a run, without styles: those are the page's.

        Args:
            found: The run.
        """
        ...


@cache
def describers() -> tuple[Describer, ...]:
    """Return what packages above this one bring."""
    return tuple(entry.load() for entry in entry_points(group=GROUP))


async def describe_dag(
    runtime: Runtime, converter: DataConverter, found: WorkflowDescription
) -> DagDescription | None:
    """Return the description of a run as one of a DAG; ``None`` if it is not one, or has not begun.

    Args:
        runtime: The database.
        converter: Decodes what the run has recorded.
        found: The run.

    Raises:
        OutlastError: As for :meth:`Describer.describe`.
    """
    for describer in describers():
        described = await describer.describe(runtime, converter, found)
        if described is not None:
            return described
    return None


def drawn(found: DagDescription) -> str:
    """Return a picture of a run of a DAG as SVG without styles; empty if nothing can draw it."""
    return next((picture for describer in describers() if (picture := describer.svg(found))), "")
