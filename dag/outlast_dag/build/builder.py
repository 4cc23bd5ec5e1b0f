"""Building a DAG step by step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Self, Unpack

from outlast_dag.build.auxiliaries import failure_of, set_role
from outlast_dag.build.building import built
from outlast_dag.build.compiling import INPUT
from outlast_dag.build.draft import Draft, Step
from outlast_dag.build.outputs import Output, Place, last_of, or_else, parameter_of
from outlast_dag.build.sources import source_line, users_frame, users_line
from outlast_dag.build.steps import (
    Activity,
    Condition,
    DetachedOptions,
    MapOptions,
    NodeOptions,
    PlanOptions,
    RepeatOptions,
    StepOptions,
    new_step,
    set_option,
)
from outlast_dag.definition import DagDefinition
from outlast_dag.run.approvals import Decision
from outlast_dag.spec.dag import FailurePolicy
from outlast_dag.spec.nodes import ClosePolicy, CompensateWhen, Rule, TimeoutDecision
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.options.retry_policy import RetryPolicy
from outlast_workflow.options.validation import validate_name


class Handle(Output):
    """A step of a DAG that is being built, and what it will return: ``fetch.rows`` is an output with a path.

    An output's field that is called like a method is reached by its key: ``fetch["after"]``.
    """

    __slots__ = ()

    @property
    def id(self) -> str:
        """The node's id."""
        return self._step.id

    @property
    def _step(self) -> Step:
        step = self._at.step
        assert step is not None
        return step

    def _set(self, name: str, value: Any) -> Self:
        set_option(self._at.draft, self._step, name, value)
        return self

    def after(self, *steps: Output | str) -> Self:
        """Let it wait for other steps. What they return is its argument if it is given none.

        Args:
            *steps: Steps, or their ids.
        """
        return self._set("after", list(steps))

    def with_args(self, *args: Any) -> Self:
        """Give it arguments, or none: outputs and their parts, ``flow.input``, and JSON values.

        Args:
            *args: The activity's arguments.
        """
        self._step.args = args
        return self

    def with_timeout(self, timeout: float | timedelta, *, extended_by_heartbeat: bool = False) -> Self:
        """Bound each attempt, a child, or a wait.

        Args:
            timeout: How long it may take, in seconds or a timedelta.
            extended_by_heartbeat: Whether each heartbeat gives the attempt the timeout anew; then a schedule-to-close
                timeout, or the DAG's timeout, must bound the step.
        """
        if extended_by_heartbeat:
            self._set("extended_by_heartbeat", True)
        return self._set("timeout", timeout)

    def with_retry(self, retry: RetryPolicy | int) -> Self:
        """Set the retry policy, or how many attempts there may be."""
        return self._set("retry", retry)

    def with_heartbeat_timeout(self, timeout: float | timedelta) -> Self:
        """Bound how long a running attempt may go without a heartbeat."""
        return self._set("heartbeat_timeout", timeout)

    def with_schedule_to_close_timeout(self, timeout: float | timedelta) -> Self:
        """Bound how long all attempts together may take."""
        return self._set("schedule_to_close_timeout", timeout)

    def with_schedule_to_start_timeout(self, timeout: float | timedelta) -> Self:
        """Bound how long an attempt may wait for a worker."""
        return self._set("schedule_to_start_timeout", timeout)

    def with_task_queue(self, task_queue: str) -> Self:
        """Set where it runs."""
        return self._set("task_queue", task_queue)

    def with_queue(self, queue: str, partition_key: str | None = None) -> Self:
        """Set the queue that decides when each attempt begins, and the partition of it.

        Args:
            queue: The queue.
            partition_key: Its partition of the queue.
        """
        self._set("partition_key", partition_key)
        return self._set("queue", queue)

    def with_priority(self, priority: int) -> Self:
        """Set the priority: 0 (first) to 9."""
        return self._set("priority", priority)

    def skip_when(self, condition: Condition) -> Self:
        """Skip it if this holds when it could begin."""
        return self._set("skip_when", condition)

    def run_when(self, condition: Condition) -> Self:
        """Skip it unless this holds when it could begin."""
        return self._set("run_when", condition)

    def trigger(self, rule: Rule) -> Self:
        """Set how the steps that it waits for must have ended."""
        return self._set("trigger", rule)

    def on_failure(self, step: Output | str) -> Self:
        """Let another step run if this one fails. What that one returns takes the place of this one's output.

        Args:
            step: The other step, or its id. Without arguments it is given ``flow.failure``.
        """
        set_role(self._at.draft, self._step, "on_failure", step)
        return self

    def compensate(self, step: Output | str, *, when: CompensateWhen = "completed") -> Self:
        """Let another step undo this one if the run ends badly.

        Args:
            step: The other step, or its id. Without arguments it is given what this one returned.
            when: Whether this one is undone only if it has ``completed``, or also if it has ``started``: an attempt
                that timed out may have had its effect. What it returned is null then.
        """
        set_role(self._at.draft, self._step, "compensate", step)
        return self._set("compensate_when", when)

    def or_else(self, other: Any) -> Any:
        """Return what it returns, or something else where it returns nothing, because it was skipped or failed."""
        return or_else(Output(self._at), other)


