"""Declaring the handlers of a workflow: ``@workflow.signal``, ``@workflow.query``, ``@workflow.update``.

On the class, ``Order.approve`` is a typed reference without ``self``: it names the handler and knows its arguments, so
``handle.signal(Order.approve, "ada")`` is checked. Called, it returns a *call* to be sent elsewhere
(``Order.approve("ada")``). On an instance, it is the plain bound method.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from types import MethodType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.errors import DurableCallError, InvalidOptionError
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.validation import validate_name

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
F = TypeVar("F", bound=Callable[..., Any])
K = TypeVar("K", bound="HandlerCall")

_TAKES_INPUT = "__outlast_init__"


# --- calls: what is sent ----------------------------------------------------------------------------------------------


class HandlerCall:
    """A handler's name and the arguments of one call."""

    __slots__ = ("args", "name", "result_hint", "signature")

    def __init__(
        self, name: str, args: tuple[Any, ...], signature: CallSignature | None = None, result_hint: Any = Any
    ) -> None:
        self.name = name
        self.args = args
        self.signature = signature
        self.result_hint = result_hint

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"  # arguments never appear in messages or logs


class SignalCall(HandlerCall):
    """A signal with its arguments, as ``Order.approve("ada")`` returns it."""

    __slots__ = ()


class QueryCall(HandlerCall, Generic[T_co]):
    """A query with its arguments."""

    __slots__ = ()


class UpdateCall(HandlerCall, Generic[T_co]):
    """An update with its arguments."""

    __slots__ = ()


# --- handlers: what answers -------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Handler:
    """One handler of a workflow; a dynamic one has no name and takes ``(name, args)``."""

    kind: str
    name: str | None
    fn: Callable[..., Any]
    signature: CallSignature
    is_async: bool
    validator: Callable[..., Any] | None = None


@dataclass(slots=True, frozen=True, eq=False)
class HandlerSet:
    """The handlers of a workflow, by kind and name."""

    signals: dict[str, Handler] = field(default_factory=dict)
    queries: dict[str, Handler] = field(default_factory=dict)
    updates: dict[str, Handler] = field(default_factory=dict)
    dynamic: dict[str, Handler] = field(default_factory=dict)

    def of(self, kind: str) -> dict[str, Handler]:
        """Return the named handlers of a kind."""
        return {"signal": self.signals, "query": self.queries, "update": self.updates}[kind]

    def all(self) -> Iterator[Handler]:
        """Iterate over the handlers of all kinds, named and dynamic."""
        for handlers in (self.signals, self.queries, self.updates, self.dynamic):
            yield from handlers.values()

    def find(self, kind: str, name: str) -> Handler | None:
        """Return the handler of a name, or the dynamic one of its kind."""
        return self.of(kind).get(name) or self.dynamic.get(kind)


