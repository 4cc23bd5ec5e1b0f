"""Declaring activities: ``@activity.defn`` on ``async def`` and ``def``.

A declared activity is called like its function. In a workflow the call is durable: it is recorded, run by some worker,
retried, and its result replayed. Anywhere else it runs the plain function, which is also ``.fn``. Statically both are a
``Coroutine[Any, Any, T]``, for ``async def`` and ``def`` alike.
"""

from __future__ import annotations

import importlib
import inspect
from asyncio import events
from collections.abc import Callable, Coroutine
from datetime import timedelta
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, cast, overload

from outlast_workflow.api.blocking_handles import check_plain
from outlast_workflow.api.context import current_machine
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.errors import DurableCallError, InvalidOptionError
from outlast_workflow.loop.greenlets import wait
from outlast_workflow.options.activity import ActivityOptions
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.retry_policy import RetryPolicy
from outlast_workflow.options.validation import validate_name
from outlast_workflow.primitives.enums import CancellationType
from outlast_workflow.primitives.lazy_names import names_of_class
from outlast_workflow.run.machine import RunLoop

if TYPE_CHECKING:
    from outlast_workflow.options.alerts import AlertPolicy

P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")
S = TypeVar("S")

Executor = Literal["thread", "process"]
"""Where a plain ``def`` runs."""
Transactional = bool | Literal["serializable"]
"""Whether an activity's code writes in the transaction that records its result, and how that is isolated."""


