"""The nodes of a DAG, one class for each kind.

Durations are seconds. Each default is left out of the spec's JSON, where ``kind`` names the class and the other keys
are the fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, dataclass, fields
from typing import Any, ClassVar, Literal

from outlast_dag.spec.conditions import Condition, condition_references
from outlast_dag.spec.values import Constant, Ref, Value, references
from outlast_workflow.options.activity import ActivityOptions

Rule = Literal["all_succeeded", "all_done", "one_succeeded", "one_failed", "all_failed", "none_failed"]
"""When a node runs, by how the nodes that it depends on ended. A skipped one counts as succeeded."""

ItemFailure = Literal["fail", "skip", "collect"]
"""What a failed item does to its map: the map fails, the item is left out, or its failure stands in its place."""

CompensateWhen = Literal["completed", "started"]
"""Whether a node is undone only if it has completed, or also if it has only begun."""

ClosePolicy = Literal["terminate", "request_cancel", "abandon"]
"""What happens to a child when the DAG's run ends."""

TimeoutDecision = Literal["reject", "approve", "fail"]
"""What an approval does when nobody decides in time."""

NO_OPTIONS = ActivityOptions()

MAX_PLANNED = 500
"""How many nodes a planner may be allowed to plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What all kinds have.

    Attributes:
        id: ``fetch``; in a group ``load/fetch``.
        after: The nodes that must have ended first, beside those whose values the node is given.
        rule: How they must have ended.
        skip_when: The node is skipped if this holds when it could begin.
        on_failure: The node that runs if this one fails. Its output becomes this one's output.
        compensate: The node that undoes this one if the run ends badly.
        compensate_when: Whether it is undone only if it has completed, or also if it has only begun.
    """

    kind: ClassVar[str] = ""

    id: str
    after: tuple[str, ...] = ()
    rule: Rule = "all_succeeded"
    skip_when: Condition | None = None
    on_failure: str | None = None
    compensate: str | None = None
    compensate_when: CompensateWhen = "completed"

    def values(self) -> Iterator[Value]:
        """Yield what the node is given."""
        return iter(())

    def conditions(self) -> Iterator[Condition]:
        """Yield the conditions that it asks before it begins and while it runs."""
        if self.skip_when is not None:
            yield self.skip_when

    def references(self) -> Iterator[tuple[Ref, bool]]:
        """Yield each reference that the node has, and whether what it refers to may be without a value."""
        for value in self.values():
            yield from references(value)
        for condition in self.conditions():
            yield from condition_references(condition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Node):
    """What calls an activity: its type, its arguments, and the options in which it differs from the DAG's."""

    type: str
    args: tuple[Value, ...] = ()
    options: ActivityOptions = NO_OPTIONS

    def values(self) -> Iterator[Value]:
        """Yield the arguments."""
        yield from self.args


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Call):
    """One call of an activity."""

    kind: ClassVar[str] = "task"


ITEM = Ref("bound", "item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Map(Call):
    """One call for each item of a list. The output is the list of results, in the order of the items.

    Attributes:
        over: The list.
        max_items: A longer list fails the node.
        concurrency: How many calls run at once; 0 for all.
        on_item_failure: What a failed item does.
        collect: Whether the output holds the results; otherwise it is ``{"count": …}``.
        chunks_of: How many items each child has, if the map is divided among children.
    """

    kind: ClassVar[str] = "map"

    args: tuple[Value, ...] = (ITEM,)
    over: Value
    max_items: int = 1000
    concurrency: int = 0
    on_item_failure: ItemFailure = "fail"
    collect: bool = True
    chunks_of: int | None = None

    def values(self) -> Iterator[Value]:
        """Yield the list, then the arguments of each call."""
        yield self.over
        yield from self.args


@dataclass(frozen=True, slots=True, kw_only=True)
class Child(Node):
    """A child workflow.

    Attributes:
        type: The workflow type.
        args: Its arguments.
        timeout: Its execution timeout.
        task_queue: Its task queue; by default the DAG's.
        priority: Its priority; by default the DAG's.
        parent_close_policy: What happens to it when the DAG's run ends. One that is abandoned is not waited for.
    """

    kind: ClassVar[str] = "child"

    type: str
    args: tuple[Value, ...] = ()
    timeout: float | None = None
    task_queue: str | None = None
    priority: int | None = None
    parent_close_policy: ClosePolicy = "terminate"

    def values(self) -> Iterator[Value]:
        """Yield the arguments."""
        yield from self.args


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep(Node):
    """A wait: for ``seconds``, or until an instant (ISO 8601 text with an offset) that must come within ``timeout``."""

    kind: ClassVar[str] = "sleep"

    seconds: float | None = None
    until: Value | None = None
    timeout: float | None = None

    def values(self) -> Iterator[Value]:
        """Yield the instant."""
        if self.until is not None:
            yield self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFor(Node):
    """A wait for a signal. Its argument is the output.

    Attributes:
        event: The signal's name.
        match: Which signals count, asked of the bound ``event``; by default all.
        timeout: How long it waits.
        on_timeout: The output if none comes in time; by default the node fails.
    """

    kind: ClassVar[str] = "wait_for"

    event: str
    match: Condition | None = None
    timeout: float | None = None
    on_timeout: Constant | None = None

    def conditions(self) -> Iterator[Condition]:
        """Yield what it asks of the event too."""
        yield from Node.conditions(self)
        if self.match is not None:
            yield self.match


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval(Node):
    """A wait for somebody's decision: ``{"approved": …, "comment": …}``.

    Attributes:
        timeout: How long it waits.
        on_timeout: The decision if nobody decides in time; ``fail`` fails the node.
    """

    kind: ClassVar[str] = "approval"

    timeout: float | None = None
    on_timeout: TimeoutDecision = "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat(Call):
    """One call after another until a condition holds of the result, which is the output.

    Attributes:
        until: What must hold of the bound ``result``. Arguments may refer to it too, with an ``or_else`` for the first.
        max_iterations: After so many calls the node fails.
        max_duration: After so long the node fails.
        delay: The wait between two calls.
    """

    kind: ClassVar[str] = "repeat"

    until: Condition
    max_iterations: int | None = None
    max_duration: float | None = None
    delay: float = 0

    def conditions(self) -> Iterator[Condition]:
        """Yield what it asks of the result too."""
        yield from Node.conditions(self)
        yield self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Call):
    """A call that returns a DAG, which is run then as a child. What that returns is the output.

    Attributes:
        allow: The types of activities and children that it may call.
        max_nodes: How many nodes it may have, with those that its own planners may plan.
        run_timeout: How long it may run.
    """

    kind: ClassVar[str] = "plan"

    allow: tuple[str, ...] = ()
    max_nodes: int = 100
    run_timeout: float | None = None


KINDS: dict[str, type[Node]] = {
    kind.kind: kind for kind in (Task, Map, Child, Sleep, WaitFor, Approval, Repeat, Plan)
}


_FIELDS = {name: {field.name: field for field in fields(kind)} for name, kind in KINDS.items()}


def fields_of(kind: type[Node]) -> dict[str, Field[Any]]:
    """Return the fields of a kind of nodes by name."""
    return _FIELDS[kind.kind]
