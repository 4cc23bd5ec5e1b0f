"""Stored columns as the values that people and programs are shown."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from outlast.visibility.views import RunProgress
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import DamagedHistoryError, PayloadDecodeError
from outlast_workflow.history.events import stored_json
from outlast_workflow.options.search_attributes import SearchValue, from_document
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.primitives.times import to_datetime


def instant(us: int | None) -> datetime | None:
    """Return the datetime of a column in microseconds, which may be empty."""
    return None if us is None else to_datetime(us)


def decoded(text: str | None, converter: DataConverter, run_id: str) -> Any:
    """Return a stored payload as plain values; as it is stored if the converter lacks its codec.

    Args:
        text: The column; ``None`` if there is no payload.
        converter: Decodes it.
        run_id: The run that it belongs to.

    Raises:
        DamagedHistoryError: It is not JSON any more.
    """
    if text is None:
        return None
    payload = Payload(text.encode())
    try:
        return converter.decode(payload)
    except PayloadDecodeError:
        return stored_json(text, run_id, "stored payload")
    except ValueError:
        raise DamagedHistoryError(run_id, "stored payload") from None


def attributes(text: str | None, run_id: str) -> dict[str, SearchValue]:
    """Return the search attributes of a run's row."""
    return {} if text is None else from_document(stored_json(text, run_id, "search attributes"))


def progress(text: str | None, run_id: str) -> RunProgress | None:
    """Return the progress of a run's row."""
    return None if text is None else RunProgress(**stored_json(text, run_id, "progress"))
