"""The interpreter: it walks a plan, one task after the other. It is plain workflow code, so all it awaits is durable.

Data flows through a task in this order: the condition, the schema and the transformation of its input, its extensions
and its body, the transformation and the schema of its output, what it exports and the schema of that. A deadline counts
from the transformation of the input to the end of the export.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from outlast import workflow
from outlast_serverless.interpreter.data_flow import duration_seconds, validate
from outlast_serverless.interpreter.faults import Fault, as_application_error, fault
from outlast_serverless.interpreter.inbox import Inbox
from outlast_serverless.interpreter.pace import Pace, told_instant
from outlast_serverless.interpreter.request import Loaded, StartRequest
from outlast_serverless.interpreter.scope import CONTINUE, Context, Ended, Execution, Scope
from outlast_serverless.interpreter.tasks.calls import run_call, run_process
from outlast_serverless.interpreter.tasks.deferring import call_request
from outlast_serverless.interpreter.tasks.emitting import run_emit
from outlast_serverless.interpreter.tasks.forks import run_fork
from outlast_serverless.interpreter.tasks.listening import run_listen
from outlast_serverless.interpreter.tasks.loops import run_for
from outlast_serverless.interpreter.tasks.simple import run_do, run_raise, run_set, run_switch, run_wait
from outlast_serverless.interpreter.tasks.tries import run_try
from outlast_serverless.interpreter.timing import limited
from outlast_serverless.jq import Evaluator, ExpressionFailed
from outlast_serverless.plan.model import (
    CallTask,
    DataFlow,
    Directive,
    DoTask,
    Duration,
    EmitTask,
    Expression,
    Extension,
    ForkTask,
    ForTask,
    Length,
    ListenTask,
    RaiseTask,
    RunTask,
    SetTask,
    SwitchTask,
    Task,
    TaskList,
    TryTask,
    Value,
    WaitTask,
)

_US: Final = 1_000_000
_BODIES: Final[dict[type[Task], Callable[..., Awaitable[tuple[Any, Directive | None]]]]] = {
    CallTask: run_call,
    DoTask: run_do,
    EmitTask: run_emit,
    ForTask: run_for,
    ForkTask: run_fork,
    ListenTask: run_listen,
    RaiseTask: run_raise,
    RunTask: run_process,
    SetTask: run_set,
    SwitchTask: run_switch,
    TryTask: run_try,
    WaitTask: run_wait,
}


class Interpreter:
    """Runs one document, in one run.

    Args:
        loaded: The document.
        request: What the run was started with.
        evaluator: Evaluates expressions.
        runtime: What ``$runtime`` is.
        pace: Suspends, and takes breath.
        inbox: The events that reach the run.

    Attributes:
        common: The variables that all expressions can see.
    """

    def __init__(
        self,
        loaded: Loaded,
        request: StartRequest,
        evaluator: Evaluator,
        runtime: Mapping[str, Any],
        pace: Pace,
        inbox: Inbox,
    ) -> None:
        self._loaded = loaded
        self._plan = loaded.plan
        self._request = request
        self._evaluator = evaluator
        self._pace = pace
        self.inbox = inbox
        info = workflow.info()
        self.common: dict[str, Any] = {
            "workflow": {
                "id": info.workflow_id,
                "definition": loaded.definition,
                "input": request.input,
                "startedAt": told_instant(info.start_time),
            },
            "runtime": dict(runtime),
        }

    async def run(self) -> Any:
        """Run the document to its end.

        Raises:
            ApplicationError: It faulted; the error of the DSL is its first detail.
        """
        try:
            if self._request.timeout_us is None:
                return await self._run()
            seconds = self._request.timeout_us / _US
            late = fault("timeout", f"the workflow took longer than {seconds:g} s", "/")
            async with limited(seconds, "timeout /", lambda: late):
                return await self._run()
        except Fault as error:
            raise as_application_error(error) from None

    async def _run(self) -> Any:
        data, raw = self._plan.data, self._request.input
        self._validate(data.input_schema, raw, "input of the workflow", "/")
        given = raw
        if data.input_from is not None:
            given = self.evaluate(data.input_from, raw, self.common, "/")
        context = Context()
        try:
            output, _ = await self.run_list(self._plan.tasks, given, Scope(context))
        except Ended as ended:
            output = ended.output
        if data.output_as is not None:
            variables = {**self.common, "context": context.value}
            output = self.evaluate(data.output_as, output, variables, "/")
        self._validate(data.output_schema, output, "output of the workflow", "/")
        return output

    # --- lists and tasks ----------------------------------------------------------------------------------------------

    async def run_list(self, tasks: TaskList, data: Any, scope: Scope) -> tuple[Any, bool]:
        """Run tasks, one after the other, as their directives say.

        Args:
            tasks: The tasks.
            data: The input of the first one.
            scope: What they can see.

        Returns:
            The output of the last one, and whether it left the list by ``exit``.

        Raises:
            Ended: A task said ``end``.
        """
        index = 0
        visits: dict[str, int] = {}
        while index < len(tasks.tasks):
            task = tasks.tasks[index]
            visit = visits[task.name] = visits.get(task.name, 0) + 1
            data, directive = await self.run_task(task, data, scope, visit)
            if directive.kind == "continue":
                index += 1
            elif directive.kind == "task":
                index = tasks.positions[directive.target]
            elif directive.kind == "exit":
                return data, True
            else:
                raise Ended(data)
        return data, False

    async def run_task(self, task: Task, raw: Any, scope: Scope, visit: int = 1) -> tuple[Any, Directive]:
        """Run a task.

        Args:
            task: The task.
            raw: Its raw input.
            scope: What it can see.
            visit: The how manieth time the list has come to it.

        Returns:
            Its output, and where it goes on. One that is skipped gives its raw input, and goes on with the next.
        """
        await self._pace.step()
        told = {
            **(scope.extended or {}),
            "name": task.name,
            "reference": task.pointer,
            "definition": dict(task.definition),
            "input": raw,
            "startedAt": self._pace.instant,
        }
        run = Execution(task, scope, told, self.common, visit=visit)
        if not self.holds(task.condition, raw, run.before(), task.pointer):
            return raw, CONTINUE
        data = task.data
        self._validate(data.input_schema, raw, "input", task.pointer)
        run.input = raw
        if data.input_from is not None:
            run.input = self.evaluate(data.input_from, raw, run.before(), task.pointer)
        if task.timeout is None:
            return await self._extended(task, run)
        seconds = self.seconds(task.timeout, run.input, run.during(), task.pointer)
        if seconds > 0 and _ends_by_itself(task):
            run.timeout = seconds
            return await self._extended(task, run)
        written = task.timeout.written if isinstance(task.timeout, Duration) else f"{seconds:g} s"
        late = fault("timeout", f"the task took longer than {written}", task.pointer)
        async with limited(seconds, run.label("timeout"), lambda: late):
            return await self._extended(task, run)

    async def _extended(self, task: Task, run: Execution) -> tuple[Any, Directive]:
        """Run a task with its extensions, and let its output flow on."""
        directive: Directive | None = None
        applying = self._applying(task, run)
        scope = run.scope.within()
        if applying:
            scope = Scope(scope.context, scope.variables, scope.marks, task.definition)
        output: Any = None
        skipped = False
        for extension in applying:
            if extension.before is not None and not skipped:
                output, skipped = await self.run_list(extension.before, run.input, scope)
        if not skipped:
            output, directive = await _BODIES[type(task)](self, task, run)
            for extension in reversed(applying):
                if extension.after is not None:
                    await self.run_list(extension.after, output, scope)
        return self.flowing_on(task.data, run, output), directive or task.then

    def _applying(self, task: Task, run: Execution) -> list[Extension]:
        if not task.extensions:
            return []
        variables = {**run.during(), "task": {**task.definition, **run.told}}
        return [one for one in task.extensions if self.holds(one.when, run.input, variables, task.pointer)]

    def flowing_on(self, data: DataFlow, run: Execution, raw: Any) -> Any:
        """Return an output as it flows on, and export of it what is to be exported.

        Args:
            data: What happens to it.
            run: The execution that it comes from.
            raw: The raw output.

        Raises:
            Fault: An expression failed, or a schema is not met.
        """
        output, pointer = raw, run.task.pointer
        if data.output_as is None and data.export_as is None and data.output_schema is None:
            return raw
        run.told = {**run.told, "output": raw}
        if data.output_as is not None:
            output = self.evaluate(data.output_as, raw, run.during(), pointer)
        self._validate(data.output_schema, output, "output", pointer)
        if data.export_as is not None:
            exported = self.evaluate(data.export_as, output, run.after(output), pointer)
            self._validate(data.export_schema, exported, "exported context", pointer)
            run.scope.context.export(exported)
        return output

    # --- what the kinds of tasks need ---------------------------------------------------------------------------------

    def evaluate(self, value: Value, data: Any, variables: Mapping[str, Any], pointer: str) -> Any:
        """Return a value with its expressions evaluated.

        Args:
            value: The value.
            data: What ``.`` is.
            variables: The variables.
            pointer: The task whose fault a failure is.

        Raises:
            Fault: An expression failed.
        """
        try:
            return self._evaluator.evaluate(value, data, variables, workflow.now().timestamp())
        except ExpressionFailed as error:
            raise fault("expression", f"{error.message} at {error.pointer}", pointer) from None

    def holds(
        self, expression: Expression | None, data: Any, variables: Mapping[str, Any], pointer: str
    ) -> bool:
        """Return whether an expression gives something other than null and false; so does one that is not there.

        Args:
            expression: The expression.
            data: What ``.`` is.
            variables: The variables.
            pointer: The task whose fault a failure is.
        """
        if expression is None:
            return True
        value = self.evaluate(expression, data, variables, pointer)
        return value is not None and value is not False

    def seconds(self, length: Length, data: Any, variables: Mapping[str, Any], pointer: str) -> float:
        """Return a length of time in seconds.

        Args:
            length: A duration, or what gives one.
            data: What ``.`` is.
            variables: The variables.
            pointer: The task whose fault a failure is.
        """
        if isinstance(length, Duration):
            return length.microseconds / _US
        return duration_seconds(self.evaluate(length, data, variables, pointer), pointer)

    def function(self, name: str) -> Task:
        """Return the task of a function that the document defines."""
        return self._plan.functions[name]

    def call_request(self, execution: Execution, value: Value, given: Any, **more: Any) -> dict[str, Any]:
        """Return what the activity of a call or process is given.

        Args:
            execution: The execution.
            value: Its arguments.
            given: The input of the task.
            **more: What else the activity is told.
        """
        return call_request(self, self._loaded, execution, value, given, workflow.now().timestamp(), more)

    def _validate(self, schema: Any, value: Any, what: str, pointer: str) -> None:
        validate(self._loaded, schema, value, what, pointer)


def _ends_by_itself(task: Task) -> bool:
    """Return whether the deadline of a task is that of its activity, so that it needs no timer."""
    if task.extensions:
        return False
    if isinstance(task, CallTask):
        return task.function is None
    return isinstance(task, RunTask) and task.process != "workflow"
