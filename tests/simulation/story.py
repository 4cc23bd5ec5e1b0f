"""What a database tells when all is over: runs in their chains, with their histories, as plain JSON."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Connection

from outlast_store.database.sql_text import fetch
from outlast_workflow.primitives.times import from_iso

Told = tuple[str, int, dict[str, Any]]
"""An event: its type, when it was recorded, and its payload."""

OTHERS = "{0} <> 'outlast.deliver' AND {0} NOT LIKE '%dag%'"
"""The workflow types that have no verdict of their own."""


class Story:
    """The runs of a database with their histories, as plain JSON."""

    def __init__(self, connection: Connection, exports: Path | None = None) -> None:
        self.wrong: list[str] = []
        self.events: dict[str, list[Told]] = defaultdict(list)
        text = (
            "SELECT h.run_id, h.type, h.recorded_at, h.payload FROM history_events h "
            "JOIN workflow_runs r USING (run_id) "
            f"WHERE {OTHERS.format('r.workflow_type')} ORDER BY h.run_id, h.seq"
        )
        for run_id, kind, recorded_at, payload in fetch(connection, text):
            self.events[run_id].append((kind, recorded_at, orjson.loads(payload)))
        self.chains: dict[str, list[str]] = defaultdict(list)
        """The runs of each chain, in order, by the first one."""
        self.chains_of: dict[str, list[str]] = defaultdict(list)
        self.open: list[tuple[str, str]] = []
        text = (
            "SELECT first_run_id, run_number, run_id, workflow_id, closed_at FROM workflow_runs "
            f"WHERE {OTHERS.format('workflow_type')}"
        )
        runs = {row[2]: row for row in fetch(connection, text)}
        self.open = [(row[3], row[2]) for row in sorted(runs.values()) if row[4] is None]
        self.activities = fetch(
            connection,
            "SELECT run_id, activity_id, attempt FROM activity_executions WHERE status = 'completed' "
            "AND activity_type NOT IN ('outlast.deliver', 'dag_work', 'dag_plan')",
        )
        self.deleted: set[str] = set()
        """The first runs of the chains that retention has taken, if only in part."""
        for file in exports.rglob("*.jsonl") if exports is not None else ():
            for line in file.read_bytes().splitlines():
                self._exported(orjson.loads(line), runs)
        for first_run_id, _, run_id, workflow_id, _ in sorted(runs.values()):
            self.chains[first_run_id].append(run_id)
            if run_id == first_run_id:
                self.chains_of[workflow_id].append(run_id)
        self.cancelled = {
            first
            for first, chain in self.chains.items()
            if any(
                name == "WorkflowCancelRequested" for run_id in chain for name, _, _ in self.events[run_id]
            )
        }

    def _exported(self, document: dict[str, Any], runs: dict[str, Any]) -> None:
        run = document["run"]
        if run["workflow_type"].startswith(("outlast.", "dag")):
            # Deliveries of alerts and DAGs have verdicts of their own.
            return
        run_id = run["run_id"]
        events = [(one["type"], from_iso(one["recorded_at"]), one["payload"]) for one in document["events"]]
        if run_id in runs:
            if self.events[run_id] != events:
                self.wrong.append(f"run {run_id} was exported with another history than it has")
            return
        self.events[run_id] = events
        self.deleted.add(run["first_run_id"])
        runs[run_id] = run["first_run_id"], run["run_number"], run_id, run["workflow_id"], run["closed_at"]
        self.activities += [
            (run_id, one["activity_id"], one["attempt"])
            for one in document.get("activities", ())
            if one["status"] == "completed"
        ]

    def own(self, run_id: str) -> list[Told]:
        """The events of a run without those that a reset or a fork took over from another run."""
        events = self.events[run_id]
        return [events[0], *events[self._reset_at(run_id) or self._forked_at(run_id) or 1 :]]

    def _forked_at(self, run_id: str) -> int | None:
        fork = self.events[run_id][0][2].get("forked_from")
        return None if fork is None else fork["seq"]

    def is_fork(self, first_run_id: str) -> bool:
        """Whether a chain was forked from another workflow: what that had got and done came along."""
        return self._forked_at(self.chains[first_run_id][0]) is not None

    def _reset_at(self, run_id: str) -> int | None:
        reset = self.events[run_id][0][2].get("reset")
        return None if reset is None else reset["seq"]

    def effective(self, first_run_id: str) -> list[str]:
        """The runs of a chain without those that a reset has taken up again: what the others know came about."""
        chain = self.chains[first_run_id]
        return [run_id for run_id, after in pairwise((*chain, "")) if not after or not self._reset_at(after)]

    def end(self, first_run_id: str) -> Told:
        """The last event of a chain."""
        return self.events[self.chains[first_run_id][-1]][-1]

    def ends(self, first_run_id: str) -> list[Told]:
        """The last event of a chain, and those that were its last ones until a reset."""
        chain = self.chains[first_run_id]
        return [
            self.events[run_id][-1]
            for run_id, after in pairwise((*chain, ""))
            if not after or self._reset_at(after)
        ]

    def retried(self, first_run_id: str) -> bool:
        """Whether a run of a chain began anew, with the input of its first and no memory of what came before."""
        chain = self.effective(first_run_id)
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