class ActivityDefinition(Generic[P, T]):
    """An activity: its name, its code, how it is called and the options that calls of it start from.

    Attributes:
        name: The activity type that histories hold.
        fn: The plain function, or the bound method.
        options: The options of the declaration, or of :meth:`with_options`.
        is_async: Whether it is an ``async def``.
        executor: Where it runs if it is a plain ``def``: ``"thread"`` or ``"process"``.
        transactional: Whether its code writes in the transaction that records its result; ``"serializable"`` if that
            is to be isolated from all others.
    """

    __slots__ = (
        "__weakref__",
        "_is_method",
        "_signature",
        "executor",
        "fn",
        "is_async",
        "name",
        "options",
        "transactional",
    )

    if not TYPE_CHECKING:
        __getattr__ = names_of_class("ActivityDefinition")

    def __init__(
        self,
        name: str,
        fn: Callable[P, Any],
        options: ActivityOptions,
        *,
        is_async: bool,
        executor: Executor,
        is_method: bool = False,
        transactional: Transactional = False,
    ) -> None:
        self.name = name
        self.fn = fn
        self.options = options
        self.is_async = is_async
        self.executor: Executor = executor
        self.transactional: Transactional = transactional
        self._is_method = is_method
        self._signature: CallSignature | None = None

    @property
    def signature(self) -> CallSignature:
        """Its parameters and result. Type hints are resolved on first use, since they may name later definitions."""
        if self._signature is None:
            self._signature = CallSignature.of(self.fn, skip_first=self._is_method)
        return self._signature

    @property
    def is_unbound(self) -> bool:
        """Whether it is a method without its instance, which workflows can call but no worker can run."""
        return self._is_method

    @property
    def result_hint(self) -> Any:
        """The type hint of its result."""
        return self.signature.result_hint

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        """Make the durable call in a workflow; anywhere else call the plain function."""
        if isinstance(events._get_running_loop(), RunLoop):
            return cast("Coroutine[Any, Any, T]", self._schedule(args, kwargs))
        if self._is_method:
            raise DurableCallError(
                f"{self.name} is a method: outside a workflow, call it on an instance ({self.fn.__qualname__})"
            )
        if self.is_async:
            return cast("Coroutine[Any, Any, T]", self.fn(*args, **kwargs))
        return _run_plain(self.fn, args, kwargs)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Make the durable call in the code of a synchronous workflow: block, and return the result.

        Args:
            *args: The activity's arguments.
            **kwargs: The activity's arguments by name.

        Raises:
            ActivityError: The activity ended without a result.
            DurableCallError: The caller is no workflow, or a coroutine of one, or the call cannot be made like this.
        """
        check_plain(f"{self.name}.call()", f"await {self.name}(…)")
        result: T = wait(self._schedule(args, kwargs))
        return result

    def with_options(
        self,
        *,
        task_queue: str | None = None,
        schedule_to_start_timeout: float | timedelta | None = None,
        start_to_close_timeout: float | timedelta | None = None,
        schedule_to_close_timeout: float | timedelta | None = None,
        heartbeat_timeout: float | timedelta | None = None,
        retry_policy: RetryPolicy | None = None,
        priority: int | None = None,
        cancellation_type: CancellationType | str | None = None,
        summary: str | None = None,
        queue: str | None = None,
        partition_key: str | None = None,
        alerts: AlertPolicy | None = None,
    ) -> ActivityDefinition[P, T]:
        """Return the same activity with these options in place of its own; it is called in the same way.

        Args:
            task_queue: Where it runs.
            schedule_to_start_timeout: How long an attempt may wait for a worker, in seconds or a timedelta.
            start_to_close_timeout: How long one attempt may run.
            schedule_to_close_timeout: How long all attempts and waits may take together.
            heartbeat_timeout: How long it may be silent while it runs.
            retry_policy: When a failed attempt is followed by another.
            priority: 0 to 9; lower runs first.
            cancellation_type: Whether a cancelled call waits for the activity to end; see ``docs/cancellation.md``.
            summary: What the call does, in at most 200 characters of plain text.
            queue: The queue that decides when each attempt begins.
            partition_key: Its partition of the queue.
            alerts: When to be told that a deadline comes near, or that it takes long.

        Raises:
            InvalidOptionError: An option is out of range, or contradicts another.
        """
        over = ActivityOptions(
            task_queue=task_queue,
            schedule_to_start_timeout=schedule_to_start_timeout,
            start_to_close_timeout=start_to_close_timeout,
            schedule_to_close_timeout=schedule_to_close_timeout,
            heartbeat_timeout=heartbeat_timeout,
            retry_policy=retry_policy,
            priority=priority,
            cancellation_type=cancellation_type,
            summary=summary,
            queue=queue,
            partition_key=partition_key,
            alerts=alerts,
        )
        return self._variant(self.fn, self.options.merged(over), self._is_method)

    @overload
    def __get__(
        self: ActivityDefinition[Concatenate[S, Q], T], instance: None, owner: type[S]
    ) -> ActivityDefinition[Q, T]: ...

    @overload
    def __get__(
        self: ActivityDefinition[Concatenate[S, Q], T], instance: S, owner: type[S] | None = None
    ) -> ActivityDefinition[Q, T]: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> ActivityDefinition[Any, T]:
        """Return the activity of an instance's method, ready to be given to a worker."""
        if instance is None or not self._is_method:
            return self
        return self._variant(MethodType(self.fn, instance), self.options, is_method=False)

    def _variant(
        self, fn: Callable[..., Any], options: ActivityOptions, is_method: bool
    ) -> ActivityDefinition[P, T]:
        variant: ActivityDefinition[P, T] = ActivityDefinition(
            self.name,
            fn,
            options,
            is_async=self.is_async,
            executor=self.executor,
            is_method=is_method,
            transactional=self.transactional,
        )
        if is_method == self._is_method:
            variant._signature = self._signature
        return variant

    def _schedule(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        machine = current_machine()
        signature = self._signature or self.signature
        if kwargs and not machine.replaying:
            try:
                args = self._by_position(args, kwargs)
            except DurableCallError as error:
                raise machine.log.refuse(error) from None
        return machine.calls.schedule(
            self.name,
            args,
            signature,
            self.options,
            signature.result_hint,
            transactional=bool(self.transactional),
        )

    def _by_position(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return a durable call's arguments by position, as histories have them."""
        signature = self.signature
        names = signature.names
        given = dict(kwargs)
        values = list(args)
        first_default = signature.required
        while given and len(values) < len(names):
            name = names[len(values)]
            if name in given:
                values.append(given.pop(name))
            elif len(values) >= first_default:
                values.append(signature.defaults[len(values) - first_default])
            else:
                raise DurableCallError(f"{signature.name}() was called without its argument {name!r}")
        if given:
            name = next(iter(given))
            why = "was given twice" if name in names else "cannot be given by name to a durable call"
            raise DurableCallError(f"argument {name!r} of {signature.name}() {why}")
        return tuple(values)

    @property
    def __name__(self) -> str:
        return self.fn.__name__

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return self.fn

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self.fn, MethodType):
            return getattr, (self.fn.__self__, self.fn.__name__)
        return found, (self.fn.__module__, self.fn.__qualname__, self.options)

    def __repr__(self) -> str:
        code = self.fn.__code__
        return f"<activity {self.name} at {code.co_filename}:{code.co_firstlineno}>"


async def _run_plain(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return fn(*args, **kwargs)


def found(module: str, qualname: str, options: ActivityOptions | None = None) -> ActivityDefinition[..., Any]:
    """Return the activity of a name in a module: how another process finds it.

    Args:
        module: The module.
        qualname: The activity's qualified name there.
        options: Options that replace its own.
    """
    target: Any = importlib.import_module(module)
    for part in qualname.split("."):
        target = getattr(target, part)
    definition = (
        target
        if isinstance(target, ActivityDefinition)
        else _define(target, None, ActivityOptions(), "thread")
    )
    return (
        definition if options is None else definition._variant(definition.fn, options, definition._is_method)
    )


class ActivityDecorator:
    """``@activity.defn(…)``, waiting for its function."""

    __slots__ = ("executor", "name", "options", "transactional")

    def __init__(
        self,
        name: str | None,
        options: ActivityOptions,
        executor: Executor,
        transactional: Transactional = False,
    ) -> None:
        self.name = name
        self.options = options
        self.executor: Executor = executor
        self.transactional: Transactional = transactional

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, T]], /) -> ActivityDefinition[P, T]: ...

    @overload
    def __call__(self, fn: Callable[P, T], /) -> ActivityDefinition[P, T]: ...

    def __call__(self, fn: Callable[..., Any], /) -> ActivityDefinition[..., Any]:
        """Declare it."""
        return _define(fn, self.name, self.options, self.executor, self.transactional)


