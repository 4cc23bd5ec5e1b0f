"""Calls of a DAG that is traced, other than of an activity once: repeated ones, and child workflows."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Literal, ParamSpec, TypeVar, Unpack, cast, overload

from outlast_dag.build.outputs import last_of, output_of
from outlast_dag.build.sources import users_line
from outlast_dag.build.steps import (
    ChildOptions,
    DetachedChild,
    DetachedOptions,
    PlanOptions,
    RepeatOptions,
    bind,
    new_step,
)
from outlast_dag.build.trace import add_roles, traced
from outlast_dag.run.actions import NodeFailure

P = ParamSpec("P")
T = TypeVar("T")


def last(first: T) -> T:
    """Return what the call before returned, to be given to a call that is repeated.

    Args:
        first: What is given to the first call: a constant, or an output.
    """
    return cast("T", last_of(traced("last()"), first))


@overload
def repeat(
    activity: Callable[P, Coroutine[Any, Any, T]],
    /,
    *,
    until: Callable[[T], bool],
    id: str | None = None,
    on_failure: Callable[[NodeFailure], T] | None = None,
    compensate: Callable[[T], object] | None = None,
    **options: Unpack[RepeatOptions],
) -> Callable[P, T]: ...


@overload
def repeat(
    activity: str,
    /,
    *,
    result: type[T],
    until: Callable[[T], bool],
    id: str | None = None,
    on_failure: Callable[[NodeFailure], T] | None = None,
    compensate: Callable[[T], object] | None = None,
    **options: Unpack[RepeatOptions],
) -> Callable[..., T]: ...


@overload
def repeat(
    activity: str,
    /,
    *,
    until: Callable[[Any], bool],
    id: str | None = None,
    on_failure: Callable[[NodeFailure], Any] | None = None,
    compensate: Callable[[Any], object] | None = None,
    **options: Unpack[RepeatOptions],
) -> Callable[..., Any]: ...


def repeat(
    activity: Any,
    /,
    *,
    until: Callable[[Any], bool],
    result: Any = Any,
    id: str | None = None,
    on_failure: Callable[[Any], Any] | None = None,
    compensate: Callable[[Any], object] | None = None,
    **options: Any,
) -> Callable[..., Any]:
    """Return what adds a step that calls an activity until a condition holds of its result: call it with its arguments.

    Each call is given the same, but for :func:`last`.

    Args:
        activity: The activity, or its name.
        until: A function of the result that returns a condition. It is called once, here.
        result: What an activity that is given by name returns.
        id: The node's id; by default the activity's name, with a number behind it where that is taken.
        on_failure: Adds the step that runs if this one fails, as of a step.
        compensate: Adds the step that undoes this one, as of a step.
        **options: See :class:`RepeatOptions`. One of max_iterations and max_duration must be there.
    """
    source = users_line()

    def add(*args: Any, **kwargs: Any) -> Any:
        draft = traced("repeat()")
        given = {**options, "until": until}
        made = new_step(draft, "repeat", activity, given, source, id=id, result=result)
        made.args = bind(made, draft, args, kwargs)
        add_roles(draft, made, on_failure, compensate)
        return output_of(draft, made)

    return add


@overload
def plan(
    activity: Callable[P, Coroutine[Any, Any, object]],
    /,
    *,
    result: type[T],
    id: str | None = None,
    on_failure: Callable[[NodeFailure], T] | None = None,
    compensate: Callable[[T], object] | None = None,
    **options: Unpack[PlanOptions],
) -> Callable[P, T]: ...


@overload
def plan(
    activity: Callable[P, Coroutine[Any, Any, object]],
    /,
    *,
    id: str | None = None,
    on_failure: Callable[[NodeFailure], Any] | None = None,
    compensate: Callable[[Any], object] | None = None,
    **options: Unpack[PlanOptions],
) -> Callable[P, Any]: ...


@overload
def plan(
    activity: str,
    /,
    *,
    result: type[T],
    id: str | None = None,
    on_failure: Callable[[NodeFailure], T] | None = None,
    compensate: Callable[[T], object] | None = None,
    **options: Unpack[PlanOptions],
) -> Callable[..., T]: ...


@overload
def plan(
    activity: str,
    /,
    *,
    id: str | None = None,
    on_failure: Callable[[NodeFailure], Any] | None = None,
    compensate: Callable[[Any], object] | None = None,
    **options: Unpack[PlanOptions],
) -> Callable[..., Any]: ...


def plan(
    activity: Any,
    /,
    *,
    result: Any = Any,
    id: str | None = None,
    on_failure: Callable[[Any], Any] | None = None,
    compensate: Callable[[Any], object] | None = None,
    **options: Any,
) -> Callable[..., Any]:
    """Return what adds a step that calls a planner, runs the DAG that it returns, and returns what that returns.

    Call it with the planner's arguments.

    Args:
        activity: The planner, or its name. It returns a document as ``outlast dag schema`` describes it: an object with
            ``nodes``.
        result: What the planned DAG returns.
        id: The node's id; by default the activity's name, with a number behind it where that is taken.
        on_failure: Adds the step that runs if this one fails, as of a step.
        compensate: Adds the step that undoes this one, as of a step.
        **options: See :class:`PlanOptions`. A timeout, allow and run_timeout must be there.
    """
    source = users_line()

    def add(*args: Any, **kwargs: Any) -> Any:
        draft = traced("plan()")
        made = new_step(draft, "plan", activity, options, source, id=id, result=result)
        made.args = bind(made, draft, args, kwargs)
        add_roles(draft, made, on_failure, compensate)
        return output_of(draft, made)

    return add


@overload
def child(
    workflow: Callable[P, Coroutine[Any, Any, Any]],
    /,
    *,
    parent_close_policy: Literal["abandon"],
    id: str | None = None,
    on_failure: Callable[[NodeFailure], DetachedChild] | None = None,
    compensate: Callable[[DetachedChild], object] | None = None,
    **options: Unpack[DetachedOptions],
) -> Callable[P, DetachedChild]: ...


@overload
def child(
    workflow: Callable[P, Coroutine[Any, Any, T]],
    /,
    *,
    id: str | None = None,
    on_failure: Callable[[NodeFailure], T] | None = None,
    compensate: Callable[[T], object] | None = None,
    **options: Unpack[ChildOptions],
) -> Callable[P, T]: ...


@overload
def child(
    workflow: str,
    /,
    *,
    parent_close_policy: Literal["abandon"],
    id: str | None = None,
    on_failure: Callable[[NodeFailure], DetachedChild] | None = None,
    compensate: Callable[[DetachedChild], object] | None = None,
    **options: Unpack[DetachedOptions],
) -> Callable[..., DetachedChild]: ...


@overload
def child(
    workflow: str,
    /,
    *,
    result: type[T],
    id: str | None = None,
    on_failure: Callable[[NodeFailure], T] | None = None,
    compensate: Callable[[T], object] | None = None,
    **options: Unpack[ChildOptions],
) -> Callable[..., T]: ...


@overload
def child(
    workflow: str,
    /,
    *,
    id: str | None = None,
    on_failure: Callable[[NodeFailure], Any] | None = None,
    compensate: Callable[[Any], object] | None = None,
    **options: Unpack[ChildOptions],
) -> Callable[..., Any]: ...


def child(
    workflow: Any,
    /,
    *,
    result: Any = Any,
    id: str | None = None,
    on_failure: Callable[[Any], Any] | None = None,
    compensate: Callable[[Any], object] | None = None,
    **options: Any,
) -> Callable[..., Any]:
    """Return what adds a step that runs a workflow as a child: call it with the workflow's arguments.

    The step returns what the child returns. With ``parent_close_policy="abandon"`` it waits only until the child has
    started, and returns a :class:`DetachedChild`.

    Args:
        workflow: A workflow, another DAG among them, or the name of one.
        result: What a workflow that is given by name returns.
        id: The node's id; by default the workflow's name, with a number behind it where that is taken.
        on_failure: Adds the step that runs if this one fails, as of a step.
        compensate: Adds the step that undoes this one, as of a step.
        **options: See :class:`ChildOptions`.
    """
    source = users_line()

    def add(*args: Any, **kwargs: Any) -> Any:
        draft = traced("child()")
        made = new_step(draft, "child", workflow, options, source, id=id, result=result)
        made.args = bind(made, draft, args, kwargs)
        add_roles(draft, made, on_failure, compensate)
        return output_of(draft, made)

    return add
