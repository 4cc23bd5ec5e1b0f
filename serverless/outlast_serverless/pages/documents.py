"""The pages of documents: all that are registered, and one with its text, its versions, its schedule and its runs."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from markupsafe import Markup
from starlette.responses import RedirectResponse, Response

from outlast.http_parts import PageParts
from outlast_serverless.documents.document import Document
from outlast_serverless.documents.reading import read
from outlast_serverless.http.dependency import runtime_of
from outlast_serverless.http.paths import PathText
from outlast_serverless.interpreter.request import TYPE_PREFIX, type_of
from outlast_serverless.pages.schedules import schedule_of
from outlast_serverless.pages.text import source_of
from outlast_serverless.picture.svg import svg
from outlast_serverless.runtime.registry import LATEST, page_of_names, parsed_name, registered
from outlast_serverless.runtime.runtime import Runtime
from outlast_workflow.errors import UnsupportedTaskError
from outlast_workflow.primitives.times import to_datetime

MOST_LISTED: Final = 50
MOST_RUNS: Final = 10


def document_pages(parts: PageParts) -> APIRouter:
    """Return the routes of documents.

    Args:
        parts: What the dashboard hands in.
    """
    runtime, reader = runtime_of(parts.http), Depends(parts.http.reader)
    writes = [Depends(parts.http.writer)]
    routes = APIRouter(prefix="/documents")

    @routes.get("")
    async def documents(
        request: Request,
        after: str = Query("", max_length=1_000),
        runtime: Runtime = runtime,
        reader: Any = reader,
    ) -> Response:
        """List the documents that are registered."""
        beyond = parsed_name(after)[:2] if after else ()

        async def values() -> dict[str, Any]:
            return await _listed(runtime, beyond)

        query = f"?{urlencode({'after': after})}" if after else ""
        shown: Response = await parts.live("serverless/documents.html", request, reader, values, query=query)
        return shown

    @routes.get("/{namespace}/{name}")
    async def newest(
        request: Request,
        namespace: PathText,
        name: PathText,
        runtime: Runtime = runtime,
        reader: Any = reader,
    ) -> Response:
        """Show the latest version of a document."""
        return await _shown(parts, request, reader, runtime, namespace, name, LATEST)

    @routes.get("/{namespace}/{name}/{version}")
    async def document(
        request: Request,
        namespace: PathText,
        name: PathText,
        version: PathText,
        runtime: Runtime = runtime,
        reader: Any = reader,
    ) -> Response:
        """Show a version of a document."""
        return await _shown(parts, request, reader, runtime, namespace, name, version)

    def back(request: Request, *path: str) -> Response:
        return RedirectResponse(f"{parts.base(request)}/documents/{'/'.join(path)}", 303)

    @routes.post("/{namespace}/{name}/{version}/schedule", dependencies=writes)
    async def schedule(
        request: Request, namespace: PathText, name: PathText, version: PathText, runtime: Runtime = runtime
    ) -> Response:
        """Start a version of a document whenever its schedule says."""
        await runtime.schedule(f"{namespace}/{name}", version)
        return back(request, namespace, name, version)

    @routes.post("/{namespace}/{name}/{version}/unschedule", dependencies=writes)
    async def unschedule(
        request: Request, namespace: PathText, name: PathText, version: PathText, runtime: Runtime = runtime
    ) -> Response:
        """Stop starting a document by its schedule."""
        await runtime.unschedule(f"{namespace}/{name}")
        return back(request, namespace, name, version)

    return routes


async def _listed(runtime: Runtime, after: tuple[str, ...]) -> dict[str, Any]:
    client = runtime.client
    found = await client.runtime.read(page_of_names, after, MOST_LISTED + 1)
    rows = [
        {
            "document": one,
            "type": (type_name := f"{TYPE_PREFIX}{one.namespace}/{one.name}"),
            "open": await client.count(workflow_type=type_name, open=True),
            "schedule": await schedule_of(client, one.namespace, one.name),
            "registered_at": to_datetime(one.registered_at),
        }
        for one in found[:MOST_LISTED]
    ]
    last = found[MOST_LISTED - 1] if len(found) > MOST_LISTED else None
    return {
        "documents": rows,
        "next": urlencode({"after": f"{last.namespace}/{last.name}"}) if last is not None else None,
        "first": not after,
        "now": to_datetime(client.runtime.environment.clock.now()),
    }


async def _shown(
    parts: PageParts, request: Request, reader: Any, runtime: Runtime, namespace: str, name: str, version: str
) -> Response:
    client = runtime.client
    document = await runtime.document(f"{namespace}/{name}", version)
    text = source_of(document.source)
    unsupported = _unsupported(runtime, document)
    picture = svg(document.plan, f"{namespace}/{name}")
    type_name = type_of(document.definition)

    async def values() -> dict[str, Any]:
        rows = await client.runtime.read(registered, namespace, name)
        return {
            "document": document,
            "rows": [(row, to_datetime(row.registered_at)) for row in reversed(rows)],
            "schedule": await schedule_of(client, namespace, name),
            "type": type_name,
            "runs": (await client.list(workflow_type=type_name, page_size=MOST_RUNS).page()).runs,
            "now": to_datetime(client.runtime.environment.clock.now()),
        }

    around: dict[str, Any] = {
        "text": text,
        "unsupported": unsupported,
        "picture": Markup(picture) if picture else None,  # What draws has escaped the names in it.
        "path": f"/documents/{namespace}/{name}/{document.version}",
    }
    shown: Response = await parts.live("serverless/document.html", request, reader, values, **around)
    return shown


def _unsupported(runtime: Runtime, document: Document) -> list[tuple[str, str, int]]:
    """Return what of a document cannot run here: the pointer, why, and the line."""
    try:
        runtime.check(document)
    except UnsupportedTaskError as error:
        place = read(document.source).place
        return [(pointer, why, place.at(pointer, key=True).line) for pointer, why in error.problems]
    return []
