"""Events as JSON: what is written by the generated code is what the plain way would write."""

import dataclasses
from typing import Any

import orjson
import pytest

from outlast_workflow.history.events import REGISTRY, Event, from_json
from outlast_workflow.primitives.payloads import Payload, dumps


def made(cls: type[Event], *, whole: bool) -> Event:
    """An event with its needed fields, or with all of them."""
    values: dict[str, Any] = {}
    fields: Any = dataclasses.fields
    for field in fields(cls):
        if whole or field.default is dataclasses.MISSING:
            payload = field.name in cls.payload_names
            values[field.name] = Payload.of({"é": [1]}) if payload else 7
    return cls(**values)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("cls", REGISTRY.values(), ids=REGISTRY)
def test_an_event_is_written_as_its_document(cls: type[Event], whole: bool) -> None:
    event = made(cls, whole=whole)
    assert event.to_json() == dumps(event.document())
    assert from_json(cls.type, event.to_json()) == event
    assert list(orjson.loads(event.to_json())) == list(event.document())
