"""The routes ``/api/serverless`` and ``/api/events``."""

from __future__ import annotations

import asyncio
import json
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
    DocumentTaskStep,
    DocumentTrace,
    ScheduledDocument,
    ScheduleDocumentBody,
    StartDocumentBody,
    StartedRun,
)
from outlast_serverless.http.dependency import runtime_of
from outlast_serverless.http.paths import PathText
from outlast_serverless.interpreter.fetched import is_fetched
from outlast_serverless.jq import JqChecker
from outlast_serverless.runtime.registry import page_of_documents, parsed_name
from outlast_serverless.runtime.run import DocumentState
from outlast_serverless.runtime.runtime import Runtime
from outlast_serverless.tracing.tracer import TracePage
from outlast_workflow.errors import InvalidOptionError

_ERROR: Final = frozenset({"type", "status", "title", "detail", "instance"})
_MOST_BYTES: Final = 4 << 20
"""A page of a trace with inputs and outputs ends with the task that fills this."""
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


def _documents(parts: HttpParts) -> APIRouter:
    runtime, of_request = runtime_of(parts), Depends(parts.client)
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
        """Register a document, whose text is the body, as YAML or JSON. The same content again changes nothing.

        All that is wrong with it is told at once, expressions that do not compile among it.
        """
        try:
            text = (await request.body()).decode()
        except UnicodeDecodeError:
            raise InvalidOptionError(
                "the body is no UTF-8: send the text of a document", field="body"
            ) from None
        # To check it takes a moment: other requests go on.
        document = await asyncio.to_thread(checked_document, text)
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
        """Start a run. An input that does not fit the document's schema is refused.

        A schema that is not in the document is not fetched here: such a run is started, and faults.
        """
        document = await runtime.document(_full(namespace, name), version)
        run = await runtime.start(
            document,
            body.input,
            id=body.id,
            task_queue=body.task_queue,
            # The control plane fetches nothing: it may stand where workers' networks are not, or should not be seen.
            check=not is_fetched(document.plan.data.input_schema),
        )
        return StartedRun(workflow_id=run.id)

    return routes


def _runs(parts: HttpParts) -> APIRouter:
    runtime, reading = runtime_of(parts), Depends(parts.reader)
    writes = [Depends(parts.writer)]
    routes = APIRouter(prefix="/serverless/runs", tags=["serverless"])

    @routes.get("/{workflow_id}", responses=parts.problems(404))
    async def describe(
        workflow_id: PathText, runtime: Runtime = runtime, reader: Any = reading
    ) -> DocumentRunState:
        """Describe where a run stands: its open tasks, its deadlines, its error. No worker needs to be alive."""
        state = await runtime.run(workflow_id).describe()
        return told_state(state, payloads=reader.sees_payloads)

    @routes.get("/{workflow_id}/trace", responses=parts.problems(404, 409))
    async def trace(
        workflow_id: str,
        cursor: str | None = Query(None, description="The cursor of the page before.", max_length=200),
        limit: int = Query(100, description="How many tasks at most.", ge=1, le=1_000),
        data: bool = Query(False, description="Tell inputs and outputs, too, with the scope `payloads`."),
        runtime: Runtime = runtime,
        reader: Any = reading,
    ) -> DocumentTrace:
        """Tell which tasks have run, in the order in which they began, by replaying the history.

        A page with inputs and outputs ends with the task that fills 4 MiB. No worker needs to be alive.
        """
        told = data and reader.sees_payloads
        page = await runtime.run(workflow_id).trace_page(cursor, limit=limit, data=told)
        return told_trace(page, payloads=reader.sees_payloads, data=told)

    @routes.post("/{workflow_id}/suspend", dependencies=writes, responses=parts.problems(404, 409))
    async def suspend(workflow_id: PathText, runtime: Runtime = runtime) -> None:
        """Begin no further task. What is under way goes on, and so do deadlines."""
        await runtime.run(workflow_id).suspend()

    @routes.post("/{workflow_id}/resume", dependencies=writes, responses=parts.problems(404, 409))
    async def resume(workflow_id: PathText, runtime: Runtime = runtime) -> None:
        """Undo a suspension."""
        await runtime.run(workflow_id).resume()

    return routes


def _schedules(parts: HttpParts) -> APIRouter:
    runtime = runtime_of(parts)
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
    runtime = runtime_of(parts)
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


def checked_document(text: str) -> Document:
    """Return the document in a text, each expression of which compiles.

    Args:
        text: YAML or JSON.

    Raises:
        InvalidDocumentError: It cannot be used; ``problems`` are all that is wrong with it.
    """
    with JqChecker() as checker:
        return Document.parse(text, checker=checker)


def _full(namespace: str, name: str) -> str:
    if "/" in namespace or ":" in namespace or "/" in name or ":" in name:
        raise InvalidOptionError(
            f"{f'{namespace}/{name}'!r:.100} names no document: neither part has a slash or a colon",
            field="name",
        )
    return f"{namespace}/{name}"


def told_trace(page: TracePage, *, payloads: bool, data: bool) -> DocumentTrace:
    """Return tasks that have run.

    Args:
        page: The tasks.
        payloads: Whether what was added to errors is told, which is data.
        data: Whether inputs and outputs are told.
    """
    steps: list[DocumentTaskStep] = []
    size = 0
    for step in page.steps:
        if size >= _MOST_BYTES:
            return DocumentTrace(steps=steps, cursor=f"{steps[-1].run_id}:{steps[-1].number}")
        told = asdict(step)
        told["began"] = step.began.isoformat()
        told["ended"] = None if step.ended is None else step.ended.isoformat()
        told["error"] = _told_error(step.error, payloads=payloads)
        if data:
            size += len(json.dumps([step.input, step.output]))
        steps.append(DocumentTaskStep.model_validate(told))
    return DocumentTrace(steps=steps, cursor=page.cursor)


def told_state(state: DocumentState, *, payloads: bool) -> DocumentRunState:
    """Return where a run stands.

    Args:
        state: Where it stands.
        payloads: Whether what was added to an error is told, which is data.
    """
    told: dict[str, Any] = orjson.loads(orjson.dumps(asdict(state)))
    told["error"] = _told_error(told["error"], payloads=payloads)
    return DocumentRunState.model_validate(told)


def _told_error(error: dict[str, Any] | None, *, payloads: bool) -> dict[str, Any] | None:
    if error is None or payloads:
        return error
    return {name: value for name, value in error.items() if name in _ERROR}
