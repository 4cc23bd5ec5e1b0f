"""The calls of one node that repeats: how many there were, what the last one returned, and which timers run."""

from __future__ import annotations

from typing import Any, Final

from outlast_dag.run.actions import (
    Action,
    Cancelled,
    ClearTimer,
    Completed,
    Failed,
    Outcome,
    SetTimer,
    Timer,
    too_late,
)
from outlast_dag.run.values import (
    DATA_ERROR,
    DataError,
    Find,
    MissingError,
    bind,
    bind_condition,
    holds,
    resolve,
)
from outlast_dag.spec.nodes import Repeat
from outlast_dag.spec.values import Ref

EXHAUSTED: Final = "RepeatExhausted"
"""The type of the failure of a node that has made all its calls."""


class Iterations:
    """The calls of a node that repeats and has begun.

    Args:
        node: The node.
        find: Finds what references begin at.

    Attributes:
        begun: How many calls have begun.
        running: Whether the last of them runs.
        expired: Whether they have taken as long as they may.
        timers: The timers that run.

    Raises:
        MissingError: A node has no value, and there is no ``or_else``.
        DataError: A path is not there, and there is no ``or_else``.
    """

    __slots__ = ("_args", "_find", "_node", "_result", "_until", "begun", "expired", "running", "timers")

    def __init__(self, node: Repeat, find: Find) -> None:
        self._node = node
        self._find = find
        # What all calls have in common is found once, when the node begins.
        self._args = tuple(bind(arg, find, "result") for arg in node.args)
        self._until = bind_condition(node.until, find, "result")
        self._result: tuple[Any, ...] = ()
        self.begun = 0
        self.running = self.expired = False
        self.timers: dict[Timer, None] = {}

    def args(self) -> tuple[Any, ...]:
        """Return the arguments of the next call.

        Raises:
            MissingError: It needs the result of a call, and there was none yet; or an ``or_else`` has no value.
            DataError: A path is not there.
        """
        return tuple(resolve(arg, self._found) for arg in self._args)

    def _found(self, ref: Ref) -> Any:
        if (ref.root, ref.name) != ("bound", "result"):
            return self._find(ref)
        if not self._result:
            raise MissingError(ref.name, "not there before the first call has ended")
        return self._result[0]

    def begin(self) -> list[Action]:
        """Begin the next call, and return the timer to set before the first one."""
        self.begun += 1
        self.running = True
        if self.begun > 1 or self._node.max_duration is None:
            return []
        return [self._set("duration", self._node.max_duration)]

    def end(self, outcome: Outcome, *, stopping: bool) -> Outcome | None:
        """Take the outcome of a call; return that of the node, ``None`` if another call follows.

        Args:
            outcome: How the call ended.
            stopping: Whether it was asked to stop.
        """
        self.running = False
        if isinstance(outcome, Completed):
            self._result = (outcome.value,)
            try:
                if holds(self._until, self._found):
                    return outcome
            except (MissingError, DataError) as error:
                return Failed(DATA_ERROR, str(error))
        elif isinstance(outcome, Failed):
            return outcome
        if self.expired:
            return self.too_long()
        if stopping:
            return Cancelled()
        if self.begun == self._node.max_iterations:
            calls = f"{self.begun} call{'' if self.begun == 1 else 's'}"
            return Failed(EXHAUSTED, f"after {calls} its condition still does not hold")
        return None

    def wait(self) -> Action | None:
        """Return the timer to set before the next call; ``None`` if that may begin at once."""
        return self._set("delay", self._node.delay) if self._node.delay else None

    def too_long(self) -> Failed:
        """Return the outcome of calls that have taken as long as they may."""
        return too_late(f"its condition did not hold within {self._node.max_duration:g} s")

    def clear(self) -> list[Action]:
        """Return how to forget the timers that run."""
        timers, self.timers = self.timers, {}
        return [ClearTimer(self._node.id, timer) for timer in timers]

    def _set(self, timer: Timer, seconds: float) -> SetTimer:
        self.timers[timer] = None
        return SetTimer(self._node.id, timer, seconds)
