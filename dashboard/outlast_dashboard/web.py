"""What every route of one control plane shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from outlast import Client
from outlast_dashboard.security.sessions import Sessions
from outlast_dashboard.settings import WebSettings
from outlast_workflow.environment import Clock
from outlast_workflow.primitives.times import to_datetime

_KEY: Final = "outlast_dashboard.web"


@dataclass(slots=True)
class Web:
    """One control plane: whose database it shows, and who may look."""

    find_client: Callable[[], Client]
    settings: WebSettings
    sessions: Sessions
    clock: Clock

    @property
    def client(self) -> Client:
        """The client; inside a user's own application it is there once that has started."""
        return self.find_client()

    def now(self) -> datetime:
        """Now, by the engine's clock: deadlines are compared with that one."""
        return to_datetime(self.client.runtime.environment.clock.now())


class Serving:
    """Says which control plane a request is for: routes are made once a process, and serve all there are."""

    def __init__(self, app: ASGIApp, web: Web) -> None:
        self._app = app
        self._web = web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with it."""
        await self._app({**scope, _KEY: self._web}, receive, send)


def web_of(scope: Scope) -> Web:
    """The control plane that a request is for."""
    web: Web = scope[_KEY]
    return web
