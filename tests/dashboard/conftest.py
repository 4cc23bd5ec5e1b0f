"""A control plane over a real engine: a client, a worker, and an HTTP client that knows three tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import httpx2
import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from tests.dashboard import programs
from tests.dashboard.browsing import chromium

from outlast import Client, Worker
from outlast_dashboard import Scope, Token, WebSettings, control_plane


@dataclass
class Served:
    """What a test of the control plane works with; ``web`` may do everything."""

    client: Client
    web: httpx2.AsyncClient
    secrets: dict[str, str]

    def bearing(self, name: str) -> dict[str, str]:
        """Headers with a token: ``reader``, ``seer`` (a reader who sees payloads), ``writer`` or ``all``."""
        return {"authorization": f"Bearer {self.secrets[name]}"}


SCOPES = {
    "reader": [Scope.READ],
    "seer": [Scope.READ, Scope.PAYLOADS],
    "writer": [Scope.WRITE],
    "all": list(Scope),
}


def make_tokens() -> tuple[list[Token], dict[str, str]]:
    made = {name: Token.make(name, scopes) for name, scopes in SCOPES.items()}
    return [token for token, _ in made.values()], {name: secret for name, (_, secret) in made.items()}


@pytest.fixture
async def served(database_url: str) -> AsyncIterator[Served]:
    """A control plane with tokens, over a client with a worker."""
    tokens, secrets = make_tokens()
    async with Client.connect(database_url) as client:
        worker = Worker(
            client,
            workflows=programs.WORKFLOWS,
            activities=programs.ACTIVITIES,
            graceful_shutdown_timeout=0.01,
        )
        async with worker:
            app = control_plane(client, WebSettings(tokens=tokens))
            async with httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app),
                base_url="http://localhost",
                headers={"authorization": f"Bearer {secrets['all']}"},
            ) as web:
                yield Served(client, web, secrets)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium; for a module, since its loop keeps this thread."""
    expect.set_options(timeout=30_000)  # machines are slow now and then
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield made
        made.close()
