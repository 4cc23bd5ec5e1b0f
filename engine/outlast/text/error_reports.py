"""Errors as they are reported: in one line for people, as plain values for programs."""

from __future__ import annotations

from typing import Any

from outlast.errors import OutlastError, RequestError, WorkflowResultError


def one_line(error: OutlastError) -> str:
    """Return an error's message on one line, with the causes that a reader would otherwise not see."""
    if isinstance(error, WorkflowResultError) and error.__cause__ is not None:
        return joined(f"workflow {error.workflow_id!r} failed: {causes(error.__cause__)}")
    if isinstance(error, RequestError) and error.__cause__ is not None:
        problem, _, advice = error.message.partition(": see the cause")
        return joined(f"{problem}: {causes(error.__cause__)}{advice}")
    return joined(error.message)


def causes(error: BaseException, most: int = 3) -> str:
    """Return an exception and what caused it, the latest first.

    Args:
        error: The exception.
        most: The number of exceptions to name at most.
    """
    words: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(words) < most:
        name = getattr(cause, "type", None) or type(cause).__name__
        words.append(f"{name}: {cause}" if str(cause) else str(name))
        cause = cause.__cause__
    return ", because of ".join(words)


def joined(text: str) -> str:
    """Return a text with its line breaks and runs of spaces as single spaces."""
    return " ".join(text.split())


def error_document(error: BaseException) -> dict[str, Any]:
    """Return why a workflow ended without a result, with its causes, as plain values."""
    found: dict[str, Any] = {
        "type": getattr(error, "type", None) or type(error).__name__,
        "message": str(error),
    }
    for attribute in ("timeout_kind", "deadline_at", "reason"):
        value = getattr(error, attribute, None)
        if value is not None:
            found[attribute] = value.isoformat() if attribute == "deadline_at" else value
    if error.__cause__ is not None:
        found["cause"] = error_document(error.__cause__)
    return found
