"""Afterwards: do the database, the ledger and the world outside agree?"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from sqlalchemy import Connection
from tests.chaos.ledger import Ledger
from tests.chaos.load import expected
from tests.chaos.programs import trace

from holdfast.testing import check_database
from holdfast_store.queries import fetch


class Verdict:
    """What was found; ``wrong`` is empty where nothing was lost and nothing was done twice."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.started = self.signalled = self.results = self.runs = self.effects = self.repeated = 0


def judge(connection: Connection, ledger: Ledger, effects: Path) -> Verdict:
    """Compare all three."""
    verdict = Verdict()
    verdict.wrong += check_database(connection)
    _ledger(connection, ledger, verdict)
    _effects(connection, effects, verdict)
    return verdict


def _ledger(connection: Connection, ledger: Ledger, verdict: Verdict) -> None:
    ended = _results(connection, verdict)
    signals = _signals(connection)
    for what, workflow_id, value in ledger.entries():
        if what == "started":
            verdict.started += 1
            if workflow_id not in ended:
                verdict.wrong.append(f"{workflow_id} was acknowledged and is not there")
            elif ended[workflow_id] != ("completed", expected(workflow_id)):
                verdict.wrong.append(
                    f"{workflow_id} ended as {ended[workflow_id]}, not {expected(workflow_id)}"
                )
        elif what == "signalled":
            verdict.signalled += 1
            times = signals[workflow_id].count(value)
            if times != 1:
                verdict.wrong.append(
                    f"signal {value} of {workflow_id} was acknowledged and is there {times} times"
                )
        else:
            verdict.results += 1
            if value != expected(workflow_id):
                verdict.wrong.append(f"{workflow_id} was said to have returned {value}")


def _results(connection: Connection, verdict: Verdict) -> dict[str, tuple[str, Any]]:
    """How each workflow's last run ended."""
    text = (
        "SELECT r.workflow_id, r.status, r.next_run_id, e.payload FROM workflow_runs r "
        "JOIN history_events e ON e.run_id = r.run_id AND e.seq = r.last_seq"
    )
    ended: dict[str, tuple[str, Any]] = {}
    for workflow_id, status, following, payload in fetch(connection, text):
        verdict.runs += 1
        if following is None:
            if workflow_id in ended:
                verdict.wrong.append(f"{workflow_id} has two chains: it was started twice")
            ended[workflow_id] = (status, json.loads(payload).get("result"))
    return ended


def _signals(connection: Connection) -> dict[str, list[int]]:
    text = (
        "SELECT r.workflow_id, e.payload FROM history_events e JOIN workflow_runs r ON r.run_id = e.run_id "
        "WHERE e.type = 'SignalReceived'"
    )
    signals: dict[str, list[int]] = defaultdict(list)
    for workflow_id, payload in fetch(connection, text):
        signals[workflow_id].append(json.loads(payload)["input"][0])
    return signals


def _tokens(connection: Connection) -> dict[tuple[str, int], int]:
    """Which attempt of each completed activity returned the result that was taken."""
    text = "SELECT run_id, payload FROM history_events WHERE type = 'ActivityCompleted'"
    tokens: dict[tuple[str, int], int] = {}
    for run_id, payload in fetch(connection, text):
        document = json.loads(payload)
        tokens[run_id, document["command_id"]] = document["result"][1]
    return tokens


def _effects(connection: Connection, effects: Path, verdict: Verdict) -> None:
    """A completed activity had its effect by the attempt that completed it, and by none claimed later."""
    seen: dict[tuple[str, int], list[int]] = defaultdict(list)
    for run_id, activity_id, attempt in trace(effects):
        verdict.effects += 1
        seen[run_id, activity_id].append(attempt)
    tokens = _tokens(connection)
    text = "SELECT run_id, activity_id, status, attempt FROM activity_executions"
    for run_id, activity_id, status, attempt in fetch(connection, text):
        attempts = seen.pop((run_id, activity_id), [])
        verdict.repeated += max(len(attempts) - 1, 0)
        where = f"activity {activity_id} of run {run_id}"
        if status == "completed" and attempt not in attempts:
            verdict.wrong.append(f"{where} is completed by attempt {attempt}, which nobody ran: {attempts}")
        if status == "completed" and tokens.get((run_id, activity_id)) != attempt:
            token = tokens.get((run_id, activity_id))
            verdict.wrong.append(
                f"{where} is completed by attempt {attempt}, with the result of attempt {token}"
            )
        if attempts and max(attempts) > attempt:
            verdict.wrong.append(
                f"{where} was run by attempt {max(attempts)} after it had ended with {attempt}"
            )
        if len(set(attempts)) != len(attempts):
            verdict.wrong.append(f"{where}: one claim was run twice: {attempts}")
    for key in seen:
        verdict.wrong.append(f"an effect of activity {key}, which no transaction ever asked for")
