"""The approvals of a run, decided by the update ``approve``: each once, whoever asks, and however often."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from outlast_dag.run.actions import Failed
from outlast_dag.run.waits import decided
from outlast_workflow.api.context import current_machine
from outlast_workflow.declare.handlers import handlers_of, update
from outlast_workflow.errors.documents import DagApprovalError

Verdict = Literal["approve", "reject"]
"""What somebody says to an approval."""

UPDATE: Final = "approve"
"""The update that decides an approval."""


@dataclass(frozen=True, slots=True)
class Decision:
    """How an approval was decided: what it returns.

    Attributes:
        approved: Whether it was approved.
        comment: What was said about it.
        by: Who decided; ``None`` if that was not said, or nobody decided in time.
    """

    approved: bool
    comment: str | None = None
    by: str | None = None


class Late(Exception):
    """Nobody decided in time. ``outcome`` is what the core is told."""

    def __init__(self, outcome: Failed) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


class Approvals:
    """Those of one run: what its handlers are called on."""

    def __init__(self) -> None:
        self.waiting: dict[str, asyncio.Future[Any]] = {}
        self.decisions: dict[str, Decision | None] = {}
        """By node; ``None`` if nobody decided in time, or the run no longer wants to know."""

    def ask(self, node: str, timeout: float, late: Failed) -> asyncio.Future[Any]:
        """Wait for a decision, and return a future of it.

        Args:
            node: The node.
            timeout: How long to wait, in seconds.
            late: What the core is told if nobody decides in time.
        """
        loop = current_machine().loop
        future = loop.create_future()
        timer = loop.call_later(timeout, self._expire, node, late, summary=node)
        future.add_done_callback(partial(self._close, node, timer))
        self.waiting[node] = future
        return future

    def _expire(self, node: str, late: Failed) -> None:
        future = self.waiting.get(node)
        if future is not None and not future.done():
            future.set_exception(Late(late))
            self._no_longer(node)

    def _close(self, node: str, timer: asyncio.TimerHandle, future: asyncio.Future[Any]) -> None:
        timer.cancel()
        self._no_longer(node)

    def _no_longer(self, node: str) -> None:
        self.waiting.pop(node, None)
        self.decisions.setdefault(node, None)

    @update
    def approve(
        self, node: str, decision: Verdict = "approve", comment: str | None = None, by: str | None = None
    ) -> Decision:
        """Decide an approval that a DAG waits for.

        Args:
            node: The node.
            decision: ``approve`` or ``reject``.
            comment: What to say about it; a part of what the node returns.
            by: Who decides.
        """
        made = self.decisions[node] = Decision(decision == "approve", comment, by)
        self.waiting.pop(node).set_result(decided(approved=made.approved, comment=comment, by=by))
        return made

    @approve.validator
    def check(
        self, node: str, decision: Verdict = "approve", comment: str | None = None, by: str | None = None
    ) -> None:
        """Refuse a decision that nobody waits for, or that was made before."""
        if node in self.waiting:
            return
        made = self.decisions.get(node)
        raise DagApprovalError(
            node,
            closed=node in self.decisions,
            approved=made.approved if made is not None else None,
            by=made.by if made is not None else None,
            waiting=self.waiting,
        )


HANDLERS: Final = handlers_of(Approvals)


def approvals_of(name: str) -> type[Approvals]:
    """Return the class for a DAG: what describes its handlers is not the text of this module.

    Args:
        name: The DAG's name.
    """
    return type(name, (Approvals,), {})
