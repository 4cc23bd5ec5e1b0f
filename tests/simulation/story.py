"""What a database tells when all is over: runs in their chains, with their histories, as plain JSON."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import orjson
from sqlalchemy import Connection

from holdfast_store.queries import fetch


class Story:
    """The runs of a database with their histories, as plain JSON."""

    def __init__(self, connection: Connection) -> None:
        self.events: dict[str, list[tuple[str, int, dict[str, Any]]]] = defaultdict(list)
        text = "SELECT run_id, type, recorded_at, payload FROM history_events ORDER BY run_id, seq"
        for run_id, kind, recorded_at, payload in fetch(connection, text):
            self.events[run_id].append((kind, recorded_at, orjson.loads(payload)))
        self.chains: dict[str, list[str]] = defaultdict(list)
        """The runs of each chain, in order, by the first one."""
        self.chains_of: dict[str, list[str]] = defaultdict(list)
        self.open: list[tuple[str, str]] = []
        text = (
            "SELECT run_id, first_run_id, workflow_id, closed_at, cancel_requested_at FROM workflow_runs "
            "ORDER BY first_run_id, run_number"
        )
        self.cancelled: set[str] = set()
        for run_id, first_run_id, workflow_id, closed_at, cancel_requested_at in fetch(connection, text):
            self.chains[first_run_id].append(run_id)
            if run_id == first_run_id:
                self.chains_of[workflow_id].append(run_id)
            if closed_at is None:
                self.open.append((workflow_id, run_id))
            if cancel_requested_at is not None:
                self.cancelled.add(first_run_id)
        self.activities = fetch(
            connection,
            "SELECT run_id, activity_id, attempt FROM activity_executions WHERE status = 'completed'",
        )

    def end(self, first_run_id: str) -> tuple[str, int, dict[str, Any]]:
        """The last event of a chain."""
        return self.events[self.chains[first_run_id][-1]][-1]

    def retried(self, first_run_id: str) -> bool:
        """Whether a run of a chain began anew, with the input of its first and no memory of what came before."""
        chain = self.chains[first_run_id]
        return any(self.events[run_id][-1][0] != "WorkflowContinuedAsNew" for run_id in chain[:-1])

    def after_cancel(self, run_id: str, kind: str) -> list[dict[str, Any]]:
        """Events after a cancel request: their handlers run, but it may have ended the run method before."""
        events = self.events[run_id]
        names = [name for name, _, _ in events]
        if "WorkflowCancelRequested" not in names:
            return []
        after = events[names.index("WorkflowCancelRequested") :]
        return [event for name, _, event in after if name == kind]

    def chain_of(self, run_id: str | None) -> str | None:
        """The first run of the chain that a run is in."""
        return next((first for first, chain in self.chains.items() if run_id in chain), None)
