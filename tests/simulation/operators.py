"""Operators of a simulation: they put rules of alerts and take them away, and acknowledge alerts, two at the same time.

One seed in so many that has alerts has operators, drawn from a source of its own, so that the others are as they were.
The marks of rules are none that programs ask for, so that an alert tells whose it is.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import orjson
from sqlalchemy import Connection

from outlast import AlertPolicy, Client
from outlast.errors import AlertAcknowledgedError, AlertNotFoundError, RequestTimeoutError
from outlast.watchdog import AlertRule, TaskWatchdog
from outlast_store.database.sql_text import fetch
from outlast_workflow.errors import JournalClosedError, StoreError

RULED = ("10%", "35%", "60%", "-0.75s")
"""The marks of rules."""
RULES = (
    AlertRule(workflow_type="Prog*", policy=AlertPolicy(at=(0.1, 0.35), channels=("oncall",))),
    AlertRule(task_queue="main", policy=AlertPolicy(at=(0.6,), channels=("pager", "oncall"))),
    AlertRule(workflow_type="*", task_queue="other", policy=AlertPolicy(before=(0.75,))),
)
CHANNELS = {"10%": {"oncall"}, "35%": {"oncall"}, "60%": {"pager", "oncall"}, "-0.75s": set[str]()}
NAMES = ("ada", "bob")


class Operators:
    """Those of one simulation, and what they were told."""

    def __init__(self, seed: int) -> None:
        self.there = seed % 27 == 25
        self.marks = frozenset(CHANNELS) if self.there else frozenset[str]()
        """The marks of their rules: a run may get them late, for the rules come and go."""
        self.rng = random.Random(f"operators of {seed}")
        self.acknowledged: defaultdict[str, set[str]] = defaultdict(set)
        """Who was told that he has acknowledged an alert."""
        self.refused: defaultdict[str, set[str]] = defaultdict(set)
        """Who somebody else was told has done so."""
        self.gone: set[str] = set()

    async def rule(self, client: Client) -> None:
        """Watch with some rules for a while, and then with others, until the process ends."""
        while True:
            rules = self.rng.sample(RULES, self.rng.randint(0, len(RULES)))
            watchdog = TaskWatchdog(client, interval=0.5, lease_duration=4.0, rules=rules)
            watchdog.start()
            await asyncio.sleep(self.rng.choice((1, 3, 6)))
            await watchdog.stop()

    async def acknowledge(self, client: Client) -> None:
        """Acknowledge what nobody has acknowledged, until the process ends."""
        while True:
            for name in NAMES:
                try:
                    await self._acknowledge(client, name)
                except JournalClosedError:
                    raise
                except (StoreError, RequestTimeoutError):
                    pass
            await asyncio.sleep(0.5)

    async def _acknowledge(self, client: Client, name: str) -> None:
        page = await client.alerts.list(acknowledged=self.rng.choice((False, None)), limit=5)
        for alert in page.alerts:
            if self.rng.random() < 0.5:
                continue
            try:
                found = await client.alerts.acknowledge(alert.alert_id, by=name)
            except AlertAcknowledgedError as error:
                self.refused[alert.alert_id].add(error.acknowledged_by)
            except AlertNotFoundError:
                self.gone.add(alert.alert_id)
            else:
                self.acknowledged[alert.alert_id].add(str(found.acknowledged_by))

    def check(self, connection: Connection, *, deleting: bool) -> Iterator[str]:
        """Yield what is wrong when all is over.

        Args:
            connection: To the database.
            deleting: Whether retention takes alerts away.
        """
        yield from self._check_acknowledged(connection, deleting=deleting)
        yield from _check_rules(connection)

    def _check_acknowledged(self, connection: Connection, *, deleting: bool) -> Iterator[str]:
        stand = {row[0]: row[1] for row in fetch(connection, "SELECT alert_id, acknowledged_by FROM alerts")}
        for alert_id in sorted({*self.acknowledged, *self.refused}):
            told = self.acknowledged[alert_id] | self.refused[alert_id]
            if len(told) > 1:
                yield f"alert {alert_id} was acknowledged by {sorted(told)}"
            if alert_id in stand and stand[alert_id] not in told:
                yield f"alert {alert_id} was acknowledged by {sorted(told)}, and its row says {stand[alert_id]}"
            if alert_id not in stand and not deleting:
                yield f"alert {alert_id} was acknowledged, and is not there"
        for alert_id in sorted(self.gone & stand.keys()):
            yield f"alert {alert_id} is there, and somebody was told that it is not"


def _check_rules(connection: Connection) -> Iterator[str]:
    """A rule is given to a run once, to what it matches only, and stays with the chain; each alert is that of a row."""
    text = (
        "SELECT first_run_id, run_number, run_id, workflow_type, task_queue, alerts FROM workflow_runs "
        "ORDER BY first_run_id, run_number"
    )
    rules = [(rule, rule.policy.to_document()) for rule in RULES]
    had: dict[str, list[Any]] = {}
    marks: dict[str, set[str]] = {}
    for first_run_id, _, run_id, workflow_type, task_queue, policy in fetch(connection, text):
        given = orjson.loads(policy or "{}").get("rules", [])
        marks[run_id] = {mark for mark in RULED if any(mark in _marks(one) for one in given)}
        for document in given:
            if given.count(document) > 1:
                yield f"run {run_id} has the rule {document} {given.count(document)} times"
            if not any(
                document == one and rule.matches(workflow_type, task_queue) for rule, one in rules
            ) and document not in had.get(first_run_id, []):
                yield f"run {run_id} of {workflow_type} has the rule {document}, which does not match it"
        if lost := [one for one in had.get(first_run_id, []) if one not in given]:
            yield f"run {run_id} has lost the rules {lost} of the run before it"
        had[first_run_id] = given
    text = "SELECT alert_id, run_id, mark, deliveries FROM alerts"
    for alert_id, run_id, mark, deliveries in fetch(connection, text):
        if mark not in RULED:
            continue
        if mark not in marks.get(run_id, ()):
            yield f"alert {alert_id} {mark} is that of a rule, and run {run_id} has none that says so"
        if orjson.loads(deliveries or "{}").keys() != CHANNELS[mark]:
            yield f"alert {alert_id} {mark} goes to {deliveries}, and its rule says {CHANNELS[mark]}"


def _marks(document: dict[str, Any]) -> set[str]:
    return {f"{share * 100:g}%" for share in document.get("at", ())} | {
        f"-{lead:g}s" for lead in document.get("before", ())
    }
