"""The commands of the workflow task under way.

Commands are added in the order in which the code runs. Nothing is sent before the workflow task ends, so a call that is
cancelled in the same workflow task simply disappears: its slot becomes empty and its number is skipped.

The log also tells a run to stop. A durable call that cannot be made (:meth:`CommandLog.refuse`) stops the workflow task
even if user code swallows the exception. A closed log (:meth:`CommandLog.close`) ignores what it is given: the code of
a run that is being evicted may call whatever it likes, to no effect.
"""

from __future__ import annotations

from typing import NoReturn, Protocol, TypeVar

from outlast_workflow.errors import StructuralLimitError
from outlast_workflow.history.events import Event
from outlast_workflow.loop.source_lines import Place, calling_place
from outlast_workflow.options.limits import StructuralLimits

X = TypeVar("X", bound=BaseException)


class ReadOnly(Protocol):
    """A section of code that must not change the run."""

    def refuse(self, act: str) -> NoReturn:
        """Raise the error for what the section tried to do."""
        ...


class CommandLog:
    """Numbers, collects and withdraws the commands of one run."""

    __slots__ = (
        "asked_at",
        "closed",
        "entries",
        "last_id",
        "limits",
        "near",
        "places",
        "read_only",
        "refusal",
        "replaying",
        "warned",
        "whose",
        "workflow_task",
    )

    def __init__(self, limits: StructuralLimits, whose: str = "") -> None:
        self.limits = limits
        # From which values on a check has something to say; smaller ones need none.
        self.near = limits.near
        self.whose = whose
        self.warned: set[str] = set()
        self.entries: list[Event | None] = []
        # Where each entry was requested; recorded only in replay, which may have to report it.
        self.places: list[Place] = []
        self.asked_at: list[Place] = []
        self.last_id = 0
        self.workflow_task = 0
        self.replaying = False
        self.closed = False
        self.refusal: BaseException | None = None
        # The read-only section that is running, if any.
        self.read_only: ReadOnly | None = None

    def next_id(self) -> int:
        """Return the number of the next durable call."""
        self.last_id += 1
        return self.last_id

    def add(self, command: Event) -> int:
        """Add a command and return its index, which :meth:`withdraw` takes."""
        entries = self.entries
        index = len(entries) + 1
        if self.closed:
            return 0
        entries.append(command)
        if self.replaying:
            self.places.append(calling_place())
        elif index >= self.near["commands_per_workflow_task"]:
            self.check("commands_per_workflow_task", index)
        return index - 1

    def check(self, kind: str, value: int) -> None:
        """Refuse a value over its structural limit. Call it live only: in replay the recorded value stands."""
        try:
            self.limits.check(kind, value, whose=self.whose, warned=self.warned)
        except StructuralLimitError as error:
            raise self.refuse(error) from None

    def withdraw(self, index: int) -> None:
        """Withdraw a command of this workflow task."""
        if not self.closed:
            self.entries[index] = None

    def take(self) -> list[Event]:
        """End the workflow task and return the commands to be recorded."""
        entries = self.entries
        commands = [entry for entry in entries if entry is not None]
        if self.places:
            self.asked_at = [
                place for entry, place in zip(entries, self.places, strict=True) if entry is not None
            ]
            self.places = []
        self.entries = []
        self.workflow_task += 1
        return commands

    def refuse(self, error: X) -> X:
        """Note why the run cannot continue (the first reason stays) and return the error to be raised."""
        if self.refusal is None:
            self.refusal = error
        return error

    def close(self) -> None:
        """Ignore commands from now on. The log counts as replaying, so that nothing is logged either."""
        self.closed = self.replaying = True
        self.entries = []
