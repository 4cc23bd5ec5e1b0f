"""Live pages: the main part is rendered again when the database may have changed, and sent if it differs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from outlast.errors import OutlastError
from outlast_dashboard.authorization import principal_of
from outlast_dashboard.notifications import ChangeSignal
from outlast_dashboard.pages.rendering import fragment, page
from outlast_dashboard.security.principals import Principal
from outlast_dashboard.web import Web

_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")
KEEP_ALIVE: Final = b": still here\n\n"
UNCHANGED_BEFORE_KEEP_ALIVE: Final = 30
REST: Final = 4
"""The pause after rendering, in multiples of the time that it took: a page takes a fifth of a core at most."""


async def live_page(
    request: Request,
    web: Web,
    principal: Principal,
    name: str,
    values: Callable[[], Awaitable[dict[str, Any]]],
    **once: Any,
) -> Response:
    """Return a page whose main part is kept live, or the stream that this page asks for.

    Args:
        request: The request for the page or for its stream.
        web: The control plane, whose database is watched.
        principal: Who made the request. The stream ends once their token or session is no longer valid.
        name: The name of the templates: ``name.html`` is the page, ``_name.html`` its main part. One of another
            package has the name of that package and a slash before it.
        values: Returns what the main part shows; called for each rendering.
        **once: What only the page around it shows.
    """
    if wants_stream(request):
        web.streams.check()
        package, slash, last = name.rpartition("/")

        async def render() -> str:
            return fragment(f"{package}{slash}_{last}.html", request, principal, **await values())

        return live(web, render, lambda: principal_of(request, web) == principal)
    return page(f"{name}.html", request, principal, live=True, **(once | await values()))


def live(web: Web, render: Callable[[], Awaitable[str]], stands: Callable[[], bool]) -> StreamingResponse:
    """Return a stream of server-sent events, each the whole fragment, which htmx merges into the page."""

    async def fragments() -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        sent, quiet = "", 0
        async with ChangeSignal(web.client) as changed:
            while True:
                began = loop.time()
                try:
                    text = await render()
                except OutlastError:
                    # The browser connects again, and gets the error as an answer.
                    return
                if not stands():
                    return
                took = loop.time() - began
                told = without_counting(text)
                if told != sent:
                    sent, quiet = told, 0
                    yield _event(text)
                else:
                    quiet += 1
                    if quiet % UNCHANGED_BEFORE_KEEP_ALIVE == 0:
                        yield KEEP_ALIVE
                await asyncio.sleep(took * REST)
                await changed.wait()

    return StreamingResponse(fragments(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


# The text and the look of a time, how full the bar of a deadline is, and where now is. The page counts these by itself.
_COUNTING: Final = re.compile(
    r'(?<=<time class=")[^"]*|(?<=>)[^<]*(?=</time>)|(?<=<progress class=")[^>]*(?= data-from=)'
    r'|(?<=<rect class="now" x=")[^"]*(?=" data-from=)'
)


def without_counting(text: str) -> str:
    """Return a fragment without what only says that time has passed, so that a quiet page sends nothing."""
    return _COUNTING.sub("", text)


def _event(text: str) -> bytes:
    # Not `splitlines`: for a server-sent event U+2028 and its like, which an id may hold, do not end a line.
    lines = "".join(f"data: {line}\n" for line in _LINE_BREAK.split(text))
    return f"{lines}\n".encode()


def wants_stream(request: Request) -> bool:
    """Return whether a page made the request in order to be kept live."""
    return "text/event-stream" in request.headers.get("accept", "")
