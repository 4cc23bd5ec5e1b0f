"""Descriptions of APIs: how they are read, and how their references are followed."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Final, Self
from urllib.parse import unquote

import orjson

from outlast_serverless.documents.reading import read

_MOST_REFERENCES: Final = 32


class DescriptionError(ValueError):
    """A description cannot be used; the message says why."""


class Described:
    """A description of an API.

    Args:
        document: What it says.
        url: Where it was fetched from.

    Attributes:
        document: What it says.
        url: Where it was fetched from.

    Raises:
        DescriptionError: It is none.
    """

    def __init__(self, document: Any, url: str) -> None:
        if not isinstance(document, dict):
            raise DescriptionError(f"{url} is no object")
        self.document: dict[str, Any] = document
        self.url = url

    @classmethod
    def parse(cls, text: bytes, url: str) -> Self:
        """Return the description in a text, as JSON or YAML.

        Raises:
            DescriptionError: It is none.
        """
        try:
            document = orjson.loads(text)
        except orjson.JSONDecodeError:
            reading = read(text)
            if reading.problems:
                raise DescriptionError(f"{url} cannot be read: {reading.problems[0].message}") from None
            document = reading.value
        return cls(document, url)

    def mapping(self, written: Any) -> dict[str, Any]:
        """Return an object; where a reference stands in its place, what that refers to."""
        for _ in range(_MOST_REFERENCES):
            if not isinstance(written, dict) or not isinstance(written.get("$ref"), str):
                break
            written = self.referred(written["$ref"])
        return written if isinstance(written, dict) else {}

    def referred(self, reference: str) -> Any:
        """Return what a reference refers to.

        Raises:
            DescriptionError: It is not in this description.
        """
        if not reference.startswith("#/"):
            raise DescriptionError(
                f"{self.url} refers to {reference!r:.200}, which is not fetched: bundle it"
            )
        found: Any = self.document
        for part in unquote(reference[2:]).split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, dict) and key in found:
                found = found[key]
            else:
                raise DescriptionError(f"{self.url} refers to {reference!r:.200}, which it does not have")
        return found


def near(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about a name that is not there: what may be meant."""
    found = get_close_matches(name, list(known), n=1)
    return f": did you mean {found[0]!r}?" if found else ""
