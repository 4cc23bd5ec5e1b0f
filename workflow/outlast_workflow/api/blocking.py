"""``workflow.blocking``: the workflow functions for plain ``def`` workflows, where they block and return their results.

The names and arguments are those of ``workflow``, and so is what history holds of them: a run that was recorded by
coroutines replays on plain code, and the other way round. Activities are called as ``charge.call(order, 5)``.
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
from outlast_workflow.api.current_run import continue_as_new, info, random, uuid4
from outlast_workflow.api.log import logger
from outlast_workflow.api.markers import (
    deprecate_patch,
    patched,
    side_effect,
    upsert_memo,
    upsert_search_attributes,
)
from outlast_workflow.api.messages import all_handlers_finished, current_update_info
from outlast_workflow.api.timers import now, time_remaining
from outlast_workflow.loop.greenlets import in_greenlet, wait

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
    "logger",
    "now",
    "patched",
    "random",
    "shield",
    "side_effect",
    "sleep",
    "start_activity",
    "start_child",
    "start_local_activity",
    "time_remaining",
    "upsert_memo",
    "upsert_search_attributes",
    "uuid4",
    "wait_condition",
]

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def sleep(duration: float | timedelta) -> None:
    """Wait durably; zero or less gives way to others once.

    Args:
        duration: Seconds, or a timedelta.
    """
    check_plain("blocking.sleep()", "await workflow.sleep(…)")
    wait(timers.sleep(duration))


def wait_condition(predicate: Callable[[], Any], timeout: float | timedelta | None = None) -> None:
    """Wait until a predicate holds; it holds when this returns.

    Args:
        predicate: A plain function of no arguments that computes from the workflow's own state.
        timeout: Seconds, or a timedelta: how long to wait at the most, durably; without one, for as long as it takes.

    Raises:
        TimeoutError: The time passed, and the predicate did not hold even then.
    """
    check_plain("blocking.wait_condition()", "await workflow.wait_condition(…)")
    wait(messages.wait_condition(predicate, timeout))


def shield(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do a piece of work to its end, even if the workflow is cancelled meanwhile: ``shield(refund.call, order)``.

    Args:
        work: A plain function, which may block.
        *args: What it is called with.
        **kwargs: Likewise.

    Returns:
        What the work returned.

    Raises:
        asyncio.CancelledError: A cancellation came meanwhile.
        BaseException: The work itself raised; that goes before a cancellation.
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
        *args: What it is called with.
        result_type: For an activity named by text: what to read its result as; plain JSON if not given.
        **options: Those of ``workflow.execute_activity``.

    Raises:
        ActivityError: It ended without a result.
        DurableCallError: The call can't be made like this; fails the task, not the run.
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
    """Call an activity and get a handle whose ``result()`` blocks: so several run at a time.

    Takes what :func:`execute_activity` takes.
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
    """Call an activity that runs in the process where this workflow does, and wait for its result.

    As ``workflow.execute_local_activity``, blocking.
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
    """Call an activity as :func:`execute_local_activity` does, and get a handle whose ``result()`` blocks."""
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
        *args: What it is started with.
        result_type: For a workflow named by text: what to read its result as; plain JSON if not given.
        **options: Those of ``workflow.execute_child``.

    Raises:
        ChildWorkflowError: It ended without a result, or its id is taken; ``__cause__`` says why.
        DurableCallError: The call can't be made like this; fails the task, not the run.
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
    """Start a child workflow and get a handle: ``result()`` and ``started()`` block.

    Takes what :func:`execute_child` takes.
    """
    check_plain("blocking.start_child()", "workflow.start_child(…)")
    return BlockingChildHandle(children.start_child(workflow, *args, result_type=result_type, **options))


def external(workflow_id: str, *, run_id: str | None = None) -> BlockingExternal:
    """Another workflow, by its id, to send signals to.

    Args:
        workflow_id: Its id.
        run_id: Only that run (or what followed it); by default whichever stands for the id then.
    """
    return BlockingExternal(messages.external(workflow_id, run_id=run_id))
