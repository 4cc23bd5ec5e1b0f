"""Locations: the URL that a server and the address of a channel make together."""

from __future__ import annotations

from urllib.parse import urlsplit

from outlast_serverless.calls.asyncapi.channel import ChannelError, ChannelTarget


def located(protocol: str, url: str) -> str:
    """Return the URL of a server with the scheme of its protocol, if it has none of its own."""
    return url if "://" in url else f"{protocol}://{url}"


def joined(target: ChannelTarget) -> str:
    """Return the URL of a channel whose address is a path."""
    url, path = target.url, target.address
    if path in ("", "/"):
        return url
    base, mark, query = url.partition("?")
    return f"{base.rstrip('/')}/{path.lstrip('/')}{mark}{query}"


def host_and_port(target: ChannelTarget, ports: dict[str, int]) -> tuple[str, int]:
    """Return the host and the port of a server.

    Args:
        target: The channel on it.
        ports: The port that each scheme has by default.

    Raises:
        ChannelError: Its URL has another scheme, or no host.
    """
    try:
        parts = urlsplit(target.url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
        parts = urlsplit("")
    if not host or parts.scheme not in ports:
        raise ChannelError(
            f"the server {shown(target.url)!r:.200} is none that speaks {target.protocol}: its URL begins with "
            f"{' or '.join(f'{one}://' for one in ports)}",
            kind="configuration",
        )
    return host, port or ports[parts.scheme]


def shown(url: str) -> str:
    """Return a URL without user, password and query."""
    head, mark, rest = url.partition("#")[0].partition("?")[0].partition("://")
    return f"{head}{mark}{rest.rpartition('@')[2]}"
