"""Which exceptions fail the run, and which only the workflow task, which is then retried.

Two lists name them: one of a worker, one of a workflow, whose word comes first. What neither names is decided by the
engine: an error of the engine fails the task, any other exception that leaves the workflow's code fails the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from outlast_workflow.errors import (
    ApplicationError,
    ContinueAsNew,
    InvalidOptionError,
    MissingCodeError,
    PayloadCodecError,
    StoreError,
    WorkflowTaskBlockedError,
    WorkflowTaskError,
)
from outlast_workflow.errors.root import REGISTRY
from outlast_workflow.primitives.value_object import Value

FailureType = type[BaseException] | str
"""An exception class, or the name of one."""

ENGINE_ERRORS: Final = (WorkflowTaskError, InvalidOptionError)
"""Errors that fail the workflow task, and the run only if a list names them."""
_ALWAYS_THE_TASK: Final = (MissingCodeError, PayloadCodecError, WorkflowTaskBlockedError)
"""Errors of a deployment, which end with it: no list makes them fail the run."""


class FailureTypes(Value):
    """Exceptions, by class or name, that fail the run, and others that fail only the workflow task.

    Subclasses count. Where both lists apply, the class nearest to the exception's own decides. The ``type`` of an
    :class:`ApplicationError` is a name, too, and the nearest.

    Args:
        run: These fail the run.
        task: These fail only the workflow task.

    Raises:
        InvalidOptionError: An entry is no exception class and no name, or cannot be in its list.
    """

    __slots__ = ("run", "task")
    fields = ("run", "task")

    run: frozenset[FailureType]
    task: frozenset[FailureType]

    def __init__(self, *, run: Iterable[FailureType] = (), task: Iterable[FailureType] = ()) -> None:
        checked = {
            "run": _checked("workflow_failure_types", run),
            "task": _checked("workflow_task_failure_types", task),
        }
        both = checked["run"] & checked["task"]
        if both:
            names = ", ".join(sorted(map(_shown, both)))
            raise InvalidOptionError(
                f"{names} cannot fail the run and only the workflow task: keep it in one of workflow_failure_types and "
                "workflow_task_failure_types",
                field="workflow_failure_types",
            )
        for entry in checked["run"]:
            if _fails_only_the_task(entry):
                raise InvalidOptionError(
                    f"{_shown(entry)} always fails only the workflow task, which is retried until the worker is "
                    "mended: leave it out of workflow_failure_types",
                    field="workflow_failure_types",
                )
        self._set(checked)

    def verdict(self, error: BaseException) -> bool | None:
        """Return whether an exception fails the run; ``None`` if neither list names it."""
        if self.run or self.task:
            for kind in _kinds(error):
                if not self.task.isdisjoint(kind):
                    return False
                if not self.run.isdisjoint(kind):
                    return True
        return None


def verdict(error: BaseException, of_workflow: FailureTypes, of_worker: FailureTypes) -> bool | None:
    """Return whether an exception fails the run (or only the workflow task); ``None`` if no list names it.

    Args:
        error: The exception.
        of_workflow: The types that the workflow's declaration names.
        of_worker: Those that its worker names.
    """
    if isinstance(error, _ALWAYS_THE_TASK):
        return False
    found = of_workflow.verdict(error)
    return of_worker.verdict(error) if found is None else found


def _kinds(error: BaseException) -> Iterator[tuple[FailureType, ...]]:
    """Return what a list may call an exception, the nearest first: its own type, then its classes."""
    if isinstance(error, ApplicationError):
        yield (str(error.type), error.exception_class or "")
    for cls in type(error).__mro__:
        own: object = REGISTRY.get(cls.__name__)
        module = "outlast.errors" if own is cls else cls.__module__
        yield (cls, cls.__name__, f"{module}.{cls.__qualname__}")


def _checked(field: str, entries: Iterable[FailureType]) -> frozenset[FailureType]:
    if isinstance(entries, str | type):
        raise InvalidOptionError(
            f"{field} must be a list of exception classes or names: put {_shown(entries)} in a tuple",
            field=field,
        )
    try:
        return frozenset(_entry(field, entry) for entry in entries)
    except TypeError:
        raise InvalidOptionError(
            f"{field} must be a list of exception classes or names, not {type(entries).__name__}", field=field
        ) from None


def _entry(field: str, entry: Any) -> FailureType:
    if isinstance(entry, str) and entry.strip():
        return entry
    if isinstance(entry, type) and issubclass(entry, BaseException):
        if issubclass(entry, ContinueAsNew):
            raise InvalidOptionError(f"{field}: ContinueAsNew is no failure: leave it out", field=field)
        return entry
    raise InvalidOptionError(
        f"{field} must hold exception classes or their names, not {entry!r:.80}", field=field
    )


def _fails_only_the_task(entry: FailureType) -> bool:
    known = (*_ALWAYS_THE_TASK, StoreError)
    if isinstance(entry, str):
        name = entry.removeprefix("outlast.errors.")
        return any(cls.__name__ == name for base in known for cls in (base, *_subclasses(base)))
    return issubclass(entry, known)


def _subclasses(cls: type[BaseException]) -> Iterator[type[BaseException]]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _shown(entry: FailureType) -> str:
    return entry if isinstance(entry, str) else entry.__name__


NO_FAILURE_TYPES: Final = FailureTypes()
