"""The network policy: which addresses calls may reach. Each is looked at once it is resolved, then connected to."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from outlast.alerts.http_post import Address, is_public
from outlast_workflow.errors import InvalidOptionError

_METADATA: Final = frozenset(
    ipaddress.ip_address(one)
    for one in (
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
    )
)
"""Where cloud platforms tell machines their credentials."""
_BROADCAST: Final = ipaddress.IPv4Address(2**32 - 1)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class DeniedError(Exception):
    """The policy denies a call; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPolicy:
    """What calls may reach, and how much they may take.

    Attributes:
        allow: The hosts that may be called, as names or patterns such as ``*.example.com``; all by default.
        deny_private: Whether to deny every address that is not of the whole Internet. Link-local addresses, multicast,
            and those where cloud platforms tell credentials are denied in any case.
        rewrite: What a URL begins with, and what it is to begin with instead: for gateways and tests.
        max_response_bytes: How long an answer may be.
        timeout: Seconds that a call may take, if its task says nothing nearer.
        idempotency_key: Whether calls other than GET and HEAD carry an ``Idempotency-Key``: a call whose worker died is
            made again.
        files: The folders whose files may be resources, by ``file:`` URLs: descriptions, schemas, functions, scripts.
            None by default. Calls never reach files.
    """

    allow: tuple[str, ...] | None = None
    deny_private: bool = False
    rewrite: Mapping[str, str] = field(default_factory=dict)
    max_response_bytes: int = 1 << 20
    timeout: float = 300.0
    idempotency_key: bool = False
    files: tuple[str | Path, ...] = ()

    def __post_init__(self) -> None:
        if self.timeout <= 0:
            raise InvalidOptionError("timeout of an HTTP policy must be more than zero", field="timeout")
        if self.max_response_bytes <= 0:
            raise InvalidOptionError("max_response_bytes must be more than zero", field="max_response_bytes")

    def rewritten(self, url: str) -> str:
        """Return a URL as it is called: the longest beginning that is rewritten counts."""
        for beginning in sorted(self.rewrite, key=len, reverse=True):
            if url == beginning or url.startswith((beginning + "/", beginning + "?")):
                return self.rewrite[beginning] + url[len(beginning) :]
        return url

    def file(self, url: str) -> Path:
        """Return the file that a ``file:`` URL names, links followed.

        Args:
            url: The URL.

        Raises:
            DeniedError: It may not be read.
            OSError: It is not there.
        """
        parts = urlsplit(url)
        if (
            parts.netloc not in ("", "localhost")
            or not parts.path.startswith("/")
            or "\0" in unquote(parts.path)
        ):
            raise DeniedError(f"{url} names no file of this machine: write it as file:///folder/file")
        if not self.files:
            raise DeniedError("the network policy allows no files: HttpPolicy(files=[…])")
        written = Path(unquote(parts.path))
        folders = [Path(one).resolve() for one in self.files]
        # One outside is denied whether it is there or not.
        if not any(
            _normal(written).is_relative_to(folder) for folder in (*folders, *map(_normal, self.files))
        ):
            raise DeniedError(f"the network policy does not allow {url}")
        found = written.resolve(strict=True)
        if not any(found.is_relative_to(folder) for folder in folders):
            raise DeniedError(f"the network policy does not allow {url}")
        return found

    async def address(self, host: str, port: int) -> Address:
        """Resolve a host, look at all its addresses, and return the one to connect to.

        Args:
            host: The name or address.
            port: The port.

        Raises:
            DeniedError: It may not be called.
            OSError: It has no address.
        """
        if self.allow is not None and not any(fnmatchcase(host.lower(), one.lower()) for one in self.allow):
            raise DeniedError(f"the network policy does not allow {host}")
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except UnicodeError:
            raise OSError(f"{host} is no host") from None
        addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
        for address in addresses:
            self._check(host, address)
        return addresses[0]

    def _check(self, host: str, address: Address) -> None:
        for one in (address, *_within(address)):
            reserved = one in _METADATA or one == _BROADCAST
            if reserved or one.is_link_local or one.is_multicast or one.is_unspecified:
                raise DeniedError(
                    f"the network policy denies {host}: it is {address}, which is link-local or reserved"
                )
        if self.deny_private and not is_public(address):
            raise DeniedError(
                f"the network policy denies {host}: it is {address}, which is not a public address"
            )


def _normal(path: str | Path) -> Path:
    return Path(os.path.normpath(Path(path).absolute()))


def _within(address: Address) -> list[Address]:
    """Return the addresses that another one holds within."""
    if not isinstance(address, ipaddress.IPv6Address):
        return []
    found: list[Address] = [one for one in (address.ipv4_mapped, address.sixtofour) if one is not None]
    # The first two of the old form are no addresses of IPv4: they are `::` and `::1`.
    if address in _NAT64 or (int(address) >> 32 == 0 and int(address) > 1):
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return found
