"""Calling activities from workflow code: part of ``outlast.workflow``."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, TypeVarTuple, Unpack, overload

from outlast_workflow.api.context import current_machine
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.errors import DurableCallError, InvalidOptionError, MissingCodeError
from outlast_workflow.options.activity import ActivityOptions
from outlast_workflow.options.retry_policy import RetryPolicy
from outlast_workflow.options.validation import Seconds, validate_name
from outlast_workflow.primitives.enums import CancellationType
from outlast_workflow.run.activity_calls import NO_OPTIONS, ActivityCallable, ActivityFuture
from outlast_workflow.run.machine import WorkflowMachine

if TYPE_CHECKING:
    from outlast_workflow.options.alerts import AlertPolicy

T = TypeVar("T")


Ts = TypeVarTuple("Ts")


class LocalActivityCallOptions(TypedDict, total=False):
    """The options of one local call. They override those of the declaration and the worker's defaults."""

    schedule_to_start_timeout: Seconds | None
    start_to_close_timeout: Seconds | None
    schedule_to_close_timeout: Seconds | None
    heartbeat_timeout: Seconds | None
    retry_policy: RetryPolicy | None
    priority: int | None
    cancellation_type: CancellationType | str | None
    summary: str | None
    alerts: AlertPolicy | None
    options: ActivityOptions | None


class ActivityCallOptions(LocalActivityCallOptions, total=False):
    """The options of one call. They override those of the declaration and the worker's defaults."""

    task_queue: str | None
    queue: str | None
    partition_key: str | None


@overload
def execute_activity(
    activity: Callable[[*Ts], Coroutine[Any, Any, T]],
    *args: *Ts,
    **options: Unpack[ActivityCallOptions],
) -> Coroutine[Any, Any, T]: ...


@overload
def execute_activity(
    activity: str, *args: Any, result_type: type[T], **options: Unpack[ActivityCallOptions]
) -> Coroutine[Any, Any, T]: ...


@overload
def execute_activity(
    activity: str, *args: Any, **options: Unpack[ActivityCallOptions]
) -> Coroutine[Any, Any, Any]: ...


def execute_activity(  # type: ignore[misc]  # mypy does not see that `*args: Any` takes any `*Ts`
    activity: Any, *args: Any, result_type: Any = None, **options: Any
) -> Any:
    """Call an activity and await its result.

    Args:
        activity: An activity, or the name of one.
        *args: Its arguments.
        result_type: The type to read the result as, for an activity given by name; by default plain JSON.
        **options: See :class:`ActivityCallOptions`; ``options=`` gives a whole :class:`ActivityOptions`.

    Raises:
        ActivityError: When awaited: it ended without a result.
        DurableCallError: The call cannot be made as written; fails the task, not the run.
    """
    return _schedule(activity, args, result_type, options)


@overload
def start_activity(
    activity: Callable[[*Ts], Coroutine[Any, Any, T]],
    *args: *Ts,
    **options: Unpack[ActivityCallOptions],
) -> ActivityFuture[T]: ...


@overload
def start_activity(
    activity: str, *args: Any, result_type: type[T], **options: Unpack[ActivityCallOptions]
) -> ActivityFuture[T]: ...


@overload
def start_activity(
    activity: str, *args: Any, **options: Unpack[ActivityCallOptions]
) -> ActivityFuture[Any]: ...


def start_activity(  # type: ignore[misc]  # as above
    activity: Any, *args: Any, result_type: Any = None, **options: Any
) -> Any:
    """Call an activity and return a handle: awaitable, with ``cancel()``, ``done()`` and ``result()``.

    The parameters are those of :func:`execute_activity`.
    """
    return _schedule(activity, args, result_type, options)


@overload
def execute_local_activity(
    activity: Callable[[*Ts], Coroutine[Any, Any, T]],
    *args: *Ts,
    **options: Unpack[LocalActivityCallOptions],
) -> Coroutine[Any, Any, T]: ...


@overload
def execute_local_activity(
    activity: str, *args: Any, result_type: type[T], **options: Unpack[LocalActivityCallOptions]
) -> Coroutine[Any, Any, T]: ...


@overload
def execute_local_activity(
    activity: str, *args: Any, **options: Unpack[LocalActivityCallOptions]
) -> Coroutine[Any, Any, Any]: ...


def execute_local_activity(  # type: ignore[misc]  # as above
    activity: Any, *args: Any, result_type: Any = None, **options: Any
) -> Any:
    """Call an activity that runs in the same process as this workflow, and await its result.

    It is recorded, timed and retried like any other activity, but only the worker that owns the run executes it,
    whatever its task queue. If that worker dies, the run's next owner executes it again. Parameters and errors are
    those of :func:`execute_activity`, without ``task_queue``, ``queue`` and ``partition_key``. Each worker of the
    workflow must have the activity.
    """
    return _schedule(activity, args, result_type, options, local=True)


