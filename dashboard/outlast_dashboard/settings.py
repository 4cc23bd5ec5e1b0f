"""The settings of a control plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from outlast_dashboard.security.tokens import Token, TokenFile
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import integer, number

LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, kw_only=True)
class WebSettings:
    """Who has access, under which host names, and how much they may send.

    Args:
        tokens: The tokens that give access. Without any, only this machine has access, and may do everything. A file
            is read again when it changes: removing a token ends its sessions and streams.
        hosts: The host names under which it is reached, without ports. A request for another name is refused, which
            stops web pages that let their own name resolve to this machine.
        max_body_bytes: The size of the largest request body, in bytes.
        requests_per_second: How many requests a token (or an address) may send per second, in the long run.
        burst: How many it may send at once.
        max_bodies: How many request bodies may arrive at once; one more is answered with 503.
        max_bodies_bytes: How many bytes the bodies of all requests that are being carried out may have together.
        body_timeout: How long a body may take to arrive, in seconds.
        max_streams: How many streams and live pages may be open at once; one more is answered with 503.

    Raises:
        InvalidOptionError: A limit is out of range, two tokens share a name, or a token file holds no token.
    """

    tokens: Sequence[Token] | TokenFile = ()
    hosts: Sequence[str] = LOOPBACK_HOSTS
    max_body_bytes: int = 4 * 1024 * 1024
    requests_per_second: float = 100.0
    burst: int = 400
    max_bodies: int = 64
    max_bodies_bytes: int = 64 * 1024 * 1024
    body_timeout: float = 30.0
    max_streams: int = 200
    names: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        integer("max body bytes", self.max_body_bytes, 1024)
        number("requests per second", self.requests_per_second, 0.1)
        integer("burst", self.burst, 1)
        integer("max bodies", self.max_bodies, 1)
        integer("max bodies bytes", self.max_bodies_bytes, self.max_body_bytes)
        number("body timeout", self.body_timeout, 0.01)
        integer("max streams", self.max_streams, 1)
        if not self.hosts:
            raise InvalidOptionError(
                "hosts must have at least one name: the one under which browsers reach it", field="hosts"
            )
        if isinstance(self.tokens, TokenFile) and not self.tokens.read():
            raise InvalidOptionError(
                f"{self.tokens.path} holds no token, so nobody would have access: make one with "
                f"`outlast ui token add NAME --tokens {self.tokens.path}`",
                field="tokens",
            )
        names = [token.name for token in self.known_tokens]
        if len(set(names)) < len(names):
            raise InvalidOptionError("two tokens share a name: give each its own", field="tokens")
        object.__setattr__(self, "names", frozenset(host.lower() for host in self.hosts))

    @property
    def needs_token(self) -> bool:
        """Whether a token is needed. A token file that has become empty does not give access to everybody."""
        return isinstance(self.tokens, TokenFile) or bool(self.tokens)

    @property
    def known_tokens(self) -> Sequence[Token]:
        """The tokens that are valid at the moment."""
        return self.tokens.current() if isinstance(self.tokens, TokenFile) else self.tokens
