"""Search attributes as text: ``customer=c-7`` to set one, ``amount>=5`` to filter by one."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final

import orjson

from outlast.visibility.where import Range
from outlast_workflow.errors import InvalidOptionError

_CONDITION: Final = re.compile(
    r"\s*(?P<name>[^=<>]+?)\s*(?P<sign><=|>=|=|<|>)\s*(?P<value>.*?)\s*", re.DOTALL
)
_END_OF: Final = {">=": "at_least", ">": "above", "<=": "at_most", "<": "below"}


def attribute_value(text: str) -> Any:
    """Return the value that a text means: JSON if it parses, an instant if it is ISO 8601 with an offset, else text."""
    try:
        return orjson.loads(text)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return text
    return text if found.tzinfo is None else found


def attributes(given: list[str] | None) -> dict[str, Any] | None:
    """Return the search attributes of texts like ``NAME=VALUE``, one text for each attribute.

    Raises:
        InvalidOptionError: A text is not of that form.
    """
    found: dict[str, Any] = {}
    for text in given or ():
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise InvalidOptionError(
                f"attribute must be NAME=VALUE, as in customer=c-7, not {text!r:.60}", field="attribute"
            )
        found[name.strip()] = attribute_value(value.strip())
    return found or None


def conditions(given: list[str] | tuple[()]) -> dict[str, Any]:
    """Return the filter that texts like ``amount>=5`` describe.

    All conditions must hold. Two conditions on one name are the two ends of a range.

    Raises:
        InvalidOptionError: A text is not a condition, or two conditions on one name are not the ends of a range.
    """
    values: dict[str, Any] = {}
    ends: dict[str, dict[str, Any]] = {}
    for text in given:
        found = _CONDITION.fullmatch(text)
        if found is None:
            raise InvalidOptionError(
                f"where must be NAME, one of = < <= > >=, and a value, as in 'amount>=5', not {text!r:.60}",
                field="where",
            )
        name, sign, value = found["name"], found["sign"], attribute_value(found["value"])
        if name in values or (sign == "=" and name in ends):
            raise InvalidOptionError(
                f"where has {name!r} twice: give one value, a JSON list of alternatives, or the two ends of a range",
                field="where",
            )
        if sign == "=":
            values[name] = value
        else:
            ends.setdefault(name, {})[_END_OF[sign]] = value
    return {**values, **{name: Range(**one) for name, one in ends.items()}}
