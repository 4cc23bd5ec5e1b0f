"""Keeping a page live: its main part is rendered again whenever the bell rings, and sent where it has changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from outlast.errors import OutlastError
from outlast_dashboard.access import principal_of
from outlast_dashboard.live import Bell
from outlast_dashboard.pages.rendering import fragment, page
from outlast_dashboard.security.principals import Principal
from outlast_dashboard.web import Web

KEEP_ALIVE: Final = b": still here\n\n"
QUIET_RINGS: Final = 30
REST: Final = 4
"""What took so long to render is rendered again after so many times as long: a page takes a fifth of a core at most."""


async def live_page(
    request: Request,
    web: Web,
    principal: Principal,
    name: str,
    values: Callable[[], Awaitable[dict[str, Any]]],
    **once: Any,
) -> Response:
    """A page whose main part is kept live: the page itself, or the stream that it asks for.

    Args:
        request: What was asked for.
        web: Whose bell rings.
        principal: Who asks; once they are not who they were any more, the stream ends.
        name: Of the templates: ``name.html`` is the page, ``_name.html`` its main part.
        values: What the main part shows; asked for anew each time.
        once: What only the page around it shows.
    """
    if wants_stream(request):

        async def render() -> str:
            return fragment(f"_{name}.html", request, principal, **await values())

        return live(web, render, lambda: principal_of(request, web) == principal)
    return page(f"{name}.html", request, principal, **once, **await values())


def live(web: Web, render: Callable[[], Awaitable[str]], stands: Callable[[], bool]) -> StreamingResponse:
    """Server-sent events, each the whole fragment; htmx merges it into the page."""

    async def fragments() -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        sent, quiet = "", 0
        async with Bell(web.client) as bell:
            while True:
                began = loop.time()
                try:
                    text = await render()
                except OutlastError:
                    return  # the browser asks again, and is told then
                if not stands():
                    return
                took = loop.time() - began
                if text != sent:
                    sent, quiet = text, 0
                    yield _event(text)
                else:
                    quiet += 1
                    if quiet % QUIET_RINGS == 0:
                        yield KEEP_ALIVE
                await asyncio.sleep(took * REST)
                await bell.rung()

    return StreamingResponse(fragments(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def _event(text: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"{lines}\n".encode()


def wants_stream(request: Request) -> bool:
    """Whether the request is the page's own, to be kept live."""
    return "text/event-stream" in request.headers.get("accept", "")
