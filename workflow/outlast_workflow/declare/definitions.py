"""Declaring workflows: ``@workflow.defn`` on a class with one ``@workflow.run``, or on a function.

On the class, ``Order.run`` is a typed reference without ``self``, as ``client.start(Order.run, "o-1")`` takes it. On an
instance, it is the bound method. Mistakes are found when the class is created, not when a run starts.

The code is ``async def`` or plain ``def``. Plain code runs in a greenlet (:mod:`~outlast_workflow.loop.greenlets`),
where the calls of ``workflow.blocking`` block.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.declare.handlers import HandlerSet, handlers_of, takes_input
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.loop.greenlets import in_greenlet
from outlast_workflow.options.failure_types import NO_FAILURE_TYPES, FailureType, FailureTypes
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.validation import Seconds, refuse_reserved, timeout_seconds, validate_name
from outlast_workflow.primitives.interceptor_chain import Chain
from outlast_workflow.primitives.type_families import family_of

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type)

_ATTRIBUTE = "__outlast_workflow__"


@dataclass(slots=True, frozen=True, eq=False)
class WorkflowDefinition:
    """A workflow type: its name, its code and the shape of its input."""

    name: str
    cls: type | None
    fn: Callable[..., Any]
    signature: CallSignature
    source: str
    """Where the code is, as ``file:line``."""
    handlers: HandlerSet = field(default_factory=HandlerSet)
    takes_input: bool = False
    """Whether the constructor takes the input too."""
    plain_input: bool = False
    """Whether its code takes the input as plain JSON, whatever its signature says."""
    is_async: bool = True
    """Whether the run method is a coroutine function. Plain code, including plain handlers, may block."""
    interceptors: Chain = field(default_factory=Chain)
    """What stands around its code: :class:`outlast_workflow.run.interceptors.WorkflowInterceptor`."""
    failure_types: FailureTypes = NO_FAILURE_TYPES
    """Which exceptions fail its runs, and which only their workflow tasks."""
    timeouts: Mapping[str, int | float] = field(default_factory=dict)
    """The ``run_timeout`` and the ``execution_timeout`` of starts by this definition that say nothing of them."""
    brings: tuple[WorkflowDefinition, ...] = ()
    """Other types that its runs may start as children: who serves this type serves them, too."""
    dag_hash: str | None = None
    """The hash of the spec that its new runs follow, if it is a DAG."""

    def instance(self, args: tuple[Any, ...]) -> object | None:
        """Return the instance that the code of a run runs on; ``None`` for a function."""
        if self.cls is None:
            return None
        made: object = self.cls(*args) if self.takes_input else self.cls()
        return made

    def enter(self, instance: object | None, args: tuple[Any, ...]) -> Coroutine[Any, Any, Any]:
        """Return the coroutine of a run on its instance."""
        if self.cls is not None:
            args = (instance, *args)
        coroutine: Coroutine[Any, Any, Any] = self.fn(*args) if self.is_async else in_greenlet(self.fn, *args)
        return coroutine


def definition_for(definitions: Mapping[str, WorkflowDefinition], type: str) -> WorkflowDefinition | None:
    """Return the definition that runs a type, or ``None``. That of a family is returned under the type's own name.

    Args:
        definitions: The definitions, by type or family.
        type: A type.
    """
    found = definitions.get(type)
    if found is None:
        family = family_of(definitions, type)
        if family is not None:
            return _called(definitions[family], type)
    return found


@functools.lru_cache(1024)
def _called(definition: WorkflowDefinition, name: str) -> WorkflowDefinition:
    return replace(definition, name=name)


class RunReference(Generic[P, T]):
    """``Order.run``: a workflow's entry point on the class, typed without ``self``."""

    __slots__ = ("definition", "fn")

    def __init__(self, definition: WorkflowDefinition, fn: Callable[..., Any]) -> None:
        self.definition = definition
        self.fn = fn

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        """Run it as plain code on a fresh instance. A durable call in it needs a run around it."""
        definition = self.definition
        if definition.takes_input and kwargs:
            given = inspect.signature(self.fn).bind(None, *args, **kwargs).args[1:]
            return self._plainly(definition.instance(given), *given)
        if definition.cls is None:
            return self._plainly(*args, **kwargs)
        return self._plainly(definition.instance(args), *args, **kwargs)

    def _plainly(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, T]:
        coroutine: Coroutine[Any, Any, T] = (
            self.fn(*args, **kwargs) if self.definition.is_async else _run_plain(self.fn, args, kwargs)
        )
        return coroutine

    def __repr__(self) -> str:
        return f"<workflow {self.definition.name} at {self.definition.source}>"


