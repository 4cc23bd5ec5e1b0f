"""Browser sessions: a random key in a cookie replaces a token that was shown once.

They are kept in this process's memory, so a restart asks for the token again. A session ends with its token: callers
check that the token which they find here is still known.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import Final

from outlast_dashboard.security.tokens import Token, digest_of
from outlast_workflow.environment import Clock

COOKIE: Final = "outlast_session"
LIFETIME_S: Final = 12 * 3600
MOST_SESSIONS: Final = 10_000


class Sessions:
    """The sessions of one control plane. Only the digest of a key is kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: OrderedDict[str, tuple[Token, float]] = OrderedDict()

    def open(self, token: Token) -> str:
        """Start a session; return its key."""
        key = secrets.token_urlsafe(32)
        self._open[digest_of(key)] = (token, self._clock.monotonic() + LIFETIME_S)
        while len(self._open) > MOST_SESSIONS:
            self._open.popitem(last=False)
        return key

    def token(self, key: str) -> Token | None:
        """Return the token that started the session, or ``None`` if the session is unknown or over."""
        digest = digest_of(key)
        found = self._open.get(digest)
        if found is None:
            return None
        token, until = found
        if self._clock.monotonic() >= until:
            del self._open[digest]
            return None
        return token

    def close(self, key: str) -> None:
        """End a session."""
        self._open.pop(digest_of(key), None)
