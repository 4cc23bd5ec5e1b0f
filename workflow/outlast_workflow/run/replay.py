"""Replay: feeding a run's history to its code again.

History is cut into workflow tasks by ``WorkflowTaskCompleted``. The record names what its workflow task applied: every
inbound event up to seq ``through`` that no earlier one had applied, in seq order, then the ``own`` ones that stand just
before the record. Inbound events between the two were not seen; they wait for the next record. After the record come
the ``commands`` events that the workflow task requested; the engine may have put some of its own among them (``by``).

::

    1 WorkflowStarted
    2 WorkflowTaskCompleted   through=1 own=0 commands=1   applied 1
    3 ActivityScheduled                                    requested by it
    4 SignalReceived                                       arrived while the workflow task of 6 was running
    5 ActivityCompleted                                    ran here: bundled with its decision
    6 WorkflowTaskCompleted   through=3 own=1 commands=0   applied 5; 4 waits

Each workflow task runs to quiescence, and all its commands are compared with the recorded ones: the kind, the command
id and the names, never inputs or durations. The first difference ends the replay; the machine is then unusable and must
be evicted.

Rows are decoded one at a time and no further than needed: of a command, only what is compared.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from outlast_workflow.errors import DamagedHistoryError, NonDeterminismError
from outlast_workflow.history.events import (
    REGISTRY,
    ChildWorkflowScheduled,
    Event,
    ExternalSignalRequested,
    SideEffectRecorded,
    VersionMarkerRecorded,
    WorkflowTaskCompleted,
)
from outlast_workflow.history.open_commands import ENDS, OPENS
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.run.machine import NOTHING_RECORDED, WorkflowMachine
from outlast_workflow.run.recorded_markers import NotRecordedError, RecordedMarkers

Row = tuple[int, str, Any]
"""A history row: seq, event type, payload (JSON text)."""

BEHAVIOURS: frozenset[str] = frozenset()
"""The engine behaviours that this version can replay, by their names in the records of workflow tasks."""

_RECORD = WorkflowTaskCompleted.type


@dataclass(slots=True)
class Replayed:
    """Where a replay stopped: what the next workflow task starts with."""

    unapplied: list[tuple[int, Event]] = field(default_factory=list)
    last_seq: int = 0
    closed: bool = False
    workflow_tasks: int = 0
    last_task_at: int = 0
    open_ids: set[int] = field(default_factory=set)
    """The command ids of what is open."""
    roused: bool = False
    """Whether the code goes on although nothing has happened: the history ends where it was taken over."""


def replay(
    machine: WorkflowMachine, rows: Iterable[Row], loads: Callable[[Any], dict[str, Any]] = orjson.loads
) -> Replayed:
    """Feed a history to a fresh machine.

    Args:
        machine: A machine that has run no workflow task.
        rows: The history from seq 1, in order.
        loads: Parses a payload, for payloads that are not (or no longer) text.

    Raises:
        NonDeterminismError: The code requests commands other than the recorded ones.
        DamagedHistoryError: An event cannot be read.
        WorkflowTaskError: The code cannot run at all, for example because an input cannot be decoded.
    """
    walk = Replay(machine, loads)
    walk.feed(rows)
    walk.finish()
    if walk.seeds and walk.replayed.last_seq in walk.seeds and not walk.replayed.unapplied:
        walk.replayed.roused = machine.roused
    return walk.replayed


def _check_readable(
    run_id: str, seq: int, kind: str, payload: Any, loads: Callable[[Any], dict[str, Any]]
) -> None:
    """Say that an event is damaged, if that is why a replay could not read it.

    Raises:
        DamagedHistoryError: It is.
    """
    if kind not in REGISTRY:
        raise DamagedHistoryError(run_id, f"type {kind!r:.60}", seq=seq) from None
    try:
        REGISTRY[kind].from_document(loads(payload))
    except (TypeError, AttributeError, LookupError, ValueError):
        raise DamagedHistoryError(run_id, "payload", seq=seq) from None


class Replay:
    """One walk along the rows of a history, which may go on as the history grows.

    Args:
        machine: A machine that has run no workflow task.
        loads: Parses a payload.

    Attributes:
        replayed: Where it stands.
    """

    __slots__ = (
        "asked",
        "due",
        "forked_at",
        "loads",
        "machine",
        "markers",
        "record",
        "recorded",
        "replayed",
        "seeds",
        "seq",
        "wanted",
    )

    def __init__(
        self, machine: WorkflowMachine, loads: Callable[[Any], dict[str, Any]] = orjson.loads
    ) -> None:
        self.loads = loads
        self.machine = machine
        self.replayed = Replayed()
        self.asked: list[Event] = []  # what the workflow task under comparison asked for
        self.recorded: list[tuple[Any, ...]] = []  # … and what history says, so far
        self.wanted = 0  # how many more commands belong to it
        self.record: dict[str, Any] = {}  # its record, at which seq that is, and what it applied
        self.seq = 0
        self.due: list[Event] = []
        self.markers = NOTHING_RECORDED
        self.seeds: dict[
            int, int
        ] = {}  # the points at which the history was taken over, and the seed from there on
        self.forked_at = 0  # up to where the history is that of another workflow

    def feed(self, rows: Iterable[Row]) -> None:
        """Go on with the next rows. A workflow task runs once all its commands have been read.

        Args:
            rows: What follows the rows before, in order.

        Raises:
            OutlastError: As for :func:`replay`.
        """
        machine, replayed = self.machine, self.replayed
        machine.replaying = True
        try:
            for seq, kind, payload in rows:
                replayed.last_seq = seq
                try:
                    self._read(seq, kind, payload)
                except (TypeError, AttributeError, LookupError, ValueError):
                    _check_readable(machine.run_id, seq, kind, payload, self.loads)
                    raise
                if self.seeds and seq in self.seeds:
                    machine.reseed(self.seeds[seq])
        finally:
            machine.replaying = False

    def finish(self) -> None:
        """End the walk: run the workflow task whose commands history does not have in full."""
        if self.wanted:
            self.machine.replaying = True
            try:
                self.run_workflow_task()
            finally:
                self.machine.replaying = False

    def _read(self, seq: int, kind: str, payload: Any) -> None:
        if kind == _RECORD:
            self.begin(seq, self.loads(payload))
            return
        cls = REGISTRY[kind]
        if cls.terminal:
            self.replayed.closed = True
        if cls.command:
            if self.wanted:
                self.command(cls, self.loads(payload))
        elif cls.inbound:
            document = self.loads(payload)
            if seq == 1:
                if (fork := document.get("forked_from")) is not None:
                    self.seeds, self.forked_at = dict(fork["seeds"]), fork["seq"]
                if (reset := document.get("reset")) is not None:
                    self.seeds = dict(reset["seeds"])
            if "by" not in document:
                self.replayed.unapplied.append((seq, cls.from_document(document)))
                if cls in ENDS:
                    self.replayed.open_ids.discard(document["command_id"])

    def begin(self, seq: int, record: dict[str, Any]) -> None:
        """Note a workflow task. It runs once its whole block of commands has been read, for that holds its markers."""
        if self.wanted:
            self.run_workflow_task()
        self.record, self.seq = record, seq
        self.due = self._due(seq, record["through"], record["own"])
        self.recorded = []
        self.markers = NOTHING_RECORDED
        self.wanted = record["commands"]
        if not self.wanted:
            self.run_workflow_task()

    def command(self, cls: type[Event], document: dict[str, Any]) -> None:
        if document.get("by") is not None:
            return
        self.recorded.append(cls.recorded_signature(document))
        if cls in OPENS:
            self.replayed.open_ids.add(document["command_id"])
        elif cls in ENDS:
            self.replayed.open_ids.discard(document["command_id"])
        if cls is SideEffectRecorded or cls is VersionMarkerRecorded:
            self.remember(cls, document)
        self.wanted -= 1
        if not self.wanted:
            self.run_workflow_task()

    def remember(self, cls: type[Event], document: dict[str, Any]) -> None:
        """Note a marker that the code needs when it gets there."""
        if self.markers is NOTHING_RECORDED:
            self.markers = RecordedMarkers()
        if cls is SideEffectRecorded:
            self.markers.values[document["command_id"]] = Payload.of(document["value"])
            return
        self.markers.patches.add(document["patch_id"])
        if document.get("deprecated"):
            self.markers.deprecated.add(document["patch_id"])

    def run_workflow_task(self) -> None:
        self.wanted = 0
        machine, record, replayed = self.machine, self.record, self.replayed
        machine.markers = self.markers
        try:
            self.asked = machine.run_workflow_task(
                self.due,
                record["at"],
                history_events=record["history_events"],
                history_bytes=record["history_bytes"],
                suggested=record.get("suggested", False),
            )
        except NotRecordedError:
            self.asked = machine.log.take()
        replayed.workflow_tasks += 1
        replayed.last_task_at = machine.time
        if self.recorded or self.asked:
            self.compare()

    def _due(self, seq: int, through: int, own: int) -> list[Event]:
        """Return the inbound events that the record at ``seq`` applied, removed from those that wait."""
        waiting = self.replayed.unapplied
        own_from = seq - own
        if not waiting or (waiting[-1][0] <= through or waiting[0][0] >= own_from):
            self.replayed.unapplied = []
            return [event for _, event in waiting]
        seen = [event for at, event in waiting if at <= through or at >= own_from]
        self.replayed.unapplied = [pair for pair in waiting if through < pair[0] < own_from]
        return seen

    def compare(self) -> None:
        asked = [command.signature() for command in self.asked]
        if asked == self.recorded:
            return
        if self.seq <= self.forked_at:
            # Code names other workflows after its own id, which was another one then.
            asked, self.recorded = without_ids(asked), without_ids(self.recorded)
            if asked == self.recorded:
                return
        # A deprecated patch may disappear from the code altogether.
        optional = {(VersionMarkerRecorded.type, patch_id) for patch_id in self.markers.deprecated} - set(
            asked
        )
        recorded = [signature for signature in self.recorded if signature not in optional]
        if asked != recorded:
            raise _difference(self.machine, recorded, asked, self.record, self.seq)


_ID_AT: Final = {
    cls.type: 1 + cls.compared.index("workflow_id")
    for cls in (ChildWorkflowScheduled, ExternalSignalRequested)
}
"""Where the signatures of commands about other workflows have their ids."""


def without_ids(signatures: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the signatures of commands without the ids of other workflows, which a fork names after itself."""
    found: list[tuple[Any, ...]] = []
    for signature in signatures:
        at = _ID_AT.get(signature[0])
        found.append(signature if at is None else (*signature[:at], None, *signature[at + 1 :]))
    return found


