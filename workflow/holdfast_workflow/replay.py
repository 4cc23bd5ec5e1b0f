"""Bringing a run back: its history, fed to its code again.

History is cut into activations by ``WorkflowTaskCompleted``. The record names what its activation applied: every
inbound event up to seq ``through`` that no earlier one had applied, in seq order, then the ``own`` ones that stand just
before the record. Inbound events between the two were not seen; they wait for the next record. After the record stand
the ``commands`` events that the activation asked for; among them the engine may have put some of its own (``by``).

::

    1 WorkflowStarted
    2 WorkflowTaskCompleted   through=1 own=0 commands=1   applied 1
    3 ActivityScheduled                                    asked by it
    4 SignalReceived                                       landed while the activation of 6 was running
    5 ActivityCompleted                                    ran here: bundled with its decision
    6 WorkflowTaskCompleted   through=3 own=1 commands=0   applied 5; 4 waits

Each activation is run to quiescence and the whole block of what it asks for is compared with what is recorded: the
kind, the command id and the names, never inputs or durations. The first difference ends the replay; the machine is then
good for nothing and must be evicted.

Rows are decoded one at a time and no further than needed: of a command only what is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from holdfast_workflow.errors import NonDeterminismError
from holdfast_workflow.events import REGISTRY, Event, WorkflowTaskCompleted
from holdfast_workflow.machine import WorkflowMachine

Row = tuple[int, str, str | bytes]
"""A history row: seq, event type, payload."""

_RECORD = WorkflowTaskCompleted.type


@dataclass(slots=True)
class Replayed:
    """Where a replay stopped: what the next activation begins with."""

    unapplied: list[tuple[int, Event]] = field(default_factory=list)
    last_seq: int = 0
    closed: bool = False
    activations: int = 0
    last_activation_at: int = 0


def replay(machine: WorkflowMachine, rows: Iterable[Row]) -> Replayed:
    """Feed a history to a fresh machine.

    Args:
        machine: A machine that was never activated.
        rows: The history from seq 1, in order.

    Raises:
        NonDeterminismError: The code asks for other commands than those recorded.
        WorkflowTaskError: The code can't be run at all, for example because an input can't be decoded.
    """
    replayed = Replayed()
    reader = _Reader(machine, replayed)
    machine.replaying = True
    try:
        for seq, kind, payload in rows:
            replayed.last_seq = seq
            reader.read(seq, kind, payload)
        reader.finish()
    finally:
        machine.replaying = False
    return replayed


class _Reader:
    """One walk along the rows of a history."""

    __slots__ = ("asked", "machine", "recorded", "replayed", "wanted")

    def __init__(self, machine: WorkflowMachine, replayed: Replayed) -> None:
        self.machine = machine
        self.replayed = replayed
        self.asked: list[Event] = []  # what the activation under comparison asked for
        self.recorded: list[tuple[Any, ...]] = []  # … and what history says, so far
        self.wanted = 0  # how many more commands belong to it

    def read(self, seq: int, kind: str, payload: str | bytes) -> None:
        if kind == _RECORD:
            self.activate(seq, orjson.loads(payload))
            return
        cls = REGISTRY[kind]
        if cls.terminal:
            self.replayed.closed = True
        if cls.command:
            if self.wanted:
                self.command(cls, orjson.loads(payload))
        elif cls.inbound:
            document = orjson.loads(payload)
            if "by" not in document:
                self.replayed.unapplied.append((seq, cls.from_document(document)))

    def command(self, cls: type[Event], document: dict[str, Any]) -> None:
        if document.get("by") is not None:
            return
        self.recorded.append(cls.recorded_signature(document))
        self.wanted -= 1
        if not self.wanted:
            self.compare()

    def activate(self, seq: int, record: dict[str, Any]) -> None:
        if self.wanted:
            self.compare()
        replayed = self.replayed
        events = self._due(seq, record["through"], record["own"])
        self.asked = self.machine.activate(
            events,
            record["at"],
            history_events=record["history_events"],
            history_bytes=record["history_bytes"],
        )
        replayed.activations += 1
        replayed.last_activation_at = self.machine.time
        self.wanted = record["commands"]
        self.recorded = []
        if not self.wanted and self.asked:
            self.compare()

    def _due(self, seq: int, through: int, own: int) -> list[Event]:
        """The inbound events that the record at ``seq`` applied, taken out of those that wait."""
        waiting = self.replayed.unapplied
        own_from = seq - own
        if not waiting or (waiting[-1][0] <= through or waiting[0][0] >= own_from):
            self.replayed.unapplied = []
            return [event for _, event in waiting]
        seen = [event for at, event in waiting if at <= through or at >= own_from]
        self.replayed.unapplied = [pair for pair in waiting if through < pair[0] < own_from]
        return seen

    def compare(self) -> None:
        self.wanted = 0
        asked = [command.signature() for command in self.asked]
        if asked != self.recorded:
            raise _difference(self.machine, self.recorded, asked)

    def finish(self) -> None:
        if self.wanted:
            self.compare()


def _difference(
    machine: WorkflowMachine, recorded: Sequence[tuple[Any, ...]], asked: Sequence[tuple[Any, ...]]
) -> NonDeterminismError:
    index = 0
    while index < len(recorded) and index < len(asked) and recorded[index] == asked[index]:
        index += 1
    return NonDeterminismError(
        expected=[_words(signature) for signature in recorded],
        actual=[_words(signature) for signature in asked],
        command_index=index,
        source=machine.where(index),
        workflow_type=machine.definition.name,
    )


def _words(signature: tuple[Any, ...]) -> str:
    """A command as a line of the comparison: ``ActivityScheduled #3 charge``."""
    kind, *rest = signature
    return " ".join(
        [kind, *(f"#{part}" if isinstance(part, int) else str(part) for part in rest if part is not None)]
    )


def activation_record(
    machine: WorkflowMachine,
    commands: Sequence[Event],
    *,
    through: int,
    own: int,
    python: int,
    build_id: str | None = None,
) -> WorkflowTaskCompleted | None:
    """The event that records an activation, or None where there is none to write.

    A run that a limit ended has a terminal event with ``by``: replay ends before that activation, so it has no record
    (its own inbound events are appended all the same).

    Args:
        machine: The machine, after ``activate`` returned ``commands``.
        commands: What it returned.
        through: The seq up to which inbound events have been applied.
        own: How many inbound events of the same change stand just before the record.
        python: The minor version of the interpreter that ran it.
        build_id: The worker's.
    """
    if machine.terminal is not None and getattr(machine.terminal, "by", None) is not None:
        return None
    return WorkflowTaskCompleted(
        through=through,
        own=own,
        at=machine.time,
        commands=len(commands),
        history_events=machine.history_events,
        history_bytes=machine.history_bytes,
        python=python,
        build_id=build_id,
    )
