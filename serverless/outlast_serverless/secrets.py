"""Secrets: where they come from, and how they are kept out of what is recorded.

A secret is fetched where a call or process needs it, inside the activity. Its value is never written: what an error or
an output might repeat is masked.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote, quote_plus

import orjson

MASK: Final = "********"
_SHORTEST: Final = 4
"""Shorter values are not looked for: they would be found in everything."""


class SecretSource(Protocol):
    """Where secrets come from."""

    async def get(self, name: str) -> Any | None:
        """Return a secret, text or JSON, or ``None`` if there is none.

        Args:
            name: Its name in the document.
        """


class Secrets:
    """Secrets from the environment, from files, or from a mapping.

    A text that is a JSON object is read as one, for secrets of several parts: ``{"username": …, "password": …}``.
    """

    __slots__ = ("_folder", "_prefix", "_values")

    def __init__(
        self,
        values: Mapping[str, Any] | None = None,
        *,
        prefix: str | None = None,
        folder: Path | None = None,
    ) -> None:
        self._values = dict(values or {})
        self._prefix = prefix
        self._folder = folder

    @classmethod
    def mapping(cls, values: Mapping[str, Any]) -> Secrets:
        """Return secrets that are given.

        Args:
            values: Each secret by its name.
        """
        return cls(values)

    @classmethod
    def from_env(cls, prefix: str) -> Secrets:
        """Return secrets from environment variables, read when they are needed.

        Args:
            prefix: What the names of the variables begin with: ``APP_`` for a secret ``token`` in ``APP_TOKEN``.
        """
        return cls(prefix=prefix)

    @classmethod
    def from_files(cls, folder: str | Path) -> Secrets:
        """Return secrets from the files of a folder, as container platforms mount them.

        Args:
            folder: The folder; a file is named as its secret.
        """
        return cls(folder=Path(folder))

    async def get(self, name: str) -> Any | None:
        """Return a secret, or ``None`` if there is none."""
        if self._prefix is not None:
            return _read(os.environ.get(self._variable(name)))
        if self._folder is not None:
            file = self._folder / name
            if file.parent != self._folder or not file.is_file():
                return None
            return _read(file.read_text().strip())
        return self._values.get(name)

    def missing(self, name: str) -> str:
        """Return where a secret was looked for that is not there, in words.

        Args:
            name: Its name in the document.
        """
        if self._prefix is not None:
            return f"the worker has no environment variable {self._variable(name)}"
        if self._folder is not None:
            return f"there is no file {name} in {self._folder}"
        return "the mapping does not have it"

    def _variable(self, name: str) -> str:
        return (self._prefix or "") + name.upper().replace("-", "_").replace(".", "_")


def _read(text: str | None) -> Any | None:
    if text is not None and text.startswith("{"):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
    return text


class Masking:
    """Replaces the values of secrets in what is told."""

    __slots__ = ("_forms",)

    def __init__(self, secrets: Iterable[Any] = ()) -> None:
        self._forms: tuple[str, ...] = ()
        self.add(*secrets)

    def add(self, *secrets: Any) -> None:
        """Mask further secrets.

        Args:
            *secrets: Texts, or JSON with texts in it.
        """
        found = set(self._forms)
        for secret in secrets:
            for text in _texts(secret):
                found |= _forms(text)
        self._forms = tuple(sorted(found, key=lambda form: (-len(form), form)))

    def text(self, text: str) -> str:
        """Return a text without the values of secrets."""
        for form in self._forms:
            text = text.replace(form, MASK)
        return text

    def finds(self, text: str) -> bool:
        """Return whether a text has the value of a secret."""
        return any(form in text for form in self._forms)

    def json(self, value: Any) -> Any:
        """Return JSON without the values of secrets."""
        if not self._forms:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(key)): self.json(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.json(inner) for inner in value]
        return value


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _forms(text: str) -> set[str]:
    if len(text) < _SHORTEST:
        return set()
    data = text.encode()
    return {
        text,
        quote(text, safe=""),
        quote_plus(text),
        base64.b64encode(data).decode(),
        base64.urlsafe_b64encode(data).decode(),
        # As it stands in a text of JSON, and in a message.
        orjson.dumps(text)[1:-1].decode(),
        json.dumps(text)[1:-1],
        repr(text)[1:-1],
        repr(data)[2:-1],
    }
