"""The progress of a run: how much is done, of how much, and a message."""

from __future__ import annotations

from typing import Any

import orjson

from outlast_workflow.options.validation import number, validate_summary


def progress_json(done: Any, total: Any = None, message: Any = None) -> str:
    """Return a run's progress as its row holds it: JSON text without what is not known.

    ``done`` may exceed ``total``: an estimate that was too low is no reason to stop a run.

    Args:
        done: How much is done.
        total: How much there is to do, if that is known.
        message: What the run is doing, in at most 200 characters of plain text.

    Raises:
        InvalidOptionError: A number is not finite or negative, or the message is too long.
    """
    document: dict[str, Any] = {"done": number("progress done", done, 0)}
    if total is not None:
        document["total"] = number("progress total", total, 0)
    text = validate_summary(message, "progress message")
    if text is not None:
        document["message"] = text
    return orjson.dumps(document).decode()