def _difference(
    machine: WorkflowMachine,
    recorded: Sequence[tuple[Any, ...]],
    asked: Sequence[tuple[Any, ...]],
    record: dict[str, Any],
    seq: int,
) -> NonDeterminismError:
    index = 0
    while index < len(recorded) and index < len(asked) and recorded[index] == asked[index]:
        index += 1
    return NonDeterminismError(
        event_seq=seq,
        expected=[_words(signature) for signature in recorded],
        actual=[_words(signature) for signature in asked],
        command_index=index,
        source=machine.where(index),
        workflow_type=machine.definition.name,
        notes=_other_circumstances(record),
    )


def _other_circumstances(record: dict[str, Any]) -> list[str]:
    """Return what else was different when the workflow task was recorded, and may be the reason."""
    notes: list[str] = []
    python, here = record.get("python"), sys.version_info[1]
    if python is not None and python != here:
        notes.append(
            f"it was recorded on Python 3.{python} and is replayed on 3.{here}, whose asyncio may order tasks otherwise"
        )
    unknown = sorted(set(record.get("flags") or ()) - BEHAVIOURS)
    if unknown:
        notes.append(f"it was recorded with behaviours that this version does not know: {', '.join(unknown)}")
    return notes


def _words(signature: tuple[Any, ...]) -> str:
    """Return a command as a line of the comparison: ``ActivityScheduled #3 charge``."""
    kind, *rest = signature
    return " ".join(
        [kind, *(f"#{part}" if isinstance(part, int) else str(part) for part in rest if part is not None)]
    )


