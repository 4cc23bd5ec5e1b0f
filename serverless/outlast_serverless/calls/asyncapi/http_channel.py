"""Channels over HTTP: messages are published by a request each, and come as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2

from outlast_serverless.calls.asyncapi.channel import (
    ChannelError,
    ChannelTarget,
    InboundMessage,
    OutboundMessage,
)
from outlast_serverless.calls.asyncapi.locations import host_and_port, joined, shown
from outlast_serverless.calls.policy import DeniedError
from outlast_serverless.calls.tls import tls_context

_PORTS: Final = {"http": 80, "https": 443}


class HttpChannel:
    """Speaks HTTP. The bindings ``http`` of an operation name its method; without them, POST publishes.

    An event of a stream that has an id is asked for again where the stream breaks off: by ``Last-Event-ID``.
    """

    async def publish(self, target: ChannelTarget, message: OutboundMessage) -> None:
        """Send a request whose body is the payload."""
        headers = {name.lower(): value for name, value in message.headers.items()}
        headers.setdefault("content-type", message.content_type)
        async with _answered(target, "POST", headers, message.data):
            pass

    @asynccontextmanager
    async def subscribe(
        self, target: ChannelTarget, position: Any
    ) -> AsyncGenerator[AsyncIterator[InboundMessage]]:
        """Open a stream of events."""
        headers = {"accept": "text/event-stream", "cache-control": "no-store"}
        if isinstance(position, str) and position:
            headers["last-event-id"] = position
        async with _answered(target, "GET", headers, None) as answer:
            kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "text/event-stream":
                raise ChannelError(
                    f"{shown(target.url)} answers with {kind or 'nothing'}, not with a stream of events "
                    "(text/event-stream)"
                )
            yield _events(target, answer, position)


async def _events(
    target: ChannelTarget, answer: httpx2.Response, position: Any
) -> AsyncGenerator[InboundMessage]:
    last = position if isinstance(position, str) else ""
    try:
        async for event in httpx2.EventSource(answer, max_event_size=target.max_message_bytes):
            own = bool(event.id) and event.id != last
            last = event.id or last
            if event.data:
                headers = {"event": event.event} | ({"id": event.id} if own else {})
                yield InboundMessage(event.data, None, headers, event.id if own else None)
    except httpx2.SSEError as error:
        raise ChannelError(f"{shown(target.url)}: {error}") from None
    except (httpx2.HTTPError, OSError) as error:
        raise ChannelError(f"{shown(target.url)} was lost: {_why(error)}", again=True) from None


@asynccontextmanager
async def _answered(
    target: ChannelTarget, method: str, headers: Mapping[str, str], content: bytes | None
) -> AsyncGenerator[httpx2.Response]:
    """Send a request to the address that was looked at, and give the answer, whose content is still to come."""
    host, port = host_and_port(target, _PORTS)
    url = httpx2.URL(joined(target))
    told = shown(str(url))
    named = target.bindings.get("operation", {}).get("method")
    verb = str(named).upper() if isinstance(named, str) else method
    known = target.authentication
    given = dict(headers)
    auth = None
    if known is not None and known.authorization is not None:
        given.setdefault(
            "authorization", f"{known.authorization['scheme']} {known.authorization['parameter']}"
        )
    elif known is not None:
        auth = httpx2.DigestAuth(str(known.parameters["username"]), str(known.parameters["password"]))
    async with httpx2.AsyncClient(
        verify=tls_context(), trust_env=False, timeout=None, follow_redirects=False
    ) as client:
        try:
            async with asyncio.timeout(target.timeout):
                address = await target.policy.address(host, port)
                request = client.build_request(
                    verb,
                    url.copy_with(host=str(address)),
                    headers={"host": url.netloc.decode("ascii"), **given},
                    content=content,
                    extensions={"sni_hostname": host},
                )
                answer = await client.send(request, stream=True, auth=auth)
        except DeniedError as error:
            raise ChannelError(str(error), kind="authorization") from None
        except TimeoutError:
            detail = f"{verb} {told} was not answered within {target.timeout:g} s"
            raise ChannelError(detail, status=504, again=True) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise ChannelError(f"{verb} {told} was not answered: {_why(error)}", again=True) from None
        try:
            if answer.status_code == 401 and known is not None and known.refused is not None:
                known.refused()
            if not 200 <= answer.status_code < 300:
                raise ChannelError(
                    f"{verb} {told} answered {answer.status_code}",
                    status=answer.status_code,
                    again=answer.status_code >= 500,
                )
            yield answer
        finally:
            await answer.aclose()


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
