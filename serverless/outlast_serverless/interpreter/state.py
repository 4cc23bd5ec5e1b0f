"""Continuing as new: what a run hands to the next one of its chain, so that a loop has a bounded history.

At a safe point, which is before a task of a list or between two events of a listen, the interpreter raises
:class:`Continuing`. On its way out each body adds its frame: what it needs to go on. The next run enters the same
bodies again, from the outermost to the innermost, and each takes its frame instead of beginning. Values are written
once, however many frames have them. Inside a fork there is no safe point, since several tasks are under way there; nor
is there one while a task subscribes to a channel, since the activity that does is the run's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NotRequired, TypedDict, TypeVar, cast

F = TypeVar("F")


class ListFrame(TypedDict):
    """Where a list of tasks stands.

    Attributes:
        index: The task that is under way, or is next.
        visits: How often the list has come to each of its tasks, by name.
        data: The input of that task.
    """

    of: str
    index: int
    visits: dict[str, int]
    data: Any


class TaskFrame(TypedDict):
    """A task that is under way.

    Attributes:
        raw: Its raw input.
        input: Its input.
        began: When it began, as expressions see it.
        deadline: When its time is up, if it has a timeout.
    """

    of: str
    raw: Any
    input: Any
    began: dict[str, Any]
    deadline: NotRequired[list[Any]]


class ExtensionsFrame(TypedDict):
    """The extensions of a task that is under way.

    Attributes:
        applying: The positions of those that apply.
        done: How many lists of tasks of theirs, and the task itself, are done.
        output: What has come of it.
        skipped: Whether one has taken the place of the task.
        then: Where the task itself said to go on: the kind, and the target.
    """

    of: str
    applying: list[int]
    done: int
    output: Any
    skipped: bool
    then: list[Any] | None


class LoopFrame(TypedDict):
    """A loop that is under way.

    Attributes:
        position: The position of the item.
        items: The items from there on; not there if they can be worked out again from the input.
    """

    of: str
    position: int
    items: NotRequired[list[Any]]


class TryFrame(TypedDict):
    """A try that is under way.

    Attributes:
        attempt: The attempt.
        deadline: When the time for all attempts is up, if that is limited.
        attempt_deadline: When the time for this attempt is up, if that is limited.
        error: What was caught, if its catch is under way.
    """

    of: str
    attempt: int
    deadline: NotRequired[list[Any]]
    attempt_deadline: NotRequired[list[Any]]
    error: NotRequired[dict[str, Any]]


class ListenFrame(TypedDict):
    """A listen that is under way.

    Attributes:
        after: The key of the last event that it does not see.
        waiting: The places in the inbox of what it has not looked at.
        count: How many events it has consumed.
        wanted: What its filters still want; see ``Consuming.state``.
        subscribed: What the router looks up for it.
        consumed: What it has consumed, where a condition needs that.
        output: What has come of it.
        item: The event whose tasks are under way, if any are.
        execution: The execution that is subscribed.
    """

    of: str
    execution: str
    after: int
    waiting: list[int]
    count: int
    wanted: dict[str, Any]
    subscribed: list[list[str]]
    consumed: NotRequired[list[Any]]
    output: list[Any]
    item: NotRequired[Any]


Frame = ListFrame | TaskFrame | ExtensionsFrame | LoopFrame | TryFrame | ListenFrame
_VALUES: Final = frozenset({"data", "raw", "input", "output", "items", "error", "consumed", "item", "began"})
"""What of frames is data. It is written once, in a table, and frames have its place there."""
_INPUT: Final = -1
"""The place of the raw input of the workflow, which stands in the start request anyway."""


class Continuing(BaseException):
    """The run is at a safe point, and continues as new. It is no error, so nothing but frames looks at it.

    Attributes:
        frames: The frames, from the innermost to the outermost.
    """

    def __init__(self) -> None:
        super().__init__("the run continues as new")
        self.frames: list[Frame] = []

    def add(self, frame: Frame) -> None:
        """Add the frame of a body that it passes."""
        self.frames.append(frame)


class Frames:
    """The frames that a run still has to take before it goes on by itself.

    Args:
        frames: The frames, from the outermost to the innermost.
    """

    __slots__ = ("_left",)

    def __init__(self, frames: Iterable[Frame] = ()) -> None:
        self._left = deque(frames)

    @property
    def left(self) -> bool:
        """Whether there are any: then something inside is under way."""
        return bool(self._left)

    def take(self, of: str, new: F) -> F:
        """Return the next frame, which is that of the body that asks.

        Args:
            of: What the frame is of.
            new: What is returned if the body begins.
        """
        if not self._left:
            return new
        frame: Any = self._left.popleft()
        assert frame["of"] == of, f"the state has a frame of {frame['of']} where {of} is entered"
        return cast("F", frame)

    def drop(self) -> list[Frame]:
        """Return the frames that nobody will take, since what is around them has ended."""
        dropped = list(self._left)
        self._left.clear()
        return dropped


@dataclass(frozen=True, slots=True)
class State:
    """What a run hands to the next one.

    Attributes:
        frames: The frames, from the outermost to the innermost.
        context: The context.
        started: When the first run began, as expressions see it.
        tasks: How many tasks have been executed.
        suspended: Whether no further task begins.
        deadline_us: When the timeout of the workflow is up, where the interpreter keeps it.
        runtime: What ``$runtime`` is, if the document mentions it.
        inbox: Events that no task has consumed yet, or that an open listen has not looked at; see ``Inbox``.
        fetched: The functions and schemas that it has fetched; see ``Fetched``.
    """

    frames: Sequence[Frame]
    context: Any
    started: dict[str, Any]
    tasks: int
    suspended: bool = False
    deadline_us: int | None = None
    runtime: dict[str, Any] | None = None
    inbox: list[list[Any]] = field(default_factory=list)
    fetched: dict[str, Any] = field(default_factory=dict)

    def to_json(self, input: Any) -> dict[str, Any]:
        """Return the state as it is recorded.

        Args:
            input: The raw input of the workflow, which is not written again.
        """
        values: list[Any] = []
        places = {id(input): _INPUT}

        def place(value: Any) -> int:
            found = places.get(id(value))
            if found is None:
                found = places[id(value)] = len(values)
                values.append(value)
            return found

        frames = [
            {name: place(value) if name in _VALUES else value for name, value in frame.items()}
            for frame in self.frames
        ]
        return {
            "frames": frames,
            "context": place(self.context),
            "values": values,
            "started": self.started,
            "tasks": self.tasks,
            "suspended": self.suspended,
            "deadline_us": self.deadline_us,
            "runtime": self.runtime,
            "inbox": self.inbox,
            "fetched": self.fetched,
        }

    @classmethod
    def of(cls, recorded: dict[str, Any], input: Any) -> State:
        """Return the state that was recorded.

        Args:
            recorded: The state.
            input: The raw input of the workflow.
        """
        values: list[Any] = recorded["values"]

        def at(place: int) -> Any:
            return input if place == _INPUT else values[place]

        frames = [
            cast("Frame", {name: at(value) if name in _VALUES else value for name, value in frame.items()})
            for frame in recorded["frames"]
        ]
        return cls(
            frames,
            at(recorded["context"]),
            recorded["started"],
            recorded["tasks"],
            recorded["suspended"],
            recorded["deadline_us"],
            recorded["runtime"],
            recorded["inbox"],
            recorded["fetched"],
        )
