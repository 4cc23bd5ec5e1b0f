"""Messages are published and consumed in real time, by real servers on loopback."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from tests.serverless.asyncapi.servers import NatsServer, Servers, nats_server, serving_all


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Generator[NatsServer]:
    with nats_server(Path(tmp_path_factory.mktemp("nats"))) as started:
        yield started


@pytest.fixture
async def servers(nats: NatsServer) -> AsyncGenerator[Servers]:
    async with serving_all(nats.port) as started:
        yield started
