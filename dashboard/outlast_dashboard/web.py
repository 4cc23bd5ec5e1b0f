"""The state that all routes of one control plane share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from outlast import Client
from outlast_dashboard.request_limits import Streams
from outlast_dashboard.security.sessions import Sessions
from outlast_dashboard.settings import WebSettings
from outlast_workflow.environment import Clock
from outlast_workflow.primitives.times import to_datetime

_KEY: Final = "outlast_dashboard.web"


@dataclass(slots=True)
class Web:
    """One control plane: its client, its settings, its sessions, its streams, and what other packages keep for it."""

    find_client: Callable[[], Client]
    settings: WebSettings
    sessions: Sessions
    streams: Streams
    clock: Clock
    kept: dict[str, Any] = field(default_factory=dict)

    @property
    def client(self) -> Client:
        """The client. Inside a user's own application it exists once the application has started."""
        return self.find_client()

    def now(self) -> datetime:
        """Return the time by the engine's clock, with which deadlines are compared."""
        return to_datetime(self.client.runtime.environment.clock.now())


class Serving:
    """Middleware that adds its control plane to requests, because a process makes its routes once for all of them."""

    def __init__(self, app: ASGIApp, web: Web) -> None:
        self._app = app
        self._web = web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with the control plane."""
        await self._app({**scope, _KEY: self._web}, receive, send)


def web_of(scope: Scope) -> Web:
    """Return the control plane of a request."""
    web: Web = scope[_KEY]
    return web
