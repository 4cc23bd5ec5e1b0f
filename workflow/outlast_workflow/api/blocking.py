"""``workflow.blocking``: the workflow functions for plain ``def`` workflows, where they block and return their results.

The names and arguments are those of ``workflow``, and history records the same: a run that was recorded by coroutines
replays on plain code, and vice versa. Activities are called as ``charge.call(order, 5)``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import Any, ParamSpec, TypeVar, TypeVarTuple, Unpack, overload

from outlast_workflow.api import activities, children, messages, timers
from outlast_workflow.api import shield as shielding
from outlast_workflow.api.activities import ActivityCallOptions, LocalActivityCallOptions
from outlast_workflow.api.blocking_handles import (
    BlockingChildHandle,
    BlockingExternal,
    BlockingHandle,
    await_,
    check_plain,
)
from outlast_workflow.api.children import ChildCallOptions
from outlast_workflow.api.context import in_replay, in_workflow
from outlast_workflow.api.current_run import (
    continue_as_new,
    info,
    last_result,
    limit,
    random,
    set_progress,
    uuid4,
)
from outlast_workflow.api.log import logger
from outlast_workflow.api.markers import (
    deprecate_patch,
    patched,
    side_effect,
    upsert_memo,
    upsert_search_attributes,
)
from outlast_workflow.api.messages import all_handlers_finished, current_update_info
from outlast_workflow.api.streams import stream
from outlast_workflow.api.timers import now, time_remaining
from outlast_workflow.loop.greenlets import in_greenlet, wait
from outlast_workflow.run.mailbox import NO_DEFAULT

__all__ = [
    "BlockingChildHandle",
    "BlockingExternal",
    "BlockingHandle",
    "all_handlers_finished",
    "await_",
    "continue_as_new",
    "current_update_info",
    "deprecate_patch",
    "execute_activity",
    "execute_child",
    "execute_local_activity",
    "external",
    "in_replay",
    "in_workflow",
    "info",
    "last_result",
    "limit",
    "logger",
    "now",
    "patched",
    "random",
    "receive",
    "set_progress",
    "shield",
    "side_effect",
    "sleep",
    "start_activity",
    "start_child",
    "start_local_activity",
    "stream",
    "time_remaining",
    "upsert_memo",
    "upsert_search_attributes",
    "uuid4",
    "wait_condition",
]

D = TypeVar("D")
P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def sleep(duration: float | timedelta, *, summary: str | None = None) -> None:
    """Wait durably. Zero or less yields once to the run's other tasks.

    Args:
        duration: Seconds, or a timedelta.
        summary: What the wait is for, in at most 200 characters of plain text.
    """
    check_plain("blocking.sleep()", "await workflow.sleep(…)")
    wait(timers.sleep(duration, summary=summary))


def wait_condition(
    predicate: Callable[[], Any],
    timeout: float | timedelta | None = None,
    *,
    timeout_summary: str | None = None,
) -> None:
    """Wait until a predicate holds. It still holds when this returns.

    Args:
        predicate: A plain function of no arguments that computes from the workflow's own state.
        timeout: How long to wait at most, in seconds or as a timedelta, durably; without one, as long as it takes.
        timeout_summary: What the timer of the timeout is for.

    Raises:
        TimeoutError: The timeout passed, and the predicate did not hold even then.
    """
    check_plain("blocking.wait_condition()", "await workflow.wait_condition(…)")
    wait(messages.wait_condition(predicate, timeout, timeout_summary=timeout_summary))


@overload
def receive(name: str, *, timeout: float | timedelta | None = None, result_type: type[T]) -> T: ...


@overload
def receive(name: str, *, timeout: float | timedelta, default: D, result_type: type[T]) -> T | D: ...


@overload
def receive(
    name: str, *, timeout: float | timedelta | None = None, default: Any = ..., result_type: Any = None
) -> Any: ...


def receive(
    name: str,
    *,
    timeout: float | timedelta | None = None,
    default: Any = NO_DEFAULT,
    result_type: Any = None,
) -> Any:
    """Receive the oldest signal of a name that was not received yet, or wait for one.

    Args:
        name: The name of the signal. The workflow has no handler for it.
        timeout: How long to wait at most, in seconds or as a timedelta, durably; without one, as long as it takes.
        default: What to return when the timeout passes; without one, :class:`TimeoutError` is raised.
        result_type: What to read the message as; by default plain JSON.

    Raises:
        TimeoutError: No message came in time, and there is no default.
        DurableCallError: Handlers take the signals of this name; fails the task, not the run.
        InvalidOptionError: The name, the timeout or the default cannot be used; fails the task, not the run.
        PayloadDecodeError: The message cannot be read as that type; fails the task, not the run, and loses nothing.
    """
    check_plain("blocking.receive()", "await workflow.receive(…)")
    return wait(messages.receive(name, timeout=timeout, default=default, result_type=result_type))


def shield(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Finish a piece of work even if the workflow is cancelled meanwhile: ``shield(refund.call, order)``.

    Args:
        work: A plain function, which may block.
        *args: Its positional arguments.
        **kwargs: Its keyword arguments.

    Returns:
        The result of the work.

    Raises:
        asyncio.CancelledError: The workflow was cancelled meanwhile.
        BaseException: The work itself raised; this takes precedence over a cancellation.
    """
    check_plain("blocking.shield()", "await workflow.shield(…)")
    result: T = wait(shielding.shield(in_greenlet(partial(work, *args, **kwargs))))
    return result


