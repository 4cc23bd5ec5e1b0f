"""What whoever serves the control plane decides."""

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
    """Who may come in, under which names, and how much of it at a time.

    Args:
        tokens: Who may come in; without any, only this machine may, and may do everything. Of a file, what it says at
            the moment counts: a token that is taken out of it ends its sessions and streams.
        hosts: The names that it is reached under, without ports; a request for another one is refused, which stops
            web pages that let their own name point here.
        max_body_bytes: The largest request.
        requests_per_second: How many requests a token (or an address) may make, in the long run.
        burst: … and at once.

    Raises:
        InvalidOptionError: A limit is out of range, two tokens share a name, or a file of tokens holds none.
    """

    tokens: Sequence[Token] | TokenFile = ()
    hosts: Sequence[str] = LOOPBACK_HOSTS
    max_body_bytes: int = 4 * 1024 * 1024
    requests_per_second: float = 100.0
    burst: int = 400
    names: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        integer("max body bytes", self.max_body_bytes, 1024)
        number("requests per second", self.requests_per_second, 0.1)
        integer("burst", self.burst, 1)
        if not self.hosts:
            raise InvalidOptionError(
                "hosts must name at least one: the name that browsers reach it under", field="hosts"
            )
        if isinstance(self.tokens, TokenFile) and not self.tokens.read():
            raise InvalidOptionError(
                f"{self.tokens.path} holds no token, so nobody could come in: make one with "
                f"`outlast ui token add NAME --tokens {self.tokens.path}`",
                field="tokens",
            )
        names = [token.name for token in self.known_tokens]
        if len(set(names)) < len(names):
            raise InvalidOptionError("two tokens share a name: give each its own", field="tokens")
        object.__setattr__(self, "names", frozenset(host.lower() for host in self.hosts))

    @property
    def needs_token(self) -> bool:
        """Whether whoever comes in must show a token. A file that is empty by now does not open the door."""
        return isinstance(self.tokens, TokenFile) or bool(self.tokens)

    @property
    def known_tokens(self) -> Sequence[Token]:
        """The tokens that are good at the moment."""
        return self.tokens.current() if isinstance(self.tokens, TokenFile) else self.tokens
