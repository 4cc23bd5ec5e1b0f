"""What the control plane hands to packages that bring routes of their own, so that no import points upwards.

A package names a function under the entry point group ``outlast.http``. It takes :class:`HttpParts` and returns a
router, whose routes then stand under ``/api``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

GROUP: Final = "outlast.http"


@dataclass(frozen=True, slots=True)
class HttpParts:
    """The parts that routes are made of. All but the last are dependencies of the web framework.

    Attributes:
        client: Returns the client.
        reader: Refuses who may not read. What it returns has ``sees_payloads``.
        writer: Refuses who may not write.
        publisher: Refuses who may not publish events.
        kept: Returns a mapping that lives as long as the control plane.
        problems: Returns the responses with problem details for some statuses, for a route's ``responses``.
    """

    client: Callable[..., Any]
    reader: Callable[..., Any]
    writer: Callable[..., Any]
    publisher: Callable[..., Any]
    kept: Callable[..., dict[str, Any]]
    problems: Callable[..., dict[int | str, dict[str, Any]]]
