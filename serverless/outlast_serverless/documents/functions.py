"""Functions that stand alone: a task in a text of its own, checked and run in a definition around it.

Such a function has nothing of the document that calls it: no components, no secrets, no extensions, no functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from outlast_serverless.documents.checking import findings
from outlast_serverless.documents.reading import Reading, read
from outlast_serverless.plan.pointers import child
from outlast_serverless.rules.catalogue import RULES
from outlast_serverless.rules.jq_text import Checker

_NAME: Final = "function"
_MOST_TOLD: Final = 20


def definition_of(function: Mapping[str, Any], name: str, head: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition whose only function is this one.

    Args:
        function: The task.
        name: What the function is called.
        head: What stands under ``document``.
    """
    return {
        "document": dict(head),
        "use": {"functions": {name: dict(function)}},
        "do": [{"call": {"call": name}}],
    }


def read_function(text: bytes, url: str, dsl: str, checker: Checker | None = None) -> dict[str, Any]:
    """Return the function in a text.

    Args:
        text: YAML or JSON.
        url: Where it comes from, for messages.
        dsl: The version of the DSL that it is held against.
        checker: What says whether an expression compiles.

    Raises:
        ValueError: It is no function, or has mistakes; the message tells all of them.
    """
    reading = read(text)
    problems = [f"{one.line}:{one.column}: {one.message}" for one in reading.problems]
    if not problems and not isinstance(reading.value, dict):
        problems = ["it is no mapping: a function is a task"]
    if not problems:
        problems = _mistakes(reading, dsl, checker)
    if problems:
        told = "; ".join(problems[:_MOST_TOLD])
        more = f"; and {len(problems) - _MOST_TOLD} more" if len(problems) > _MOST_TOLD else ""
        raise ValueError(f"the function at {url} cannot be used: {told}{more}")
    function: dict[str, Any] = reading.value
    return function


def _mistakes(reading: Reading, dsl: str, checker: Checker | None) -> list[str]:
    """Return what is wrong, each with its line, column, code and pointer within the function."""
    head = {"dsl": dsl, "namespace": "functions", "name": _NAME, "version": "1.0.0"}
    place = child("/use/functions", _NAME)
    found: list[tuple[int, int, str]] = []
    for one in findings(definition_of(reading.value, _NAME, head), checker):
        if RULES[one.code].warning:
            continue
        pointer = one.pointer.removeprefix(place)
        at = reading.place.at(pointer, key=one.key)
        hint = f"; {one.hint}" if one.hint else ""
        told = f"{at.line}:{at.column}: {one.message}{hint} [{one.code}] {pointer or '/'}"
        found.append((at.line, at.column, told))
    return [told for _, _, told in sorted(found)]
