"""Afterwards: do the database, the ledger and the world outside agree, and does every history replay?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Connection
from tests.chaos.ledger import Ledger
from tests.chaos.load import ends
from tests.chaos.programs import HANG_S, WORKFLOWS, trace
from tests.chaos.record import Record, read

from outlast.testing import Replayer, check_database
from outlast.testing.prefix_replay import check_every_prefix
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.declare.definitions import definition_of
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.primitives.times import from_iso, microseconds
from outlast_workflow.run.machine import WorkflowMachine

Entry = tuple[str, str, Any]
Effect = tuple[str, int, int]

MOST_EVENTS_BY_PREFIX = 60
DEFINITIONS = {definition.name: definition for definition in map(definition_of, WORKFLOWS)}


class Verdict:
    """What was found; ``wrong`` is empty where nothing was lost and nothing was done twice."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.acknowledged: Counter[str] = Counter()
        """Entries of the ledger, by what was acknowledged."""
        self.runs = self.replayed = self.timed_out = self.effects = self.repeated = 0
        self.admitted = 0
        """How often a queue admitted a run, where all went through queues."""


def judge(connection: Connection, ledger: Ledger, effects: Path) -> Verdict:
    """Compare all of it."""
    broken = check_database(connection)
    verdict = weigh(read(connection), ledger.entries(), trace(effects))
    verdict.wrong += broken
    return verdict


def weigh(record: Record, entries: Sequence[Entry], effects: Sequence[Effect]) -> Verdict:
    """Compare what the database says with the ledger and the effects, and with itself."""
    verdict = Verdict()
    verdict.runs = len(record.runs)
    verdict.acknowledged.update(what for what, _, _ in entries)
    verdict.wrong += _check_ends(record, entries)
    verdict.wrong += _check_signals(record, entries)
    verdict.wrong += _check_updates(record, entries)
    verdict.wrong += _check_cancels(record, entries)
    verdict.wrong += _check_answers(record, entries)
    verdict.wrong += _check_deadlines(record, verdict)
    verdict.wrong += _check_effects(record, effects, verdict)
    verdict.wrong += _check_replay(record, verdict)
    return verdict


def _check_ends(record: Record, entries: Sequence[Entry]) -> Iterator[str]:
    """What was started is there, once; it has ended as it may, and as its client was told."""
    ended: dict[str, list[Any]] = {}
    for workflow_id, end in record.ends():
        if workflow_id in ended:
            yield f"{workflow_id} has two chains: it was started twice"
        ended[workflow_id] = end
    for run in record.runs.values():
        if run.closed_at is None:
            yield f"run {run.run_id} of {run.workflow_id} has never ended"
    for what, workflow_id, value in entries:
        end = ended.get(workflow_id, [])
        if what == "started" and not end:
            yield f"{workflow_id} was acknowledged and is not there"
        elif what == "started" and end not in ends(workflow_id):
            yield f"{workflow_id} ended as {end}, not {ends(workflow_id)}"
        elif what == "result" and end != value:
            yield f"{workflow_id} was said to have ended as {value}, and it ended as {end}"
        elif what == "terminated" and end[:1] != ["terminated"]:
            yield f"the end of {workflow_id} was acknowledged, and it ended as {end}"


def _check_signals(record: Record, entries: Sequence[Entry]) -> Iterator[str]:
    received = Counter(
        (run.workflow_id, event.payload["input"][0]) for run, event in record.events("SignalReceived")
    )
    for what, workflow_id, number in entries:
        if what == "signalled" and (times := received[workflow_id, number]) != 1:
            yield f"signal {number} of {workflow_id} was acknowledged and is there {times} times"


def _check_updates(record: Record, entries: Sequence[Entry]) -> Iterator[str]:
    """An update that was answered was accepted and carried out once in its chain, with that answer; queries know it."""
    accepted: dict[str, list[str]] = defaultdict(list)
    answers: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for run, event in record.events("UpdateAccepted", "UpdateCompleted"):
        key = event.payload["update_id"]
        if event.kind == "UpdateAccepted":
            accepted[run.workflow_id].append(key)
        else:
            answers[run.workflow_id, key].append(event.payload.get("result"))
    for what, workflow_id, value in entries:
        if what == "answered":
            key, told = value
            times, found = accepted[workflow_id].count(key), answers[workflow_id, key]
            if times != 1 or len(found) != 1:
                yield (
                    f"update {key} of {workflow_id} was answered, and is accepted {times} times "
                    f"and completed {len(found)} times"
                )
            elif found != [told]:
                yield f"update {key} of {workflow_id} was answered with {told}, its history says {found[0]}"
        elif what == "queried":
            number, seen = value
            if number not in seen:
                yield f"a query of {workflow_id} answered {seen} after update {number} had been answered"
            if Counter(f"u-{one}" for one in seen) - Counter(accepted[workflow_id]):
                yield f"a query of {workflow_id} answered {seen}, but accepted were {accepted[workflow_id]}"


def _check_cancels(record: Record, entries: Sequence[Entry]) -> Iterator[str]:
    asked = Counter(run.workflow_id for run, _ in record.events("WorkflowCancelRequested"))
    for what, workflow_id, _ in entries:
        if what == "cancelled" and asked[workflow_id] != 1:
            yield f"a cancel request of {workflow_id} was acknowledged and is there {asked[workflow_id]} times"


