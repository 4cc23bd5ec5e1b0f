"""Signatures of functions: parameters and result, inspected once per function."""

from __future__ import annotations

import builtins
import collections.abc
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, get_args, get_origin

from outlast_workflow.errors import DurableCallError

_AWAITABLES = (collections.abc.Awaitable, collections.abc.Coroutine)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class CallSignature:
    """The positional parameters of a function and its type hints; compared by identity.

    Attributes:
        name: The function's name in messages.
        names: Its positional parameters.
        hints: Their type hints, ``Any`` if there is none or it cannot be resolved.
        defaults: The default values of the last parameters, in order.
        required: How many parameters have no default.
        var_positional: Whether it takes ``*args``; ``var_hint`` is their type hint.
        result_hint: The type of its result; for ``async`` functions, of the awaited result.
        readers: A cache of the data converter, keyed by the number of arguments.
    """

    __slots__ = (
        "defaults",
        "hints",
        "name",
        "names",
        "readers",
        "required",
        "result_hint",
        "var_hint",
        "var_positional",
    )

    def __init__(
        self,
        name: str,
        names: Sequence[str],
        hints: Sequence[Any],
        *,
        defaults: Sequence[Any] = (),
        var_positional: str | None = None,
        var_hint: Any = Any,
        result_hint: Any = Any,
    ) -> None:
        self.name = name
        self.names = tuple(names)
        self.hints = tuple(hints)
        self.defaults = tuple(defaults)
        self.required = len(self.names) - len(self.defaults)
        self.var_positional = var_positional
        self.var_hint = var_hint
        self.result_hint = result_hint
        self.readers: dict[int, Any] = {}

    @classmethod
    def of(cls, fn: Callable[..., Any], *, skip_first: bool = False) -> CallSignature:
        """Return the signature of a function or method.

        Args:
            fn: A function, method, partial, callable object or class.
            skip_first: Whether it is a method: leave out the first parameter (``self``), and name its class too.

        Raises:
            DurableCallError: A keyword-only parameter has no default (a durable call could never pass it), or Python
                knows no signature.
        """
        name = getattr(fn, "__name__", None) or type(fn).__name__
        if skip_first:  # "run" alone would not say whose
            name = ".".join(getattr(fn, "__qualname__", name).rsplit(".", 2)[-2:])
        hints = _hints(fn)
        try:
            parameters = list(inspect.signature(fn).parameters.values())[1 if skip_first else 0 :]
        except (TypeError, ValueError):
            raise DurableCallError(
                f"{name}() has no signature that Python knows: wrap it in a function"
            ) from None
        names: list[str] = []
        defaults: list[Any] = []
        var: inspect.Parameter | None = None
        for parameter in parameters:
            if parameter.kind in _POSITIONAL:
                names.append(parameter.name)
                if parameter.default is not inspect.Parameter.empty:
                    defaults.append(parameter.default)
            elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                var = parameter
            elif (
                parameter.kind is inspect.Parameter.KEYWORD_ONLY
                and parameter.default is inspect.Parameter.empty
            ):
                raise DurableCallError(
                    f"{name}() has the keyword-only parameter {parameter.name!r} without a default: durable calls "
                    "pass arguments by position, so make it positional or give it a default"
                )
        return cls(
            name,
            names,
            [hints.get(parameter, Any) for parameter in names],
            defaults=defaults,
            var_positional=var.name if var else None,
            var_hint=hints.get(var.name, Any) if var else Any,
            result_hint=_awaited(hints.get("return", Any)),
        )

    def check(self, args: Sequence[Any], name: str | None = None) -> None:
        """Check that a call with these arguments can be made.

        Args:
            args: The arguments.
            name: The function's name in the message, if not its own.

        Raises:
            DurableCallError: There are too few or too many arguments.
        """
        count = len(args)
        if count < self.required or (count > len(self.names) and self.var_positional is None):
            raise DurableCallError(self.arity_message(count, name))

    def arity_message(self, given: int, name: str | None = None) -> str:
        """Return the message for a call with the wrong number of arguments."""
        takes = str(self.required)
        if self.var_positional is not None:
            takes = f"at least {self.required}"
        elif self.defaults:
            takes = f"{self.required} to {len(self.names)}"
        plural = "" if takes.endswith("1") and takes[:-1] in ("", "at least ") else "s"
        shown = [*self.names, f"*{self.var_positional}"] if self.var_positional else list(self.names)
        listed = f" ({', '.join(shown)})" if shown else ""
        return f"{name or self.name}() takes {takes} argument{plural}{listed}, {given} given"

    def parameter(self, index: int) -> str:
        """Return the name in messages of the argument at an index."""
        if index < len(self.names):
            return self.names[index]
        return f"*{self.var_positional}" if self.var_positional else f"argument {index + 1}"

    def hint(self, index: int) -> Any:
        """Return the type hint of the argument at an index."""
        return self.hints[index] if index < len(self.names) else self.var_hint

    def __repr__(self) -> str:
        return f"CallSignature({self.name}({', '.join(self.names)}))"


def _awaited(hint: Any) -> Any:
    """Return the T of ``Awaitable[T]`` and ``Coroutine[…, …, T]``: the awaited result of a function."""
    if get_origin(hint) in _AWAITABLES:
        args = get_args(hint)
        return args[-1] if args else Any
    return Any if hint in _AWAITABLES else hint


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    """Return type hints, ``Any`` for those that cannot be resolved (names under ``TYPE_CHECKING`` or out of scope)."""
    target: Any = fn
    while isinstance(target, functools.partial):
        target = target.func
    target = inspect.unwrap(target)
    if not isinstance(target, types.FunctionType | types.MethodType | types.BuiltinFunctionType):
        target = getattr(target, "__init__" if isinstance(target, type) else "__call__")
    names = _names_in_sight(target)
    try:
        return typing.get_type_hints(target, localns=names, include_extras=True)
    except Exception:
        return {
            name: _resolved(target, name, hint, names)
            for name, hint in getattr(target, "__annotations__", {}).items()
        }


def _resolved(target: Any, name: str, hint: Any, names: dict[str, Any]) -> Any:
    """Resolve one annotation in the same way as all: ``get_type_hints`` of an object that has no other."""

    def alone() -> None: ...

    alone.__annotations__ = {name: hint}
    alone.__module__ = getattr(target, "__module__", __name__)
    try:
        return typing.get_type_hints(
            alone, globalns=getattr(target, "__globals__", {}), localns=names, include_extras=True
        )[name]
    except Exception:
        return Any


def _names_in_sight(target: Any) -> dict[str, Any]:
    """Return what annotations may name other than globals and builtins: the function's closure, then its class."""
    function: Any = getattr(target, "__func__", target)
    names: dict[str, Any] = {}
    known = getattr(function, "__globals__", {})
    module = sys.modules.get(getattr(function, "__module__", "") or "")
    owner, _, _ = getattr(function, "__qualname__", "").rpartition(".")
    if module is not None and owner and "<locals>" not in owner:
        found: Any = module
        for part in owner.split("."):
            found = getattr(found, part, None)
        if isinstance(found, type):
            names = {n: v for n, v in vars(found).items() if n not in known and not hasattr(builtins, n)}
    for name, cell in zip(
        getattr(getattr(function, "__code__", None), "co_freevars", ()),
        getattr(function, "__closure__", None) or (),
        strict=False,
    ):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return names