class _Reference(Generic[P]):
    """A handler on its class."""

    __slots__ = ("method",)

    def __init__(self, method: _Method) -> None:
        self.method = method

    @property
    def name(self) -> str:
        """Return the name under which it is sent."""
        name = self.method.name
        if name is None:
            raise InvalidOptionError("a dynamic handler has no name of its own: give the name as text")
        return name

    def _call(self, kind: type[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        handler = self.method.handler()
        if kwargs:
            args = inspect.signature(handler.fn).bind(None, *args, **kwargs).args[1:]
        handler.signature.check(args, self.name)
        return kind(self.name, args, handler.signature, handler.signature.result_hint)

    def __repr__(self) -> str:
        return f"<{self.method.kind} {self.method.fn.__qualname__}>"


class SignalReference(_Reference[P]):
    """``Order.approve``: a signal, typed without ``self``."""

    __slots__ = ()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> SignalCall:
        """Return the signal with its arguments, to be sent."""
        call: SignalCall = self._call(SignalCall, args, kwargs)
        return call


class QueryReference(_Reference[P], Generic[P, T]):
    """``Order.status``: a query, typed without ``self``."""

    __slots__ = ()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> QueryCall[T]:
        """Return the query with its arguments, to be sent."""
        call: QueryCall[T] = self._call(QueryCall, args, kwargs)
        return call


class UpdateReference(_Reference[P], Generic[P, T]):
    """``Order.set_price``: an update, typed without ``self``."""

    __slots__ = ()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> UpdateCall[T]:
        """Return the update with its arguments, to be sent."""
        call: UpdateCall[T] = self._call(UpdateCall, args, kwargs)
        return call


class _Method:
    """What a decorator turns a method into."""

    kind = ""

    def __init__(self, fn: Callable[..., Any], name: str | None, *, dynamic: bool) -> None:
        if not inspect.isfunction(fn):
            raise InvalidOptionError(
                f"@workflow.{self.kind} goes on a method, not on {type(fn).__name__} {fn!r:.60}"
            )
        if inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn):
            raise InvalidOptionError(f"@workflow.{self.kind}: {fn.__qualname__} must return, not yield")
        self.fn = fn
        self.dynamic = dynamic
        self.name = None if dynamic else validate_name(f"{self.kind} name", name or fn.__name__, segment=True)
        self._handler: Handler | None = None

    def handler(self) -> Handler:
        """Return the handler. Its type hints are read at first use, when all names are defined."""
        if self._handler is None:
            fn = self.fn
            signature = CallSignature.of(fn, skip_first=True)
            if self.dynamic and len(signature.names) != 2:
                raise InvalidOptionError(
                    f"the dynamic {self.kind} {fn.__qualname__} must take (self, name, args): args is a list"
                )
            self._handler = Handler(
                self.kind, self.name, fn, signature, inspect.iscoroutinefunction(fn), self.checker()
            )
        return self._handler

    def checker(self) -> Callable[..., Any] | None:
        """Return the validator of an update that has one."""
        return None


class SignalMethod(_Method, Generic[P, T]):
    """A method that takes a signal."""

    kind = "signal"

    @overload
    def __get__(self, instance: None, owner: type) -> SignalReference[P]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Callable[P, T]: ...

    def __get__(self, instance: object | None, owner: type) -> Any:
        """The reference for the class, the bound method for an instance."""
        return SignalReference(self) if instance is None else MethodType(self.fn, instance)


class QueryMethod(_Method, Generic[P, T]):
    """A method that answers a query."""

    kind = "query"

    def __init__(self, fn: Callable[..., Any], name: str | None, *, dynamic: bool) -> None:
        super().__init__(fn, name, dynamic=dynamic)
        if inspect.iscoroutinefunction(fn):
            raise InvalidOptionError(
                f"@workflow.query: {fn.__qualname__} must be a plain `def`: a query only reads, it cannot wait"
            )

    @overload
    def __get__(self, instance: None, owner: type) -> QueryReference[P, T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Callable[P, T]: ...

    def __get__(self, instance: object | None, owner: type) -> Any:
        """The reference for the class, the bound method for an instance."""
        return QueryReference(self) if instance is None else MethodType(self.fn, instance)


class UpdateMethod(_Method, Generic[P, T]):
    """A method that takes an update; ``T`` is what awaiting it gives."""

    kind = "update"

    def __init__(self, fn: Callable[..., Any], name: str | None, *, dynamic: bool) -> None:
        super().__init__(fn, name, dynamic=dynamic)
        self._validator: Callable[..., Any] | None = None

    def validator(self, fn: Callable[Concatenate[Any, P], None]) -> Callable[Concatenate[Any, P], None]:
        """Mark the method that may reject the update, by raising, before the update becomes part of the history."""
        if not inspect.isfunction(fn) or inspect.iscoroutinefunction(fn):
            raise InvalidOptionError(
                f"the validator of update {self.fn.__qualname__} must be a plain `def`: it only reads"
            )
        if self._validator is not None:
            raise InvalidOptionError(f"update {self.fn.__qualname__} has a validator already")
        self._validator = fn
        self._handler = None
        return fn

    def checker(self) -> Callable[..., Any] | None:
        """The validator."""
        return self._validator

    @overload
    def __get__(self, instance: None, owner: type) -> UpdateReference[P, T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, instance: object | None, owner: type) -> Any:
        """The reference for the class, the bound method for an instance."""
        return UpdateReference(self) if instance is None else MethodType(self.fn, instance)


# --- decorators -------------------------------------------------------------------------------------------------------


class _SignalDecorator:
    __slots__ = ("_dynamic", "_name")

    def __init__(self, name: str | None, *, dynamic: bool) -> None:
        self._name, self._dynamic = _one_of("signal", name, dynamic=dynamic), dynamic

    def __call__(self, fn: Callable[Concatenate[Any, P], T], /) -> SignalMethod[P, T]:
        return SignalMethod(fn, self._name, dynamic=self._dynamic)


class _QueryDecorator:
    __slots__ = ("_dynamic", "_name")

    def __init__(self, name: str | None, *, dynamic: bool) -> None:
        self._name, self._dynamic = _one_of("query", name, dynamic=dynamic), dynamic

    def __call__(self, fn: Callable[Concatenate[Any, P], T], /) -> QueryMethod[P, T]:
        return QueryMethod(fn, self._name, dynamic=self._dynamic)


class _UpdateDecorator:
    __slots__ = ("_dynamic", "_name")

    def __init__(self, name: str | None, *, dynamic: bool) -> None:
        self._name, self._dynamic = _one_of("update", name, dynamic=dynamic), dynamic

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]], /
    ) -> UpdateMethod[P, T]: ...

    @overload
    def __call__(self, fn: Callable[Concatenate[Any, P], T], /) -> UpdateMethod[P, T]: ...

    def __call__(self, fn: Any, /) -> Any:
        return UpdateMethod(fn, self._name, dynamic=self._dynamic)


