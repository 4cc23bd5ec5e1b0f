"""Errors of the DSL: what they are made of, and how they travel through failures of the engine.

An error is a JSON object as RFC 7807 has it: ``type``, ``status``, ``title``, ``detail`` and ``instance``, the
pointer of the task that it comes from.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, TypeAlias

from outlast_workflow.errors import (
    ActivityTimeoutError,
    ApplicationError,
    FailureError,
    WorkflowTimeoutError,
)
from outlast_workflow.primitives.enums import FailureCategory

Kind: TypeAlias = Literal[
    "configuration",
    "validation",
    "expression",
    "authentication",
    "authorization",
    "timeout",
    "communication",
    "runtime",
]
BASE: Final = "https://serverlessworkflow.io/spec/1.0.0/errors/"
_STATUSES: Final[dict[str, int]] = {
    "configuration": 400,
    "validation": 400,
    "expression": 400,
    "authentication": 401,
    "authorization": 403,
    "timeout": 408,
    "communication": 500,
    "runtime": 500,
}
_TITLES: Final[dict[str, str]] = {
    "configuration": "Wrong configuration",
    "validation": "Invalid data",
    "expression": "An expression failed",
    "authentication": "Not authenticated",
    "authorization": "Not authorized",
    "timeout": "Timed out",
    "communication": "Communication failed",
    "runtime": "Failed",
}
_SPELLINGS: Final = re.compile(
    r"https?://(?:www\.)?(?:serverlessworkflow\.io|open-workflow-specification\.org)"
    r"/(?:spec/[^/]+/errors|dsl/errors/types)/([a-z]+)"
)


class Fault(Exception):
    """An error of the DSL on its way through tasks.

    Attributes:
        error: The error, as JSON.
    """

    def __init__(self, error: dict[str, Any]) -> None:
        self.error = error
        super().__init__(words(error))


def fault(
    kind: Kind, detail: str, pointer: str, *, status: int | None = None, title: str | None = None
) -> Fault:
    """Return an error of a standard kind.

    Args:
        kind: Which.
        detail: What happened, and what to do about it.
        pointer: The task that it comes from; ``/`` for the workflow.
        status: The status, where another one fits better than the standard one.
        title: The title, where another one fits better.
    """
    return Fault(
        {
            "type": BASE + kind,
            "status": _STATUSES[kind] if status is None else status,
            "title": _TITLES[kind] if title is None else title,
            "detail": detail,
            "instance": pointer or "/",
        }
    )


def timed_out() -> dict[str, Any]:
    """Return the error of a workflow whose timeout the engine enforced."""
    return fault("timeout", "the timeout of the workflow passed", "/").error


def same_type(one: str, other: str) -> bool:
    """Return whether two types are the same error: a standard one has four spellings in the wild."""
    return one == other or _plain(one) == _plain(other)


def _plain(type: str) -> str:
    found = _SPELLINGS.fullmatch(type)
    return type if found is None else BASE + found[1]


def is_timeout(error: dict[str, Any]) -> bool:
    """Return whether an error says that time is up."""
    return same_type(str(error.get("type")), BASE + "timeout")


def words(error: dict[str, Any]) -> str:
    """Return an error in one line."""
    told = error.get("detail") or error.get("title") or error.get("type")
    where = error.get("instance")
    return f"{told} ({error.get('status')}{f', {where}' if where else ''})"


def as_application_error(raised: Fault) -> ApplicationError:
    """Return the failure as which an error leaves an activity, or the run."""
    failure = ApplicationError(
        words(raised.error), raised.error, type=str(raised.error.get("type")), non_retryable=True
    )
    if is_timeout(raised.error):
        failure.category = FailureCategory.TIMEOUT
    # It is the document that faulted: the pointer says where. Where this code raises it tells nobody anything.
    failure.stack = ""
    return failure


def from_failure(failure: FailureError, pointer: str) -> Fault:
    """Return the error in a failure of an activity or a child.

    Args:
        failure: The failure that the engine raised.
        pointer: The task that it happened to.
    """
    cause: BaseException | None = failure
    while cause is not None:
        if isinstance(cause, ApplicationError):
            error = error_of(cause)
            if error is not None:
                instance = error.get("instance")
                return Fault({**error, "instance": pointer} if instance in (None, "", "/") else error)
        if isinstance(cause, ActivityTimeoutError | WorkflowTimeoutError):
            return fault("timeout", str(failure), pointer)
        cause = cause.__cause__
    return fault("runtime", str(failure), pointer)


def error_of(failure: ApplicationError) -> dict[str, Any] | None:
    """Return the error of the DSL that a failure carries, or ``None``."""
    for detail in failure.details or ():
        if isinstance(detail, dict) and "type" in detail and "status" in detail:
            return dict(detail)
    return None
