"""The transport of HTTP under a policy, for protocols that are more than one request and one answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final

import httpx2

from outlast_serverless.calls.authentication import Authentication
from outlast_serverless.calls.http import encoded
from outlast_serverless.calls.policy import DeniedError, HttpPolicy
from outlast_serverless.calls.tls import tls_context
from outlast_serverless.interpreter.faults import fault
from outlast_serverless.secrets import Masking

_ENCODED: Final = ("content-encoding", "content-length", "transfer-encoding")


_GOODBYE_S: Final = 5.0


class TooLargeError(Exception):
    """An answer is longer than the policy allows."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is no success.

    Attributes:
        status: Its status.
        title: What the server calls that.
        content: Its body.
    """

    status: int
    title: str
    content: bytes


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Sends each request to an address that the policy has looked at, and reads no more than it allows.

    Args:
        policy: What may be called.

    Attributes:
        failure: Why the last POST was not answered, or not to its end.
        refusal: The answer to the last POST, if it was no success.
    """

    def __init__(self, policy: HttpPolicy) -> None:
        self._policy = policy
        self._inner = httpx2.AsyncHTTPTransport(verify=tls_context(), trust_env=False)
        self.failure: Exception | None = None
        self.refusal: Refusal | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request."""
        if request.method == "POST":
            self.failure = self.refusal = None
        try:
            # A goodbye holds nobody up.
            async with asyncio.timeout(_GOODBYE_S if request.method == "DELETE" else None):
                return await self._answer(request)
        except TimeoutError:
            raise httpx2.ReadTimeout("it was not answered", request=request) from None
        except (DeniedError, TooLargeError, httpx2.HTTPError, OSError) as error:
            self._note(request, error)
            raise

    async def aclose(self) -> None:
        """Close its connections."""
        await self._inner.aclose()

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        address = await self._policy.address(url.host, port)
        sent = httpx2.Request(
            request.method,
            url.copy_with(host=str(address)),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": url.host},
        )
        encoded = await self._inner.handle_async_request(sent)
        encoded.request = request
        headers = [(name, value) for name, value in encoded.headers.multi_items() if name not in _ENCODED]
        answer = httpx2.Response(
            encoded.status_code,
            headers=headers,
            stream=_Limited(encoded, self),
            extensions=encoded.extensions,
            request=request,
        )
        if request.method == "POST" and not answer.is_success:
            content = await answer.aread()
            await answer.aclose()
            self.refusal = Refusal(answer.status_code, answer.reason_phrase, content)
            return httpx2.Response(answer.status_code, headers=headers, content=content, request=request)
        return answer

    def _note(self, request: httpx2.Request, error: Exception) -> None:
        if request.method == "POST":
            self.failure = error

    async def parts(self, answer: httpx2.Response) -> AsyncIterator[bytes]:
        """Yield the body of an answer, decoded.

        Raises:
            TooLargeError: It is longer than the policy allows.
        """
        size = 0
        try:
            async for part in answer.aiter_bytes():
                size += len(part)
                if size > self._policy.max_response_bytes:
                    raise TooLargeError(f"it answered with more than {self._policy.max_response_bytes} bytes")
                yield part
        except (TooLargeError, httpx2.HTTPError, OSError) as error:
            self._note(answer.request, error)
            raise


class _Limited(httpx2.AsyncByteStream):
    """The body of an answer."""

    def __init__(self, answer: httpx2.Response, transport: CheckedTransport) -> None:
        self._answer = answer
        self._transport = transport

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._transport.parts(self._answer):
            yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


@asynccontextmanager
async def client_of(
    transport: CheckedTransport, known: Authentication | None, headers: dict[str, str]
) -> AsyncGenerator[httpx2.AsyncClient]:
    """Open a client that authenticates.

    Args:
        transport: What it sends by.
        known: How it authenticates.
        headers: What it sends with each request.
    """
    sent, auth = dict(headers), None
    if known is not None and known.authorization is not None:
        if "authorization" not in {name.lower() for name in sent}:
            sent["authorization"] = f"{known.authorization['scheme']} {known.authorization['parameter']}"
    elif known is not None:
        auth = httpx2.DigestAuth(str(known.parameters["username"]), str(known.parameters["password"]))
    async with httpx2.AsyncClient(
        transport=transport,
        trust_env=False,
        timeout=None,
        follow_redirects=False,
        headers=encoded(sent),
        auth=auth,
    ) as client:
        yield client


@contextmanager
def network_faults(what: str, pointer: str, masking: Masking) -> Generator[None]:
    """Raise what keeps a call from being answered as an error of the DSL.

    Args:
        what: What is called.
        pointer: The task that calls.
        masking: Masks secrets.

    Raises:
        Fault: The policy denies it, or there is no answer, or one that is too long.
    """
    try:
        yield
    except DeniedError as error:
        raise fault("authorization", str(error), pointer) from None
    except (TooLargeError, httpx2.HTTPError, httpx2.InvalidURL, httpx2.SSEError, OSError) as error:
        why = masking.text(str(error)) or type(error).__name__
        raise fault("communication", f"{what} was not answered: {why}", pointer) from None