@overload
def signal(fn: Callable[Concatenate[Any, P], T], /) -> SignalMethod[P, T]: ...


@overload
def signal(*, name: str) -> _SignalDecorator: ...


@overload
def signal(*, dynamic: Literal[True]) -> _SignalDecorator: ...


def signal(fn: Any = None, /, *, name: str | None = None, dynamic: bool = False, **unknown: Any) -> Any:
    """Mark a method, plain or ``async``, that handles a signal.

    Args:
        fn: The method.
        name: The signal's name; by default the method's name. Keep it when you rename the code.
        dynamic: Whether the method handles every signal that has no other handler, as ``(self, name, args)``.
        **unknown: Options that there are not: the error says what is meant.
    """
    if unknown:
        refuse_unknown("@workflow.signal", unknown, ("name", "dynamic"))
    made = _SignalDecorator(name, dynamic=dynamic)
    return made if fn is None else made(fn)


@overload
def query(fn: Callable[Concatenate[Any, P], T], /) -> QueryMethod[P, T]: ...


@overload
def query(*, name: str) -> _QueryDecorator: ...


@overload
def query(*, dynamic: Literal[True]) -> _QueryDecorator: ...


def query(fn: Any = None, /, *, name: str | None = None, dynamic: bool = False, **unknown: Any) -> Any:
    """Mark a plain method that answers a query. It may read anything, but must change nothing.

    Args:
        fn: The method.
        name: The query's name; by default the method's name.
        dynamic: Whether the method answers every query that has no other handler, as ``(self, name, args)``.
        **unknown: Options that there are not: the error says what is meant.
    """
    if unknown:
        refuse_unknown("@workflow.query", unknown, ("name", "dynamic"))
    made = _QueryDecorator(name, dynamic=dynamic)
    return made if fn is None else made(fn)


@overload
def update(fn: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]], /) -> UpdateMethod[P, T]: ...


@overload
def update(fn: Callable[Concatenate[Any, P], T], /) -> UpdateMethod[P, T]: ...


@overload
def update(*, name: str) -> _UpdateDecorator: ...


@overload
def update(*, dynamic: Literal[True]) -> _UpdateDecorator: ...


