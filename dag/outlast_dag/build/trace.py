"""Building a DAG by tracing a function: called once, with outputs in the place of values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, Final, ParamSpec, TypeVar, Unpack, cast, overload

from outlast_dag.build.auxiliaries import trace_role
from outlast_dag.build.building import built
from outlast_dag.build.draft import Draft, Step, outside
from outlast_dag.build.outputs import output_of, parameter_of
from outlast_dag.build.sources import source_line, users_line
from outlast_dag.build.steps import MapOptions, StepOptions, bind, new_step
from outlast_dag.definition import DagDefinition
from outlast_dag.run.actions import NodeFailure
from outlast_dag.spec.dag import FailurePolicy
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.errors import DagValidationError, DurableCallError, InvalidOptionError
from outlast_workflow.options.retry_policy import RetryPolicy
from outlast_workflow.options.validation import validate_name

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")

_traced: Final[ContextVar[Draft]] = ContextVar("the DAG that is being traced")


@overload
def dag(fn: Callable[P, T], /) -> DagDefinition[P, T]: ...


@overload
def dag(
    *,
    name: str | None = None,
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
    strict: bool = False,
) -> Callable[[Callable[P, T]], DagDefinition[P, T]]: ...


def dag(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
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
    strict: bool = False,
) -> Any:
    """Declare a DAG by a function that is called once, here, to learn which steps there are.

    Args:
        fn: The function. Its parameters are those of a run, and what it returns is the result.
        name: The workflow type of its runs; by default the function's name.
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
        strict: Whether warnings are errors.

    Raises:
        DagValidationError: Something is wrong; ``problems`` are all of it, by line.
        InvalidOptionError: The function cannot be a DAG.
    """
    given = {
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
    }

    def decorate(fn: Callable[..., Any]) -> DagDefinition[..., Any]:
        return _trace(fn, name, given, strict)

    return decorate if fn is None else decorate(fn)


def _trace(
    fn: Callable[..., Any], name: str | None, given: dict[str, Any], strict: bool
) -> DagDefinition[..., Any]:
    code = getattr(fn, "__code__", None)
    if code is None:
        raise InvalidOptionError(f"@dag goes on a function, not on a {type(fn).__name__}")
    try:
        signature = CallSignature.of(fn)
    except DurableCallError as error:
        raise InvalidOptionError(error.message) from None
    if signature.var_positional is not None:
        raise InvalidOptionError(f"{signature.name}() takes *{signature.var_positional}: name its parameters")
    source = source_line(code.co_filename, code.co_firstlineno)
    draft = Draft(validate_name("DAG name", name or fn.__name__), source, signature, given)
    token = _traced.set(draft)
    try:
        result = fn(*(parameter_of(draft, parameter) for parameter in signature.names))
    except DagValidationError as error:
        if error.problems[-1].kind != "value_not_known":
            raise
        # What was traced before is looked at too, so that all of it is told at once.
        draft.problems = list(error.problems)
        built(draft, (None,), strict=strict, module=fn.__module__)
        raise
    finally:
        _traced.reset(token)
    if inspect.iscoroutinefunction(fn):
        result.close()
        raise InvalidOptionError(
            f"{fn.__name__} is async: a DAG is written in a plain def, which is traced once"
        )
    hint = signature.result_hint
    if result is None and hint not in (None, type(None), Any):
        draft.problem("no_output", None, f"{fn.__name__}() returns nothing", "return what a step returns")
    definition = built(draft, (result,), strict=strict, module=fn.__module__)
    definition.__doc__ = fn.__doc__
    return definition


@overload
def step(
    activity: Callable[P, Coroutine[Any, Any, T]],
    /,
    *,
    id: str | None = None,
    on_failure: Callable[[NodeFailure], T] | None = None,
    compensate: Callable[[T], object] | None = None,
    **options: Unpack[StepOptions],
) -> Callable[P, T]: ...


@overload
def step(
    activity: str,
    /,
    *,
    result: type[T],
    id: str | None = None,
    on_failure: Callable[[NodeFailure], T] | None = None,
    compensate: Callable[[T], object] | None = None,
    **options: Unpack[StepOptions],
) -> Callable[..., T]: ...


@overload
def step(
    activity: str,
    /,
    *,
    id: str | None = None,
    on_failure: Callable[[NodeFailure], Any] | None = None,
    compensate: Callable[[Any], object] | None = None,
    **options: Unpack[StepOptions],
) -> Callable[..., Any]: ...


def step(
    activity: Any,
    /,
    *,
    result: Any = Any,
    id: str | None = None,
    on_failure: Callable[[Any], Any] | None = None,
    compensate: Callable[[Any], object] | None = None,
    **options: Any,
) -> Callable[..., Any]:
    """Return what adds a step to the DAG that is being traced: call it with the activity's arguments.

    Args:
        activity: The activity, or its name.
        result: What an activity that is given by name returns.
        id: The node's id; by default the activity's name, with a number behind it where that is taken.
        on_failure: Adds the step that runs if this one fails, and whose output becomes this one's: a function of the
            failure, ``lambda failure: step(ask, timeout=10)(failure.message)``.
        compensate: Adds the step that undoes this one if the run ends badly: a function of what this one returned,
            ``lambda paid: step(refund, timeout=10)(paid.id)``.
        **options: See :class:`StepOptions`.
    """
    source = users_line()

    def add(*args: Any, **kwargs: Any) -> Any:
        draft = traced("a step")
        made = new_step(draft, "task", activity, options, source, id=id, result=result)
        made.args = bind(made, draft, args, kwargs)
        add_roles(draft, made, on_failure, compensate)
        return output_of(draft, made)

    return add


@overload
def each(
    activity: Callable[[A], Coroutine[Any, Any, R]],
    /,
    *,
    id: str | None = None,
    on_failure: Callable[[NodeFailure], list[R]] | None = None,
    compensate: Callable[[list[R]], object] | None = None,
    **options: Unpack[MapOptions],
) -> Callable[[Iterable[A]], list[R]]: ...


@overload
def each(
    activity: str,
    /,
    *,
    result: type[R],
    id: str | None = None,
    on_failure: Callable[[NodeFailure], list[R]] | None = None,
    compensate: Callable[[list[R]], object] | None = None,
    **options: Unpack[MapOptions],
) -> Callable[[Iterable[Any]], list[R]]: ...


@overload
def each(
    activity: str,
    /,
    *,
    id: str | None = None,
    on_failure: Callable[[NodeFailure], Any] | None = None,
    compensate: Callable[[Any], object] | None = None,
    **options: Unpack[MapOptions],
) -> Callable[[Iterable[Any]], list[Any]]: ...


def each(
    activity: Any,
    /,
    *,
    result: Any = Any,
    id: str | None = None,
    on_failure: Callable[[Any], Any] | None = None,
    compensate: Callable[[Any], object] | None = None,
    **options: Any,
) -> Callable[[Iterable[Any]], list[Any]]:
    """Return what adds a step for each item of a list: call it with the list.

    The results have the order of the items.

    Args:
        activity: The activity, or its name. It takes an item.
        result: What an activity that is given by name returns.
        id: The node's id; by default the activity's name, with a number behind it where that is taken.
        on_failure: Adds the step that runs if this one fails, and whose output becomes this one's: a function of the
            failure, ``lambda failure: step(ask, timeout=10)(failure.message)``.
        compensate: Adds the step that undoes this one if the run ends badly: a function of what this one returned,
            ``lambda paid: step(refund, timeout=10)(paid.id)``.
        **options: See :class:`MapOptions`.
    """
    source = users_line()

    def add(items: Iterable[Any]) -> list[Any]:
        draft = traced("each()")
        made = new_step(draft, "map", activity, options, source, id=id, result=result)
        made.over = items
        add_roles(draft, made, on_failure, compensate)
        return cast("list[Any]", output_of(draft, made))

    return add


def add_roles(
    draft: Draft,
    made: Step,
    on_failure: Callable[[Any], Any] | None,
    compensate: Callable[[Any], object] | None,
) -> None:
    """Add the steps that run if a step fails, and that undo it.

    Args:
        draft: The DAG.
        made: The step.
        on_failure: Adds the step that runs if it fails.
        compensate: Adds the step that undoes it.
    """
    if on_failure is not None:
        trace_role(draft, made, "on_failure", on_failure)
    if compensate is not None:
        trace_role(draft, made, "compensate", compensate)


def group(name: str) -> AbstractContextManager[None]:
    """Put the steps that are called in a ``with`` block into a group: their ids are ``name/id``.

    Args:
        name: The group's name.
    """
    return traced("group()").group(name)


def traced(what: str) -> Draft:
    """Return the DAG that is being traced.

    Args:
        what: What is called, in messages.

    Raises:
        DagValidationError: None is.
    """
    draft = _traced.get(None)
    if draft is None:
        raise outside(what)
    return draft
