"""One HTTPS request to an address that somebody else has chosen, bounded in time and in size.

What a URL names may lie anywhere, so this connects to the address that it has resolved and looked at, never to a name
that is resolved a second time: a name whose answer changes in between cannot lead it into a private network. TLS checks
the certificate against the name all the same. It follows no redirect, goes through no proxy, and reads no more than
64 KiB of an answer.

The event loop's own streams do this in a hundred lines. Clients made for applications resolve names by themselves, and
bound each read and not the whole, so that an endpoint which answers byte by byte would hold them for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

from outlast_workflow.errors import InvalidOptionError

MOST_READ: Final = 64 * 1024
MOST_INTERIM: Final = 8
LAST_WORDS_S: Final = 1.0
"""How long the rest of an answer is waited for, once its first lines have said how the request went."""
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?\r\n")
_TARGET: Final = re.compile(r"[!-~]+")
_PORTS: Final = {"https": 443, "http": 80}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class PostError(Exception):
    """A request was not answered; the message says why, without the URL, which may hold a secret."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes.

    Attributes:
        host: The name or address, as certificates have it.
        port: The port.
        path: The path, with its query.
        tls: Whether the connection is encrypted.
    """

    host: str
    port: int
    path: str
    tls: bool

    @property
    def authority(self) -> str:
        """The value of the header ``Host``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS["https" if self.tls else "http"] else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Answer:
    """How a request was answered.

    Attributes:
        status: The status.
        retry_after: What the header ``Retry-After`` says, in seconds from now.
    """

    status: int
    retry_after: float | None


def read_target(url: Any, *, allow_http: bool) -> Target:
    """Return where a URL leads.

    Args:
        url: The URL.
        allow_http: Whether it may be unencrypted.

    Raises:
        InvalidOptionError: It cannot be used; the message does not hold it, because it may hold a secret.
    """
    if not isinstance(url, str) or not _TARGET.fullmatch(url):
        raise _bad_url("must be a URL of printable ASCII, such as https://alerts.example.com/outlast")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _bad_url("is no URL") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise _bad_url("must begin with https:// and name a host")
    if parts.scheme == "http" and not allow_http:
        raise _bad_url(
            "must begin with https://: anybody on the way could read and change it; the setting allow_http permits it"
        )
    if parts.username is not None or parts.password is not None:
        raise _bad_url("must not hold a user or a password")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    tls = parts.scheme == "https"
    return Target(parts.hostname, _PORTS[parts.scheme] if port is None else port, path, tls)


def _bad_url(why: str) -> InvalidOptionError:
    return InvalidOptionError(f"the webhook's url {why}", field="url")


def is_public(address: Address) -> bool:
    """Return whether an address is one of the whole Internet's, also where it holds another one within."""
    if isinstance(address, ipaddress.IPv6Address):
        within = [address.ipv4_mapped, address.sixtofour]
        if address in _NAT64:
            within.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        for inner in within:
            if inner is not None:
                return is_public(inner)
        if address.teredo is not None or address not in _UNICAST:
            return False
    return address.is_global and not address.is_multicast


_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""All that is given out for the whole Internet. What lies elsewhere is local, old, or reserved."""


async def post(
    target: Target,
    body: bytes,
    headers: Mapping[str, str],
    *,
    context: ssl.SSLContext | None,
    allow_private: bool,
    timeout: float,
    now: datetime,
) -> Answer:
    """Send a request and return its answer.

    Args:
        target: Where it goes.
        body: What is sent: JSON.
        headers: Further headers.
        context: How certificates are checked.
        allow_private: Whether it may go to an address that is not public.
        timeout: Seconds that it may take in all.
        now: The time, for a ``Retry-After`` that is an instant.

    Raises:
        PostError: It was not answered.
    """
    try:
        async with asyncio.timeout(timeout):
            addresses = await _resolve(target, allow_private=allow_private)
            reader, writer = await _connect(target, addresses, context, timeout)
            try:
                return await _exchange(reader, writer, _request(target, headers, body) + body, now)
            finally:
                writer.transport.abort()
    except TimeoutError:
        raise PostError(f"{target.host} did not answer within {timeout:g} s") from None


def _request(target: Target, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [
        f"POST {target.path} HTTP/1.1",
        f"host: {target.authority}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        "connection: close",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii")


async def _resolve(target: Target, *, allow_private: bool) -> list[Address]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise PostError(f"{target.host} has no address") from None
    # A scope belongs to a link-local address, which is not public.
    addresses = [*dict.fromkeys(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found)]
    if not allow_private:
        private = [address for address in addresses if not is_public(address)]
        if private:
            raise PostError(
                f"{target.host} is {private[0]}, which is not a public address: give the webhook allow_private=True"
            )
    return addresses


async def _connect(
    target: Target, addresses: Sequence[Address], context: ssl.SSLContext | None, timeout: float
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    failure = PostError(f"{target.host} has no address")
    for address in addresses:
        try:
            # One address that swallows everything leaves time for the others.
            async with asyncio.timeout(timeout / (len(addresses) + 1)):
                return await asyncio.open_connection(
                    str(address),
                    target.port,
                    ssl=context if target.tls else None,
                    server_hostname=target.host if target.tls else None,
                    limit=MOST_READ,
                )
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", None) or error.reason or "TLS failed"
            failure = PostError(f"no TLS with {target.host}: {reason}")
        except TimeoutError:
            failure = PostError(f"{target.host} did not take the connection in time")
        except OSError as error:
            failure = PostError(f"no connection to {target.host}: {error.strerror or type(error).__name__}")
    raise failure


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes, now: datetime
) -> Answer:
    writer.write(request)
    # One that does not want to read it all may have answered already.
    with contextlib.suppress(OSError):
        await writer.drain()
    for _ in range(MOST_INTERIM):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise PostError(f"the answer begins with more than {MOST_READ} bytes of headers") from None
        except (asyncio.IncompleteReadError, OSError):
            raise PostError("the connection was closed before an answer came") from None
        found = _STATUS.match(head)
        if found is None:
            raise PostError("the answer is not HTTP/1.1")
        status = int(found[1])
        if status >= 200:
            wait = BytesParser().parsebytes(head[found.end() :], headersonly=True)["retry-after"]
            await _last_words(reader)
            # A header that is not ASCII is no str.
            return Answer(status, None if wait is None else _seconds(str(wait), now))
    raise PostError("the answer never came to its end")


async def _last_words(reader: asyncio.StreamReader) -> None:
    """Read the rest of an answer, as far as it is short and comes at once, so that the other side sees no error."""
    left = MOST_READ
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(LAST_WORDS_S):
            while left > 0 and (chunk := await reader.read(left)):
                left -= len(chunk)


def _seconds(wait: str, now: datetime) -> float | None:
    """Return the seconds of a ``Retry-After``; ``None`` where it says nothing that can be read."""
    wait = wait.strip()
    if wait.isascii() and wait.isdigit():
        return float(min(int(wait[:9]), 10**8))
    try:
        at = parsedate_to_datetime(wait)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds())
