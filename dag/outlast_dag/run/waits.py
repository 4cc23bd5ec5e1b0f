"""Waits as the core sees them: what they begin with, and what their ends mean."""

from __future__ import annotations

from typing import Any, Final

from outlast_dag.run.actions import Completed, Failed, Outcome, Start, too_late
from outlast_dag.run.values import DATA_ERROR, DataError, Find, bind_condition, resolve
from outlast_dag.spec.nodes import Approval, Node, Sleep, WaitFor
from outlast_workflow.primitives.times import MICROSECONDS_PER_SECOND, from_iso

NOT_DECIDED: Final = "nobody decided in time"


def start_of_wait(node: Sleep | WaitFor | Approval, find: Find) -> Start:
    """Return how a wait begins.

    Args:
        node: The node.
        find: Finds what references begin at.

    Raises:
        MissingError: A node has no value, and there is no ``or_else``.
        DataError: A path is not there, or an instant is none.
    """
    if isinstance(node, Sleep) and node.until is not None:
        instant = resolve(node.until, find)
        try:
            from_iso(instant)
        except (TypeError, ValueError):
            raise DataError("what it sleeps until is no ISO 8601 text with an offset") from None
        return Start(node.id, None, (instant,))
    if isinstance(node, WaitFor) and node.match is not None:
        return Start(node.id, None, match=bind_condition(node.match, find, "event"))
    return Start(node.id, None)


def wait_ended(node: Node, outcome: Outcome) -> Outcome:
    """Return the outcome of a node whose call or wait has ended: a wait may say what a timeout means.

    Args:
        node: The node.
        outcome: How its call or wait ended.
    """
    late = isinstance(outcome, Failed) and outcome.timed_out
    if late and isinstance(node, WaitFor) and node.on_timeout is not None:
        return Completed(node.on_timeout.value)
    if late and isinstance(node, Approval) and node.on_timeout != "fail":
        return Completed(decided(approved=node.on_timeout == "approve"))
    return outcome


def decided(*, approved: bool, comment: str | None = None, by: str | None = None) -> dict[str, Any]:
    """Return the output of an approval.

    Args:
        approved: Whether it was approved.
        comment: What was said about it.
        by: Who decided; ``None`` if that was not said, or nobody did.
    """
    return {"approved": approved, "comment": comment, "by": by}


def seconds_of(node: Sleep, start: Start, now_us: int) -> float | Failed:
    """Return how long a sleep takes, or why it cannot begin: its instant lies further ahead than its timeout.

    Args:
        node: The node.
        start: How it begins.
        now_us: The time, in microseconds since the epoch.
    """
    if not start.args:
        return node.seconds or 0
    ahead = (from_iso(start.args[0]) - now_us) / MICROSECONDS_PER_SECOND
    if node.timeout is not None and ahead > node.timeout:
        return Failed(
            DATA_ERROR, f"what it sleeps until lies more than its timeout of {node.timeout:g} s ahead"
        )
    return max(ahead, 0)


def timeout_of(node: WaitFor | Approval) -> Failed:
    """Return the outcome of a wait whose time is over."""
    if isinstance(node, WaitFor):
        return too_late(f"no signal {node.event!r} that it waits for came within {node.timeout:g} s")
    return too_late(f"nobody decided within {node.timeout:g} s")
