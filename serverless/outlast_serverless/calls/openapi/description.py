"""Descriptions of APIs: OpenAPI 3.x and 2.0, their references, and the operations that they have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit

import orjson

from outlast_serverless.documents.reading import read

_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_MOST_REFERENCES: Final = 32


class DescriptionError(ValueError):
    """A description cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of an API.

    Attributes:
        id: Its id.
        method: Its method.
        path: Its path, with parameters in braces.
        parameters: What it takes, those of its path included.
        body: The schemas of its body by media type; ``None`` if it takes none.
        needs_body: Whether there must be one.
        servers: Where the API is, as its description says; URLs may be relative to it.
        old: Whether the description is of OpenAPI 2.0.
        consumes: The media types of bodies, in 2.0.
    """

    id: str
    method: str
    path: str
    parameters: tuple[Mapping[str, Any], ...]
    body: Mapping[str, Any] | None
    needs_body: bool
    servers: tuple[str, ...]
    old: bool
    consumes: tuple[str, ...] = ()


class Description:
    """A description of an API.

    Args:
        document: What it says.
        url: Where it was fetched from.

    Raises:
        DescriptionError: It is none.
    """

    def __init__(self, document: Any, url: str) -> None:
        version = document.get("openapi", document.get("swagger")) if isinstance(document, dict) else None
        if not isinstance(version, str) or not version.startswith(("2.", "3.")):
            raise DescriptionError(f"{url} is no description of OpenAPI 2.0 or 3.x")
        self._document: dict[str, Any] = document
        self._url = url
        self._old = version.startswith("2.")

    @classmethod
    def parse(cls, text: bytes, url: str) -> Description:
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

    def operation(self, operation_id: str) -> Operation:
        """Return an operation.

        Args:
            operation_id: Its id.

        Raises:
            DescriptionError: There is none, or its description is damaged.
        """
        known: list[str] = []
        for path, item, method, operation in self._operations():
            found = operation.get("operationId")
            if found == operation_id:
                return self._made(operation_id, path, item, method, operation)
            if isinstance(found, str):
                known.append(found)
        near = get_close_matches(operation_id, known, n=1)
        hint = f": did you mean {near[0]!r}?" if near else ""
        raise DescriptionError(f"{self._url} has no operation {operation_id!r:.100}{hint}")

    def _operations(self) -> Iterator[tuple[str, dict[str, Any], str, dict[str, Any]]]:
        for path, written in self._mapping(self._document.get("paths")).items():
            item = self._mapping(written)
            for method in _METHODS:
                operation = item.get(method)
                if isinstance(operation, dict):
                    yield path, item, method, operation

    def _made(
        self, id: str, path: str, item: dict[str, Any], method: str, operation: dict[str, Any]
    ) -> Operation:
        parameters: dict[tuple[str, str], dict[str, Any]] = {}
        for level in (item, operation):
            for written in level.get("parameters") or ():
                one = self._mapping(written)
                if isinstance(one.get("name"), str) and isinstance(one.get("in"), str):
                    parameters[one["in"], one["name"]] = one
        body: dict[str, Any] | None = None
        needs_body = False
        if self._old:
            of_body = [one for (where, _), one in parameters.items() if where in ("body", "formData")]
            body = {} if of_body else None
            needs_body = any(one.get("required") is True and one["in"] == "body" for one in of_body)
        elif operation.get("requestBody") is not None:
            written = self._mapping(operation["requestBody"])
            body, needs_body = self._mapping(written.get("content")), written.get("required") is True
        consumes = operation.get("consumes") or self._document.get("consumes") or ()
        return Operation(
            id,
            method,
            path,
            tuple(parameters.values()),
            body,
            needs_body,
            tuple(self._servers(item, operation)),
            self._old,
            tuple(str(one) for one in consumes),
        )

    def _servers(self, item: dict[str, Any], operation: dict[str, Any]) -> Iterator[str]:
        here = urlsplit(self._url)
        if self._old:
            schemes = self._document.get("schemes") or [here.scheme]
            scheme = "https" if "https" in schemes else str(schemes[0])
            host = self._document.get("host") or here.netloc
            yield f"{scheme}://{host}{str(self._document.get('basePath') or '').rstrip('/')}"
            return
        listed = operation.get("servers") or item.get("servers") or self._document.get("servers")
        for written in listed or [{"url": "/"}]:
            server = self._mapping(written)
            url = str(server.get("url") or "/")
            for name, variable in self._mapping(server.get("variables")).items():
                url = url.replace(f"{{{name}}}", str(self._mapping(variable).get("default", "")))
            yield urljoin(self._url, url).rstrip("/")

    def _mapping(self, written: Any) -> dict[str, Any]:
        """Return an object; where a reference stands in its place, what that refers to."""
        for _ in range(_MOST_REFERENCES):
            if not isinstance(written, dict) or not isinstance(written.get("$ref"), str):
                break
            written = self._referred(written["$ref"])
        return written if isinstance(written, dict) else {}

    def _referred(self, reference: str) -> Any:
        if not reference.startswith("#/"):
            raise DescriptionError(
                f"{self._url} refers to {reference!r:.200}, which is not fetched: bundle it"
            )
        found: Any = self._document
        for part in unquote(reference[2:]).split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, dict) and key in found:
                found = found[key]
            else:
                raise DescriptionError(f"{self._url} refers to {reference!r:.200}, which it does not have")
        return found