# --- activities -------------------------------------------------------------------------------------------------------


@overload
def execute_activity(
    activity: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts, **options: Unpack[ActivityCallOptions]
) -> T: ...


@overload
def execute_activity(
    activity: str, *args: Any, result_type: type[T], **options: Unpack[ActivityCallOptions]
) -> T: ...


@overload
def execute_activity(activity: str, *args: Any, **options: Unpack[ActivityCallOptions]) -> Any: ...


def execute_activity(  # type: ignore[misc]  # mypy does not see that `*args: Any` takes any `*Ts`
    activity: Any, *args: Any, result_type: Any = None, **options: Any
) -> Any:
    """Call an activity and wait for its result.

    Args:
        activity: An activity, or the name of one.
        *args: Its arguments.
        result_type: The type to read the result as, for an activity given by name; by default plain JSON.
        **options: Those of ``workflow.execute_activity``.

    Raises:
        ActivityError: It ended without a result.
        DurableCallError: The call cannot be made as written; fails the task, not the run.
    """
    check_plain("blocking.execute_activity()", "await workflow.execute_activity(…)")
    return wait(activities.execute_activity(activity, *args, result_type=result_type, **options))


@overload
def start_activity(
    activity: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts, **options: Unpack[ActivityCallOptions]
) -> BlockingHandle[T]: ...


@overload
def start_activity(
    activity: str, *args: Any, result_type: type[T], **options: Unpack[ActivityCallOptions]
) -> BlockingHandle[T]: ...


@overload
def start_activity(
    activity: str, *args: Any, **options: Unpack[ActivityCallOptions]
) -> BlockingHandle[Any]: ...


def start_activity(  # type: ignore[misc]  # as above
    activity: Any, *args: Any, result_type: Any = None, **options: Any
) -> Any:
    """Call an activity and return a handle whose ``result()`` blocks, so that several can run at a time.

    The parameters are those of :func:`execute_activity`.
    """
    check_plain("blocking.start_activity()", "workflow.start_activity(…)")
    return BlockingHandle(activities.start_activity(activity, *args, result_type=result_type, **options))


@overload
def execute_local_activity(
    activity: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts, **options: Unpack[LocalActivityCallOptions]
) -> T: ...


@overload
def execute_local_activity(
    activity: str, *args: Any, result_type: type[T], **options: Unpack[LocalActivityCallOptions]
) -> T: ...


