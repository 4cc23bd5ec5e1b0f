"""What tasks can see, and where they are: contexts, variables, iterations and attempts."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from outlast_serverless.interpreter.inbox import Inbox
from outlast_serverless.interpreter.messages import Mailboxes
from outlast_serverless.interpreter.request import Loaded
from outlast_serverless.interpreter.state import Frames
from outlast_serverless.plan.model import DataFlow, Directive, Expression, Length, Task, TaskList, Value

CONTINUE: Final = Directive("continue")
SKIPPED: Final = Directive("continue")
"""Where a task goes on whose condition does not hold: as any other, but told apart by who looks at a run."""
_LONGEST_LABEL: Final = 200
_DIGEST: Final = 32
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Context:
    """What ``$context`` is. A branch of a fork has one of its own, and tells its exports to the one it began with."""

    __slots__ = ("_parent", "value")

    def __init__(self, value: Any = None, parent: Context | None = None) -> None:
        self.value = value
        self._parent = parent

    def export(self, value: Any) -> None:
        """Replace the value."""
        self.value = value
        if self._parent is not None:
            self._parent.export(value)

    def branch(self) -> Context:
        """Return a context for a branch that begins now."""
        return Context(self.value, self)


@dataclass(frozen=True, slots=True)
class Scope:
    """What the tasks of a list have in common.

    Attributes:
        context: The context.
        variables: The variables of loops and caught errors.
        marks: The iterations and attempts that the list is in: ``it=3``.
        extended: What ``$task`` also is in an extension: the definition of the task that is extended.
        forked: Whether it is in a branch of a fork, or is done for a message of a subscription: there the run cannot
            continue as new.
        unit: The function that the list is of, if that was fetched; otherwise it is of the document.
        functions: The fetched functions around the list, by what tells each from all others.
    """

    context: Context
    variables: Mapping[str, Any] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    extended: Mapping[str, Any] | None = None
    forked: bool = False
    unit: Loaded | None = None
    functions: tuple[str, ...] = ()

    def within(self, mark: str | None = None, **variables: Any) -> Scope:
        """Return the scope of a list inside, with further variables.

        Args:
            mark: The iteration or attempt that it is.
            **variables: The variables.
        """
        marks = self.marks if mark is None else (*self.marks, mark)
        return replace(self, variables={**self.variables, **variables}, marks=marks)


@dataclass(slots=True)
class Execution:
    """One execution of a task.

    Attributes:
        task: The task.
        scope: What it can see.
        told: What ``$task`` is.
        common: The variables that all its expressions can see.
        input: What ``$input`` is, once it is known.
        timeout: How many seconds it may take, where its activity is to end by itself.
    """

    task: Task
    scope: Scope
    told: dict[str, Any]
    common: Mapping[str, Any]
    input: Any = None
    timeout: float | None = None

    @property
    def id(self) -> str:
        """The pointer of the task, with what tells this execution from others: ``/do/0/x#it=3,att=2``."""
        marks = marks_of(self.scope)
        return f"{self.task.pointer}#{marks}" if marks else self.task.pointer

    def label(self, kind: str) -> str:
        """Return what a timer, an activity or a child of it is called in ``describe``.

        Args:
            kind: What it is, in one word.
        """
        return label_of(kind, self.id)

    def before(self) -> dict[str, Any]:
        """Return the variables of what is evaluated before its input is known."""
        return {
            **self.common,
            "context": self.scope.context.value,
            "task": self.told,
            **self.scope.variables,
        }

    def during(self) -> dict[str, Any]:
        """Return the variables of what is evaluated while it runs."""
        return {**self.before(), "input": self.input, **self.scope.variables}

    def after(self, output: Any) -> dict[str, Any]:
        """Return the variables of what is evaluated when its output is known."""
        return {**self.during(), "output": output, **self.scope.variables}


def key_of(text: str, most: int) -> str:
    """Return a text as a key that a database and a URL can hold: one that is too long ends in its digest.

    Args:
        text: The text.
        most: How many characters it may have.
    """
    plain = _CONTROL.sub("_", text)
    if plain == text and len(text) <= most:
        return text
    return f"{plain[: most - _DIGEST - 1]}~{hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]}"


