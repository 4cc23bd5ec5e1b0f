"""The servers that documents of the kit call: one on loopback, in a thread of its own, that plays all hosts."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import orjson
import uvicorn
from fastapi import FastAPI, Request, Response
from tests.serverless.server import PETSTORE, listening

HOSTS = ("https://petstore.swagger.io", "https://httpbin.org", "https://api.example.com")
_PETS = {
    "/pet/{petId}": {
        "get": {
            "operationId": "getPetById",
            "parameters": [{"name": "petId", "in": "path", "required": True, "type": "integer"}],
        }
    }
}


def application(hang: Callable[[int], None]) -> FastAPI:
    """Return the application.

    Args:
        hang: Is told when one request more, or less, hangs.
    """
    app = FastAPI()
    calls: Counter[str] = Counter()

    def pet(number: int) -> dict[str, Any]:
        return {"id": number, "name": f"pet {number}", "status": "available"}

    @app.get("/v2/swagger.json")
    async def described() -> Any:
        return {**PETSTORE, "paths": {**PETSTORE["paths"], **_PETS}}

    @app.get("/v2/pet/findByStatus")
    async def find(status: str) -> Any:
        return [{**pet(number), "status": status} for number in (1, 2, 3)]

    @app.get("/v2/pet/getPetByName/{name}")
    async def by_name(name: str) -> Response:
        return Response(b'{"message": "not found"}', 404, media_type="application/json")

    @app.get("/v2/pet/{number}")
    async def one(number: int) -> Any:
        return pet(number)

    @app.get("/basic-auth/{name}/{password}")
    async def basic(request: Request, name: str, password: str) -> Response:
        wanted = base64.b64encode(f"{name}:{password}".encode()).decode()
        right = request.headers.get("authorization") == f"Basic {wanted}"
        return Response(b'{"authenticated": true}', 200 if right else 401, media_type="application/json")

    @app.get("/bearer")
    async def bearer(request: Request) -> Response:
        right = request.headers.get("authorization") == "Bearer t0ken"
        return Response(b'{"authenticated": true}', 200 if right else 401, media_type="application/json")

    @app.api_route("/echo", methods=["GET", "POST", "PUT", "DELETE", "PATCH"])
    async def echo(request: Request) -> Any:
        body = await request.body()
        return {
            "method": request.method,
            "query": dict(request.query_params),
            "header": request.headers.get("x-kit"),
            "body": orjson.loads(body) if body else None,
        }

    @app.get("/measured")
    async def measured(request: Request) -> Any:
        return {"length": len(request.headers.get("x-kit", ""))}

    @app.get("/status/{status}")
    async def status(status: int) -> Response:
        return Response(b'{"said": "no"}', status, media_type="application/json")

    @app.get("/moved")
    async def moved() -> Response:
        return Response(b"", 302, headers={"location": "/v2/pet/7"})

    @app.get("/text")
    async def text() -> Response:
        return Response(b"plain", media_type="text/plain")

    @app.get("/binary")
    async def binary() -> Response:
        return Response(b"\x00\xff", media_type="application/octet-stream")

    @app.get("/empty")
    async def empty() -> Response:
        return Response(b"", media_type="application/json")

    @app.get("/busy/{key}/{times}")
    async def busy(key: str, times: int) -> Response:
        calls[key] += 1
        return Response(
            b'{"ready": true}', 503 if calls[key] <= times else 200, media_type="application/json"
        )

    @app.get("/hang")
    async def hanging(request: Request) -> Response:
        hang(1)
        try:
            while not await request.is_disconnected():  # noqa: ASYNC110  # it offers no event
                await asyncio.sleep(0.005)
        finally:
            hang(-1)
        return Response(b"")

    return app


@contextmanager
def serving(hang: Callable[[int], None]) -> Generator[str]:
    """Serve in another thread; yields the URL.

    Args:
        hang: Is told when one request more, or less, hangs.
    """
    listener = listening()
    config = uvicorn.Config(application(hang), log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    begun = threading.Event()

    async def serve() -> None:
        task = asyncio.create_task(server.serve([listener]))
        while not server.started:  # noqa: ASYNC110  # it offers no event
            await asyncio.sleep(0.005)
        begun.set()
        await task

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="stub", daemon=True)
    thread.start()
    assert begun.wait(30)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join(30)
