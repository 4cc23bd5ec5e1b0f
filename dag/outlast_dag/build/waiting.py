"""Waits of a DAG that is traced: for a time, for a signal, and for somebody's decision."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar, Unpack, cast, overload

from outlast_dag.build.outputs import output_of
from outlast_dag.build.sources import users_line
from outlast_dag.build.steps import NodeOptions, new_step
from outlast_dag.build.trace import add_roles, traced
from outlast_dag.run.actions import NodeFailure
from outlast_dag.run.approvals import Decision
from outlast_dag.spec.nodes import TimeoutDecision

T = TypeVar("T")
D = TypeVar("D")


@overload
def sleep(
    seconds: float | timedelta, /, *, id: str | None = None, **options: Unpack[NodeOptions]
) -> object: ...


@overload
def sleep(
    *,
    until: datetime | str,
    timeout: float | timedelta,
    id: str | None = None,
    **options: Unpack[NodeOptions],
) -> object: ...


def sleep(
    seconds: float | timedelta | None = None,
    /,
    *,
    until: datetime | str | None = None,
    timeout: float | timedelta | None = None,
    id: str | None = None,
    **options: Any,
) -> object:
    """Add a wait for so long, or until an instant. What it returns is for ``after``.

    Args:
        seconds: How long, in seconds or a timedelta.
        until: The instant: a datetime with a time zone, or an output that is one. One that has passed is no wait.
        timeout: How far ahead that may lie; if it lies further, the node fails at once.
        id: The node's id; by default ``sleep``, with a number behind it where that is taken.
        **options: See :class:`NodeOptions`.
    """
    given = {**options, "seconds": seconds, "until": until, "timeout": timeout}
    draft = traced("sleep()")
    return output_of(draft, new_step(draft, "sleep", "sleep", given, users_line(), id=id, result=type(None)))


@overload
def wait_for(
    event: str,
    /,
    *,
    result: type[T],
    timeout: float | timedelta,
    match: Callable[[T], bool] | None = None,
    on_timeout: Literal["fail"] = "fail",
    id: str | None = None,
    on_failure: Callable[[NodeFailure], T] | None = None,
    **options: Unpack[NodeOptions],
) -> T: ...


@overload
def wait_for(
    event: str,
    /,
    *,
    result: type[T],
    timeout: float | timedelta,
    match: Callable[[T], bool] | None = None,
    on_timeout: D,
    id: str | None = None,
    on_failure: Callable[[NodeFailure], T | D] | None = None,
    **options: Unpack[NodeOptions],
) -> T | D: ...


@overload
def wait_for(
    event: str,
    /,
    *,
    timeout: float | timedelta,
    match: Callable[[Any], bool] | None = None,
    on_timeout: Any = "fail",
    id: str | None = None,
    on_failure: Callable[[NodeFailure], Any] | None = None,
    **options: Unpack[NodeOptions],
) -> Any: ...


def wait_for(
    event: str,
    /,
    *,
    timeout: float | timedelta,
    result: Any = Any,
    match: Callable[[Any], bool] | None = None,
    on_timeout: Any = "fail",
    id: str | None = None,
    on_failure: Callable[[NodeFailure], Any] | None = None,
    **options: Any,
) -> Any:
    """Add a wait for a signal, and return its argument. One that came before the wait began is there for it.

    Each signal is for one wait: the first that it fits, in the order in which they began.

    Args:
        event: The signal's name.
        timeout: How long to wait.
        result: What its argument is. The run does not check that.
        match: A function of the argument that returns a condition: which signals count. It is called once, here.
        on_timeout: ``"fail"``, or a constant: what is returned if none comes in time.
        id: The node's id; by default the signal's name, with a number behind it where that is taken.
        on_failure: Adds the step that runs if this one fails, as of a step.
        **options: See :class:`NodeOptions`.
    """
    given = {**options, "event": event, "timeout": timeout, "match": match, "on_timeout": on_timeout}
    draft = traced("wait_for()")
    made = new_step(draft, "wait_for", event, given, users_line(), id=id, result=result)
    add_roles(draft, made, on_failure, None)
    return output_of(draft, made)


def approval(
    name: str,
    /,
    *,
    timeout: float | timedelta,
    on_timeout: TimeoutDecision = "reject",
    on_failure: Callable[[NodeFailure], Decision] | None = None,
    **options: Unpack[NodeOptions],
) -> Decision:
    """Add a wait for somebody's decision, and return it. What comes ``after`` it runs however it was decided.

    Args:
        name: The node's id, by which it is decided.
        timeout: How long to wait.
        on_timeout: What it is if nobody decides in time: ``reject``, ``approve`` or ``fail``.
        on_failure: Adds the step that runs if this one fails, as of a step.
        **options: See :class:`NodeOptions`.
    """
    given = {**options, "timeout": timeout, "on_timeout": on_timeout}
    draft = traced("approval()")
    made = new_step(draft, "approval", name, given, users_line(), id=name, result=Decision)
    add_roles(draft, made, on_failure, None)
    return cast("Decision", output_of(draft, made))
