"""What every route of one control plane shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from holdfast import Client
from holdfast_dashboard.security.sessions import Sessions
from holdfast_dashboard.settings import WebSettings
from holdfast_workflow.environment import Clock
from holdfast_workflow.times import to_datetime


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
        return to_datetime(self.client.hub.environment.clock.now())
