"""Observing: an interpreter that tells what becomes of each task. Runs themselves have one that tells nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias

from outlast_serverless.interpreter.faults import BASE, Fault, is_timeout
from outlast_serverless.interpreter.inbox import Inbox
from outlast_serverless.interpreter.interpreter import Interpreter
from outlast_serverless.interpreter.messages import Mailboxes
from outlast_serverless.interpreter.pace import Pace
from outlast_serverless.interpreter.request import Loaded, StartRequest
from outlast_serverless.interpreter.scope import SKIPPED, Ended, Execution, Scope, marks_of
from outlast_serverless.interpreter.state import Continuing
from outlast_serverless.jq import Evaluator
from outlast_serverless.plan.model import Directive, Task

Outcome: TypeAlias = Literal["open", "completed", "skipped", "faulted", "timed_out", "cancelled", "continued"]
"""How an execution of a task has ended, or that it has not."""
Change: TypeAlias = Literal["created", "suspended", "resumed", "started", "continued", "retried", "ended"]
"""What happens to an execution of a task. ``continued`` is one that began in an earlier run of the chain."""


class Step:
    """One execution of a task, while a history is replayed.

    Attributes:
        task: The task.
        marks: What tells it from other executions of the task.
        outcome: How it has ended.
        began: When it began, in microseconds since the epoch.
        ended: When it ended.
        error: The error of the DSL that it ended with.
        input: Its raw input.
        output: Its output, as it flowed on.
        number: Its place among the executions that have begun.
    """

    __slots__ = ("began", "ended", "error", "input", "marks", "number", "outcome", "output", "task")

    def __init__(self, task: Task, marks: str, input: Any) -> None:
        self.task = task
        self.marks = marks
        self.outcome: Outcome = "open"
        self.began: int | None = None
        self.ended: int | None = None
        self.error: dict[str, Any] | None = None
        self.input = input
        self.output: Any = None
        self.number = 0

    @property
    def kind(self) -> str:
        """The kind of the task."""
        return kind_of(self.task)


class Observer(Protocol):
    """Who looks at a run."""

    def task(self, change: Change, step: Step) -> None:
        """Take note of what happens to a task. The times of the step are left to the observer."""
        ...

    def workflow(self, change: str, **more: Any) -> None:
        """Take note of what happens to the run: ``started``, ``suspended``, ``resumed``, ``correlation-started`` …"""
        ...


class ObservedInterpreter(Interpreter):
    """Tells an observer what becomes of each task.

    Args:
        observer: The observer.
        loaded: As for any interpreter, like the rest.
        request: Likewise.
        evaluator: Likewise.
        runtime: Likewise.
        pace: Likewise.
        inbox: Likewise.
        mailboxes: Likewise.
    """

    def __init__(
        self,
        observer: Observer,
        loaded: Loaded,
        request: StartRequest,
        evaluator: Evaluator,
        runtime: Mapping[str, Any],
        pace: Pace,
        inbox: Inbox,
        mailboxes: Mailboxes | None = None,
    ) -> None:
        super().__init__(loaded, request, evaluator, runtime, pace, inbox, mailboxes)
        self._observer = observer
        self._held_by = pace

    async def run(self) -> Any:
        """Run the document to its end."""
        self._observer.workflow("started", document=self._loaded.definition["document"])
        return await super().run()

    async def run_task(self, task: Task, raw: Any, scope: Scope, visit: int = 1) -> tuple[Any, Directive]:
        """Run a task, and tell what becomes of it."""
        step = Step(task, marks_of(scope, visit), raw)
        tell = self._observer.task
        continued = bool(self.frames.left)
        tell("continued" if continued else "created", step)
        try:
            if not continued:
                await self._begin(step)
            output, directive = await self.perform(task, raw, scope, visit)
            # An observer may let go of what a step holds.
            step.output = output
            step.outcome = "skipped" if directive is SKIPPED else "completed"
        except Ended as ended:
            step.output, step.outcome = ended.output, "completed"
            raise
        except Fault as fault:
            own = is_timeout(fault.error) and fault.error.get("instance") == task.pointer
            step.error, step.outcome = fault.error, "timed_out" if own else "faulted"
            raise
        except Continuing:
            step.outcome = "continued"
            raise
        except asyncio.CancelledError:
            step.outcome = "cancelled"
            raise
        except Exception as error:
            step.error = {"type": f"{BASE}runtime", "status": 500, "title": type(error).__name__}
            step.outcome = "faulted"
            raise
        finally:
            if step.outcome != "open":
                tell("ended", step)
        return output, directive

    async def _begin(self, step: Step) -> None:
        held = self._held_by.suspended
        if held:
            self._observer.task("suspended", step)
        await self._held_by.step()
        if held:
            self._observer.task("resumed", step)
        self._observer.task("started", step)

    def retries(self, run: Execution) -> None:
        """Tell that a task is tried again."""
        self._observer.task("retried", Step(run.task, marks_of(run.scope), None))

    def correlates(self, run: Execution, keys: Mapping[str, Any] | None = None) -> None:
        """Tell that a task begins to correlate events, or has done so."""
        if keys is None:
            self._observer.workflow("correlation-started")
        else:
            self._observer.workflow("correlation-completed", keys=dict(keys))


class ObservedPace(Pace):
    """Tells an observer when the run is suspended, and when it is resumed.

    Args:
        observer: The observer.
        tasks: As for any pace, like the rest.
        suspended: Likewise.
    """

    def __init__(self, observer: Observer, tasks: int = 0, *, suspended: bool = False) -> None:
        self._suspended = suspended
        self._observer = observer
        super().__init__(tasks, suspended=suspended)

    @property
    def suspended(self) -> bool:
        """Whether no further task begins."""
        return self._suspended

    @suspended.setter
    def suspended(self, suspended: bool) -> None:
        if suspended != self._suspended:
            self._suspended = suspended
            self._observer.workflow("suspended" if suspended else "resumed")


def kind_of(task: Task) -> str:
    """Return the kind of a task: ``call``, ``set`` …"""
    return _KINDS.setdefault(type(task), type(task).__name__.removesuffix("Task").lower())


_KINDS: Final[dict[type[Task], str]] = {}
