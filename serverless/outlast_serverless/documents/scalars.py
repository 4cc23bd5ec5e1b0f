"""Plain scalars as JSON: YAML 1.2's JSON schema for numbers, its core schema for null and booleans.

Timestamps, ``yes``, ``on``, ``0o17``, ``0777`` and ``1_000`` are texts.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
TRUE: Final = frozenset({"true", "True", "TRUE"})
FALSE: Final = frozenset({"false", "False", "FALSE"})
NOT_FINITE: Final = frozenset(
    sign + word for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")
) | frozenset({".nan", ".NaN", ".NAN"})

LARGEST: Final = 2**64 - 1
SMALLEST: Final = -(2**63)
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")
_MOST_DIGITS: Final = 1_000


class OutOfRangeError(ValueError):
    """A number that JSON programs cannot hold."""


def number(text: str) -> int | float | None:
    """Return the number that a text is, or ``None`` if it is none.

    Raises:
        OutOfRangeError: It is one that 64 bits do not hold.
    """
    if len(text) > _MOST_DIGITS:
        if _NUMBER.fullmatch(text) is None:
            return None
        raise OutOfRangeError
    if _INTEGER.fullmatch(text) is not None:
        whole = int(text)
        if not SMALLEST <= whole <= LARGEST:
            raise OutOfRangeError
        return whole
    if _NUMBER.fullmatch(text) is None:
        return None
    found = float(text)
    if not math.isfinite(found):
        raise OutOfRangeError
    return found


def plain(text: str) -> Any:
    """Return the value of a plain scalar.

    Raises:
        OutOfRangeError: It is a number that 64 bits do not hold.
    """
    if text in NULLS:
        return None
    if text in TRUE:
        return True
    if text in FALSE:
        return False
    if text[0] in "-0123456789":
        found = number(text)
        if found is not None:
            return found
    return text
