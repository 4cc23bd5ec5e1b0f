"""The pages of queues: all of them, and one with its limits and what is in it; pausing and resuming."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from outlast_dashboard.api.contract.fields import QueueName
from outlast_dashboard.authorization import Reader, TheWeb, Writer
from outlast_dashboard.encoded_paths import quoted
from outlast_dashboard.pages.rendering import base_of
from outlast_dashboard.pages.streaming import live_page

router = APIRouter()


@router.get("/queues")
async def queues(request: Request, web: TheWeb, principal: Reader) -> Response:
    """Show the queues."""

    async def values() -> dict[str, Any]:
        return {"queues": await web.client.queues.list()}

    return await live_page(request, web, principal, "queues", values)


@router.get("/queues/{name}")
async def queue(request: Request, web: TheWeb, principal: Reader, name: QueueName) -> Response:
    """Show a queue: its limits, what is in it, and when it admits next."""

    async def values() -> dict[str, Any]:
        return {"queue": await web.client.queues.describe(name), "now": web.now()}

    path = f"{base_of(request)}/queues/{quoted(name)}"
    return await live_page(request, web, principal, "queue", values, path=path)


@router.post("/queues/{name}/pause")
async def pause(
    request: Request, web: TheWeb, _: Writer, name: QueueName, note: Annotated[str, Form()] = ""
) -> Response:
    """Pause a queue."""
    await web.client.queues.pause(name, note or None)
    return _back(request, name)


@router.post("/queues/{name}/resume")
async def resume(request: Request, web: TheWeb, _: Writer, name: QueueName) -> Response:
    """Resume a queue."""
    await web.client.queues.resume(name)
    return _back(request, name)


def _back(request: Request, name: str) -> Response:
    return RedirectResponse(f"{base_of(request)}/queues/{quoted(name)}", 303)