def task_record(
    machine: WorkflowMachine,
    commands: Sequence[Event],
    *,
    through: int,
    own: int,
    python: int,
    build_id: str | None = None,
) -> WorkflowTaskCompleted | None:
    """Return the event that records a workflow task, or None if there is none to write.

    A run that a limit ended has a terminal event with ``by``. Replay ends before that workflow task, so it has no
    record (its own inbound events are appended all the same).

    Args:
        machine: The machine, after ``run_workflow_task`` returned ``commands``.
        commands: What it returned.
        through: The seq up to which inbound events have been applied.
        own: How many inbound events of the same transaction stand just before the record.
        python: The minor version of the interpreter that ran it.
        build_id: The worker's build id.
    """
    if machine.terminal is not None and getattr(machine.terminal, "by", None) is not None:
        return None
    handling, receiving = machine.handling_so_far, machine.loop.receiving
    buffered = handling.buffered if handling is not None else ()
    return WorkflowTaskCompleted(
        through=through,
        own=own,
        at=machine.time,
        commands=len(commands),
        history_events=machine.history_events,
        history_bytes=machine.history_bytes,
        python=python,
        build_id=build_id,
        buffered=dict(Counter(signal.name for signal in buffered)) if buffered else None,
        suggested=machine.suggestion_is_new or None,
        receiving=list(dict.fromkeys(receiving)) if receiving and machine.terminal is None else None,
    )
