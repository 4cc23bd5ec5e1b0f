"""The lifespan of web applications: a client for requests, a worker beside them, and an end in good order."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from tests.wire.samples import Colour

import outlast
from outlast import Client, StructuralLimits, activity, workflow
from outlast.errors import InvalidOptionError, InvalidUrlError, OutlastError

APPLICATION = """
import asyncio
import sys
from pathlib import Path

import outlast
from fastapi import FastAPI, Request
from outlast import activity, workflow

HERE = Path(sys.argv[0]).parent


@activity.defn(start_to_close_timeout=60)
async def slow() -> str:
    (HERE / "begun").touch()
    while not (HERE / "go").exists():
        await asyncio.sleep(0.01)
    return "done"


@workflow.defn
async def order() -> str:
    return await slow()


app = FastAPI(lifespan=outlast.lifespan(f"sqlite:///{HERE}/shop.db", workflows=[order], activities=[slow]))


@app.post("/orders/{order_id}")
async def place(order_id: str, request: Request) -> str:
    return (await request.state.outlast.start(order, id=order_id)).workflow_id


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(app, fd=int(sys.argv[1]), log_level="warning")
"""


@activity.defn(start_to_close_timeout=10)
async def paint(colour: Colour) -> str:
    return colour.value


@workflow.defn
async def painted(colour: Colour) -> str:
    return await paint(colour)


@workflow.defn(name="painted")
async def also_painted(colour: Colour) -> str:
    return colour.value


def application(url: str, **options: Any) -> Starlette:
    async def place(request: Request) -> JSONResponse:
        client: Client = request.state.outlast
        return JSONResponse(await client.execute(painted, Colour.RED))

    around = outlast.lifespan(url, workflows=[painted], activities=[paint], **options)
    return Starlette(routes=[Route("/", place)], lifespan=around)


def test_requests_find_the_client_and_a_worker_runs_what_they_start(shared_url: str) -> None:
    with TestClient(application(shared_url)) as web:
        assert web.get("/").json() == "red"


def test_a_database_in_memory_has_its_worker_on_the_loop() -> None:
    with TestClient(application("sqlite://", limits=StructuralLimits(open_updates=5), build_id="b-7")) as web:
        assert web.get("/").json() == "red"
    with pytest.raises(InvalidOptionError, match="own_thread"):
        application("sqlite://", own_thread=True)


def test_without_anything_to_run_there_is_no_worker(sqlite_url: str) -> None:
    async def workers() -> int:
        async with outlast.lifespan(sqlite_url)(None) as state:
            return len(await state["outlast"].workers())

    assert asyncio.run(workers()) == 0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"task_queues": "x"}, "task_queue"),
        ({"lease_duration": 0}, "lease duration"),
        ({"workflows": painted}, "workflows must be a list"),
        ({"workflows": [painted, also_painted]}, "painted"),
        ({"interceptors": [object()]}, "interceptors"),
        ({"activities": [len]}, "len"),
    ],
)
def test_a_wrong_option_is_named_by_the_call(options: dict[str, Any], named: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"workflows": [painted], **options}
    with pytest.raises(OutlastError, match=named):
        outlast.lifespan(f"sqlite:///{tmp_path}/shop.db", **given)
    with pytest.raises(InvalidUrlError):
        outlast.lifespan("shop.db")
    assert not [*tmp_path.iterdir()]


def test_an_application_starts_as_often_as_it_is_asked_to(sqlite_url: str) -> None:
    around = outlast.lifespan(
        sqlite_url, workflows=iter([painted]), activities=iter([paint]), queues=iter(["q"])
    )

    async def paints() -> str:
        async with around(None) as state:
            return await state["outlast"].execute(painted, Colour.RED)

    assert [asyncio.run(paints()) for _ in range(2)] == ["red", "red"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    (tmp_path / "application.py").write_text(APPLICATION)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        os.set_inheritable(listening.fileno(), True)
        command = [sys.executable, str(tmp_path / "application.py"), str(listening.fileno())]
        with subprocess.Popen(command, pass_fds=[listening.fileno()], stderr=subprocess.PIPE) as process:
            yield process, f"http://127.0.0.1:{listening.getsockname()[1]}"
            process.kill()


def test_a_server_that_is_stopped_lets_running_activities_end(
    server: tuple[subprocess.Popen[bytes], str], tmp_path: Path
) -> None:
    process, address = server
    with urllib.request.urlopen(urllib.request.Request(f"{address}/orders/o-1", method="POST"), timeout=60):
        pass

    latest = time.monotonic() + 60
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < latest
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    (tmp_path / "go").touch()
    _, said = process.communicate(timeout=60)
    # The server ends as the signal would have ended it.
    assert process.returncode in (0, -signal.SIGTERM), said.decode()
    assert b"Traceback" not in said

    async def events() -> list[str]:
        async with Client.connect(f"sqlite:///{tmp_path}/shop.db") as client:
            assert list(await client.workers()) == []
            return [event.type async for event in client.handle("o-1").history()]

    assert "ActivityCompleted" in asyncio.run(events())
