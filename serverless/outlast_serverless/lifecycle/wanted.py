"""What is wanted of lifecycle events, and what takes them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from outlast_workflow.errors import InvalidOptionError


class SinkAwayError(Exception):
    """A sink takes nothing now; the message says why."""


class SinkRefusedError(Exception):
    """A sink refuses an event; the message says why."""


class Sink(Protocol):
    """Takes events."""

    async def send(self, events: Sequence[dict[str, Any]]) -> None:
        """Send events, in their order.

        Raises:
            SinkAwayError: Nothing can be sent now.
            SinkRefusedError: One was refused.
        """
        ...

    async def close(self) -> None:
        """Let go of what it has open."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleEvents:
    """The lifecycle events of runs and tasks, as the specification names them: CloudEvents, at least once each.

    They tell of the runs that are started after the sink was first there. Those of a run come in their order, and an
    event that comes again has the same ``source`` and ``id``. ``Runtime(client, lifecycle=[LifecycleEvents()])``.

    Attributes:
        to: The URL that they are posted to, in the structured mode, under the network policy. ``None``: the bus, where
            documents can listen to them.
        name: What the progress is kept by: another name begins anew. By default it is made of ``to``.
        tasks: Whether events of tasks are sent, too, or those of runs alone.
        headers: What is sent along, for example an ``authorization``. It is kept nowhere.
    """

    to: str | None = None
    name: str = ""
    tasks: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given: Any = self.to
        if given is not None and not (isinstance(given, str) and given.startswith(("http://", "https://"))):
            raise InvalidOptionError(
                "lifecycle events go to a URL that begins with https:// or http://, or to the bus (to=None)",
                field="to",
            )
        if not self.name:
            # A URL may hold a secret, and the name is written.
            made = "bus" if self.to is None else f"http:{hashlib.sha256(self.to.encode()).hexdigest()[:16]}"
            object.__setattr__(self, "name", made)


def checked_sinks(given: Iterable[LifecycleEvents]) -> tuple[LifecycleEvents, ...]:
    """Return sinks whose names differ.

    Raises:
        InvalidOptionError: Two have one name, or one is none.
    """
    found = tuple(given)
    if not all(isinstance(one, LifecycleEvents) for one in found):
        raise InvalidOptionError("lifecycle must be a list of LifecycleEvents", field="lifecycle")
    if len({one.name for one in found}) < len(found):
        raise InvalidOptionError(
            "two sinks of lifecycle events have one name: give each its own, as in LifecycleEvents(name=…)",
            field="lifecycle",
        )
    return found
