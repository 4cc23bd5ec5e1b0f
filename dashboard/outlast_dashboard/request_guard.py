"""The guard: checks that every request must pass before it is routed.

* **Host**: the host name of the request must be one that is served. This refuses a web page that lets its own name
  resolve to this machine.
* **Origin**: a browser says from where a request that changes something comes (``Sec-Fetch-Site``, ``Origin``). A
  request from another site is refused, which stops forged requests. The session cookie is ``SameSite=Strict`` as well.
* **Rate and size**: a caller who sends too many requests is refused, and so is a body that is too large or too slow, or
  one of too many. The body of a caller who is unknown is not read at all, except for the form that signs in.
* **Liveness**: ``GET /livez`` is answered before all of that, because those who probe whether a process lives have no
  token and call it by its address. It says nothing but that.
* **Headers**: nothing may be framed, sniffed, cached or loaded from elsewhere. Pages run no inline script or style.

It is plain ASGI, so that streams stay streams.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast_dashboard.authorization import principal_of
from outlast_dashboard.pages.problem import problem_page
from outlast_dashboard.problems import Problem, problem_response, unforeseen_problem
from outlast_dashboard.request_limits import Bodies, Body, Buckets, no_body
from outlast_dashboard.security.tokens import Token, whose
from outlast_dashboard.settings import LOOPBACK_HOSTS
from outlast_dashboard.web import Web

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
LOOPBACK_ADDRESSES: Final = frozenset({"127.0.0.1", "::1", "testclient", ""})
LIVE: Final = "/livez"
"""Answered to everybody; no route."""
LOGIN: Final = "/login"
"""The only path whose body is read from callers who are unknown yet."""
LOGIN_BODIES: Final = 16
LOGIN_BODY_BYTES: Final = 16 * 1024
LOGIN_BODY_TIMEOUT_S: Final = 10.0
FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""What a proxy adds to the requests of others."""
MUCH: Final = 2**63
_HOST: Final = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(:[0-9]{1,5})?")

HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """The middleware in front of the application."""

    def __init__(self, app: ASGIApp, web: Web) -> None:
        self._app = app
        self._web = web
        settings = self._settings = web.settings
        self._buckets = Buckets(web.clock, settings.requests_per_second, settings.burst)
        self._bodies = Bodies(
            settings.max_bodies, settings.max_body_bytes, settings.max_bodies_bytes, settings.body_timeout
        )
        # Bodies of their own, so that nobody unknown takes the places of those who are known.
        self._login_bodies = Bodies(
            LOGIN_BODIES, LOGIN_BODY_BYTES, LOGIN_BODIES * LOGIN_BODY_BYTES, LOGIN_BODY_TIMEOUT_S
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_headers(send)
        headers = Headers(scope=scope)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path == LIVE and scope["method"] in ("GET", "HEAD"):
            await PlainTextResponse("ok\n")(scope, receive, send)
            return
        problem = self._refusal(scope, headers)
        if problem is not None:
            await _answer(problem, scope, headers)(scope, receive, send)
            return
        body: Body | None = None
        if principal_of(Request(scope), self._web) is not None:
            receive = body = Body(receive, self._bodies, _length(headers))
        elif scope["method"] == "POST" and path == LOGIN:
            receive = body = Body(receive, self._login_bodies, _length(headers))
        else:
            scope, receive = _bodiless(scope), no_body(receive)
        answering = _Answering(send, self._web)
        try:
            await self._app(scope, receive, answering)
        except Exception as error:
            # The framework answers and logs errors that have a handler, but raises them again.
            if not answering.started:
                await _answer(unforeseen_problem(scope, error), scope, headers)(scope, receive, send)
        finally:
            answering.close()
            if body is not None:
                body.close()

    def _refusal(self, scope: Scope, headers: Headers) -> Problem | None:
        settings = self._settings
        host = _name_of(headers.get("host", ""))
        if host not in settings.names:
            return Problem.of(400, "unknown-host", "This host name is not served here: see --host-name")
        if not settings.needs_token and not _is_local(scope, host, headers):
            return Problem.of(
                403, "no-tokens", "Without tokens only this machine is served: see `outlast ui token`"
            )
        if scope["method"] not in SAFE_METHODS and not _same_site(headers):
            return Problem.of(403, "cross-site", "The request comes from another site")
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy that believes the other one of the two would see other requests than this server.
            return Problem.of(400, "two-lengths", "Send either Content-Length or Transfer-Encoding")
        if _length(headers) > settings.max_body_bytes:
            return Problem.of(413, "too-large", f"A request may have {settings.max_body_bytes} bytes")
        wait = self._buckets.wait(_caller(scope, headers, settings.known_tokens))
        if wait:
            return Problem.of(
                429, "too-many-requests", "Too many requests: slow down", facts={"retry_after_s": wait}
            )
        return None


def _answer(problem: Problem, scope: Scope, headers: Headers) -> Response:
    """Return a problem as a page where a browser asked for one, else as problem details."""
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    if "text/html" not in headers.get("accept", "") or path == "/api" or path.startswith("/api/"):
        return problem_response(problem)
    return problem_page(Request(scope), problem)


def _name_of(host: str) -> str:
    """Return the name in a Host header without its port, or an empty text if the header is not valid."""
    found = _HOST.fullmatch(host)
    return found["name"].lower() if found else ""


def _is_local(scope: Scope, host: str, headers: Headers) -> bool:
    """Return whether a request comes from this machine: not by way of a proxy on it, either."""
    client = scope.get("client")
    return (
        host in LOOPBACK_HOSTS
        and (client is None or client[0] in LOOPBACK_ADDRESSES)
        and not any(name in headers for name in FORWARDED)
    )


def _length(headers: Headers) -> int:
    """Return the declared size of a body; 0 if there is none, and much if it is no number."""
    length = headers.get("content-length", "0")
    return int(length[:20]) if length.isascii() and length.isdecimal() else MUCH


def _bodiless(scope: Scope) -> Scope:
    """Return a request without what describes its body."""
    kept = [
        (name, value)
        for name, value in scope["headers"]
        if name not in (b"content-type", b"content-length", b"transfer-encoding")
    ]
    return {**scope, "headers": kept}


def _same_site(headers: Headers) -> bool:
    """Return whether no browser says that another site made the request. Programs send neither header."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc == headers.get("host")
    except ValueError:
        # No browser sends such an origin.
        return False


def _caller(scope: Scope, headers: Headers, tokens: Sequence[Token]) -> str:
    """Return whose requests are counted together: those of a token, or of an address if no known token is shown."""
    _, _, secret = headers.get("authorization", "").partition(" ")
    token = whose(tokens, secret) if secret else None
    if token is not None:
        return f"token {token.name}"
    client = scope.get("client")
    return client[0] if client else ""


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending


class _Answering:
    """Sends an answer on. It knows whether the answer has started, and counts it if it is a stream."""

    def __init__(self, send: Send, web: Web) -> None:
        self._send = send
        self._streams = web.streams
        self._streaming = False
        self.started = False

    async def __call__(self, message: Message) -> None:
        self.started = True
        if message["type"] == "http.response.start":
            kind = Headers(raw=message["headers"]).get("content-type", "")
            if kind.startswith("text/event-stream"):
                self._streaming = True
                self._streams.open += 1
        await self._send(message)

    def close(self) -> None:
        """Count the stream no longer."""
        if self._streaming:
            self._streaming = False
            self._streams.open -= 1
