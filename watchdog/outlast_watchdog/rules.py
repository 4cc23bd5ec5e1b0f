"""Rules of operators: which workflows get alerts that nobody gave them when they were started.

A watchdog that has rules walks over the open runs by their ids and adds the policy of each rule that matches to the
rows of those runs. Nothing is done when a run is started, and nothing for one that has ended before the walk comes by.
Ids rise with time, but not quite: a transaction may commit later than one with a greater id. So each pass begins five
seconds back, and once a minute it begins ten minutes back. The first walk begins with the oldest open run.

Whether a run has the policy of a rule is in its row, which the change looks at under its lock. So any number of
watchdogs may have the same rules, and what a run has from a rule goes with its chain.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Never

from sqlalchemy import Connection

from outlast_store.database.sql_text import fetch
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema.ids import first_id_at
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.run_deadlines import deadline_passed
from outlast_watchdog.watched import WatchedRuntime
from outlast_workflow.errors import InvalidOptionError, StoreError
from outlast_workflow.options.alerts import DELIVERY, AlertPolicy, alerts_of_workflow, read_stored, with_rule
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.validation import validate_name
from outlast_workflow.primitives.value_object import Value

logger = logging.getLogger("outlast.watchdog")

MOST_RULES: Final = 20
LOOKS_BACK_US: Final = 5_000_000
LOOKS_FAR_BACK_US: Final = 600_000_000
FAR_EVERY_S: Final = 60.0
RUNS_IN_A_READ: Final = 1000
READS_IN_A_PASS: Final = 5
RUNS_IN_A_CHANGE: Final = 100

_OPEN_RUNS: Final = (
    "SELECT run_id, workflow_type, task_queue, alerts FROM workflow_runs "
    "WHERE closed_at IS NULL AND run_id > ? ORDER BY run_id LIMIT ?"
)
_CREATED_AT: Final = "SELECT created_at FROM workflow_runs WHERE run_id = ?"


class AlertRule(Value):
    """Which workflows get which alerts, whoever starts them.

    Args:
        policy: When they are told of, and to which channels.
        workflow_type: Only workflows of this type; ``*`` stands for any text: ``Order*``.
        task_queue: Only workflows of this task queue; ``*`` stands for any text.

    Raises:
        InvalidOptionError: Neither a type nor a task queue is named, or the policy is not one of workflows.
    """

    __slots__ = ("policy", "task_queue", "workflow_type")
    fields = ("policy", "workflow_type", "task_queue")

    policy: AlertPolicy
    workflow_type: str | None
    task_queue: str | None

    def __init__(
        self,
        *,
        policy: AlertPolicy,
        workflow_type: str | None = None,
        task_queue: str | None = None,
        **unknown: Never,
    ) -> None:
        if unknown:
            refuse_unknown("AlertRule", unknown, self.fields)
        if workflow_type is None and task_queue is None:
            raise InvalidOptionError(
                'a rule of alerts names workflow_type or task_queue: "*" means all', field="workflow_type"
            )
        for what, pattern in (("workflow type", workflow_type), ("task queue", task_queue)):
            if pattern is not None:
                validate_name(what, pattern)
        self._set(
            {
                "policy": alerts_of_workflow(policy),
                "workflow_type": workflow_type,
                "task_queue": task_queue,
            }
        )

    def matches(self, workflow_type: str, task_queue: str) -> bool:
        """Return whether a run gets its alerts; a delivery of alerts never does.

        Args:
            workflow_type: The run's type.
            task_queue: Its task queue.
        """
        if workflow_type == DELIVERY:
            return False
        return _fits(self.workflow_type, workflow_type) and _fits(self.task_queue, task_queue)


def _fits(pattern: str | None, name: str) -> bool:
    # Only the asterisk means anything.
    return pattern is None or fnmatchcase(name, pattern.replace("[", "[[]").replace("?", "[?]"))


def checked_rules(rules: Sequence[Any]) -> tuple[AlertRule, ...]:
    """Return the rules of a watchdog.

    Raises:
        InvalidOptionError: One is none, or there are too many.
    """
    found = tuple(rules)
    for rule in found:
        if not isinstance(rule, AlertRule):
            raise InvalidOptionError(f"rules must be AlertRules, not {type(rule).__name__}", field="rules")
    if len(found) > MOST_RULES:
        raise InvalidOptionError(
            f"a watchdog has at most {MOST_RULES} rules, not {len(found)}", field="rules"
        )
    return found


class ApplyRules(BaseChange):
    """Add the policies of the rules that match to the rows of open runs that do not have them.

    Args:
        run_ids: The runs.
        rules: The rules.
    """

    # The owner of a run may have an old state of it cached.
    needs_locks = True

    def __init__(self, run_ids: Sequence[str], rules: Sequence[AlertRule]) -> None:
        self.runs = tuple(sorted(run_ids))
        self.rules = rules
        self.weight = 512 * (1 + len(self.runs))

    def apply(self, batch: Batch) -> int:
        """Return how many runs have got a policy; none where another watchdog came first."""
        changed = 0
        for run_id in self.runs:
            run = batch.run(run_id)
            if run is None or not run.is_open or deadline_passed(run, batch.now) is not None:
                continue
            text = run.alerts
            if text is not None and read_stored(text) is None:
                continue
            for rule in self.rules:
                if rule.matches(run.workflow_type, run.task_queue):
                    text = with_rule(text, rule.policy, _since(batch, run)) or text
            if text != run.alerts:
                run.alerts = text
                # Whoever has the row cached finds by this that it has changed.
                run.inbox += 1
                changed += 1
        return changed


def _since(batch: Batch, run: RunRow) -> int:
    """Return when the chain of a run began, in microseconds; when the run did where its first one was deleted."""
    if run.run_id == run.first_run_id:
        return run.created_at
    found = batch.scan(_CREATED_AT, (run.first_run_id,))
    return int(found[0][0]) if found else run.created_at


Applies = Callable[[Sequence[ApplyRules]], Awaitable[list[Any]]]
"""Hands changes to the journal, and returns the value or error of each."""


class RuleWalk:
    """A watchdog's walk over the open runs.

    Args:
        runtime: Database, journal and clock.
        rules: The rules.
    """

    def __init__(self, runtime: WatchedRuntime, rules: Sequence[AlertRule]) -> None:
        self._runtime = runtime
        self._rules = rules
        self._seen = ""
        """The newest run that it has seen."""
        self._at = ""
        """Where the walk is."""
        self._under_way = True
        self._far_at: float | None = None
        """When it last looked far back."""

    async def look(self, apply: Applies, *, whole: bool = False) -> tuple[int, bool]:
        """Walk on; return how many runs got alerts, and whether there are more to look at.

        Args:
            apply: Hands changes to the journal.
            whole: Whether to walk to the end, however far that is.

        Raises:
            StoreError: The database cannot be read or written.
        """
        clock = self._runtime.environment.clock
        now, monotonic = clock.now(), clock.monotonic()
        if not self._under_way:
            self._under_way = True
            far = self._far_at is None or monotonic - self._far_at >= FAR_EVERY_S
            if far:
                self._far_at = monotonic
            self._at = min(self._seen, first_id_at(now - (LOOKS_FAR_BACK_US if far else LOOKS_BACK_US)))
        given = reads = 0
        while whole or reads < READS_IN_A_PASS:
            reads += 1
            rows = await self._runtime.read(_read_open, self._at, RUNS_IN_A_READ)
            wanting = [row[0] for row in rows if self._wants(*row[1:])]
            starts = range(0, len(wanting), RUNS_IN_A_CHANGE)
            changes = [ApplyRules(wanting[start : start + RUNS_IN_A_CHANGE], self._rules) for start in starts]
            for outcome in await apply(changes):
                if isinstance(outcome, StoreError):
                    raise outcome
                if isinstance(outcome, Exception):
                    logger.error("the rules of alerts could not be applied to some runs", exc_info=outcome)
                else:
                    given += outcome
            if rows:
                self._at = rows[-1][0]
                self._seen = max(self._seen, self._at)
            if len(rows) < RUNS_IN_A_READ:
                self._under_way = False
                return given, False
        return given, True

    def _wants(self, workflow_type: str, task_queue: str, text: str | None) -> bool:
        stored = read_stored(text) if text is not None else None
        if text is not None and stored is None:
            # Nobody can read it: it arms nothing, and nothing can be added to it.
            return False
        known = () if stored is None else stored.policies
        return any(
            rule.matches(workflow_type, task_queue) and rule.policy not in known for rule in self._rules
        )


def _read_open(connection: Connection, after: str, limit: int) -> list[tuple[str, str, str, str | None]]:
    return [(row[0], row[1], row[2], row[3]) for row in fetch(connection, _OPEN_RUNS, (after, limit))]
