"""A server on loopback that answers as its paths say."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl

import orjson
import uvicorn
from fastapi import FastAPI, Request, Response
from ruamel.yaml import YAML

PETSTORE: dict[str, Any] = {
    "swagger": "2.0",
    "host": "petstore.swagger.io",
    "basePath": "/v2",
    "schemes": ["http", "https"],
    "paths": {
        "/pet/findByStatus": {
            "get": {
                "operationId": "findPetsByStatus",
                "parameters": [
                    {
                        "name": "status",
                        "in": "query",
                        "required": True,
                        "type": "array",
                        "collectionFormat": "multi",
                    }
                ],
            }
        }
    },
}

LOG = """
input:
  schema:
    document:
      type: object
      properties: {message: {type: string}, level: {enum: [information, error]}}
      required: [message]
output: {schema: {document: {type: string}}}
run:
  script:
    language: python
    arguments: {message: '${ .message }', level: '${ .level }', context: '${ .context }', timestamp: '${ .timestamp }'}
    code: |
      import argparse
      parser = argparse.ArgumentParser()
      for name in ("--message", "--level", "--context"):
          parser.add_argument(name)
      parser.add_argument("--timestamp", action="store_true")
      given = parser.parse_args()
      assert given.timestamp and given.context is None
      print(f"{given.level.upper()}: {given.message}")
"""
"""A function with the interface of the official catalog's."""


def application(seen: list[dict[str, Any]]) -> FastAPI:
    app = FastAPI()

    async def note(request: Request) -> dict[str, Any]:
        told = {
            "method": request.method,
            "path": request.url.path,
            "query": [[name, value] for name, value in request.query_params.multi_items()],
            "headers": dict(request.headers),
            "body": (await request.body()).decode(),
        }
        seen.append(told)
        return told

    @app.api_route("/echo/{rest:path}", methods=["GET", "POST", "PUT", "DELETE", "PATCH"])
    async def echo(request: Request, rest: str) -> Any:
        return await note(request)

    @app.get("/status/{status}")
    async def status(request: Request, status: int) -> Response:
        await note(request)
        return Response(b'{"said": "no"}', status, media_type="application/json")

    @app.get("/long/{size}")
    async def long(size: int, k: str) -> Response:
        return Response("x" * size + k, 500, media_type="text/plain")

    @app.get("/content/{kind}")
    async def content(kind: str) -> Response:
        kinds = {
            "json": (b'{"a": [1]}', "application/json"),
            "problem": (b'{"b": 2}', "application/problem+json"),
            "text": ("grüß".encode(), "text/plain; charset=utf-8"),
            "binary": (b"\x00\xff", "application/octet-stream"),
            "empty": (b"", "application/json"),
            "broken": (b"{", "application/json"),
            "large": (b"x" * 3_000_000, "text/plain"),
        }
        body, media = kinds[kind]
        return Response(body, media_type=media)

    @app.api_route("/redirect/{status}", methods=["GET", "POST"])
    async def redirect(request: Request, status: int, to: str) -> Response:
        await note(request)
        return Response(b"", status, headers={"location": to})

    @app.api_route("/any/{host}/{rest:path}", methods=["GET", "POST", "PUT"])
    async def played(request: Request, host: str, rest: str) -> Any:
        told = await note(request)
        if rest.endswith("/functions/log/1.0.0/function.yaml"):
            return Response(LOG, media_type="text/plain")
        if rest.endswith("/.well-known/openid-configuration"):
            return {"token_endpoint": f"http://{host}/{rest.partition('/.well')[0]}/protocol/token"}
        if rest.endswith("/token"):
            client = dict(parse_qsl(told["body"])).get("client_id")
            return {"access_token": f"token-of-{client}", "expires_in": 300}
        if rest == "v2/swagger.json":
            return PETSTORE
        if rest.endswith("/missing") or host == "external-service.example.com":
            return Response(b"", 404 if rest.endswith("/missing") else 503)
        told["authorization"] = told["headers"].get("authorization")
        return {**told, "homeworld": "https://swapi.dev/api/planets/1/"}

    @app.get("/described/{kind}")
    async def described(request: Request, kind: str) -> Response:
        await note(request)
        document = {
            "openapi": "3.1.0",
            "servers": [{"url": "/echo"}],
            "paths": {
                "/{word}": {
                    "post": {
                        "operationId": "say",
                        "parameters": [{"name": "word", "in": "path", "required": True}],
                        "requestBody": {"content": {"application/json": {}}},
                    }
                }
            },
        }
        if kind == "yaml":
            text = io.StringIO()
            YAML().dump(document, text)
            return Response(text.getvalue(), media_type="application/vnd.oai.openapi")
        found = kind == "json"
        return Response(orjson.dumps(document), 200 if found else 404, media_type="application/json")

    @app.get("/slow")
    async def slow() -> str:
        await asyncio.sleep(30)
        return "late"

    @app.get("/basic")
    async def basic(request: Request) -> Response:
        told = await note(request)
        wanted = base64.b64encode(b"ada:correct-horse").decode()
        right = told["headers"].get("authorization") == f"Basic {wanted}"
        return Response(
            b'"welcome"' if right else b'"no"', 200 if right else 401, media_type="application/json"
        )

    @app.get("/digest")
    async def digest(request: Request) -> Response:
        told = await note(request)
        if 'username="ada"' in told["headers"].get("authorization", ""):
            return Response(b'"welcome"', media_type="application/json")
        challenge = 'Digest realm="r", qop="auth", nonce="n", algorithm=SHA-256'
        return Response(b"", 401, headers={"www-authenticate": challenge})

    return app


class Server:
    """What a test needs of the server: where it is, and what it has seen."""

    def __init__(self, port: int, seen: list[dict[str, Any]]) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.seen = seen


def listening() -> socket.socket:
    """Return a socket that listens on loopback, at a free port."""
    return socket.create_server(("127.0.0.1", 0))


@asynccontextmanager
async def serving(more: Callable[[FastAPI], None] | None = None) -> AsyncGenerator[Server]:
    """Serve, with more routes if something adds them."""
    seen: list[dict[str, Any]] = []
    app = application(seen)
    if more is not None:
        more(app)
    listener = listening()
    config = uvicorn.Config(app, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve([listener]))
    while not server.started:  # noqa: ASYNC110  # it offers no event
        await asyncio.sleep(0.01)
    try:
        yield Server(listener.getsockname()[1], seen)
    finally:
        server.should_exit = True
        server.force_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await task
