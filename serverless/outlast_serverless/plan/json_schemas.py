"""JSON Schemas of documents: which drafts there are, and what holds data against them. Nothing is fetched by one."""

from __future__ import annotations

from typing import Any, Final

import jsonschema_rs

_DRAFTS: Final[dict[str, Any]] = {
    "4": jsonschema_rs.Draft4Validator,
    "6": jsonschema_rs.Draft6Validator,
    "7": jsonschema_rs.Draft7Validator,
    "2019-09": jsonschema_rs.Draft201909Validator,
    "2020-12": jsonschema_rs.Draft202012Validator,
}
DRAFTS: Final = ("draft-04", "draft-06", "draft-07", "2019-09", "2020-12")
"""The drafts as their own pages name them."""


def is_known(format: str) -> bool:
    """Return whether a format is JSON Schema, of no draft in particular or of one that is known.

    Args:
        format: ``json`` or ``json:draft``.
    """
    name, colon, draft = format.partition(":")
    return name.lower() in ("json", "jsonschema") and (not colon or _plain(draft) in _DRAFTS)


def validator_of(schema: Any, format: str = "json") -> Any:
    """Return what holds data against a schema.

    Args:
        schema: The schema.
        format: Of which draft it is; without one its ``$schema`` says so, and 2020-12 is the default.

    Raises:
        ValueError: It is no JSON Schema, refers to another document, or is of a format that is not known.
    """
    if not is_known(format):
        raise ValueError(
            f"schemas of the format {format!r:.60} are not read: write it as JSON Schema, format `json`"
        )
    _, colon, draft = format.partition(":")
    make: Any = _DRAFTS[_plain(draft)] if colon else jsonschema_rs.validator_for
    return make(schema, retriever=_refuse)


def _plain(draft: str) -> str:
    return draft.lower().removeprefix("draft").removeprefix("-").removeprefix("0")


def _refuse(uri: str) -> Any:
    raise ValueError(f"the schema refers to {uri}, which is not fetched: put its definitions under $defs")
