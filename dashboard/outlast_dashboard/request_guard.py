"""The guard: checks that every request must pass before it is routed.

* **Host**: the host name of the request must be one that is served. This refuses a web page that lets its own name
  resolve to this machine.
* **Origin**: a browser says from where a request that changes something comes (``Sec-Fetch-Site``, ``Origin``). A
  request from another site is refused, which stops forged requests. The session cookie is ``SameSite=Strict`` as well.
* **Size and rate**: a body over the limit is refused, and so is a caller who sends too many requests.
* **Headers**: nothing may be framed, sniffed, cached or loaded from elsewhere. Pages run no inline script or style.

It is plain ASGI, so that streams stay streams.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast_dashboard.problems import Problem, problem_response, unforeseen_problem
from outlast_dashboard.security.tokens import Token, whose
from outlast_dashboard.settings import LOOPBACK_HOSTS, WebSettings
from outlast_workflow.environment import Clock

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
LOOPBACK_ADDRESSES: Final = frozenset({"127.0.0.1", "::1", "testclient", ""})
MOST_CALLERS: Final = 10_000
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

    def __init__(self, app: ASGIApp, settings: WebSettings, clock: Clock) -> None:
        self._app = app
        self._settings = settings
        self._buckets = Buckets(clock, settings.requests_per_second, settings.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_headers(send)
        headers = Headers(scope=scope)
        problem = self._refusal(scope, headers)
        if problem is not None:
            await problem_response(problem)(scope, receive, send)
            return
        answering = _Answering(send)
        try:
            await self._app(scope, _Measured(receive, self._settings.max_body_bytes), answering)
        except Exception as error:
            # The framework answers and logs errors that have a handler, but raises them again.
            if not answering.started:
                await problem_response(unforeseen_problem(scope, error))(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Problem | None:
        settings = self._settings
        host = _name_of(headers.get("host", ""))
        if host not in settings.names:
            return Problem.of(400, "unknown-host", "This host name is not served here: see --host-name")
        if not settings.needs_token and not _is_local(scope, host):
            return Problem.of(
                403, "no-tokens", "Without tokens only this machine is served: see `outlast ui token`"
            )
        if scope["method"] not in SAFE_METHODS and not _same_site(headers):
            return Problem.of(403, "cross-site", "The request comes from another site")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > settings.max_body_bytes:
            return Problem.of(413, "too-large", f"A request may have {settings.max_body_bytes} bytes")
        wait = self._buckets.wait(_caller(scope, headers, settings.known_tokens))
        if wait:
            return Problem.of(
                429, "too-many-requests", "Too many requests: slow down", facts={"retry_after_s": wait}
            )
        return None


def _name_of(host: str) -> str:
    """Return the name in a Host header without its port, or an empty text if the header is not valid."""
    found = _HOST.fullmatch(host)
    return found["name"].lower() if found else ""


def _is_local(scope: Scope, host: str) -> bool:
    client = scope.get("client")
    return host in LOOPBACK_HOSTS and (client is None or client[0] in LOOPBACK_ADDRESSES)


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
    """Sends an answer on, and knows whether it has started."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        self.started = True
        await self._send(message)


class _Measured:
    """A request's body, counted as it arrives."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._most = self._left = most

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise HTTPException(413, f"A request may have {self._most} bytes")
        return message


class Buckets:
    """A token bucket for each caller: a burst at once, then a number of requests per second."""

    def __init__(self, clock: Clock, per_second: float, burst: int) -> None:
        self._clock = clock
        self._per_second = per_second
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str) -> float:
        """Take a token of a caller's bucket; return how many seconds to wait if there is none."""
        now = self._clock.monotonic()
        level, at = self._buckets.pop(caller, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._per_second)
        enough = level >= 1
        self._buckets[caller] = (level - 1 if enough else level, now)
        while len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)
        return 0.0 if enough else (1 - level) / self._per_second