@overload
def defn(fn: Callable[P, Coroutine[Any, Any, T]], /) -> ActivityDefinition[P, T]: ...


@overload
def defn(fn: Callable[P, T], /) -> ActivityDefinition[P, T]: ...


@overload
def defn(
    *,
    name: str | None = None,
    task_queue: str | None = None,
    schedule_to_start_timeout: float | timedelta | None = None,
    start_to_close_timeout: float | timedelta | None = None,
    schedule_to_close_timeout: float | timedelta | None = None,
    heartbeat_timeout: float | timedelta | None = None,
    retry_policy: RetryPolicy | None = None,
    priority: int | None = None,
    cancellation_type: CancellationType | str | None = None,
    summary: str | None = None,
    queue: str | None = None,
    partition_key: str | None = None,
    alerts: AlertPolicy | None = None,
    executor: Executor = "thread",
    transactional: Transactional = False,
) -> ActivityDecorator: ...


def defn(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    task_queue: str | None = None,
    schedule_to_start_timeout: float | timedelta | None = None,
    start_to_close_timeout: float | timedelta | None = None,
    schedule_to_close_timeout: float | timedelta | None = None,
    heartbeat_timeout: float | timedelta | None = None,
    retry_policy: RetryPolicy | None = None,
    priority: int | None = None,
    cancellation_type: CancellationType | str | None = None,
    summary: str | None = None,
    queue: str | None = None,
    partition_key: str | None = None,
    alerts: AlertPolicy | None = None,
    executor: Executor = "thread",
    transactional: Transactional = False,
    **unknown: Any,
) -> Any:
    """Declare an activity.

    Args:
        fn: An ``async def``, a ``def``, or a method of either kind (give ``obj.method`` to the worker).
        name: The activity type that histories hold; the function's name if not given. Keep it when you rename the code.
        task_queue: Where calls wait for a worker; by default the workflow's.
        schedule_to_start_timeout: How long an attempt may wait for a worker. Timeouts take seconds or a timedelta.
        start_to_close_timeout: How long an attempt may run.
        schedule_to_close_timeout: How long all attempts together may take.
        heartbeat_timeout: How long a running attempt may go without a heartbeat.
        retry_policy: By default 1 s, doubling up to 100 s, with unlimited attempts.
        priority: 0 (first) to 9; by default the workflow's.
        cancellation_type: What cancelling a call does: ``try`` (the default), ``wait`` or ``abandon``.
        summary: What its calls do, in at most 200 characters of plain text, shown to everybody, not encoded by codecs.
        queue: The queue that decides when each attempt of a call begins; somebody must have defined it.
        partition_key: The partition of the queue.
        alerts: When to be told that a deadline comes near, or that it takes long; see ``docs/alerts.md``.
        executor: Where a ``def`` runs: a thread, or a process if it computes for long. An activity of a process is a
            function at the top of a module that can be imported.
        transactional: Whether the code writes in the transaction that records its result, through
            ``activity.connection()``: its effect is there if and only if its completion is. ``"serializable"`` isolates
            that transaction from all others.
        **unknown: Options that there are not: the error says what is meant.

    Raises:
        InvalidOptionError: An option is out of range, or the function cannot be an activity; the message says why.
    """
    if unknown:
        refuse_unknown(
            "@activity.defn", unknown, ("name", *ActivityOptions.fields, "executor", "transactional")
        )
    if name is not None:
        validate_name("activity name", name)
    if executor not in ("thread", "process"):
        raise InvalidOptionError(
            f"executor must be 'thread' or 'process', not {executor!r:.40}", field="executor"
        )
    if not isinstance(transactional, bool) and transactional != "serializable":
        raise InvalidOptionError(
            f"transactional must be True, False or 'serializable', not {transactional!r:.40}",
            field="transactional",
        )
    options = ActivityOptions(
        task_queue=task_queue,
        schedule_to_start_timeout=schedule_to_start_timeout,
        start_to_close_timeout=start_to_close_timeout,
        schedule_to_close_timeout=schedule_to_close_timeout,
        heartbeat_timeout=heartbeat_timeout,
        retry_policy=retry_policy,
        priority=priority,
        cancellation_type=cancellation_type,
        summary=summary,
        queue=queue,
        partition_key=partition_key,
        alerts=alerts,
    )
    decorator = ActivityDecorator(name, options, executor, transactional)
    return decorator if fn is None else decorator(fn)


