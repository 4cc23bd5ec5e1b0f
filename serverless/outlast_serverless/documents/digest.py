"""What a definition is known by: the SHA-256 of its canonical JSON."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson


def canonical(definition: Any) -> bytes:
    """Return a definition as JSON in its one form: keys sorted, no space, UTF-8."""
    return orjson.dumps(definition, option=orjson.OPT_SORT_KEYS)


def digest(definition: Any) -> str:
    """Return the SHA-256 of a definition's canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical(definition)).hexdigest()
