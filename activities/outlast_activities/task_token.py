"""Task tokens: one attempt's name for parties outside, as text that is safe in URLs, headers and file names.

A token says which attempt is meant and proves nothing: whoever sends one must be allowed to write by other means. It is
opaque to users, so that its form may change; ``1`` is the version of this form.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from outlast_activities.task import AttemptKey
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import MAX_INTEGER

VERSION: Final = "1"
MOST_CHARACTERS: Final = 1000


def make_token(key: AttemptKey) -> str:
    """Return the token of an attempt."""
    text = ":".join((VERSION, *map(str, key)))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_token(token: object) -> AttemptKey:
    """Return the attempt that a token names.

    Raises:
        InvalidOptionError: It is no token.
    """
    key = _read(token) if isinstance(token, str) and len(token) <= MOST_CHARACTERS else None
    # Only what `make_token` writes is a token: no padding, no other spelling of the same attempt.
    if key is None or make_token(key) != token:
        raise InvalidOptionError(
            "this is no task token: give activity.info().task_token unchanged, or the ids of the workflow and activity",
            field="task_token",
        )
    return key


def _read(token: str) -> AttemptKey | None:
    try:
        text = urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4)).decode()
        version, _, rest = text.partition(":")
        run_id, activity_id, attempt = rest.rsplit(":", 2)
        key = (run_id, int(activity_id), int(attempt))
    except (ValueError, binascii.Error):
        return None
    known = version == VERSION and run_id and run_id.isprintable()
    return key if known and 0 < key[1] <= MAX_INTEGER and 0 < key[2] <= MAX_INTEGER else None
