"""The control plane as one ASGI application: the guard, the API and the pages."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.types import ASGIApp

from outlast import Client
from outlast_dashboard.api.application import make_api
from outlast_dashboard.encoded_paths import EncodedSlashes
from outlast_dashboard.pages.application import make_pages
from outlast_dashboard.problems import http_problem
from outlast_dashboard.request_guard import Guard
from outlast_dashboard.request_limits import Streams
from outlast_dashboard.security.sessions import Sessions
from outlast_dashboard.settings import WebSettings
from outlast_dashboard.web import Serving, Web
from outlast_workflow.environment import Clock, SystemClock


def control_plane(
    client: Client | Callable[[], Client], settings: WebSettings | None = None, *, clock: Clock | None = None
) -> ASGIApp:
    """Return the HTTP control plane and the dashboard of a client's database.

    Args:
        client: A connected client, or a function that returns one once your application has started.
        settings: Who has access; by default everybody on this machine, and nobody else.
        clock: The clock of sessions and rate limits, for tests.
    """
    settings = settings or WebSettings()
    clock = clock or SystemClock()
    find = client if callable(client) else lambda: client
    web = Web(find, settings, Sessions(clock), Streams(settings.max_streams), clock)
    return Starlette(
        routes=[Mount("/api", EncodedSlashes(make_api())), Mount("/", EncodedSlashes(make_pages()))],
        exception_handlers={HTTPException: http_problem},
        middleware=[Middleware(Serving, web=web), Middleware(Guard, web=web)],
    )
