"""What the core is told, and what it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from outlast_dag.spec.conditions import Condition

NodeState = Literal[
    "waiting",
    "running",
    "completed",
    "skipped",
    "failed",
    "timed_out",
    "cancelled",
    "upstream_failed",
    "recovered",
    "compensated",
    "compensation_failed",
]
"""The state of a node: ``waiting`` before it is decided, ``upstream_failed`` if what it needs has failed.

One that has failed is ``recovered`` if the node that it names for that case has completed in its place. One that was
undone is ``compensated``, or ``compensation_failed`` if that failed.
"""

GOOD: frozenset[str] = frozenset({"completed", "skipped", "recovered"})
"""The ends that count as succeeded for the rule of a node behind them."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A call returned."""

    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """A call failed for good.

    Attributes:
        type: The type of the failure.
        message: What it says.
        timed_out: Whether a timeout ended it.
        item: The position of the item of a map that failed; ``None`` for a node that has one call.
        cause: The error, for whoever wants it as the cause of another.
    """

    type: str
    message: str
    timed_out: bool = False
    item: int | None = None
    cause: BaseException | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """What a step is given that runs because another one has failed.

    Attributes:
        node: The id of the step that failed.
        type: The type of the failure: of an :class:`~outlast.ApplicationError` what it calls itself.
        message: What the failure says.
        timed_out: Whether a timeout ended the last attempt.
        item: The position of the item that failed, if the step has one call for each item of a list.
    """

    node: str
    type: str
    message: str
    timed_out: bool = False
    item: int | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A call ended because it was asked to."""


Outcome = Completed | Failed | Cancelled

TIMED_OUT: Final = "TimeoutError"
"""The type of the failure of a wait that was too long."""


def too_late(message: str) -> Failed:
    """Return the outcome of a wait, or of calls, that a timeout has ended.

    Args:
        message: What did not happen in time.
    """
    return Failed(TIMED_OUT, message, timed_out=True)


@dataclass(frozen=True, slots=True)
class Start:
    """Begin a call, or a wait. What it is the node's kind says.

    Attributes:
        node: The node.
        index: The position of a map's item, or of a call that is repeated; ``None`` for a node that begins once.
        args: The arguments of a call; of a sleep the instant that it ends at, if it has one.
        match: Which signals count, asked of the bound ``event`` and nothing else; ``None`` for all.
    """

    node: str
    index: int | None
    args: tuple[Any, ...] = ()
    match: Condition | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """Ask a call or a wait to stop. Its outcome is offered all the same."""

    node: str
    index: int | None


Timer = Literal["delay", "duration"]
"""A timer of a node that repeats a call: before the next call, or for all of them together."""


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Begin a timer of a node."""

    node: str
    timer: Timer
    seconds: float


@dataclass(frozen=True, slots=True)
class ClearTimer:
    """Forget a timer that was set and has not fired."""

    node: str
    timer: Timer


@dataclass(frozen=True, slots=True)
class Finish:
    """The DAG has ended: nothing runs, and nothing will.

    Attributes:
        status: How.
        result: What it returns, if it has completed.
        failures: The nodes that failed, in the order in which they did, each with its failure.
        stopped: The nodes that had not ended when the reserve before the deadline began, in topological order.
        compensated: The nodes that were undone, in the order in which they were.
        uncompensated: Those that could not be undone, likewise.
    """

    status: Literal["completed", "failed", "cancelled", "timed_out"]
    result: Any = None
    failures: Sequence[tuple[str, Failed]] = ()
    stopped: Sequence[str] = ()
    compensated: Sequence[str] = ()
    uncompensated: Sequence[str] = ()


Action = Start | Cancel | SetTimer | ClearTimer | Finish
