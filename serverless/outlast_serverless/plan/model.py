"""The parts of a plan. All are immutable, and each knows its pointer.

A value that may hold expressions is a :class:`Template`; one that has none is kept as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Expression:
    """A jq program.

    Attributes:
        text: The program, without ``${ }``.
        pointer: Where it stands.
        literal: In loose mode, the text as it is written: it is kept where the program does not compile.
    """

    text: str
    pointer: str
    literal: str | None = None


@dataclass(frozen=True, slots=True)
class Template:
    """A mapping or list with expressions somewhere inside.

    Attributes:
        value: What was written, to be filled in.
        expressions: The expressions, in the order of the text.
        pointer: Where it stands.
    """

    value: Any
    expressions: tuple[Expression, ...]
    pointer: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A value without expressions."""

    value: Any


Value: TypeAlias = Expression | Template | Constant


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time that is known before the run.

    Attributes:
        microseconds: How long.
        written: How it was written, for messages.
    """

    microseconds: int
    written: str


Length: TypeAlias = Duration | Expression


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema of data: inline, or to be fetched.

    Attributes:
        document: The schema, if it is inline.
        resource: Where it is, otherwise.
        pointer: Where it stands.
        format: ``json``, or ``json:`` and a draft.
    """

    document: Any
    resource: Value | None
    pointer: str
    format: str = "json"


@dataclass(frozen=True, slots=True)
class DataFlow:
    """What happens to data before and after a task.

    Attributes:
        input_schema: What the raw input must be.
        input_from: What makes the input of it.
        output_as: What makes the output of the raw output.
        output_schema: What the output must be.
        export_as: What makes the new context.
        export_schema: What the context must be.
    """

    input_schema: Schema | None = None
    input_from: Value | None = None
    output_as: Value | None = None
    output_schema: Schema | None = None
    export_as: Value | None = None
    export_schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class Directive:
    """Where a task goes on.

    Attributes:
        kind: To the next task, out of the list, to the end of the workflow, or to a task.
        target: The name of that task.
    """

    kind: Literal["continue", "exit", "end", "task"]
    target: str = ""


@dataclass(frozen=True, slots=True)
class Extension:
    """What is done before and after a task.

    Attributes:
        name: The name of the extension.
        when: Whether it applies.
        before: What is done before; ``exit`` skips the task.
        after: What is done after.
        pointer: Where it stands.
    """

    name: str
    when: Expression | None
    before: TaskList | None
    after: TaskList | None
    pointer: str


@dataclass(frozen=True, slots=True)
class Task:
    """What all tasks have.

    Attributes:
        name: Its name in its list.
        pointer: Where it stands; ``$task.reference`` and the ``instance`` of its errors.
        definition: What was written.
        condition: Whether it is run; on the raw input.
        data: What happens to its data.
        timeout: How long it may take.
        then: Where it goes on.
        extensions: What applies to it, in the order of declaration.
    """

    name: str
    pointer: str
    definition: Mapping[str, Any]
    condition: Expression | None
    data: DataFlow
    timeout: Length | None
    then: Directive
    extensions: tuple[Extension, ...]


@dataclass(frozen=True, slots=True)
class TaskList:
    """Tasks, one after the other.

    Attributes:
        pointer: Where the list stands.
        tasks: The tasks.
        positions: The position of each, by name.
    """

    pointer: str
    tasks: tuple[Task, ...]
    positions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which messages of a channel are consumed, and when that is enough.

    Attributes:
        filter: Whether a message is consumed.
        amount: How many are.
        holds: While this is true of what was consumed.
        until: Until this is true of it.
        length: How long messages are consumed at most.
    """

    filter: Expression | None
    amount: int | None
    holds: Expression | None
    until: Expression | None
    length: Length | None


@dataclass(frozen=True, slots=True)
class CallTask(Task):
    """Calls a protocol or a function.

    Attributes:
        call: ``http``, ``openapi``, ``grpc``, ``asyncapi``, ``a2a``, ``mcp``, or the function.
        arguments: The arguments.
        function: The function's own pointer, if the document defines it.
        subscription: What it subscribes to.
        iterator: What is done with each message of a subscription.
    """

    call: str
    arguments: Value
    function: str | None
    subscription: Subscription | None
    iterator: Iterator | None


@dataclass(frozen=True, slots=True)
class DoTask(Task):
    """Runs tasks one after the other."""

    tasks: TaskList


@dataclass(frozen=True, slots=True)
class EmitTask(Task):
    """Publishes an event with these attributes."""

    event: Value


@dataclass(frozen=True, slots=True)
class ForTask(Task):
    """Runs tasks for each item.

    Attributes:
        each: The variable of the item.
        at: The variable of its position.
        items: The items.
        condition_of_loop: Whether it goes on, before each item.
        tasks: What is run.
    """

    each: str
    at: str
    items: Value
    condition_of_loop: Expression | None
    tasks: TaskList


@dataclass(frozen=True, slots=True)
class ForkTask(Task):
    """Runs tasks side by side; with ``compete``, the first success counts."""

    branches: TaskList
    compete: bool


@dataclass(frozen=True, slots=True)
class Correlation:
    """What events must have in common.

    Attributes:
        key: The name of the correlation.
        source: What finds its value in an event.
        expect: What the value must be; that of the first event if ``None``.
    """

    key: str
    source: Expression
    expect: Value | None


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events are meant.

    Attributes:
        attributes: What each attribute must be: a constant, or an expression on it.
        correlate: What they must have in common.
        pointer: Where it stands.
    """

    attributes: Mapping[str, Value]
    correlate: tuple[Correlation, ...]
    pointer: str


