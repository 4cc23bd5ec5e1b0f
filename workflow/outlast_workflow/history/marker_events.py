"""Events that record what the code computed or set: side effects, patches, memo and search attributes."""

from __future__ import annotations

from typing import Any

from outlast_workflow.history.event import Event, record
from outlast_workflow.primitives.payloads import Payload


@record
class SideEffectRecorded(Event):
    """A value that ``workflow.side_effect`` computed once."""

    command = True
    command_id: int
    value: Payload


@record
class VersionMarkerRecorded(Event):
    """``workflow.patched(patch_id)`` was answered with true."""

    command = True
    compared = ("patch_id",)
    patch_id: str
    deprecated: bool | None = None


@record
class SearchAttributesUpserted(Event):
    """The code set search attributes: a document in which null removes one."""

    command = True
    attributes: dict[str, Any]


@record
class MemoUpserted(Event):
    """The code set memo fields."""

    command = True
    memo: Payload
