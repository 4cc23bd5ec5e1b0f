"""What must hold after the import. Each check is a function of the evidence alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from outlast.demo.evidence import Evidence, RunEvidence
from outlast.demo.importing import FLAKY_FAILURES
from outlast_workflow.primitives.enums import RunStatus
from outlast_workflow.primitives.times import to_datetime


@dataclass(frozen=True, slots=True)
class Check:
    """What was checked, what was found, and what is wrong (empty: nothing)."""

    name: str
    found: str
    wrong: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the check holds."""
        return not self.wrong


def check_all(evidence: Evidence, *, killed: bool) -> list[Check]:
    """Check everything.

    Args:
        evidence: What is left of the import.
        killed: Whether a worker was to be killed.
    """
    checks = [*_ALWAYS, *(_AFTER_A_KILL if killed else ())]
    return [check(evidence) for check in checks]


# --- what arrived ---------------------------------------------------------------------------------------------------


def _rows(evidence: Evidence) -> Check:
    orders, there, summary = evidence.stage.orders, evidence.totals.rows, evidence.summary
    wrong = _differing("rows in the warehouse", there, orders.valid)
    wrong += _differing("rows in the workflow's result", summary.loaded, orders.valid)
    wrong += _differing("checksum as validated", summary.sha256, orders.sha256)
    return Check("every valid row arrived once", f"{there:,} rows of {orders.rows:,}", wrong)


def _sums(evidence: Evidence) -> Check:
    expected, there = evidence.stage.orders.cents, evidence.totals.cents
    wrong = _differing("sums in the warehouse", there, expected)
    wrong += _differing("sums in the workflow's result", evidence.summary.cents, expected)
    total = " · ".join(f"{amount / 100:,.2f} {currency}" for currency, amount in there.items())
    return Check("the sums match to the cent", total, wrong)


def _invalid(evidence: Evidence) -> Check:
    expected = evidence.stage.orders.invalid
    wrong = _differing("rejected rows", evidence.rejected, expected)
    wrong += _differing("rejected rows in the workflow's result", evidence.summary.rejected, len(expected))
    return Check(
        "every invalid row was reported", f"{len(evidence.rejected)} rows, each with its reason", wrong
    )


# --- what was done once ---------------------------------------------------------------------------------------------


