"""Bearer tokens: 256 random bits each, kept as their SHA-256 digest, and compared in constant time.

A digest without salt or stretching is enough, because no person chose the secret: no dictionary has 256-bit numbers.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import orjson

from outlast_dashboard.security.principals import Principal, Scope
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import validate_name

logger = logging.getLogger("outlast.web")

PREFIX = "outlast_"
"""The start of every token, by which scanners of leaked secrets recognise one."""


def digest_of(secret: str) -> str:
    """Return the digest of a secret, the only thing that is kept of it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def new_secret() -> str:
    """Return a new secret."""
    return PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is kept: its name, its digest and its scopes."""

    name: str
    digest: str
    scopes: frozenset[Scope]

    @classmethod
    def make(cls, name: str, scopes: Iterable[Scope | str]) -> tuple[Self, str]:
        """Return a new token and its secret, which is kept nowhere: show it once.

        Args:
            name: The name of the token.
            scopes: What it allows.

        Raises:
            InvalidOptionError: The name is not valid, or there is no such scope.
        """
        secret = new_secret()
        return cls(validate_name("token name", name), digest_of(secret), _scopes(scopes)), secret

    @property
    def principal(self) -> Principal:
        """The principal of requests with this token."""
        return Principal(self.name, self.scopes)


def whose(tokens: Sequence[Token], secret: str) -> Token | None:
    """Return the token of a secret. All tokens are compared, so that the time taken reveals nothing."""
    digest = digest_of(secret)
    found: Token | None = None
    for token in tokens:
        if hmac.compare_digest(token.digest, digest):
            found = token
    return found


def _scopes(scopes: Iterable[Scope | str]) -> frozenset[Scope]:
    given = list(scopes)
    try:
        chosen = frozenset(Scope(scope) for scope in given)
    except ValueError:
        raise InvalidOptionError(f"scope must be one of {', '.join(Scope)}", field="scope") from None
    if not chosen:
        raise InvalidOptionError(f"a token needs a scope: {', '.join(Scope)}", field="scope")
    return chosen


class TokenFile:
    """Tokens in a JSON file that only its owner may read. It holds digests, never secrets."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._tokens: list[Token] = []

    def current(self) -> Sequence[Token]:
        """Return the tokens that the file holds now. A broken file gives nobody access."""
        try:
            found = self.path.stat()
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        except OSError:
            seen = None
        if seen != self._seen:
            self._seen = seen
            try:
                self._tokens = self.read()
            except InvalidOptionError as error:
                self._tokens = []
                logger.error("no token is accepted: %s", error)
        return self._tokens

    def read(self) -> list[Token]:
        """Return the tokens; none if there is no file.

        Raises:
            InvalidOptionError: The file cannot be read, or is not a token file.
        """
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InvalidOptionError(
                f"token file {self.path} cannot be read: {error.strerror}", field="tokens"
            ) from None
        try:
            return [
                Token(entry["name"], entry["digest"], _scopes(entry["scopes"]))
                for entry in orjson.loads(text)
            ]
        except (ValueError, TypeError, KeyError):
            raise InvalidOptionError(
                f"{self.path} is not a token file: make one with `outlast ui token add NAME --tokens {self.path}`",
                field="tokens",
            ) from None

    def write(self, tokens: Sequence[Token]) -> None:
        """Replace the file in one step: a reader finds either the old tokens or the new ones."""
        entries = [
            {"name": token.name, "digest": token.digest, "scopes": sorted(token.scopes)} for token in tokens
        ]
        new = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(orjson.dumps(entries, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        new.replace(self.path)

    def add(self, name: str, scopes: Iterable[Scope | str]) -> str:
        """Add a token; return its secret.

        Args:
            name: The name of the token.
            scopes: What it allows.

        Raises:
            InvalidOptionError: A token has that name already, or the name or a scope is not valid.
        """
        tokens = self.read()
        made, secret = Token.make(name, scopes)
        if any(token.name == made.name for token in tokens):
            raise InvalidOptionError(
                f"there is a token named {name!r}: remove it first, or choose another name",
                field="token name",
            )
        self.write([*tokens, made])
        return secret

    def remove(self, name: str) -> None:
        """Remove a token.

        Raises:
            InvalidOptionError: No token has that name.
        """
        tokens = self.read()
        kept = [token for token in tokens if token.name != name]
        if len(kept) == len(tokens):
            known = ", ".join(token.name for token in tokens) or "none"
            raise InvalidOptionError(
                f"there is no token named {name!r} (there are: {known})", field="token name"
            )
        self.write(kept)
