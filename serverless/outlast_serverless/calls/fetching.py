"""The activity that fetches what a run keeps: functions that are not in the document, and schemas of data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from outlast import activity
from outlast_serverless.calls.catalogs import path_of, raw_urls, urls_in
from outlast_serverless.calls.request import CallRequest, Filling
from outlast_serverless.calls.resources import Resource, Resources
from outlast_serverless.documents.builder import MOST_BYTES
from outlast_serverless.documents.functions import definition_of, read_function
from outlast_serverless.documents.reading import read
from outlast_serverless.interpreter.faults import fault
from outlast_serverless.interpreter.fetched import FETCH
from outlast_serverless.jq import Evaluator, JqChecker
from outlast_serverless.plan.compiler import compile_plan
from outlast_serverless.plan.json_schemas import validator_of
from outlast_serverless.plan.model import Plan
from outlast_serverless.plan.pointers import child
from outlast_serverless.secrets import SecretSource

Unsupported = Callable[[Plan], list[tuple[str, str]]]
"""What says which tasks of a plan cannot run here, by pointer and reason."""


def fetch_activity(
    evaluator: Evaluator,
    secrets: SecretSource | None,
    resources: Resources,
    catalog: str | Path | None,
    unsupported: Unsupported,
) -> Any:
    """Return the activity that fetches functions and schemas. History keeps what it returns.

    Args:
        evaluator: Evaluates expressions.
        secrets: Where secrets come from.
        resources: Fetches.
        catalog: The default catalog, as its URL or a folder.
        unsupported: Says what cannot run here.
    """

    @activity.defn(name=FETCH)
    async def fetch(request: dict[str, Any]) -> dict[str, Any]:
        asked = CallRequest.of(request)
        filling = Filling(asked, evaluator, secrets)
        with filling.telling():
            if request["fetch"] == "schema":
                return await fetched_schema(resources, asked, filling, request["format"])
            return await _Function(request, asked, filling, resources, catalog, unsupported).fetched()

    return fetch


async def fetched_schema(
    resources: Resources, asked: CallRequest, filling: Filling, format: str
) -> dict[str, Any]:
    """Return a schema, and where it was fetched.

    Args:
        resources: Fetches.
        asked: The request, whose value is the resource.
        filling: Fills in expressions and secrets.
        format: The format of the schema.

    Raises:
        Fault: It cannot be fetched, or is no schema.
    """
    resource, place = _written(asked)
    parse = _ReadSchema(format)
    found = await resources.fetched(resource, place, asked, filling, parse, most_bytes=MOST_BYTES)
    return {"url": filling.masking.text(found.url), "schema": found.content}


def _written(asked: CallRequest) -> tuple[Any, str]:
    deferred = asked.deferred
    return (asked.value, "") if deferred is None else (deferred["value"], str(deferred["pointer"]))


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read, and where it was."""

    url: str
    content: Any


@dataclass(frozen=True, slots=True)
class _ReadSchema:
    format: str

    def __call__(self, resource: Resource) -> _Read:
        try:
            schema = orjson.loads(resource.content)
        except orjson.JSONDecodeError:
            reading = read(resource.content)
            if reading.problems:
                problem = reading.problems[0]
                raise ValueError(
                    f"the schema at {resource.url} cannot be read: {problem.line}:{problem.column}: {problem.message}"
                ) from None
            schema = reading.value
        try:
            if not isinstance(schema, dict | bool):
                raise ValueError("a JSON Schema is a mapping")
            validator_of(schema, self.format)
        except ValueError as error:
            raise ValueError(f"the schema at {resource.url} cannot be used: {error}") from None
        return _Read(resource.url, schema)


@dataclass(frozen=True, slots=True)
class _ReadFunction:
    dsl: str

    def __call__(self, resource: Resource) -> _Read:
        with JqChecker() as checker:
            return _Read(resource.url, read_function(resource.content, resource.url, self.dsl, checker))


class _Function:
    """One function that is fetched."""

    def __init__(
        self,
        request: dict[str, Any],
        asked: CallRequest,
        filling: Filling,
        resources: Resources,
        catalog: str | Path | None,
        unsupported: Unsupported,
    ) -> None:
        self._name: str = request["name"]
        self._dsl: str = request["dsl"]
        self._of_catalog = request["catalog"]
        self._asked = asked
        self._filling = filling
        self._resources = resources
        self._catalog = catalog
        self._unsupported = unsupported

    async def fetched(self) -> dict[str, Any]:
        """Return the function, and where it was fetched.

        Raises:
            Fault: It cannot be fetched, has mistakes, or cannot run here.
        """
        try:
            found = await self._read()
        except ValueError as error:
            raise fault("configuration", str(error), self._asked.pointer) from None
        url = self._filling.masking.text(found.url)
        head = {"dsl": self._dsl, "namespace": "functions", "name": "function", "version": "1.0.0"}
        plan = compile_plan(definition_of(found.content, "function", head))
        place = child("/use/functions", "function")
        cannot = "; ".join(
            f"{pointer.removeprefix(place) or '/'}: {why}" for pointer, why in self._unsupported(plan)
        )
        if cannot:
            raise fault(
                "configuration", f"the function at {url} cannot run here: {cannot}", self._asked.pointer
            )
        return {"url": url, "function": found.content}

    async def _read(self) -> _Read:
        resource, place = _written(self._asked)
        read = _ReadFunction(self._dsl)
        if not self._of_catalog:
            return await self._fetched(resource, place, read, raw_urls)
        name, _, version = self._name.partition("@")[0].partition(":")
        path = path_of(name, version)
        if resource is not None:
            return await self._fetched(resource, place, read, lambda root: urls_in(root, path))
        if self._catalog is None:
            raise ValueError(
                f"there is no default catalog for {self._name}: Runtime(catalog=…), or name one in use.catalogs"
            )
        if isinstance(self._catalog, str):
            resource = {"endpoint": self._catalog}
            return await self._fetched(resource, place, read, lambda root: urls_in(root, path))
        return await asyncio.to_thread(self._of_folder, self._catalog, path, read)

    async def _fetched(
        self, resource: Any, place: str, read: _ReadFunction, urls: Callable[[str], tuple[str, ...]]
    ) -> _Read:
        return await self._resources.fetched(
            resource, place, self._asked, self._filling, read, most_bytes=MOST_BYTES, urls=urls
        )

    def _of_folder(self, folder: Path, path: str, read: _ReadFunction) -> _Read:
        file = folder / path
        try:
            with file.open("rb") as text:
                # Longer ones are refused unread.
                content = text.read(MOST_BYTES + 1)
        except OSError as error:
            raise ValueError(f"the default catalog has no {self._name}: {path}: {error.strerror}") from None
        return read(Resource(path, content))


__all__: Final = ["fetch_activity", "fetched_schema"]
