"""Descriptions of APIs: OpenAPI 3.x and 2.0, their references, and the operations that they have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from outlast_serverless.calls.described import Described, DescriptionError, near

_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")


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


class Description(Described):
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
        super().__init__(document, url)
        self._old = version.startswith("2.")

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
        raise DescriptionError(
            f"{self.url} has no operation {operation_id!r:.100}{near(operation_id, known)}"
        )

    def _operations(self) -> Iterator[tuple[str, dict[str, Any], str, dict[str, Any]]]:
        for path, written in self.mapping(self.document.get("paths")).items():
            item = self.mapping(written)
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
                one = self.mapping(written)
                if isinstance(one.get("name"), str) and isinstance(one.get("in"), str):
                    parameters[one["in"], one["name"]] = one
        body: dict[str, Any] | None = None
        needs_body = False
        if self._old:
            of_body = [one for (where, _), one in parameters.items() if where in ("body", "formData")]
            body = {} if of_body else None
            needs_body = any(one.get("required") is True and one["in"] == "body" for one in of_body)
        elif operation.get("requestBody") is not None:
            written = self.mapping(operation["requestBody"])
            body, needs_body = self.mapping(written.get("content")), written.get("required") is True
        consumes = operation.get("consumes") or self.document.get("consumes") or ()
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
        here = urlsplit(self.url)
        if self._old:
            schemes = self.document.get("schemes") or [here.scheme]
            scheme = "https" if "https" in schemes else str(schemes[0])
            host = self.document.get("host") or here.netloc
            yield f"{scheme}://{host}{str(self.document.get('basePath') or '').rstrip('/')}"
            return
        listed = operation.get("servers") or item.get("servers") or self.document.get("servers")
        for written in listed or [{"url": "/"}]:
            server = self.mapping(written)
            url = str(server.get("url") or "/")
            for name, variable in self.mapping(server.get("variables")).items():
                url = url.replace(f"{{{name}}}", str(self.mapping(variable).get("default", "")))
            yield urljoin(self.url, url).rstrip("/")
