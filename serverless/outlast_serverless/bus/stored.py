"""How events are stored: encoded as all data of workflows is, but for their id, source and type."""

from __future__ import annotations

from typing import Any, cast

from outlast import Client
from outlast_serverless.events.cloud_events import check_depth
from outlast_workflow.data.writing import dump
from outlast_workflow.primitives.payloads import Payload


class EventStore:
    """Encodes events, and decodes them.

    Args:
        client: The client, whose codec is used.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def encoded(self, event: dict[str, Any]) -> str:
        """Return an event as it is stored.

        Raises:
            InvalidOptionError: It is nested too deeply.
            PayloadEncodeError: It has no JSON form.
            StructuralLimitError: It is too large for a payload.
        """
        payload = self._client.converter.encode_args((event,), None, "event")
        # What a codec has made has no levels.
        plain = dump([event]) if payload.is_object_with("$codec") else payload.json
        check_depth(plain)
        # What brings it to a run is a little larger.
        self._client.limits.check("payload_bytes", len(payload.json) + 100, whose=event["id"])
        return payload.json.decode()

    def decoded(self, stored: str) -> dict[str, Any]:
        """Return the event of what is stored."""
        return cast(dict[str, Any], self._client.converter.decode_args(Payload(stored.encode()))[0])
