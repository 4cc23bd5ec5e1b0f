"""Stored columns as the values that people and programs are shown."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson

from outlast.visibility.views import RunProgress
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import PayloadDecodeError
from outlast_workflow.options.search_attributes import SearchValue, from_document
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.primitives.times import to_datetime


def instant(us: int | None) -> datetime | None:
    """Return the datetime of a column in microseconds, which may be empty."""
    return None if us is None else to_datetime(us)


def decoded(text: str | None, converter: DataConverter) -> Any:
    """Return a stored payload as plain values; as it is stored if the converter lacks its codec.

    Args:
        text: The column; ``None`` if there is no payload.
        converter: Decodes it.
    """
    if text is None:
        return None
    payload = Payload(text.encode())
    try:
        return converter.decode(payload)
    except PayloadDecodeError:
        return payload.value


def attributes(text: str | None) -> dict[str, SearchValue]:
    """Return the search attributes of a run's row."""
    return {} if text is None else from_document(orjson.loads(text))


def progress(text: str | None) -> RunProgress | None:
    """Return the progress of a run's row."""
    return None if text is None else RunProgress(**orjson.loads(text))
