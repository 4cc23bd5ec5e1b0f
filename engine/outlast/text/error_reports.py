"""Errors as they are reported: in one line for people, as plain values for programs."""

from __future__ import annotations

from typing import Any

from outlast.errors import ApplicationError, OutlastError
from outlast_workflow.errors.root import in_words


def one_line(error: BaseException, most: int = 3) -> str:
    """Return an error on one line, with the causes that a reader would otherwise not see.

    Args:
        error: The error.
        most: The number of causes to name at most.
    """
    parts = [str(error)]
    untold = _untold_cause(error)
    while untold is not None and len(parts) <= most:
        words = in_words(untold)
        if words not in parts[-1]:
            parts.append(words)
        untold = _untold_cause(untold)
    return joined(", because of ".join(parts))


def _untold_cause(error: BaseException) -> BaseException | None:
    """Return the nearest cause of an error that its text does not tell."""
    cause = error.__cause__
    while isinstance(error, OutlastError) and error.joins_cause and cause is not None:
        error, cause = cause, cause.__cause__
    return cause


def joined(text: str) -> str:
    """Return a text with its line breaks and runs of spaces as single spaces."""
    return " ".join(text.split())


def error_document(error: BaseException) -> dict[str, Any]:
    """Return why a workflow ended without a result, with its causes, as plain values."""
    found: dict[str, Any] = {
        "type": getattr(error, "type", None) or type(error).__name__,
        # The type of what users raised stands beside it.
        "message": error.message if isinstance(error, ApplicationError) else str(error),
    }
    for attribute in ("timeout_kind", "deadline_at", "reason", "next_run_id"):
        value = getattr(error, attribute, None)
        if value is not None:
            found[attribute] = value.isoformat() if attribute == "deadline_at" else value
    if error.__cause__ is not None:
        found["cause"] = error_document(error.__cause__)
    return found