def _not_redone(evidence: Evidence) -> Check:
    executions = Counter(line.chunk for line in evidence.ledger)
    killed = evidence.stage.killed
    may_run_twice = killed.chunk if killed is not None else None
    wrong = _differing("chunks", sorted(executions), list(range(1, evidence.stage.chunks + 1)))
    for chunk, times in sorted(executions.items()):
        if times > (2 if chunk == may_run_twice else 1):
            wrong += (f"chunk {chunk} was executed {times} times",)
    size = evidence.stage.job.chunk_rows
    again = sorted({1 + (row - 1) // size for row in evidence.written_again} - {may_run_twice})
    if again:
        wrong += (f"rows of chunks {again} were written more than once",)
    once = sum(1 for times in executions.values() if times == 1)
    return Check(
        "completed work was not redone", f"{once} of {len(executions)} chunks ran exactly once", wrong
    )


def _taken_over(evidence: Evidence) -> Check:
    name = "the interrupted chunk continued"
    killed = evidence.stage.killed
    if killed is None:
        return Check(
            name, "nothing", ("no worker was killed: the import was over before half of it was observed",)
        )
    lines = [line for line in evidence.ledger if line.chunk == killed.chunk]
    after = [line for line in lines if line.worker_pid != killed.pid]
    if not after:
        unfinished = not lines or lines[-1].finished_at is None
        found = f"it did not have to: chunk {killed.chunk} had just been finished"
        return Check(name, found, (f"no worker finished chunk {killed.chunk}",) if unfinished else ())
    second = after[-1]
    wrong: tuple[str, ...] = (
        () if second.finished_at is not None else (f"chunk {second.chunk} was not finished",)
    )
    if killed.heartbeat_row is not None and second.from_row <= killed.heartbeat_row:
        wrong += (
            f"it started at row {second.from_row:,}, although a heartbeat had reported row {killed.heartbeat_row:,}",
        )
    again = killed.reached_row - second.from_row + 1
    found = f"at row {second.from_row:,}, {second.begun_at - killed.at:.1f} s after the kill; {again:,} rows again"
    return Check(name, found, wrong)


def _uncharged(evidence: Evidence) -> Check:
    attempts = Counter(line.attempt for line in evidence.ledger)
    recorded = Counter(attempt for name, attempt in _completed(evidence) if name == "load_chunk")
    wrong: tuple[str, ...] = (
        () if set(attempts) == {1} else (f"activities ran as attempts {sorted(attempts)}",)
    )
    wrong += () if set(recorded) == {1} else (f"history has attempts {sorted(recorded)}",)
    return Check("the rescue was not counted as an attempt", "each chunk's result says attempt 1", wrong)


# --- what was promised ----------------------------------------------------------------------------------------------


def _chain(evidence: Evidence) -> Check:
    statuses = [run.description.run.status for run in evidence.runs]
    expected = [RunStatus.CONTINUED_AS_NEW] * (evidence.stage.runs - 1) + [RunStatus.COMPLETED]
    wrong = _differing("runs", [status.value for status in statuses], [status.value for status in expected])
    found = f"{len(statuses)} runs, {sum(len(run.events) for run in evidence.runs)} events"
    return Check("it continued as new between batches", found, wrong)


def _execution_deadline(evidence: Evidence) -> Check:
    started = [run.started.get("execution_deadline_at") for run in evidence.runs]
    described = [run.description.run.execution_deadline_at for run in evidence.runs]
    seen = {datetime.fromisoformat(at) if at is not None else None for at in started} | set(described)
    wrong: tuple[str, ...] = ()
    if len(seen) != 1:
        wrong += (f"{len(seen)} different ones: {', '.join(sorted(map(str, seen)))}",)
    timeout = evidence.stage.execution_timeout
    first = evidence.runs[0].description
    wrong += _differing("execution timeout", first.execution_timeout_seconds, timeout)
    wrong += _seconds_apart("the first start", first.run.created_at, described[0], timeout)
    found = f"{started[0]} in each of {len(started)} WorkflowStarted, and in describe"
    return Check("the execution deadline never moved", found, wrong)


def _run_deadlines(evidence: Evidence) -> Check:
    timeout = evidence.stage.run_timeout
    wrong: tuple[str, ...] = ()
    deadlines: list[datetime] = []
    for number, run in enumerate(evidence.runs, 1):
        deadline = run.description.run.run_deadline_at
        wrong += _differing(f"run {number}: run deadline in WorkflowStarted", _iso(run), deadline)
        wrong += _seconds_apart(
            f"the start of run {number}", run.description.run.created_at, deadline, timeout
        )
        if deadline is not None:
            deadlines.append(deadline)
    if sorted(set(deadlines)) != deadlines:
        wrong += ("they do not increase from run to run",)
    found = " · ".join(f"{deadline:%H:%M:%S}" for deadline in deadlines)
    return Check("each run had a fresh run deadline", found, wrong)


def _flaky(evidence: Evidence) -> Check:
    attempts = [attempt for name, attempt in _completed(evidence) if name == "fetch_rates"]
    failures = [
        failure.message
        for run in evidence.runs
        for failure in run.description.failures
        if failure.exception_class == "RatesUnavailable"
    ]
    wrong = _differing("attempts", attempts, [FLAKY_FAILURES + 1])
    wrong += _differing("failures in describe", len(failures), FLAKY_FAILURES)
    found = f"fetch_rates: failed {len(failures)} times, succeeded in attempt {', '.join(map(str, attempts))}"
    return Check("the flaky step was retried, and it shows", found, wrong)


def _slept(evidence: Evidence) -> Check:
    fired = [event for run in evidence.runs for event in run.of_type("TimerFired")]
    wrong = _differing("timers fired", len(fired), len(evidence.runs) - 1)
    late: list[float] = []
    for event in fired:
        late.append((event.recorded_at - to_datetime(event.payload["fire_at"])).total_seconds())
        if late[-1] < 0:
            wrong += (f"a timer fired {-late[-1]:.3f} s early",)
    found = f"{len(fired)} timers, the latest {max(late, default=0) * 1000:.0f} ms late"
    return Check("the durable sleeps were slept", found, wrong)


def _nothing_open(evidence: Evidence) -> Check:
    wrong: tuple[str, ...] = ()
    for number, run in enumerate(evidence.runs, 1):
        started = {
            event.payload["command_id"] for event in run.of_type("ActivityScheduled", "TimerScheduled")
        }
        ended = {event.payload["command_id"] for event in run.of_type("ActivityCompleted", "TimerFired")}
        seen = run.description
        if started != ended or seen.pending_activities or seen.pending_timers:
            wrong += (f"run {number}: commands {sorted(started - ended)} have no end",)
        if seen.attention or run.of_type("WorkflowTaskFailed"):
            wrong += (f"run {number} needed attention, or a workflow task of it failed",)
    return Check(
        "everything that was started has ended",
        "each activity, each timer, and no workflow task failed",
        wrong,
    )


def _invariants(evidence: Evidence) -> Check:
    name = "the database keeps every invariant"
    if evidence.violations is None:
        return Check(name, "skipped: this database holds many other workflows")
    return Check(name, "outlast.testing.check_database found nothing", tuple(evidence.violations))


_ALWAYS: tuple[Callable[[Evidence], Check], ...] = (
    _rows,
    _sums,
    _invalid,
    _not_redone,
    _flaky,
    _slept,
    _chain,
    _execution_deadline,
    _run_deadlines,
    _nothing_open,
    _invariants,
)
_AFTER_A_KILL = (_taken_over, _uncharged)


# --- helpers --------------------------------------------------------------------------------------------------------


def _completed(evidence: Evidence) -> Iterator[tuple[str, int]]:
    """Yield name and attempt of each activity that has a result."""
    for run in evidence.runs:
        names = {
            e.payload["command_id"]: e.payload["activity_type"] for e in run.of_type("ActivityScheduled")
        }
        for event in run.of_type("ActivityCompleted"):
            yield names[event.payload["command_id"]], event.payload["attempt"]


def _iso(run: RunEvidence) -> datetime | None:
    text = run.started.get("run_deadline_at")
    return datetime.fromisoformat(text) if text is not None else None


def _differing(what: str, found: object, expected: object) -> tuple[str, ...]:
    return () if found == expected else (f"{what}: {found}, not {expected}",)


def _seconds_apart(what: str, start: datetime, deadline: datetime | None, timeout: float) -> tuple[str, ...]:
    if deadline is None:
        return (f"no deadline after {what}",)
    apart = (deadline - start).total_seconds()
    # Durations are rounded up to the microsecond.
    return () if 0 <= apart - timeout <= 0.001 else (f"{apart:.6f} s after {what}, not {timeout}",)
