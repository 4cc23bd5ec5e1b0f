"""The pages of documents, as the dashboard takes them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from outlast import Client
from outlast.http_parts import PageParts, Pages
from outlast_serverless.http.paths import PathText
from outlast_serverless.pages.documents import document_pages
from outlast_serverless.pages.forms import form_pages
from outlast_serverless.pages.run_section import run_section
from outlast_serverless.runtime.run import DocumentRun


def pages(parts: PageParts) -> Pages:
    """Return the pages of documents.

    Args:
        parts: What the dashboard hands in.
    """
    routes = APIRouter()
    for made in (document_pages(parts), form_pages(parts), _runs(parts)):
        routes.include_router(made)
    links = (("/documents", "Documents"),)
    return Pages("serverless", Path(__file__).parent, routes, links, run_section)


def _runs(parts: PageParts) -> APIRouter:
    of_request, writes = Depends(parts.http.client), [Depends(parts.http.writer)]
    routes = APIRouter(prefix="/document-runs")

    def back(request: Request, workflow_id: PathText) -> Response:
        return RedirectResponse(f"{parts.base(request)}/workflows/{quote(workflow_id, safe='')}", 303)

    @routes.post("/{workflow_id}/suspend", dependencies=writes)
    async def suspend(request: Request, workflow_id: PathText, client: Client = of_request) -> Response:
        """Begin no further task of a run."""
        await DocumentRun(client.handle(workflow_id), client.runtime).suspend()
        return back(request, workflow_id)

    @routes.post("/{workflow_id}/resume", dependencies=writes)
    async def resume(request: Request, workflow_id: PathText, client: Client = of_request) -> Response:
        """Undo a suspension."""
        await DocumentRun(client.handle(workflow_id), client.runtime).resume()
        return back(request, workflow_id)

    return routes
