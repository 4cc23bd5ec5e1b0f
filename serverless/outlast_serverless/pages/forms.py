"""The forms of documents: to register one by its text, and to start one with an input. Mistakes are told in place."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final
from urllib.parse import quote

import orjson
from fastapi import APIRouter, Depends, Form, Request
from starlette.responses import RedirectResponse, Response

from outlast.errors import OutlastError
from outlast.http_parts import PageParts
from outlast_serverless.documents.document import Document
from outlast_serverless.http.dependency import runtime_of
from outlast_serverless.http.paths import PathText
from outlast_serverless.http.routes import checked_document
from outlast_serverless.runtime.runtime import Runtime
from outlast_workflow.errors import (
    DocumentConflictError,
    FaultedError,
    InvalidDocumentError,
    InvalidOptionError,
    StructuralLimitError,
    UnsupportedTaskError,
    WorkflowAlreadyStartedError,
)
from outlast_workflow.errors.options import DocumentProblem
from outlast_workflow.options.start import DEFAULT_TASK_QUEUE

Typed = Annotated[str, Form()]
_REFUSED: Final = (FaultedError, InvalidOptionError, StructuralLimitError, UnsupportedTaskError)
_SAMPLE: Final = """document:
  dsl: '1.0.3'
  namespace: examples
  name: hello
  version: '0.1.0'
do:
  - greet:
      set:
        hello: ${ .name // "world" }
"""


def form_pages(parts: PageParts) -> APIRouter:
    """Return the routes of forms.

    Args:
        parts: What the dashboard hands in.
    """
    runtime, writer = runtime_of(parts.http), Depends(parts.http.writer)
    routes = APIRouter()

    @routes.get("/new-document")
    async def ask_text(request: Request, writer: Any = writer) -> Response:
        """Show the form of a new document."""
        form: Response = parts.page("serverless/new_document.html", request, writer, **_told(_SAMPLE))
        return form

    @routes.post("/new-document")
    async def register(
        request: Request,
        text: Typed = "",
        check: Typed = "",
        runtime: Runtime = runtime,
        writer: Any = writer,
    ) -> Response:
        """Register a document, or only check it. All that is wrong with it is told, and the text is kept."""
        text = text.replace("\r\n", "\n")

        def form(status: int, **told: Any) -> Response:
            shown = {**_told(text), **told}
            answer: Response = parts.page("serverless/new_document.html", request, writer, status, **shown)
            return answer

        try:
            # To check it takes a moment: the pages of others go on.
            document = await asyncio.to_thread(checked_document, text)
        except InvalidDocumentError as error:
            return form(422, problems=error.problems, warnings=error.warnings)
        if check:
            return form(200, document=document, warnings=document.warnings)
        try:
            await runtime.register(document)
        except (DocumentConflictError, StructuralLimitError) as error:
            return form(409 if isinstance(error, DocumentConflictError) else 422, other=str(error))
        path = f"{document.namespace}/{document.name}/{quote(document.version, safe='')}"
        return RedirectResponse(f"{parts.base(request)}/documents/{path}", 303)

    @routes.get("/documents/{namespace}/{name}/{version}/start")
    async def ask_input(
        request: Request,
        namespace: PathText,
        name: PathText,
        version: PathText,
        runtime: Runtime = runtime,
        writer: Any = writer,
    ) -> Response:
        """Show the form that starts a document."""
        document = await runtime.document(f"{namespace}/{name}", version)
        typed = {"input": _skeleton(document), "workflow_id": "", "task_queue": DEFAULT_TASK_QUEUE}
        return _start_form(parts, request, writer, document, typed)

    @routes.post("/documents/{namespace}/{name}/{version}/start")
    async def start(
        request: Request,
        namespace: PathText,
        name: PathText,
        version: PathText,
        input: Typed = "",
        workflow_id: Typed = "",
        task_queue: Typed = DEFAULT_TASK_QUEUE,
        runtime: Runtime = runtime,
        writer: Any = writer,
    ) -> Response:
        """Start a document, and show its run. What is wrong is told at its field."""
        document = await runtime.document(f"{namespace}/{name}", version)
        typed = {"input": input, "workflow_id": workflow_id, "task_queue": task_queue}
        try:
            given = orjson.loads(input) if input.strip() else None
        except ValueError:
            wrong = {"input": 'it is no JSON: write {"name": "Ada"}, or a text in quotes'}
            return _start_form(parts, request, writer, document, typed, 422, wrong)
        try:
            run = await runtime.start(
                document, given, id=workflow_id.strip() or None, task_queue=task_queue, check=True
            )
        except WorkflowAlreadyStartedError as error:
            return _start_form(parts, request, writer, document, typed, 409, {"workflow_id": str(error)})
        except _REFUSED as error:
            return _start_form(parts, request, writer, document, typed, 422, _wrong(error))
        return RedirectResponse(f"{parts.base(request)}/workflows/{quote(run.id, safe='')}", 303)

    return routes


def _told(text: str) -> dict[str, Any]:
    """Return what the form of a new document shows before anything is told."""
    problems: tuple[DocumentProblem, ...] = ()
    return {
        "text": text,
        "problems": problems,
        "warnings": problems,
        "document": None,
        "other": "",
        "written": text.split("\n"),
    }


def _wrong(error: OutlastError) -> dict[str, str]:
    """Return what a start was refused for, by the field that it concerns."""
    if isinstance(error, FaultedError):
        return {"input": str(error.error.get("detail") or error)}
    named = {"id": "workflow_id", "workflow_id": "workflow_id", "task_queue": "task_queue"}
    field = str(getattr(error, "field", "")).replace(" ", "_")
    return {named.get(field, "other"): str(error)}


def _start_form(
    parts: PageParts,
    request: Request,
    writer: Any,
    document: Document,
    typed: dict[str, str],
    status: int = 200,
    wrong: dict[str, str] | None = None,
) -> Response:
    schema = document.plan.data.input_schema
    shown = None if schema is None or schema.document is None else schema.document
    values = {"document": document, "typed": typed, "wrong": wrong or {}, "schema": shown}
    answer: Response = parts.page("serverless/start_document.html", request, writer, status, **values)
    return answer


_EMPTY: Final[dict[str, Any]] = {
    "string": "",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "array": [],
    "object": {},
}


def _skeleton(document: Document) -> str:
    """Return an input with the required members of the document's schema, for people to fill in."""
    schema = document.plan.data.input_schema
    found: Any = None if schema is None else schema.document
    if not isinstance(found, dict) or not isinstance(found.get("required"), list):
        return "{}"
    properties = found.get("properties")
    known: dict[Any, Any] = properties if isinstance(properties, dict) else {}
    made: dict[str, Any] = {}
    for name in found["required"]:
        one = known.get(name)
        kind = one.get("type") if isinstance(one, dict) else None
        if isinstance(name, str):
            made[name] = _EMPTY.get(kind) if isinstance(kind, str) else None
    return orjson.dumps(made, option=orjson.OPT_INDENT_2).decode()