def definition_of(activity: object) -> ActivityDefinition[..., Any]:
    """Return the definition of what was declared with ``@activity.defn``.

    Raises:
        InvalidOptionError: It was not declared, or it is a method without its instance.
    """
    if not isinstance(activity, ActivityDefinition):
        raise InvalidOptionError(f"{_kind(activity)} is not an activity: put @activity.defn on the function")
    if activity.is_unbound:
        raise InvalidOptionError(
            f"activity {activity.name} is a method: give it with its instance, as obj.{activity.fn.__name__}"
        )
    return activity


def _define(
    fn: Any,
    name: str | None,
    options: ActivityOptions,
    executor: Executor,
    transactional: Transactional = False,
) -> ActivityDefinition[..., Any]:
    if isinstance(fn, ActivityDefinition):
        raise InvalidOptionError(f"{fn.name} is an activity already: put @activity.defn on it once")
    if isinstance(fn, staticmethod | classmethod):
        kind = type(fn).__name__
        raise InvalidOptionError(
            f"put @{kind} above @activity.defn, not under it"
            if kind == "staticmethod"
            else "@activity.defn goes on a function, not on a classmethod"
        )
    if not (inspect.isfunction(fn) or inspect.ismethod(fn)):
        raise InvalidOptionError(f"@activity.defn goes on a function, not on {_kind(fn)}")
    if inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn):
        raise InvalidOptionError(
            f"activity {fn.__qualname__} is a generator: return a value instead of yielding, and report progress with "
            "activity.heartbeat()"
        )
    if name is None and fn.__name__ == "<lambda>":
        raise InvalidOptionError("an activity that is a lambda needs a name: give name=, or write a def")
    is_async = inspect.iscoroutinefunction(fn)
    is_method = inspect.isfunction(fn) and _is_method(fn)
    _check_keywords(fn)
    if executor == "process":
        _check_process(fn, is_async, is_method)
        if transactional:
            raise InvalidOptionError(
                f"activity {fn.__qualname__} is transactional, so it cannot run in another process: leave "
                "executor='process' out",
                field="transactional",
            )
    return ActivityDefinition(
        name if name is not None else validate_name("activity name", fn.__name__),
        fn,
        options,
        is_async=is_async,
        executor=executor,
        is_method=is_method,
        transactional=transactional,
    )


def _is_method(fn: Callable[..., Any]) -> bool:
    """Return whether a function is defined in a class body and takes an instance."""
    owner, _, _ = fn.__qualname__.rpartition(".")
    if not owner or owner.endswith("<locals>"):
        return False
    names = list(inspect.signature(fn).parameters)
    return bool(names) and names[0] == "self"


def _check_keywords(fn: Callable[..., Any]) -> None:
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            raise InvalidOptionError(
                f"activity {fn.__qualname__} has the keyword-only parameter {parameter.name!r} without a default: "
                "durable calls pass arguments by position, so make it positional or give it a default"
            )


def _check_process(fn: Callable[..., Any], is_async: bool, is_method: bool) -> None:
    if is_async:
        raise InvalidOptionError(
            f"activity {fn.__qualname__} is async: only a plain def runs in a process", field="executor"
        )
    if is_method or inspect.ismethod(fn) or "<" in fn.__qualname__:
        raise InvalidOptionError(
            f"activity {fn.__qualname__} cannot run in a process: another process finds only functions at the top of a "
            "module",
            field="executor",
        )


def _kind(thing: object) -> str:
    name = getattr(thing, "__qualname__", None)
    return f"{type(thing).__name__} {name}" if name else f"a {type(thing).__name__}"
