"""Who a request is from, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """What a token is good for."""

    READ = "read"
    """Look at everything but payloads, and ask queries whose answers are payloads if ``payloads`` is there too."""
    WRITE = "write"
    """Also start, signal, update, cancel, terminate, reset and delete."""
    PAYLOADS = "payloads"
    """Also see payloads: inputs, results, heartbeat details, memos, headers."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a request is from. ``write`` includes ``read``."""

    name: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        """Whether they may do what needs a scope."""
        return scope in self.scopes or (scope is Scope.READ and Scope.WRITE in self.scopes)

    @property
    def sees_payloads(self) -> bool:
        """Whether payloads are shown to them."""
        return Scope.PAYLOADS in self.scopes


ANYONE_HERE = Principal("this machine", frozenset(Scope))
"""Whoever is on this machine, where no token is configured."""
