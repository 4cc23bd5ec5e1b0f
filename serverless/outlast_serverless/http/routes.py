"""The routes ``/api/serverless`` and ``/api/events``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

import orjson
from fastapi import APIRouter, Depends, Query, Request, Response

from outlast import Client
from outlast.http_parts import HttpParts
from outlast_serverless.documents.document import Document
from outlast_serverless.events.http_binding import BATCH, STRUCTURED, events_of
from outlast_serverless.http.bodies import (
    AcceptedEvents,
    DocumentEntry,
    DocumentRunState,
    ScheduledDocument,
    ScheduleDocumentBody,
    StartDocumentBody,
    StartedRun,
)
from outlast_serverless.runtime.registry import page_of_documents, parsed_name
from outlast_serverless.runtime.run import DocumentState
from outlast_serverless.runtime.runtime import Runtime
from outlast_workflow.errors import InvalidOptionError

_KEY: Final = "outlast_serverless"
_ERROR: Final = frozenset({"type", "status", "title", "detail", "instance"})
_YAML: Final = "application/yaml"
_TEXT: Final = {"schema": {"type": "string", "minLength": 1}}
_EVENT: Final = {
    "type": "object",
    "required": ["id", "source", "type"],
    "properties": {
        name: {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"}
        for name in ("id", "source", "type")
    }
    | {"data": {}},
    "additionalProperties": False,
}
_EVENTS: Final = {
    STRUCTURED: {"schema": _EVENT},
    BATCH: {"schema": {"type": "array", "items": _EVENT, "maxItems": 100}},
}


def router(parts: HttpParts) -> APIRouter:
    """Return the routes of documents and events.

    Args:
        parts: What the control plane hands in.
    """
    routes = APIRouter()
    for made in (_documents(parts), _runs(parts), _schedules(parts), _events(parts)):
        routes.include_router(made)
    return routes


def _runtime(parts: HttpParts) -> Any:
    of_request, keeping = Depends(parts.client), Depends(parts.kept)

    def runtime(client: Client = of_request, kept: dict[str, Any] = keeping) -> Runtime:
        found: Runtime | None = kept.get(_KEY)
        if found is None or found.client is not client:
            found = kept[_KEY] = Runtime(client)
        return found

    return Depends(runtime)


def _documents(parts: HttpParts) -> APIRouter:
    runtime, of_request = _runtime(parts), Depends(parts.client)
    reads, writes = [Depends(parts.reader)], [Depends(parts.writer)]
    routes = APIRouter(prefix="/serverless/documents", tags=["serverless"])

    @routes.post(
        "",
        status_code=201,
        dependencies=writes,
        responses=parts.problems(409),
        openapi_extra={"requestBody": {"required": True, "content": {_YAML: _TEXT}}},
    )
    async def register(request: Request, response: Response, runtime: Runtime = runtime) -> DocumentEntry:
        """Register a document, whose text is the body, as YAML or JSON. The same content again changes nothing."""
        try:
            text = (await request.body()).decode()
        except UnicodeDecodeError:
            raise InvalidOptionError(
                "the body is no UTF-8: send the text of a document", field="body"
            ) from None
        document = Document.parse(text)
        new = await runtime.register(document)
        response.status_code = 201 if new else 200
        return DocumentEntry.made(document, new=new)

    @routes.get("", dependencies=reads)
    async def documents(
        after: str = Query("", description="Only those after this one: namespace/name:version."),
        client: Client = of_request,
    ) -> list[DocumentEntry]:
        """List documents by namespace, name and version, at most a thousand; `after` continues."""
        found = await client.runtime.read(page_of_documents, parsed_name(after) if after else ())
        return [DocumentEntry.of(one) for one in found]

    @routes.get(
        "/{namespace}/{name}/{version}",
        dependencies=reads,
        response_model=dict[str, Any],
        responses={**parts.problems(404), 200: {"content": {_YAML: _TEXT}}},
    )
    async def document(
        namespace: str, name: str, version: str, request: Request, runtime: Runtime = runtime
    ) -> Any:
        """Return a document as JSON; or as it was written, where the request accepts only YAML.

        The version `latest` is the highest.
        """
        found = await runtime.document(_full(namespace, name), version)
        if "yaml" in request.headers.get("accept", ""):
            return Response(found.source, media_type=_YAML)
        return found.definition

    @routes.post(
        "/{namespace}/{name}/{version}/runs",
        status_code=201,
        dependencies=writes,
        responses=parts.problems(404, 409),
    )
    async def start(
        namespace: str, name: str, version: str, body: StartDocumentBody, runtime: Runtime = runtime
    ) -> StartedRun:
        """Start a run. An input that does not fit the document's schema is refused."""
        run = await runtime.start(
            _full(namespace, name),
            body.input,
            version=version,
            id=body.id,
            task_queue=body.task_queue,
            check=True,
        )
        return StartedRun(workflow_id=run.id)

    return routes


