"""Events of streams: what the code published, and that it will publish no more."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from outlast_workflow.history.event import Event, record
from outlast_workflow.primitives.payloads import NOT_NEEDED, Payload


@record
class StreamWritten(Event):
    """The code wrote an item to a stream. The value is in the item only, which is written in the same transaction."""

    command = True
    compared = ("command_id", "name")
    aside: ClassVar[frozenset[str]] = frozenset({"value"})
    command_id: int
    name: str
    value: Payload = field(default=NOT_NEEDED, compare=False, repr=False)


@record
class StreamClosed(Event):
    """The code closed a stream: its readers end here."""

    command = True
    compared = ("command_id", "name")
    command_id: int
    name: str