class PlainWorkflow(RunReference[P, T]):
    """A plain function that is a workflow, typed as a coroutine because it is started like one; ``.fn`` is the code."""

    __slots__ = ("__dict__",)

    def __init__(self, definition: WorkflowDefinition, fn: Callable[..., Any]) -> None:
        super().__init__(definition, fn)
        functools.update_wrapper(self, fn)


async def _run_plain(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return fn(*args, **kwargs)


class _RunMethod(Generic[P, T]):
    """What ``@workflow.run`` turns a method into."""

    __slots__ = ("fn",)

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn

    def _get(self, instance: object | None, owner: type) -> Any:
        if instance is not None:
            return MethodType(self.fn, instance)
        return RunReference(definition_of(owner), self.fn)


class RunMethod(_RunMethod[P, T]):
    """… of an ``async def``."""

    __slots__ = ()

    @overload
    def __get__(self, instance: None, owner: type) -> RunReference[P, T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, instance: object | None, owner: type) -> Any:
        """The reference for the class, the bound method for an instance."""
        return self._get(instance, owner)


class PlainRunMethod(_RunMethod[P, T]):
    """… of a plain ``def``: on the class a coroutine like any other, on an instance plain."""

    __slots__ = ()

    @overload
    def __get__(self, instance: None, owner: type) -> RunReference[P, T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Callable[P, T]: ...

    def __get__(self, instance: object | None, owner: type) -> Any:
        """As of any other."""
        return self._get(instance, owner)


# The order resolves overlaps: a class before a callable, a coroutine before any other result.
@overload
def run(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
    fn: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> RunMethod[P, T]: ...


@overload
def run(fn: Callable[Concatenate[Any, P], T]) -> PlainRunMethod[P, T]: ...


def run(fn: Any) -> Any:
    """Mark the method that a workflow class starts with: ``async def``, or a plain ``def`` that blocks."""
    if not inspect.isfunction(fn):
        raise InvalidOptionError(f"@workflow.run goes on a method, not on {_kind(fn)}")
    _check_returns(fn, "@workflow.run")
    return RunMethod(fn) if inspect.iscoroutinefunction(fn) else PlainRunMethod(fn)


OPTIONS = (
    "name",
    "run_timeout",
    "execution_timeout",
    "workflow_failure_types",
    "workflow_task_failure_types",
)


@overload
def defn(target: C, /) -> C: ...  # type: ignore[overload-overlap]


@overload
def defn(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
    target: Callable[P, Coroutine[Any, Any, T]], /
) -> Callable[P, Coroutine[Any, Any, T]]: ...


@overload
def defn(target: Callable[P, T], /) -> PlainWorkflow[P, T]: ...


@overload
def defn(
    *,
    name: str | None = None,
    run_timeout: Seconds | None = None,
    execution_timeout: Seconds | None = None,
    workflow_failure_types: Iterable[FailureType] = (),
    workflow_task_failure_types: Iterable[FailureType] = (),
) -> _Decorator: ...


def defn(
    target: Any = None,
    /,
    *,
    name: str | None = None,
    run_timeout: Seconds | None = None,
    execution_timeout: Seconds | None = None,
    workflow_failure_types: Iterable[FailureType] = (),
    workflow_task_failure_types: Iterable[FailureType] = (),
    **unknown: Any,
) -> Any:
    """Declare a workflow.

    Args:
        target: A class with one method marked ``@workflow.run``, or a function.
        name: The workflow type, which histories record; by default the name of the class or function. Keep it when
            you rename the code. One that ends with ``*`` serves a family: every type that begins with the rest.
        run_timeout: How long each run may take where a start by this definition says nothing else: of a client, a
            child or a schedule. An option of the start and :func:`outlast.starting` win, ``None`` there clears it. A
            start by name does not know it: :func:`outlast.workflow.limit` holds for every start.
        execution_timeout: How long all runs of a chain together may take, likewise.
        workflow_failure_types: Exceptions, as classes or names, that fail the run although they would fail only the
            workflow task, such as ``NonDeterminismError``. Subclasses count; the worker's lists are asked afterwards.
        workflow_task_failure_types: Exceptions that fail only the workflow task, which is then retried.
        **unknown: Options that there are not: the error says what is meant.

    Raises:
        InvalidOptionError: The target is not a workflow, or an option is not allowed; the message says why.
    """
    if unknown:
        refuse_unknown("@workflow.defn", unknown, OPTIONS)
    timeouts = {"run_timeout": run_timeout, "execution_timeout": execution_timeout}
    decorator = _Decorator(name, timeouts, workflow_failure_types, workflow_task_failure_types)
    return decorator if target is None else decorator(target)


class _Decorator:
    """``@workflow.defn(name=…)``, before it is applied to its target."""

    __slots__ = ("failure_types", "name", "timeouts")

    def __init__(
        self,
        name: str | None,
        timeouts: Mapping[str, Seconds | None],
        workflow_failure_types: Iterable[FailureType],
        workflow_task_failure_types: Iterable[FailureType],
    ) -> None:
        self.name = None if name is None else validate_name("workflow name", name)
        self.timeouts = {
            field: timeout_seconds(field.replace("_", " "), timeout, minimum_seconds=1)
            for field, timeout in timeouts.items()
            if timeout is not None
        }
        self.failure_types = FailureTypes(run=workflow_failure_types, task=workflow_task_failure_types)

    @overload
    def __call__(self, target: C, /) -> C: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
        self, target: Callable[P, Coroutine[Any, Any, T]], /
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...

    @overload
    def __call__(self, target: Callable[P, T], /) -> PlainWorkflow[P, T]: ...

    def __call__(self, target: Any, /) -> Any:
        """Declare it."""
        if inspect.isclass(target):
            definition = _class_definition(target, self)
        elif inspect.isfunction(target):
            definition = _function_definition(target, self)
        else:
            raise InvalidOptionError(f"@workflow.defn goes on a class or a function, not on {_kind(target)}")
        if not definition.is_async and definition.cls is None:
            return PlainWorkflow(definition, target)
        setattr(target, _ATTRIBUTE, definition)
        return target


def definition_of(workflow: object) -> WorkflowDefinition:
    """Return the definition of a workflow class, its ``run``, a workflow function or a definition.

    Raises:
        InvalidOptionError: It is none of these.
    """
    if isinstance(workflow, WorkflowDefinition):
        return workflow
    if isinstance(workflow, RunReference):
        return workflow.definition
    if isinstance(workflow, MethodType):
        workflow = type(workflow.__self__)
    # A class that inherits from a workflow is no workflow until declared: two types must not share a name by accident.
    definition = getattr(workflow, "__dict__", {}).get(_ATTRIBUTE)
    if isinstance(definition, WorkflowDefinition):
        return definition
    raise InvalidOptionError(
        f"{_kind(workflow)} is not a workflow: put @workflow.defn on the class (with one @workflow.run) "
        "or on the function"
    )


def definitions_of(workflows: Iterable[object]) -> Iterator[WorkflowDefinition]:
    """Yield the definitions of workflows, and behind them those that they bring, unless they were there already.

    Args:
        workflows: Workflow classes, workflow functions and definitions.

    Raises:
        InvalidOptionError: One is none of these.
    """
    found = [definition_of(workflow) for workflow in workflows]
    yield from found
    names = {definition.name for definition in found}
    yield from {
        one.name: one for definition in found for one in definition.brings if one.name not in names
    }.values()


def _class_definition(cls: type, options: _Decorator) -> WorkflowDefinition:
    name = options.name or cls.__name__
    refuse_reserved("workflow name", name)
    marked = _run_methods(cls)
    if not marked:
        raise InvalidOptionError(f"workflow {cls.__name__} has no run method: mark one with @workflow.run")
    if len(marked) > 1:
        names = ", ".join(sorted(marked))
        raise InvalidOptionError(
            f"workflow {cls.__name__} has {len(marked)} run methods ({names}): keep one @workflow.run"
        )
    (method,) = marked.values()
    signature = CallSignature.of(method.fn, skip_first=True)
    given = takes_input(cls)
    _check_constructor(cls, signature if given else None)
    return WorkflowDefinition(
        name,
        cls,
        method.fn,
        signature,
        _source(method.fn),
        handlers_of(cls),
        given,
        is_async=isinstance(method, RunMethod),
        failure_types=options.failure_types,
        timeouts=options.timeouts,
    )


def _run_methods(cls: type) -> dict[str, _RunMethod[Any, Any]]:
    """Return the marked methods by name. A subclass's attribute hides the one it overrides, marked or not."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        found.update(vars(base))
    return {name: value for name, value in found.items() if isinstance(value, _RunMethod)}


def _function_definition(fn: Callable[..., Any], options: _Decorator) -> WorkflowDefinition:
    _check_returns(fn, "@workflow.defn")
    if "<locals>" not in fn.__qualname__ and "." in fn.__qualname__:
        raise InvalidOptionError(
            f"{fn.__qualname__} is a method: put @workflow.defn on the class and @workflow.run on the method"
        )
    name = options.name or fn.__name__
    refuse_reserved("workflow name", name)
    is_async = inspect.iscoroutinefunction(fn)
    return WorkflowDefinition(
        name,
        None,
        fn,
        CallSignature.of(fn),
        _source(fn),
        is_async=is_async,
        failure_types=options.failure_types,
        timeouts=options.timeouts,
    )


def _check_returns(fn: Callable[..., Any], decorator: str) -> None:
    if inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn):
        kind = "an async generator" if inspect.isasyncgenfunction(fn) else "a generator"
        raise InvalidOptionError(f"{decorator}: {fn.__qualname__} is {kind}: return a value, do not yield")


def _check_constructor(cls: type, takes: CallSignature | None) -> None:
    """Check that the constructor takes nothing or, with ``@workflow.init``, exactly what the run method takes."""
    if takes is not None:
        own = CallSignature.of(cls.__init__, skip_first=True)  # type: ignore[misc]
        if (own.names, own.required, own.var_positional) != (
            takes.names,
            takes.required,
            takes.var_positional,
        ):
            raise InvalidOptionError(
                f"workflow {cls.__name__}: an __init__ with @workflow.init must take what the run method takes "
                f"({', '.join(takes.names) or 'nothing'}), under the same names"
            )
        return
    try:
        inspect.signature(cls).bind()
    except ValueError:  # no signature to be had: then nothing is known against it
        return
    except TypeError:
        raise InvalidOptionError(
            f"workflow {cls.__name__} must be constructible without arguments: take them in the run method, "
            "or mark its __init__ with @workflow.init to be given the run's input"
        ) from None


def _source(fn: Callable[..., Any]) -> str:
    code = fn.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


def _kind(thing: object) -> str:
    name = getattr(thing, "__qualname__", None)
    return f"{type(thing).__name__} {name}" if name else f"{thing!r:.80}"