@overload
def execute_local_activity(activity: str, *args: Any, **options: Unpack[LocalActivityCallOptions]) -> Any: ...


def execute_local_activity(  # type: ignore[misc]  # as above
    activity: Any, *args: Any, result_type: Any = None, **options: Any
) -> Any:
    """Call an activity that runs in the same process as this workflow, and wait for its result.

    Like ``workflow.execute_local_activity``, but blocking.
    """
    check_plain("blocking.execute_local_activity()", "await workflow.execute_local_activity(…)")
    return wait(activities.execute_local_activity(activity, *args, result_type=result_type, **options))


@overload
def start_local_activity(
    activity: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts, **options: Unpack[LocalActivityCallOptions]
) -> BlockingHandle[T]: ...


@overload
def start_local_activity(
    activity: str, *args: Any, result_type: type[T], **options: Unpack[LocalActivityCallOptions]
) -> BlockingHandle[T]: ...


@overload
def start_local_activity(
    activity: str, *args: Any, **options: Unpack[LocalActivityCallOptions]
) -> BlockingHandle[Any]: ...


def start_local_activity(  # type: ignore[misc]  # as above
    activity: Any, *args: Any, result_type: Any = None, **options: Any
) -> Any:
    """Call an activity as :func:`execute_local_activity` does, and return a handle whose ``result()`` blocks."""
    check_plain("blocking.start_local_activity()", "workflow.start_local_activity(…)")
    return BlockingHandle(
        activities.start_local_activity(activity, *args, result_type=result_type, **options)
    )


# --- other workflows --------------------------------------------------------------------------------------------------


@overload
def execute_child(
    workflow: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts, **options: Unpack[ChildCallOptions]
) -> T: ...


@overload
def execute_child(
    workflow: str, *args: Any, result_type: type[T], **options: Unpack[ChildCallOptions]
) -> T: ...


@overload
def execute_child(workflow: str, *args: Any, **options: Unpack[ChildCallOptions]) -> Any: ...


def execute_child(  # type: ignore[misc]  # as above
    workflow: Any, *args: Any, result_type: Any = None, **options: Any
) -> Any:
    """Start a child workflow and wait for its result, through all runs of its chain.

    Args:
        workflow: ``Order.run``, a workflow function, or a workflow type's name.
        *args: Its input.
        result_type: The type to read the result as, for a workflow given by name; by default plain JSON.
        **options: Those of ``workflow.execute_child``.

    Raises:
        ChildWorkflowError: It ended without a result, or its id is taken; ``__cause__`` says why.
        DurableCallError: The call cannot be made as written; fails the task, not the run.
    """
    check_plain("blocking.execute_child()", "await workflow.execute_child(…)")
    return wait(children.execute_child(workflow, *args, result_type=result_type, **options))


@overload
def start_child(
    workflow: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts, **options: Unpack[ChildCallOptions]
) -> BlockingChildHandle[T]: ...


@overload
def start_child(
    workflow: str, *args: Any, result_type: type[T], **options: Unpack[ChildCallOptions]
) -> BlockingChildHandle[T]: ...


@overload
def start_child(
    workflow: str, *args: Any, **options: Unpack[ChildCallOptions]
) -> BlockingChildHandle[Any]: ...


def start_child(  # type: ignore[misc]  # as above
    workflow: Any, *args: Any, result_type: Any = None, **options: Any
) -> Any:
    """Start a child workflow and return a handle whose ``result()`` and ``started()`` block.

    The parameters are those of :func:`execute_child`.
    """
    check_plain("blocking.start_child()", "workflow.start_child(…)")
    return BlockingChildHandle(children.start_child(workflow, *args, result_type=result_type, **options))


def external(workflow_id: str, *, run_id: str | None = None) -> BlockingExternal:
    """Return a handle of another workflow, to send signals to.

    Args:
        workflow_id: Its id.
        run_id: Signal only this run (or the runs that followed it); by default the latest run.
    """
    return BlockingExternal(messages.external(workflow_id, run_id=run_id))
