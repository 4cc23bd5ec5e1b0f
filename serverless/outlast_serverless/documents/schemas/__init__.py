"""The standard's own schemas, and which of them a document is held against."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import jsonschema_rs
import orjson

RELEASE: Final = "1.0.3"
"""The newest release of the DSL; documents up to it are held against its schema."""
_FILES: Final = {RELEASE: "workflow-1.0.3.json", "main": "workflow-main.json"}


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema.

    Attributes:
        name: ``1.0.3``, or ``main`` for what came after.
        document: The schema as JSON.
        validator: Says whether a definition is valid.
    """

    name: str
    document: dict[str, Any]
    validator: Any


@cache
def schema(name: str) -> Schema:
    """Return a schema by its name.

    Args:
        name: ``1.0.3`` or ``main``.
    """
    document = orjson.loads((files(__name__) / _FILES[name]).read_bytes())
    return Schema(name, document, jsonschema_rs.Draft202012Validator(document, retriever=_refuse))


def name_for(dsl: tuple[int, int, int]) -> str:
    """Return the name of the schema of a version of the DSL.

    Args:
        dsl: Major, minor and patch.
    """
    return RELEASE if dsl <= (1, 0, 3) else "main"


@cache
def matches(pattern: str) -> Any:
    """Return a function that says whether a text matches a pattern of a schema.

    The schema's own engine decides, which cannot hang.

    Args:
        pattern: The pattern.
    """
    return jsonschema_rs.Draft202012Validator({"pattern": pattern}).is_valid


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is not fetched")