def _check_answers(record: Record, entries: Sequence[Entry]) -> Iterator[str]:
    """An answer from outside that was acknowledged ended that very attempt, and none ended it twice."""
    completed = {
        (run.run_id, event.payload["command_id"]): event.payload["result"]
        for run, event in record.events("ActivityCompleted")
    }
    outcomes = {(one.run_id, one.activity_id, one.attempt): one.outcome for one in record.attempts}
    told: Counter[tuple[str, int, int]] = Counter()
    for what, run_id, value in entries:
        if what not in ("completed", "failed"):
            continue
        activity_id, attempt = value
        where = f"attempt {attempt} of activity {activity_id} of run {run_id}"
        told[run_id, activity_id, attempt] += 1
        if told[run_id, activity_id, attempt] > 1:
            yield f"{where} was ended from outside more than once"
        elif what == "completed" and completed.get((run_id, activity_id)) != ["yes", attempt]:
            yield f"{where} was completed from outside, and its result is not there"
        elif what == "failed" and outcomes.get((run_id, activity_id, attempt)) != "failed":
            yield f"{where} was failed from outside, and that is not there"


def _check_deadlines(record: Record, verdict: Verdict) -> Iterator[str]:
    """What timed out did not do so before its time, by the history's own stamps; what hangs came back by that alone."""
    for run, event in record.events("WorkflowTimedOut"):
        verdict.timed_out += 1
        timeout_s = record.histories[run.run_id][0].payload.get("run_timeout_seconds", float("inf"))
        took = event.at - run.created_at  # when its client asked for it; its first event may be stamped later
        if took < timeout_s * 1_000_000:
            yield f"run {run.run_id} timed out after {took} µs, its timeout is {timeout_s} s"
    for run, event in record.events("ActivityTimedOut"):
        verdict.timed_out += 1
        if event.at < from_iso(event.payload["deadline_at"]):
            command_id = event.payload["command_id"]
            yield f"activity {command_id} of run {run.run_id} timed out before {event.payload['deadline_at']}"
    hanging = {(row.run_id, row.activity_id): row for row in record.activities if row.activity_type == "hang"}
    for row in hanging.values():
        if row.status == "completed":
            yield f"activity {row.activity_id} of run {row.run_id} is completed, though it hangs"
    for attempt in record.attempts:
        took = attempt.ended_at - (attempt.started_at or attempt.ended_at)
        hung = (attempt.run_id, attempt.activity_id) in hanging and attempt.timeout_kind == "start_to_close"
        if hung and took < microseconds(HANG_S):
            where = f"attempt {attempt.attempt} of activity {attempt.activity_id} of run {attempt.run_id}"
            yield f"{where} timed out after {took} µs, its timeout is {HANG_S} s"


def _check_effects(record: Record, effects: Sequence[Effect], verdict: Verdict) -> Iterator[str]:
    """A completed activity had its effect by the attempt that completed it, and by none claimed later."""
    seen: dict[tuple[str, int], list[int]] = defaultdict(list)
    for run_id, activity_id, attempt in effects:
        verdict.effects += 1
        seen[run_id, activity_id].append(attempt)
    tokens = {
        (run.run_id, event.payload["command_id"]): event.payload["result"][1]
        for run, event in record.events("ActivityCompleted")
    }
    for row in record.activities:
        key = row.run_id, row.activity_id
        attempts = seen.pop(key, [])
        verdict.repeated += max(len(attempts) - 1, 0)
        where = f"activity {row.activity_id} of run {row.run_id}"
        if row.status == "completed" and row.attempt not in attempts:
            yield f"{where} is completed by attempt {row.attempt}, which nobody ran: {attempts}"
        if row.status == "completed" and tokens.get(key) != row.attempt:
            yield f"{where} is completed by attempt {row.attempt}, with the result of attempt {tokens.get(key)}"
        if attempts and max(attempts) > row.attempt:
            yield f"{where} was run by attempt {max(attempts)} after it had ended with {row.attempt}"
        if len(set(attempts)) != len(attempts):
            yield f"{where}: one claim was run twice: {attempts}"
    for key in seen:
        yield f"an effect of activity {key}, which no transaction ever asked for"


def _check_replay(record: Record, verdict: Verdict) -> Iterator[str]:
    """Every closed run's code does again what its history records; short histories of one shape once by prefix, too."""
    replayer = Replayer(workflows=WORKFLOWS)
    shapes: set[tuple[str, ...]] = set()
    for run in record.runs.values():
        if run.closed_at is None:
            continue
        history = record.histories[run.run_id]
        verdict.replayed += 1
        rows = [(event.seq, event.kind, orjson.dumps(event.payload)) for event in history]
        error, _ = replayer.replay_rows(DEFINITIONS[run.workflow_type], rows, run.run_id)
        if error is not None:
            yield f"run {run.run_id} of {run.workflow_id} does not replay: {type(error).__name__}: {error}"
            continue
        shape = (run.workflow_type, *[event.kind for event in history])
        if shape not in shapes and len(rows) <= MOST_EVENTS_BY_PREFIX and "WorkflowTaskFailed" not in shape:
            shapes.add(shape)
            for what in check_every_prefix(_machines(run.workflow_type, run.run_id), rows):
                yield f"run {run.run_id} of {run.workflow_id}: {what}"


def _machines(workflow_type: str, run_id: str) -> Callable[[], WorkflowMachine]:
    def make() -> WorkflowMachine:
        return WorkflowMachine(
            DEFINITIONS[workflow_type], run_id, converter=DataConverter(), limits=StructuralLimits()
        )

    return make
