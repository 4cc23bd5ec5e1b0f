"""Options of a start as JSON, for rows that start a workflow later: schedules and the outbox."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import orjson

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.alerts import read_policy
from outlast_workflow.options.retry_policy import RetryPolicy
from outlast_workflow.options.search_attributes import Document
from outlast_workflow.options.start import StartOptions
from outlast_workflow.primitives.payloads import Payload

_APART: Final = frozenset({"memo", "search_attributes", "retry_policy", "alerts"})


def to_document(options: StartOptions, memo: Payload | None, attributes: Document | None) -> dict[str, Any]:
    """Return options as a document for :func:`orjson.dumps`, without what has its default.

    Args:
        options: The options.
        memo: Their memo, encoded.
        attributes: Their search attributes.
    """
    default = StartOptions()
    document: dict[str, Any] = {
        name: value
        for name, value in options.given().items()
        if name not in _APART and value != getattr(default, name)
    }
    if options.retry_policy is not None:
        document["retry_policy"] = options.retry_policy.to_document()
    if options.alerts is not None:
        document["alerts"] = options.alerts.to_document()
    if memo is not None:
        document["memo"] = orjson.Fragment(memo.json)
    if attributes:
        document["search_attributes"] = attributes
    return document


def from_document(document: dict[str, Any]) -> tuple[StartOptions, Payload | None, Document | None]:
    """Return the options of a document that was parsed, with their memo and their search attributes beside them.

    Args:
        document: The document; what is beside the options is taken out of it.

    Raises:
        InvalidOptionError: It holds something that is no option of a start, or that cannot be used.
    """
    memo, attributes = document.pop("memo", None), document.pop("search_attributes", None)
    policy, alerts = document.pop("retry_policy", None), document.pop("alerts", None)
    deadline = document.get("execution_deadline")
    if isinstance(deadline, str):
        document["execution_deadline"] = _instant(deadline)
    options = StartOptions(
        **document,
        retry_policy=None if policy is None else RetryPolicy.from_document(policy),
        alerts=None if alerts is None else read_policy(alerts),
    )
    return options, None if memo is None else Payload.of(memo), attributes


def _instant(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOptionError(
            "execution_deadline must be an instant by ISO 8601", field="execution_deadline"
        ) from None