def _runs(parts: HttpParts) -> APIRouter:
    runtime, reading = _runtime(parts), Depends(parts.reader)
    writes = [Depends(parts.writer)]
    routes = APIRouter(prefix="/serverless/runs", tags=["serverless"])

    @routes.get("/{workflow_id}", responses=parts.problems(404))
    async def describe(
        workflow_id: str, runtime: Runtime = runtime, reader: Any = reading
    ) -> DocumentRunState:
        """Describe where a run stands: its open tasks, its deadlines, its error. No worker needs to be alive."""
        state = await runtime.run(workflow_id).describe()
        return told_state(state, payloads=reader.sees_payloads)

    @routes.post("/{workflow_id}/suspend", dependencies=writes, responses=parts.problems(404, 409))
    async def suspend(workflow_id: str, runtime: Runtime = runtime) -> None:
        """Begin no further task. What is under way goes on, and so do deadlines."""
        await runtime.run(workflow_id).suspend()

    @routes.post("/{workflow_id}/resume", dependencies=writes, responses=parts.problems(404, 409))
    async def resume(workflow_id: str, runtime: Runtime = runtime) -> None:
        """Undo a suspension."""
        await runtime.run(workflow_id).resume()

    return routes


def _schedules(parts: HttpParts) -> APIRouter:
    runtime = _runtime(parts)
    writes = [Depends(parts.writer)]
    routes = APIRouter(prefix="/serverless/schedules", tags=["serverless"])

    @routes.put("/{namespace}/{name}", dependencies=writes, responses=parts.problems(404))
    async def schedule(
        namespace: str, name: str, body: ScheduleDocumentBody, runtime: Runtime = runtime
    ) -> ScheduledDocument:
        """Start a document whenever its own `schedule` says; another version takes the place of the one before."""
        scheduled = await runtime.schedule(_full(namespace, name), body.version, task_queue=body.task_queue)
        return ScheduledDocument(id=scheduled.id)

    @routes.delete("/{namespace}/{name}", status_code=204, dependencies=writes, responses=parts.problems(404))
    async def unschedule(namespace: str, name: str, runtime: Runtime = runtime) -> None:
        """Stop starting a document by its schedule. What was started goes on."""
        await runtime.unschedule(_full(namespace, name))

    return routes


def _events(parts: HttpParts) -> APIRouter:
    runtime = _runtime(parts)
    routes = APIRouter(prefix="/events", tags=["serverless"])

    @routes.post(
        "",
        status_code=202,
        dependencies=[Depends(parts.publisher)],
        responses=parts.problems(404, 409),
        openapi_extra={"requestBody": {"required": True, "content": _EVENTS}},
    )
    async def publish(
        request: Request,
        to: str | None = Query(
            None, description="Send them to this run alone, which keeps them until it listens."
        ),
        runtime: Runtime = runtime,
    ) -> AcceptedEvents:
        """Publish CloudEvents for the runs of documents that listen: in the body, or one whose attributes are headers.

        The answer comes when they are kept. An event with the `source` and `id` of another changes nothing, so a sender
        that got no answer sends again.
        """
        events = events_of(request.headers, await request.body())
        if to is not None:
            run = runtime.run(to)
            for event in events:
                await run.publish(event)
            return AcceptedEvents(accepted=len(events), new=None)
        runtime.begin_routing()
        return AcceptedEvents(accepted=len(events), new=await runtime.publish_all(events))

    return routes


def _full(namespace: str, name: str) -> str:
    if "/" in namespace or ":" in namespace or "/" in name or ":" in name:
        raise InvalidOptionError(
            f"{f'{namespace}/{name}'!r:.100} names no document: neither part has a slash or a colon",
            field="name",
        )
    return f"{namespace}/{name}"


def told_state(state: DocumentState, *, payloads: bool) -> DocumentRunState:
    """Return where a run stands.

    Args:
        state: Where it stands.
        payloads: Whether what was added to an error is told, which is data.
    """
    told: dict[str, Any] = orjson.loads(orjson.dumps(asdict(state)))
    if told["error"] is not None and not payloads:
        told["error"] = {name: value for name, value in told["error"].items() if name in _ERROR}
    return DocumentRunState.model_validate(told)
