"""Bearer tokens: 256 random bits each, kept as their SHA-256, compared in constant time.

A digest without salt or stretching is enough for a secret that nobody chose: there is no dictionary of 256-bit numbers.
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
"""What every token begins with, so that scanners of leaked secrets can know one."""


def digest_of(secret: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def new_secret() -> str:
    """A new token."""
    return PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is kept: whose it is, its digest, and what it is good for."""

    name: str
    digest: str
    scopes: frozenset[Scope]

    @classmethod
    def make(cls, name: str, scopes: Iterable[Scope | str]) -> tuple[Self, str]:
        """A new token, and the secret itself, which is kept nowhere: show it once.

        Raises:
            InvalidOptionError: The name can't be one, or there is no such scope.
        """
        secret = new_secret()
        return cls(validate_name("token name", name), digest_of(secret), _scopes(scopes)), secret

    @property
    def principal(self) -> Principal:
        """Whoever shows it."""
        return Principal(self.name, self.scopes)


def whose(tokens: Sequence[Token], secret: str) -> Token | None:
    """The token whose secret it is. All tokens are compared, whichever fits, so that time tells nothing."""
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
    """Tokens in a JSON file that only its owner may read: digests, never secrets."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._tokens: list[Token] = []

    def current(self) -> Sequence[Token]:
        """The tokens as the file says now; it is read again when it has changed. A broken file lets nobody in."""
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
                logger.error("nobody may come in: %s", error)
        return self._tokens

    def read(self) -> list[Token]:
        """The tokens; none where there is no file.

        Raises:
            InvalidOptionError: The file is none that this class wrote.
        """
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InvalidOptionError(
                f"token file {self.path} can't be read: {error.strerror}", field="tokens"
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
        """Replace the file, at once: a reader finds the old tokens or the new ones."""
        entries = [
            {"name": token.name, "digest": token.digest, "scopes": sorted(token.scopes)} for token in tokens
        ]
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(orjson.dumps(entries, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        beside.replace(self.path)

    def add(self, name: str, scopes: Iterable[Scope | str]) -> str:
        """Add a token; returns its secret.

        Raises:
            InvalidOptionError: There is one of that name, or name or scope can't be.
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
        """Take a token back.

        Raises:
            InvalidOptionError: There is none of that name.
        """
        tokens = self.read()
        kept = [token for token in tokens if token.name != name]
        if len(kept) == len(tokens):
            known = ", ".join(token.name for token in tokens) or "none"
            raise InvalidOptionError(
                f"there is no token named {name!r} (there are: {known})", field="token name"
            )
        self.write(kept)
