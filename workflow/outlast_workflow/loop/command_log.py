"""The commands of the workflow task under way.

A command is asked for in the order the code runs; until the workflow task ends nothing has been sent, so a call that is
cancelled in the same workflow task simply leaves: its slot becomes empty and its number a hole in the run's count.

The log is also where a run learns that it must stop. A durable call that cannot be made (:meth:`CommandLog.refuse`)
stops the workflow task even where user code swallows the exception. A log that was switched off
(:meth:`CommandLog.close`) forgets what it is asked: the code of a run that leaves memory may call what it likes on its
way out; nothing follows.
"""

from __future__ import annotations

from typing import NoReturn, Protocol, TypeVar

from outlast_workflow.errors import StructuralLimitError
from outlast_workflow.history.events import Event
from outlast_workflow.loop.source_lines import Place, calling_place
from outlast_workflow.options.limits import StructuralLimits

X = TypeVar("X", bound=BaseException)


class Looks(Protocol):
    """A stretch of code that may only look."""

    def refuse(self, act: str) -> NoReturn:
        """Refuse what it tries to do."""
        ...


class CommandLog:
    """Numbers, collects and withdraws the commands of one run."""

    __slots__ = (
        "asked_at",
        "closed",
        "entries",
        "last_id",
        "limits",
        "looking",
        "places",
        "refusal",
        "replaying",
        "warned",
        "whose",
        "workflow_task",
    )

    def __init__(self, limits: StructuralLimits, whose: str = "") -> None:
        self.limits = limits
        self.whose = whose
        self.warned: set[str] = set()
        self.entries: list[Event | None] = []
        self.places: list[
            Place
        ] = []  # where each entry was asked for; only in replay, which may have to say so
        self.asked_at: list[Place] = []
        self.last_id = 0
        self.workflow_task = 0
        self.replaying = False
        self.closed = False
        self.refusal: BaseException | None = None
        self.looking: Looks | None = None  # what runs may only look, and is told so

    def next_id(self) -> int:
        """The number of the next durable call."""
        self.last_id += 1
        return self.last_id

    def add(self, command: Event) -> int:
        """Take a command; its index is what :meth:`withdraw` needs."""
        entries = self.entries
        index = len(entries) + 1
        if self.closed:
            return 0
        entries.append(command)
        if self.replaying:
            self.places.append(calling_place())
        else:
            self.check("commands_per_workflow_task", index)
        return index - 1

    def check(self, kind: str, value: int) -> None:
        """Refuse a value over its structural limit; only live, never in replay, where it was recorded as it was."""
        try:
            self.limits.check(kind, value, whose=self.whose, warned=self.warned)
        except StructuralLimitError as error:
            raise self.refuse(error) from None

    def withdraw(self, index: int) -> None:
        """Forget a command of this workflow task."""
        if not self.closed:
            self.entries[index] = None

    def take(self) -> list[Event]:
        """End the workflow task: what is to be recorded."""
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
        """Note why the run can't go on (the first reason stays) and give it back to be raised."""
        if self.refusal is None:
            self.refusal = error
        return error

    def close(self) -> None:
        """Switch commands off, for good; what is said from now on is no news either."""
        self.closed = self.replaying = True
        self.entries = []