class DagBuilder:
    """Builds a DAG step by step. What is wrong is told by :meth:`build`, all at once.

    Args:
        name: The workflow type of its runs.
        version: What you call this version; for people.
        timeout: The run timeout.
        retry: The retry policy of steps that have none, or how many attempts they may have; by default 3.
        task_queue: Where steps run that have no task queue of their own; by default where the DAG runs.
        priority: The priority of steps that have none.
        max_parallel: How many steps and items run at once; 0 for all.
        failure: Whether a failed step ends the others at once (``fail_fast``), or they are left to finish (``finish``).
        reserve: How long before its deadline a run is stopped, so that what it has done is undone in time.
        compensate_on_cancel: Whether what a cancelled run has done is undone.
        cancel_on: The signal that cancels a run.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str | None = None,
        timeout: float | timedelta | None = None,
        retry: RetryPolicy | int | None = None,
        task_queue: str | None = None,
        priority: int | None = None,
        max_parallel: int | None = None,
        failure: FailurePolicy = "fail_fast",
        reserve: float | timedelta | None = None,
        compensate_on_cancel: bool = True,
        cancel_on: str | None = None,
    ) -> None:
        frame = users_frame()
        self._module = str(frame.f_globals.get("__name__", ""))
        self._draft = Draft(
            validate_name("DAG name", name),
            source_line(frame.f_code.co_filename, frame.f_lineno),
            CallSignature(name, (INPUT,), (Any,), defaults=(None,)),
            {
                "version": version,
                "timeout": timeout,
                "retry_policy": retry,
                "task_queue": task_queue,
                "priority": priority,
                "max_parallel": max_parallel,
                "failure": failure,
                "reserve": reserve,
                "compensate_on_cancel": compensate_on_cancel,
                "cancel_on": cancel_on,
            },
        )
        self._result: tuple[Any, ...] = ()

    @property
    def input(self) -> Any:
        """What a run is started with: its one argument."""
        return parameter_of(self._draft, INPUT)

    @property
    def failure(self) -> Any:
        """What a step is given that runs because another one has failed: a :class:`NodeFailure`."""
        return failure_of(self._draft)

    def with_timeout(self, timeout: float | timedelta) -> Self:
        """Set the run timeout.

        Args:
            timeout: How long a run may take, in seconds or a timedelta.
        """
        self._draft.given["timeout"] = timeout
        return self

    def task(self, id: str, activity: Activity | str, *args: Any, **options: Unpack[StepOptions]) -> Handle:
        """Add a step that calls an activity.

        Args:
            id: The node's id.
            activity: The activity, or its name.
            *args: Its arguments. Without any it is given what the step that it comes ``after`` returns; of several an
                object with what each returns, by id; after none, the run's input.
            **options: See :class:`StepOptions`.
        """
        step = new_step(self._draft, "task", activity, options, users_line(), id=id)
        step.args = args or None
        return self._handle(step)

    def each(self, id: str, activity: Activity | str, items: Any, **options: Unpack[MapOptions]) -> Handle:
        """Add a step that calls an activity for each item of a list, and returns the results in their order.

        Args:
            id: The node's id.
            activity: The activity, or its name. It takes an item.
            items: The list: an output, or a part of one.
            **options: See :class:`MapOptions`.
        """
        step = new_step(self._draft, "map", activity, options, users_line(), id=id)
        step.over = items
        return self._handle(step)

    def repeat(
        self,
        id: str,
        activity: Activity | str,
        *args: Any,
        until: Callable[[Any], bool],
        **options: Unpack[RepeatOptions],
    ) -> Handle:
        """Add a step that calls an activity until a condition holds of its result, which it returns.

        Args:
            id: The node's id.
            activity: The activity, or its name.
            *args: The arguments of each call, as of a task; :meth:`last` among them.
            until: A function of the result that returns a condition. It is called once, by :meth:`build`.
            **options: See :class:`RepeatOptions`. One of max_iterations and max_duration must be there.
        """
        step = new_step(self._draft, "repeat", activity, {**options, "until": until}, users_line(), id=id)
        step.args = args or None
        return self._handle(step)

    def plan(self, id: str, activity: Activity | str, *args: Any, **options: Unpack[PlanOptions]) -> Handle:
        """Add a step that calls an activity which returns a DAG, runs that, and returns what it returns.

        Args:
            id: The node's id.
            activity: The planner, or its name. It returns a document as ``outlast dag schema`` describes it: an object
                with ``nodes``.
            *args: Its arguments, as of a task.
            **options: See :class:`PlanOptions`. A timeout, allow and run_timeout must be there.
        """
        step = new_step(self._draft, "plan", activity, options, users_line(), id=id)
        step.args = args or None
        return self._handle(step)

    def last(self, first: Any) -> Any:
        """Return what the call before returned, to be given to a call that is repeated.

        Args:
            first: What is given to the first call: a constant, or an output.
        """
        return last_of(self._draft, first)

    def child(
        self,
        id: str,
        workflow: Any,
        *args: Any,
        parent_close_policy: ClosePolicy = "terminate",
        **options: Unpack[DetachedOptions],
    ) -> Handle:
        """Add a step that runs a workflow as a child, and returns what that returns.

        Args:
            id: The node's id.
            workflow: A workflow, another DAG among them, or the name of one.
            *args: Its arguments, as of a task.
            parent_close_policy: What happens to it when the DAG's run ends: ``terminate``, ``request_cancel`` or
                ``abandon``. With the last the step waits only until the child has started, and returns its ids.
            **options: See :class:`DetachedOptions`.
        """
        given = {**options, "parent_close_policy": parent_close_policy}
        step = new_step(self._draft, "child", workflow, given, users_line(), id=id)
        step.args = args or None
        return self._handle(step)

    def sleep(
        self,
        id: str,
        seconds: float | timedelta | None = None,
        *,
        until: Any = None,
        timeout: float | timedelta | None = None,
        **options: Unpack[NodeOptions],
    ) -> Handle:
        """Add a wait for so long, or until an instant.

        Args:
            id: The node's id.
            seconds: How long, in seconds or a timedelta.
            until: The instant: a datetime with a time zone, or an output that is one. One that has passed is no wait.
            timeout: How far ahead that may lie; if it lies further, the node fails at once.
            **options: See :class:`NodeOptions`.
        """
        given = {**options, "seconds": seconds, "until": until, "timeout": timeout}
        return self._handle(new_step(self._draft, "sleep", id, given, users_line(), id=id, result=type(None)))

    def wait_for(
        self,
        id: str,
        event: str,
        *,
        match: Callable[[Any], bool] | None = None,
        timeout: float | timedelta | None = None,
        on_timeout: Any = "fail",
        **options: Unpack[NodeOptions],
    ) -> Handle:
        """Add a wait for a signal, whose argument it returns. One that came before the wait began is there for it.

        Args:
            id: The node's id.
            event: The signal's name.
            match: A function of the argument that returns a condition: which signals count. :meth:`build` calls it.
            timeout: How long to wait.
            on_timeout: ``"fail"``, or a constant: what is returned if none comes in time.
            **options: See :class:`NodeOptions`.
        """
        given = {**options, "event": event, "match": match, "timeout": timeout, "on_timeout": on_timeout}
        return self._handle(new_step(self._draft, "wait_for", event, given, users_line(), id=id))

    def approval(
        self,
        id: str,
        *,
        timeout: float | timedelta | None = None,
        on_timeout: TimeoutDecision = "reject",
        **options: Unpack[NodeOptions],
    ) -> Handle:
        """Add a wait for somebody's decision, which it returns. What comes ``after`` it runs however it was decided.

        Args:
            id: The node's id, by which it is decided.
            timeout: How long to wait.
            on_timeout: What it is if nobody decides in time: ``reject``, ``approve`` or ``fail``.
            **options: See :class:`NodeOptions`.
        """
        given = {**options, "timeout": timeout, "on_timeout": on_timeout}
        return self._handle(
            new_step(self._draft, "approval", id, given, users_line(), id=id, result=Decision)
        )

    def _handle(self, step: Step) -> Handle:
        return Handle(Place(self._draft, "of", step, hint=step.result_hint))

    def group(self, name: str) -> AbstractContextManager[None]:
        """Put the steps that are added in a ``with`` block into a group: their ids are ``name/id``."""
        return self._draft.group(name)

    def output(self, value: Any) -> Self:
        """Set what a run returns; by default what the last step returns, of several an object with each by its id.

        Args:
            value: A step, a part of what it returns, or JSON of these.
        """
        self._result = (value,)
        return self

    def build(self, *, strict: bool = False) -> DagDefinition[..., Any]:
        """Return the DAG.

        Args:
            strict: Whether warnings are errors.

        Raises:
            DagValidationError: Something is wrong; ``problems`` are all of it, by line.
        """
        return built(self._draft, self._result, strict=strict, module=self._module)