def label_of(kind: str, execution: str) -> str:
    """Return what a timer, an activity or a child of an execution is called in ``describe``.

    Args:
        kind: What it is, in one word.
        execution: The execution.
    """
    execution = _CONTROL.sub("_", execution)
    text = f"{kind} {execution}"
    return (
        text if len(text) <= _LONGEST_LABEL else f"{kind} …{execution[-(_LONGEST_LABEL - len(kind) - 2) :]}"
    )


def marks_of(scope: Scope, visit: int = 1) -> str:
    """Return what tells an execution from others of its task: ``it=3,att=2``; empty for the only one.

    Args:
        scope: What its list has in common.
        visit: The how manieth execution in its list it is.
    """
    return ",".join(scope.marks if visit == 1 else (*scope.marks, f"visit={visit}"))


class Ended(Exception):
    """A task said ``then: end``: the workflow ends with this output."""

    def __init__(self, output: Any) -> None:
        self.output = output
        super().__init__("the workflow ends")


class Interpreting(Protocol):
    """What the kinds of tasks need of the interpreter."""

    @property
    def common(self) -> Mapping[str, Any]:
        """The variables that all expressions can see."""
        ...

    @property
    def inbox(self) -> Inbox:
        """The events that reach the run."""
        ...

    @property
    def mailboxes(self) -> Mailboxes:
        """The messages of subscriptions that reach the run."""
        ...

    @property
    def frames(self) -> Frames:
        """What is still to be taken up of the run before."""
        ...

    def drop_frames(self) -> None:
        """Leave what a task that has failed was to take up: its time was up before it came to that."""
        ...

    async def safe_point(self, scope: Scope) -> None:
        """Continue as new, if it is time to: by an exception to which each body adds its frame."""
        ...

    def look(self) -> None:
        """Count an event that was looked at."""
        ...

    def aside(self, work: asyncio.Future[Any]) -> None:
        """Leave work to itself, but for the run's continuing as new, which waits for it."""
        ...

    async def run_list(self, tasks: TaskList, data: Any, scope: Scope) -> tuple[Any, bool]:
        """Run tasks, one after the other; return the output, and whether a task left the list by ``exit``."""
        ...

    async def run_task(self, task: Task, raw: Any, scope: Scope, visit: int = 1) -> tuple[Any, Directive]:
        """Run a task; return its output, and where it goes on."""
        ...

    def evaluate(self, value: Value, data: Any, variables: Mapping[str, Any], pointer: str) -> Any:
        """Return a value with its expressions evaluated; a failure is a fault of the task at the pointer."""
        ...

    def holds(
        self, expression: Expression | None, data: Any, variables: Mapping[str, Any], pointer: str
    ) -> bool:
        """Return whether an expression gives something other than null and false; so does one that is not there."""
        ...

    def seconds(self, length: Length, data: Any, variables: Mapping[str, Any], pointer: str) -> float:
        """Return a length of time in seconds."""
        ...

    def function(self, name: str) -> Task:
        """Return the task of a function that the document defines."""
        ...

    async def fetched_function(self, called: str, run: Execution) -> tuple[str, Loaded]:
        """Return a function that is not in the document, fetched once, and what tells it from all others."""
        ...

    async def fetch(self, unit: Loaded, run: Execution | None, value: Value, more: Mapping[str, Any]) -> Any:
        """Fetch a resource, without a look at what was fetched before."""
        ...

    def call_request(self, execution: Execution, value: Value, given: Any, **more: Any) -> dict[str, Any]:
        """Return what the activity of a call or process is given."""
        ...

    def flowing_on(self, data: DataFlow, run: Execution, raw: Any) -> Any:
        """Return an output as it flows on, and export of it what is to be exported."""
        ...

    def retries(self, run: Execution) -> None:
        """Say that a task is tried again."""
        ...

    def correlates(self, run: Execution, keys: Mapping[str, Any] | None = None) -> None:
        """Say that a task begins to correlate events, or with which keys it has."""
        ...