def update(fn: Any = None, /, *, name: str | None = None, dynamic: bool = False, **unknown: Any) -> Any:
    """Mark a method, plain or ``async``, that handles an update and returns its result.

    Args:
        fn: The method. ``@<its name>.validator`` marks another that may reject the update.
        name: The update's name; by default the method's name.
        dynamic: Whether the method handles every update that has no other handler, as ``(self, name, args)``.
        **unknown: Options that there are not: the error says what is meant.
    """
    if unknown:
        refuse_unknown("@workflow.update", unknown, ("name", "dynamic"))
    made = _UpdateDecorator(name, dynamic=dynamic)
    return made if fn is None else made(fn)


def init(fn: F) -> F:
    """Mark a workflow's ``__init__`` that takes the run's input, as the run method does.

    Signals that arrive before the first workflow task then find an instance that knows its input.
    """
    if getattr(fn, "__name__", "") != "__init__":
        raise InvalidOptionError("@workflow.init goes on __init__")
    setattr(fn, _TAKES_INPUT, True)
    return fn


def call_of(kind: type[K], target: object, args: tuple[Any, ...]) -> K:
    """Return the call of ``Order.approve`` with arguments, of a call, or of a name with arguments.

    Args:
        kind: :class:`SignalCall`, :class:`QueryCall` or :class:`UpdateCall`.
        target: What the caller gave.
        args: The arguments that came with it.

    Raises:
        InvalidOptionError: The target is not of that kind.
        DurableCallError: The number of arguments is wrong.
    """
    noun = kind.__name__.removesuffix("Call").lower()
    if isinstance(target, str):
        return kind(validate_name(f"{noun} name", target, segment=True), args)
    if isinstance(target, _Reference) and target.method.kind == noun:
        call: Any = target
        found: K = call(*args)
        return found
    if isinstance(target, kind) and not args:
        return target
    article = "an" if noun == "update" else "a"
    raise InvalidOptionError(
        f"{target!r:.80} is not {article} {noun}: give a method marked with @workflow.{noun}, as in Order.approve, "
        "or a name"
    )


def takes_input(cls: type) -> bool:
    """Return whether the constructor of a class is marked with ``@workflow.init``."""
    return bool(getattr(cls.__init__, _TAKES_INPUT, False))  # type: ignore[misc]


def handlers_of(cls: type) -> HandlerSet:
    """Return the handlers of a workflow class. A subclass's attribute hides the one that it overrides.

    Raises:
        InvalidOptionError: Two handlers of a kind have the same name, or an override has lost its decorator.
    """
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for attribute, value in vars(base).items():
            hidden = found.get(attribute)
            if isinstance(hidden, _Method) and not isinstance(value, _Method):
                raise InvalidOptionError(
                    f"{base.__name__}.{attribute} overrides a {hidden.kind} handler: mark it with "
                    f"@workflow.{hidden.kind} too"
                )
            found[attribute] = value
    handlers = HandlerSet()
    for method in found.values():
        if isinstance(method, _Method):
            _add(handlers, method, cls)
    return handlers


def _add(handlers: HandlerSet, method: _Method, cls: type) -> None:
    try:
        handler = method.handler()
    except DurableCallError as error:
        raise InvalidOptionError(f"@workflow.{method.kind}: {error}") from None
    among, key = (
        (handlers.dynamic, method.kind) if method.name is None else (handlers.of(method.kind), method.name)
    )
    other = among.get(key)
    if other is not None:
        called = "dynamic handlers for" if method.name is None else f"handlers named {key!r} for"
        raise InvalidOptionError(
            f"workflow {cls.__name__} has two {called} {method.kind}s: {other.fn.__name__} and {method.fn.__name__}"
        )
    among[key] = handler


def _one_of(kind: str, name: str | None, *, dynamic: bool) -> str | None:
    if name is not None and dynamic:
        raise InvalidOptionError(f"@workflow.{kind}: give a name or dynamic=True, not both")
    return None if name is None else validate_name(f"{kind} name", name, segment=True)
