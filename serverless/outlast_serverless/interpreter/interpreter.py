"""The interpreter: it walks a plan, one task after the other. It is plain workflow code, so all it awaits is durable.

Data flows through a task in this order: the condition, the schema and the transformation of its input, its extensions
and its body, the transformation and the schema of its output, what it exports and the schema of that. A deadline counts
from the transformation of the input to the end of the export.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from outlast import workflow
from outlast_serverless.interpreter.data_flow import check_recordable, duration_seconds, validate
from outlast_serverless.interpreter.faults import Fault, as_application_error, fault
from outlast_serverless.interpreter.fetched import FETCH, Fetched, is_fetched
from outlast_serverless.interpreter.inbox import Inbox
from outlast_serverless.interpreter.messages import Mailboxes
from outlast_serverless.interpreter.pace import Pace, told_instant
from outlast_serverless.interpreter.request import Loaded, StartRequest
from outlast_serverless.interpreter.scope import SKIPPED, Context, Ended, Execution, Scope, label_of
from outlast_serverless.interpreter.state import (
    Continuing,
    ExtensionsFrame,
    Frames,
    ListenFrame,
    ListFrame,
    State,
    TaskFrame,
)
from outlast_serverless.interpreter.tasks.calls import call_activity, run_call, run_process
from outlast_serverless.interpreter.tasks.deferring import call_request, fetch_request
from outlast_serverless.interpreter.tasks.emitting import run_emit
from outlast_serverless.interpreter.tasks.forks import run_fork
from outlast_serverless.interpreter.tasks.listening import run_listen, unsubscribe
from outlast_serverless.interpreter.tasks.loops import run_for
from outlast_serverless.interpreter.tasks.simple import run_do, run_raise, run_set, run_switch, run_wait
from outlast_serverless.interpreter.tasks.tries import run_try
from outlast_serverless.interpreter.timing import Deadline, limited
from outlast_serverless.jq import Evaluator, ExpressionFailed
from outlast_serverless.plan.kinds import PROTOCOLS
from outlast_serverless.plan.model import (
    CallTask,
    DataFlow,
    Directive,
    DoTask,
    Duration,
    EmitTask,
    Expression,
    ForkTask,
    ForTask,
    Length,
    ListenTask,
    RaiseTask,
    RunTask,
    Schema,
    SetTask,
    SwitchTask,
    Task,
    TaskList,
    TryTask,
    Value,
    WaitTask,
)
from outlast_workflow.data.writing import UnwritableError, dump

_US: Final = 1_000_000
MOST_BYTES: Final = 3 << 19
"""So many bytes may be carried into the next run: three quarters of a payload, so that a codec has room."""
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
        mailboxes: The messages of subscriptions that reach it.

    Attributes:
        common: The variables that all expressions can see.
        frames: What is still to be taken up of the run before, where this one continues it.
    """

    def __init__(
        self,
        loaded: Loaded,
        request: StartRequest,
        evaluator: Evaluator,
        runtime: Mapping[str, Any],
        pace: Pace,
        inbox: Inbox,
        mailboxes: Mailboxes | None = None,
    ) -> None:
        self._loaded = loaded
        self._plan = loaded.plan
        self._request = request
        self._evaluator = evaluator
        self._pace = pace
        self.inbox = inbox
        self._asides: set[asyncio.Future[Any]] = set()
        self._deadline: Deadline | None = None
        self._fetched = Fetched(self, None if request.state is None else request.state.fetched)
        self.mailboxes = mailboxes or Mailboxes()
        info = workflow.info()
        began = told_instant(info.start_time) if request.state is None else request.state.started
        self.common: dict[str, Any] = {
            "workflow": {
                "id": info.workflow_id,
                "definition": loaded.definition,
                "input": request.input,
                "startedAt": began,
            },
            "runtime": dict(runtime),
        }
        self._take_up(request.state)

    async def run(self) -> Any:
        """Run the document to its end.

        Raises:
            ApplicationError: It faulted; the error of the DSL is its first detail.
        """
        self.inbox.running = True
        while True:
            try:
                output = await self._in_time()
                check_recordable(output, "output of the workflow", "/")
                return output
            except Continuing as going:
                self._continue(going)
            except Fault as error:
                raise as_application_error(error) from None

    async def _in_time(self) -> Any:
        timeout_us = self._request.timeout_us
        if timeout_us is None:
            return await self._run()
        seconds = timeout_us / _US
        deadline = self._deadline = self._deadline or Deadline.after(seconds)
        late = fault("timeout", f"the workflow took longer than {seconds:g} s", "/")
        async with limited(deadline, "timeout /", lambda: late):
            return await self._run()

    async def _run(self) -> Any:
        data, given = self._plan.data, self._request.input
        # What cannot be fetched is told before anything is done.
        await self._fetched.schemas(self._loaded, None, data.input_schema, data.output_schema)
        if not self.frames.left:
            self._validate(data.input_schema, given, "input of the workflow", "/")
            if data.input_from is not None:
                given = self.evaluate(data.input_from, given, self.common, "/")
        try:
            output, _ = await self.run_list(self._plan.tasks, given, Scope(self._context))
        except Ended as ended:
            output = ended.output
        if data.output_as is not None:
            variables = {**self.common, "context": self._context.value}
            output = self.evaluate(data.output_as, output, variables, "/")
        self._validate(data.output_schema, output, "output of the workflow", "/")
        return output

    # --- continuing as new --------------------------------------------------------------------------------------------

    async def safe_point(self, scope: Scope) -> None:
        """Continue as new, if it is time to and the scope is in no fork.

        Args:
            scope: The scope of the list or listen that is at the point.

        Raises:
            Continuing: Each body that it passes adds its frame.
        """
        if scope.forked or not self._pace.due:
            return
        if self._asides:
            # Subscriptions that are being closed would stay open.
            await asyncio.wait(self._asides)
        self.inbox.pack(looks_back=self._loaded.looks_back or self._fetched.mentions("lookback"))
        raise Continuing

    def drop_frames(self) -> None:
        """Leave what a task that has failed was to take up: its time was up before it came to that."""
        for frame in self.frames.drop():
            if frame["of"] == "listen":
                execution = cast("ListenFrame", frame)["execution"]
                unsubscribe(self, execution, label_of("unsubscribe", execution))

    def look(self) -> None:
        """Count an event that was looked at."""
        self._pace.move()

    def aside(self, work: asyncio.Future[Any]) -> None:
        """Leave work to itself, but for the run's continuing as new, which waits for it.

        Args:
            work: The work.
        """
        self._asides.add(work)
        work.add_done_callback(self._asides.discard)

    def _take_up(self, state: State | None) -> None:
        """Go on where a state says, once the bodies are entered again."""
        self.frames = Frames(() if state is None else state.frames)
        self._context = Context(None if state is None else state.context)
        known, timeout_us = None if state is None else state.deadline_us, self._request.timeout_us
        if known is not None and timeout_us is not None:
            self._deadline = Deadline(known, timeout_us / _US)

    def _continue(self, going: Continuing) -> None:
        """Continue as new; where the state is too large for that, go on in this run."""
        state = State(
            tuple(reversed(going.frames)),
            self._context.value,
            self.common["workflow"]["startedAt"],
            self._pace.tasks,
            self._pace.suspended,
            None if self._deadline is None else self._deadline.at_us,
            self.common["runtime"]
            if self._loaded.mentions_runtime or self._fetched.mentions("$runtime")
            else None,
            self.inbox.carry(),
            self._fetched.kept,
        )
        request = replace(self._request, state=state).to_json()
        try:
            size = len(dump([request]))
        except UnwritableError as error:
            workflow.logger.warning(
                "%s cannot continue as new, so its history grows: of its data, %s", self._loaded.name, error
            )
        else:
            if size <= MOST_BYTES:
                workflow.continue_as_new(request)
            workflow.logger.warning(
                "%s cannot continue as new, so its history grows: its data have %d bytes, and %d may be carried. Keep "
                "large data elsewhere, and less of them in inputs, outputs, the context and unconsumed events",
                self._loaded.name,
                size,
                MOST_BYTES,
            )
        self._pace.hold()
        self._take_up(state)

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
        frame: ListFrame | None = self.frames.take("list", None)
        index, visits = 0, {}
        if frame is not None:
            index, visits, data = frame["index"], frame["visits"], frame["data"]
        try:
            while index < len(tasks.tasks):
                task = tasks.tasks[index]
                # A task that has frames of its own is under way.
                if not self.frames.left:
                    await self.safe_point(scope)
                    visits[task.name] = visits.get(task.name, 0) + 1
                data, directive = await self.run_task(task, data, scope, visits[task.name])
                if directive.kind == "continue":
                    index += 1
                elif directive.kind == "task":
                    index = tasks.positions[directive.target]
                elif directive.kind == "exit":
                    return data, True
                else:
                    raise Ended(data)
        except Continuing as going:
            going.add({"of": "list", "index": index, "visits": visits, "data": data})
            raise
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
        if not self.frames.left:
            await self._pace.step()
        return await self.perform(task, raw, scope, visit)

    async def perform(self, task: Task, raw: Any, scope: Scope, visit: int) -> tuple[Any, Directive]:
        """Run a task that has begun. The arguments and what is returned are those of :meth:`run_task`."""
        frame: TaskFrame | None = self.frames.take("task", None)
        began = self._pace.instant
        if frame is not None:
            raw, began = frame["raw"], frame["began"]
        told = {
            **(scope.extended or {}),
            "name": task.name,
            "reference": task.pointer,
            "definition": dict(task.definition),
            "input": raw,
            "startedAt": began,
        }
        if visit > 1:
            scope = scope.within(f"visit={visit}")
        run = Execution(task, scope, told, self.common)
        deadline: Deadline | None = None
        if frame is not None:
            run.input = frame["input"]
            deadline = Deadline(*frame["deadline"]) if "deadline" in frame else None
        else:
            if not self.holds(task.condition, raw, run.before(), task.pointer):
                return raw, SKIPPED
            if is_fetched(task.data.input_schema):
                await self._fetched.schemas(scope.unit or self._loaded, run, task.data.input_schema)
            self._take_input(run)
            if task.timeout is not None:
                seconds = self.seconds(task.timeout, run.input, run.during(), task.pointer)
                if seconds > 0 and _ends_by_itself(task):
                    run.timeout = seconds
                else:
                    deadline = Deadline.after(seconds)
        try:
            if deadline is None:
                return await self._extended(task, run)
            written = (
                task.timeout.written if isinstance(task.timeout, Duration) else f"{deadline.seconds:g} s"
            )
            late = fault("timeout", f"the task took longer than {written}", task.pointer)
            async with limited(deadline, run.label("timeout"), lambda: late):
                return await self._extended(task, run)
        except Continuing as going:
            frame = {"of": "task", "raw": raw, "input": run.input, "began": began}
            if deadline is not None:
                frame["deadline"] = [*deadline]
            going.add(frame)
            raise

    def _take_input(self, run: Execution) -> None:
        """Let the input of a task flow in."""
        raw, data, pointer = run.told["input"], run.task.data, run.task.pointer
        self._validate(data.input_schema, raw, "input", pointer, run.scope.unit)
        run.input = raw
        if data.input_from is not None:
            run.input = self.evaluate(data.input_from, raw, run.before(), pointer)

    async def _extended(self, task: Task, run: Execution) -> tuple[Any, Directive]:
        """Run a task with its extensions, and let its output flow on."""
        if _fetches(task):
            # Before its body: what cannot be checked is not done.
            await self._fetched.schemas(run.scope.unit or self._loaded, run, *_schemas_after(task))
        if task.extensions:
            output, directive = await self._with_extensions(task, run)
        else:
            output, directive = await _BODIES[type(task)](self, task, run)
        return self.flowing_on(task.data, run, output), directive or task.then

    async def _with_extensions(self, task: Task, run: Execution) -> tuple[Any, Directive | None]:
        begun = self.frames.left
        new: ExtensionsFrame = {
            "of": "extensions",
            "applying": [] if begun else self._applying(task, run),
            "done": 0,
            "output": None,
            "skipped": False,
            "then": None,
        }
        frame = self.frames.take("extensions", new)
        applying = [task.extensions[one] for one in frame["applying"]]
        # The tasks of an extension are executed for each task that it extends.
        scope = replace(run.scope.within(f"of={task.pointer}"), extended=task.definition)
        try:
            while frame["done"] < len(applying) and not frame["skipped"]:
                before = applying[frame["done"]].before
                if before is not None:
                    frame["output"], frame["skipped"] = await self.run_list(before, run.input, scope)
                frame["done"] += 1
            if not frame["skipped"] and frame["done"] == len(applying):
                frame["output"], directive = await _BODIES[type(task)](self, task, run)
                frame["then"] = None if directive is None else [directive.kind, directive.target]
                frame["done"] += 1
            while not frame["skipped"] and frame["done"] <= 2 * len(applying):
                after = applying[2 * len(applying) - frame["done"]].after
                if after is not None:
                    await self.run_list(after, frame["output"], scope)
                frame["done"] += 1
        except Continuing as going:
            going.add(frame)
            raise
        then = frame["then"]
        return frame["output"], None if then is None else Directive(*then)

    def _applying(self, task: Task, run: Execution) -> list[int]:
        variables = {**run.during(), "task": {**task.definition, **run.told}}
        return [
            position
            for position, one in enumerate(task.extensions)
            if self.holds(one.when, run.input, variables, task.pointer)
        ]

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
        unit = run.scope.unit
        if data.output_as is None and data.export_as is None and data.output_schema is None:
            return raw
        run.told = {**run.told, "output": raw}
        if data.output_as is not None:
            output = self.evaluate(data.output_as, raw, run.during(), pointer)
        self._validate(data.output_schema, output, "output", pointer, unit)
        if data.export_as is not None:
            exported = self.evaluate(data.export_as, output, run.after(output), pointer)
            self._validate(data.export_schema, exported, "exported context", pointer, unit)
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

    def retries(self, run: Execution) -> None:
        """Say that a task is tried again, to who looks at the run: nobody here.

        Args:
            run: The execution.
        """

    def correlates(self, run: Execution, keys: Mapping[str, Any] | None = None) -> None:
        """Say that a task begins to correlate events, or has done so, to who looks at the run: nobody here.

        Args:
            run: The execution.
            keys: The values by which it has; ``None`` when it begins.
        """

    def function(self, name: str) -> Task:
        """Return the task of a function that the document defines."""
        return self._plan.functions[name]

    async def fetched_function(self, called: str, run: Execution) -> tuple[str, Loaded]:
        """Return a function that is not in the document, fetched once, and what tells it from all others.

        Args:
            called: Its URL, or its name and version and a catalog.
            run: The execution that calls it.

        Raises:
            Fault: It cannot be fetched or used, or is being called already.
        """
        return await self._fetched.function(called, run.scope.unit or self._loaded, run)

    async def fetch(self, unit: Loaded, run: Execution | None, value: Value, more: Mapping[str, Any]) -> Any:
        """Fetch a resource, without a look at what was fetched before.

        Args:
            unit: What it stands in.
            run: The execution that needs it; ``None`` for the workflow itself.
            value: Where it is.
            more: What else the activity is told.

        Raises:
            Fault: It cannot be fetched or used.
        """
        request = fetch_request(self, unit, run, value, self._request.input, workflow.now().timestamp(), more)
        label = "fetch /" if run is None else run.label("fetch")
        return await call_activity(
            FETCH, request, None if run is None else run.timeout, label, request["pointer"]
        )

    def call_request(self, execution: Execution, value: Value, given: Any, **more: Any) -> dict[str, Any]:
        """Return what the activity of a call or process is given.

        Args:
            execution: The execution.
            value: Its arguments.
            given: The input of the task.
            **more: What else the activity is told.
        """
        unit = execution.scope.unit or self._loaded
        return call_request(self, unit, execution, value, given, workflow.now().timestamp(), more)

    def _validate(
        self, schema: Schema | None, value: Any, what: str, pointer: str, unit: Loaded | None = None
    ) -> None:
        if schema is not None:
            source = self._fetched if is_fetched(schema) else unit or self._loaded
            validate(source.validator, schema, value, what, pointer)


def _ends_by_itself(task: Task) -> bool:
    """Return whether the deadline of a task is that of its activity, so that it needs no timer."""
    if task.extensions or _fetches(task):
        return False
    if isinstance(task, CallTask):
        return task.call in PROTOCOLS and task.iterator is None
    return isinstance(task, RunTask) and task.process != "workflow"


def _fetches(task: Task) -> bool:
    """Return whether the output of a task is held against a schema that has to be fetched."""
    return any(is_fetched(schema) for schema in _schemas_after(task))


def _schemas_after(task: Task) -> tuple[Schema | None, ...]:
    """Return the schemas of what a task gives, and of what becomes of each event that it consumes."""
    found = (task.data.output_schema, task.data.export_schema)
    iterator = task.iterator if isinstance(task, ListenTask | CallTask) else None
    return found if iterator is None else (*found, iterator.data.output_schema, iterator.data.export_schema)
