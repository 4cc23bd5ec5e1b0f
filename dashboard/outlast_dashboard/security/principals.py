"""Who made a request, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Scope(StrEnum):
    """What a token allows."""

    READ = "read"
    """Read everything but payloads. With ``payloads`` as well: send queries, whose results are payloads."""
    WRITE = "write"
    """Also start, signal, update, cancel, terminate, reset and delete."""
    PAYLOADS = "payloads"
    """Also see payloads: inputs, results, heartbeat details, memos, headers."""
    EVENTS = "events:write"
    """Publish events for documents, and nothing else."""


_IN_WRITE: Final = frozenset({Scope.READ, Scope.EVENTS})


@dataclass(frozen=True, slots=True)
class Principal:
    """Who made a request. ``write`` includes ``read`` and ``events:write``."""

    name: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        """Return whether they may do what needs a scope."""
        return scope in self.scopes or (scope in _IN_WRITE and Scope.WRITE in self.scopes)

    @property
    def sees_payloads(self) -> bool:
        """Whether payloads are shown to them."""
        return Scope.PAYLOADS in self.scopes


NOBODY = Principal("", frozenset())
"""Whoever is not known."""

ANYONE_HERE = Principal("this machine", frozenset(Scope))
"""Everybody on this machine, if no token is configured."""
