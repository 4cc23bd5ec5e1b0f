"""What a node of a DAG waits for, and what fires of it, in the words that people read."""

from __future__ import annotations

from collections import Counter
from typing import Final

from outlast.text.wording import counted, words
from outlast.visibility.dags import DagDescription, DagNode, NodeState, NodeWait, WaitKind

_WAITS: Final[dict[WaitKind, str]] = {
    "node": "{}",
    "failure": "a failure of {}",
    "undoing": "{} to be undone",
    "room": "room among the calls that run at once",
    "worker": "a worker of task queue {}",
    "queue": "queue {}",
    "backoff": "its next attempt",
    "timer": "its timer",
    "event": "the signal {}",
    "approval": "an approval",
    "child": "the child workflow {}",
    "decision": "a worker that decides what comes next",
}

MOST_NAMED: Final = 4

SEVEREST: Final[tuple[NodeState, ...]] = (
    "failed", "timed_out", "compensation_failed", "upstream_failed", "backing_off", "running", "waiting",
    "cancelled", "compensated", "recovered", "completed", "skipped",
)  # fmt: skip
"""The states in the order in which people ask for them."""


def wait_words(wait: NodeWait) -> str:
    """Return what a node waits for."""
    return _WAITS[wait.kind].format(wait.name)


def waits_words(node: DagNode) -> str:
    """Return all that a node waits for; of many, the first and how many more there are."""
    said = [wait_words(wait) for wait in node.waits_for]
    if len(said) > MOST_NAMED:
        said[MOST_NAMED - 1 :] = [f"{len(said) - MOST_NAMED + 1} more"]
    return ", ".join(said)


def firing_words(node: DagNode) -> str:
    """Return what fires next of a node, without when."""
    if node.fires is None:
        return ""
    kind = node.fires.kind
    if kind in ("timer", "next_attempt"):
        return kind.replace("_", " ")
    return f"{kind.replace('_', '-')} timeout"


def state_words(node: DagNode) -> str:
    """Return how a node stands: its state, its attempt, its calls or items."""
    said = node.state.replace("_", " ")
    if node.attempt is not None and (node.attempt > 1 or node.state == "backing_off"):
        said += f", attempt {node.attempt}" + (f" of {node.max_attempts}" if node.max_attempts else "")
    if node.iterations is not None:
        said += f", {counted(node.iterations, 'call')}"
    if node.items is not None:
        said += f", {node.items.completed:,} of {node.items.total:,} items"
        if node.items.failed:
            said += f", {node.items.failed:,} failed"
    return said


def counts_words(found: DagDescription) -> str:
    """Return how many nodes stand how, what went wrong first: ``1 failed, 3 completed``."""
    counts = Counter(node.state for node in found.nodes)
    return ", ".join(f"{counts[state]:,} {state.replace('_', ' ')}" for state in SEVEREST if counts[state])


def slack_words(found: DagDescription) -> str:
    """Return whether the deadline leaves the time that is needed; empty where that is not known.

    Rounded, so that a page says something else only now and then.
    """
    slack, left = found.slack_seconds, found.left_seconds
    if slack is None or left is None:
        return ""
    spare = words(_rounded(slack))
    if found.at_risk:
        return (
            f"at risk: what is left may take {words(_rounded(left))}, {spare} more than the deadline leaves"
        )
    return f"what is left takes {words(_rounded(left))} at one attempt of each, which leaves {spare} to spare"


def _rounded(seconds: float) -> float:
    step = 10 if abs(seconds) < 120 else 60
    return seconds // step * step
