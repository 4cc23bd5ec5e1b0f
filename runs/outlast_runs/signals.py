"""Signals: how they enter histories from clients, with a start, and from other workflows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import orjson

from outlast_runs.run_change import RunChange
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.schema.rows import RequestRow, RunRow
from outlast_store.schema.search_index import sortable
from outlast_store.transitions import requests
from outlast_store.transitions.requests import DELIVERED
from outlast_store.transitions.run_deadlines import deadline_passed
from outlast_store.transitions.run_ends import Ended, open_run, time_out_run
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import failure_of
from outlast_workflow.errors import (
    InvalidOptionError,
    RunNotFoundError,
    StructuralLimitError,
    WorkflowClosedError,
    WorkflowNotFoundError,
)
from outlast_workflow.history.events import (
    Event,
    ExternalSignalDelivered,
    ExternalSignalFailed,
    ExternalSignalRequested,
    SignalReceived,
)
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.search_attributes import FORK_ATTRIBUTE

_PLAIN = DataConverter()
_FORKS: Final = (
    "SELECT DISTINCT r.workflow_id FROM search_attributes s JOIN workflow_runs r ON r.run_id = s.run_id "
    "WHERE s.name = ? AND s.value = ?"
)

MOST_SENT: Final = 10_000
"""How many signals one transaction sends at most, forks included."""


def deliver(batch: Batch, run: RunRow, signal: SignalReceived, limits: StructuralLimits) -> bool:
    """Append a signal to an open run and wake it; return ``False`` if the chain has a signal of the same key already.

    Args:
        batch: The batch.
        run: The run, open.
        signal: The signal.
        limits: How many signals may wait.

    Raises:
        StructuralLimitError: Too many signals wait already; only this one is refused.
    """
    if was_delivered(batch, run, signal):
        return False
    # Each signal is an event, so a shorter history cannot have that many waiting.
    most = limits.unhandled_signals
    if most and (run.last_seq + 1) * 5 >= most * 4:
        waiting = requests.unhandled_signals(batch, run) + 1
        limits.check_next("unhandled_signals", waiting, whose=run.workflow_id)
    return _append(batch, run, signal)


def _append(batch: Batch, run: RunRow, signal: SignalReceived) -> bool:
    if signal.request_id is not None and not requests.add(batch, _row(batch, run, signal, signal.request_id)):
        return False
    batch.append(run, signal)
    requests.end_start_delay(batch, run)
    run.wake(batch.now)
    return True


def was_delivered(batch: Batch, run: RunRow, signal: SignalReceived) -> bool:
    """Return whether a signal of the same key has reached the chain before."""
    if signal.request_id is None:
        return False
    return requests.find(batch, (run.first_run_id, "signal", signal.request_id)) is not None


def _row(batch: Batch, run: RunRow, signal: SignalReceived, request_id: str) -> RequestRow:
    return RequestRow(
        first_run_id=run.first_run_id,
        kind="signal",
        request_id=request_id,
        run_id=run.run_id,
        name=signal.name,
        # The input is in the history.
        input="null",
        state=DELIVERED,
        answer=None,
        answer_seq=run.last_seq + 1,
        created_at=batch.now,
        expires_at=None,
    )


def signal_other(
    batch: Batch, run: RunRow, command: ExternalSignalRequested, limits: StructuralLimits
) -> None:
    """Deliver a signal from one workflow to another in the sender's change, and append the outcome to the sender.

    Args:
        batch: The batch.
        run: The sender's run.
        command: The signal and its target.
        limits: How many signals may wait in the target.
    """
    signal = SignalReceived(command.name, command.input, headers=command.headers)
    answer: Event
    try:
        deliver(batch, find_target(batch, command.workflow_id, command.run_id), signal, limits)
        answer = ExternalSignalDelivered(command.command_id)
    except (WorkflowNotFoundError, WorkflowClosedError, StructuralLimitError) as error:
        answer = ExternalSignalFailed(command.command_id, failure_of(error, _PLAIN))
    if run.is_open:
        batch.append(run, answer)
        run.wake(batch.now)


def find_target(batch: Batch, workflow_id: str, run_id: str | None) -> RunRow:
    """Lock the open run that takes a message for a workflow, which a change learns of only while it is applied.

    Args:
        batch: The batch.
        workflow_id: The workflow.
        run_id: One of its runs, or ``None`` for the current one. The runs that follow it are followed.

    Raises:
        WorkflowNotFoundError: There is no such workflow, or no such run of it.
        WorkflowClosedError: It has ended.
    """
    if run_id is None:
        instance = batch.lock_instance(workflow_id)
        if instance is None:
            raise WorkflowNotFoundError(workflow_id)
        run_id = instance.current_run_id
    while True:
        batch.more_runs([run_id])
        run = batch.run(run_id)
        if run is None or run.workflow_id != workflow_id:
            raise RunNotFoundError(run_id, workflow_id=workflow_id)
        found = open_run(batch, run)
        if not isinstance(found, Ended):
            return found
        if found.next_run_id is None:
            raise WorkflowClosedError(workflow_id, run_id=run_id, status=found.status)
        run_id = found.next_run_id


class SendSignal(RunChange):
    """Send a signal to a run, once for each key."""

    def __init__(
        self, workflow_id: str, run_id: str, signal: SignalReceived, limits: StructuralLimits
    ) -> None:
        super().__init__(workflow_id, run_id)
        self.signal = signal
        self.limits = limits
        self.weight = 512 + len(signal.input.json)

    def apply(self, batch: Batch) -> Ended | None:
        """Append the signal; return how the run ended where it can take none."""
        known = batch.run(self.run_id)
        if known is not None and was_delivered(batch, known, self.signal):
            return None
        run = self.open_run(batch)
        if isinstance(run, Ended):
            return run
        deliver(batch, run, self.signal, self.limits)
        return None


class SendSignals(BaseChange):
    """Send signals to the current runs of several workflows: all of them, or none.

    Args:
        signals: The workflow that each signal is for, and the signal.
        current: The runs that were current a moment ago, by workflow, so that they are locked in order.
        limits: How many signals may wait in a run.
        to_forks: Whether the forks of those workflows get the signals too, and the forks of these.
    """

    needs_locks = True

    def __init__(
        self,
        signals: Sequence[tuple[str, SignalReceived]],
        current: Mapping[str, str],
        limits: StructuralLimits,
        *,
        to_forks: bool = False,
    ) -> None:
        self.signals = signals
        self.instances = tuple(dict.fromkeys(workflow_id for workflow_id, _ in signals))
        self.runs = tuple(current.values())
        self.limits = limits
        self.to_forks = to_forks
        self.weight = sum(512 + len(signal.input.json) for _, signal in signals)

    def apply(self, batch: Batch) -> list[str] | None:
        """Append the signals, in order; return who got them, or ``None`` if a deadline was due first: ask again.

        Raises:
            WorkflowNotFoundError: There is no such workflow; nothing was written.
            WorkflowClosedError: A workflow has ended; nothing was written.
            StructuralLimitError: Too many signals would wait in one; nothing was written.
        """
        targets: dict[str, RunRow] = {}
        for workflow_id in sorted(self.instances):
            instance = batch.instance(workflow_id)
            if instance is None:
                raise WorkflowNotFoundError(workflow_id)
            targets[workflow_id] = self._run(batch, instance.current_run_id)
        family = {workflow_id: [run] for workflow_id, run in targets.items()}
        if self.to_forks:
            for workflow_id, runs in family.items():
                runs += self._forks(batch, workflow_id)
            if (many := sum(len(family[workflow_id]) for workflow_id, _ in self.signals)) > MOST_SENT:
                raise InvalidOptionError(
                    f"with all forks these are {many:,} signals, and {MOST_SENT:,} are sent together at most: send "
                    "several lists",
                    field="to_forks",
                )
        sent = [
            (run, signal)
            for workflow_id, signal in self.signals
            for run in family[workflow_id]
            if not was_delivered(batch, run, signal)
        ]
        late = [run for run, _ in sent if run.is_open and deadline_passed(run, batch.now) is not None]
        for run, _ in sent:
            if not run.is_open:
                raise WorkflowClosedError(run.workflow_id, run_id=run.run_id, status=run.status)
        if not late:
            self._check_room(batch, [run for run, _ in sent])
            for run, signal in sent:
                _append(batch, run, signal)
            return list(dict.fromkeys(run.workflow_id for runs in family.values() for run in runs))
        # A change that has written does not raise, so the caller asks again and hears of the end then.
        for run in {run.run_id: run for run in late}.values():
            passed = deadline_passed(run, batch.now)
            assert passed is not None
            time_out_run(batch, run, passed)
        return None

    def _forks(self, batch: Batch, workflow_id: str) -> list[RunRow]:
        """Return the open runs of a workflow's forks, and of theirs."""
        found: dict[str, RunRow] = {}
        seen, waiting = {workflow_id}, [workflow_id]
        while waiting:
            original = waiting.pop(0)
            rows = batch.scan(_FORKS, (FORK_ATTRIBUTE, sortable(original)))
            for fork_id in sorted({row[0] for row in rows} - seen):
                seen.add(fork_id)
                instance = batch.lock_instance(fork_id)
                if instance is None:
                    continue
                waiting.append(fork_id)
                run = self._run(batch, instance.current_run_id)
                # The id may stand for another chain by now, which is no fork.
                attributes = orjson.loads(run.search_attributes or "{}")
                if run.is_open and attributes.get(FORK_ATTRIBUTE) == original:
                    found[fork_id] = run
        return list(found.values())

    def _run(self, batch: Batch, run_id: str) -> RunRow:
        batch.more_runs([run_id])
        run = batch.run(run_id)
        assert run is not None, "an instance has a current run"
        return run

    def _check_room(self, batch: Batch, runs: Sequence[RunRow]) -> None:
        most = self.limits.unhandled_signals
        rows = {run.run_id: run for run in runs}
        for run_id, more in Counter(run.run_id for run in runs).items():
            run = rows[run_id]
            if most and (run.last_seq + more) * 5 >= most * 4:
                waiting = requests.unhandled_signals(batch, run) + more
                self.limits.check("unhandled_signals", waiting, whose=run.workflow_id)