@dataclass(frozen=True, slots=True)
class Strategy:
    """Which events are consumed, and when that is enough.

    Attributes:
        kind: All of the filters, any of them, or the one.
        filters: The filters; none of ``any`` is every event.
        until: What ends it: a condition on what was consumed, or other events.
        pointer: Where it stands.
    """

    kind: Literal["all", "any", "one"]
    filters: tuple[EventFilter, ...]
    until: Expression | Strategy | None
    pointer: str


@dataclass(frozen=True, slots=True)
class Iterator:
    """What is done with each event or message, one after the other."""

    item: str
    at: str
    tasks: TaskList | None
    data: DataFlow


@dataclass(frozen=True, slots=True)
class ListenTask(Task):
    """Waits for events.

    Attributes:
        to: Which events.
        read: What of them: ``data``, ``envelope`` or ``raw``.
        iterator: What is done with each.
        lookback_us: How old they may be when it begins, in microseconds; ``None`` for only later ones.
    """

    to: Strategy
    read: str
    iterator: Iterator | None
    lookback_us: int | None


@dataclass(frozen=True, slots=True)
class RaiseTask(Task):
    """Raises an error; a name under ``use.errors`` has been looked up."""

    error: Value


@dataclass(frozen=True, slots=True)
class RunTask(Task):
    """Runs a container, a script, a shell command or a workflow.

    Attributes:
        process: ``container``, ``script``, ``shell`` or ``workflow``.
        arguments: How.
        awaits: Whether its end is waited for.
        returns: What of it is the output.
    """

    process: str
    arguments: Value
    awaits: bool
    returns: str


@dataclass(frozen=True, slots=True)
class SetTask(Task):
    """Sets the output."""

    value: Value


@dataclass(frozen=True, slots=True)
class Case:
    """A case of a switch; without ``when`` it is the default."""

    name: str
    when: Expression | None
    then: Directive


@dataclass(frozen=True, slots=True)
class SwitchTask(Task):
    """Goes on where the first case that matches says."""

    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Retry:
    """How a failed ``try`` is tried again.

    Attributes:
        when: Whether it is.
        except_when: Whether it is not.
        delay: How long to wait.
        backoff: How the delay grows.
        jitter: What is added at random, at least and at most.
        count: The most retries after the first try.
        attempt_duration: How long an attempt may take.
        duration: How long all may take.
        pointer: Where it stands.
    """

    when: Expression | None
    except_when: Expression | None
    delay: Length | None
    backoff: Literal["constant", "linear", "exponential"]
    jitter: tuple[Length, Length] | None
    count: int | None
    attempt_duration: Length | None
    duration: Length | None
    pointer: str


@dataclass(frozen=True, slots=True)
class Catch:
    """Which errors are caught, and what is done about them.

    Attributes:
        filters: What the error must have; expressions see the error.
        name: The variable of the error.
        when: Whether it is caught.
        except_when: Whether it is not.
        retry: How it is tried again.
        tasks: What is done then.
        then: Where it goes on.
        pointer: Where it stands.
    """

    filters: Value
    name: str
    when: Expression | None
    except_when: Expression | None
    retry: Retry | None
    tasks: TaskList | None
    then: Directive | None
    pointer: str


@dataclass(frozen=True, slots=True)
class TryTask(Task):
    """Runs tasks, and catches their errors."""

    tasks: TaskList
    catch: Catch


@dataclass(frozen=True, slots=True)
class WaitTask(Task):
    """Waits for a while."""

    duration: Length


@dataclass(frozen=True, slots=True)
class Schedule:
    """When the workflow is started by itself.

    Attributes:
        every: After each such interval.
        cron: By a cron text.
        after: So long after its end.
        on: By events.
        read: How these are read: ``data``, ``envelope`` or ``raw``.
    """

    every: Duration | None
    cron: str | None
    after: Duration | None
    on: Strategy | None
    read: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A workflow that is ready to run.

    Attributes:
        tasks: Its tasks.
        data: What happens to its input and output.
        timeout: How long a run may take.
        schedule: When it is started by itself.
        schedule_lookback_us: How old events may be when it is scheduled, in microseconds; ``None`` for only later ones.
        functions: The functions, by name.
        secrets: The secrets that it may ask for.
        strict: Whether only whole texts are expressions.
        size: How many tasks there are, those of functions and extensions too.
    """

    tasks: TaskList
    data: DataFlow
    timeout: Length | None
    schedule: Schedule | None
    schedule_lookback_us: int | None
    functions: Mapping[str, Task]
    secrets: tuple[str, ...]
    strict: bool
    size: int