@overload
def start_local_activity(
    activity: Callable[[*Ts], Coroutine[Any, Any, T]],
    *args: *Ts,
    **options: Unpack[LocalActivityCallOptions],
) -> ActivityFuture[T]: ...


@overload
def start_local_activity(
    activity: str, *args: Any, result_type: type[T], **options: Unpack[LocalActivityCallOptions]
) -> ActivityFuture[T]: ...


@overload
def start_local_activity(
    activity: str, *args: Any, **options: Unpack[LocalActivityCallOptions]
) -> ActivityFuture[Any]: ...


def start_local_activity(  # type: ignore[misc]  # as above
    activity: Any, *args: Any, result_type: Any = None, **options: Any
) -> Any:
    """Call an activity as :func:`execute_local_activity` does, and return a handle as :func:`start_activity` does."""
    return _schedule(activity, args, result_type, options, local=True)


def _schedule(
    activity: str | ActivityCallable,
    args: tuple[Any, ...],
    result_type: Any,
    given: dict[str, Any],
    local: bool | None = None,
) -> ActivityFuture[Any]:
    machine = current_machine()
    signature: CallSignature | None = None
    transactional = False
    if isinstance(activity, str):
        name, options, hint = activity, NO_OPTIONS, result_type
        if not machine.replaying:
            try:
                validate_name("activity type", name)
            except InvalidOptionError as error:
                raise machine.log.refuse(error) from None
    else:
        # Not `isinstance`: checking a protocol costs more than the call.
        try:
            name, signature, options = activity.name, activity.signature, activity.options
            transactional = bool(activity.transactional)
        except AttributeError:
            raise machine.log.refuse(
                DurableCallError(
                    f"{activity!r:.80} is not an activity: put @activity.defn on it, or give its name"
                )
            ) from None
        hint = signature.result_hint if result_type is None else result_type
    if local and not machine.replaying:
        _check_local(machine, name, given)
    if given:
        options = _kept_in_replay(options, given) if machine.replaying else _over(machine, options, given)
    return machine.calls.schedule(name, args, signature, options, hint, local, transactional=transactional)


def _check_local(machine: WorkflowMachine, name: str, given: dict[str, Any]) -> None:
    if given.get("task_queue") is not None:
        raise machine.log.refuse(
            DurableCallError(f"local activity {name} runs where its workflow does: leave task_queue out")
        )
    known = machine.local_activities
    if known is not None and name not in known:
        raise machine.log.refuse(
            MissingCodeError(
                f"workflow {machine.definition.name} calls {name} as a local activity, which this worker does not "
                f"have: give it to every worker that runs {machine.definition.name}, in Worker(activities=[…])",
                name=name,
            )
        )


def _kept_in_replay(options: ActivityOptions, given: dict[str, Any]) -> ActivityOptions:
    """Return the part of a call's options that matters in replay too: the cancellation type."""
    cancellation_type = given.get("cancellation_type")
    if cancellation_type is None and given.get("options") is not None:
        cancellation_type = given["options"].cancellation_type
    if cancellation_type is None:
        return options
    return NO_OPTIONS.replace(cancellation_type=cancellation_type)


def _over(machine: WorkflowMachine, options: ActivityOptions, given: dict[str, Any]) -> ActivityOptions:
    """Return the declaration's options, overridden by the call's."""
    try:
        try:
            # With their types: 1 and True are equal, and one of them is no timeout.
            return _overridden(options, tuple(given.items()), tuple(map(type, given.values())))
        except TypeError:
            # A value that cannot be hashed is told as what it is.
            return _made(options, given)
    except InvalidOptionError as error:
        raise machine.log.refuse(error) from None
    except TypeError as error:
        raise machine.log.refuse(DurableCallError(f"execute_activity: {error}")) from None


@lru_cache(maxsize=1024)
def _overridden(
    options: ActivityOptions, given: tuple[tuple[str, Any], ...], _types: tuple[type, ...]
) -> ActivityOptions:
    """Remember the options of calls by value: a call mostly gives the same ones as the one before it."""
    return _made(options, dict(given))


def _made(options: ActivityOptions, given: dict[str, Any]) -> ActivityOptions:
    whole = given.pop("options", None)
    if whole is not None:
        options = options.merged(whole)
    return options.merged(ActivityOptions(**given)) if given else options
