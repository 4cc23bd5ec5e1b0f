"""The HTTP binding of CloudEvents: three forms of a request."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import InvalidOptionError
from outlast_serverless.events.http_binding import BATCH, STRUCTURED, events_of

EVENT = {"id": "1", "source": "/s", "type": "t"}
HEADERS = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
WHOLE = {**EVENT, "specversion": "1.0"}


def test_an_event_stands_in_the_body() -> None:
    body = orjson.dumps({**EVENT, "data": {"a": 1}})
    for kind in (STRUCTURED, "Application/CloudEvents+JSON; charset=utf-8"):
        assert events_of({"content-type": kind}, body) == [{**WHOLE, "data": {"a": 1}}]


def test_a_batch_is_an_array() -> None:
    body = orjson.dumps([EVENT, {**EVENT, "id": "2"}])
    assert events_of({"content-type": BATCH}, body) == [WHOLE, {**WHOLE, "id": "2"}]
    assert events_of({"content-type": BATCH}, b"[]") == []


@pytest.mark.parametrize(
    ("content_type", "body", "data"),
    [
        ("application/json", b'{"a":1}', {"data": {"a": 1}}),
        ("application/vnd.x+json; charset=utf-8", b"null", {"data": None}),
        ("text/plain", "é".encode(), {"data": "é"}),
        ("application/xml", b"<a/>", {"data": "<a/>"}),
        ("text/plain", b"\xff", {"data_base64": "/w=="}),
        ("image/png", b"\x00\x01", {"data_base64": "AAE="}),
    ],
)
def test_attributes_are_headers(content_type: str, body: bytes, data: dict[str, Any]) -> None:
    found = events_of({**HEADERS, "ce-room": "a%20%C3%A9", "content-type": content_type}, body)
    assert found == [{**WHOLE, "room": "a é", "datacontenttype": content_type, **data}]


def test_there_may_be_no_data() -> None:
    assert events_of({**HEADERS, "content-type": "application/json"}, b"") == [WHOLE]
    assert events_of(HEADERS, b"3") == [{**WHOLE, "data": 3}]


@pytest.mark.parametrize(
    ("headers", "body", "why"),
    [
        ({"content-type": "application/json"}, b"{}", "send an event as"),
        ({"content-type": STRUCTURED}, b"{", "is no JSON"),
        ({"content-type": STRUCTURED}, b"[]", "an object"),
        ({"content-type": BATCH}, b"{}", "array"),
        ({"content-type": BATCH}, orjson.dumps([EVENT] * 1_001), "in parts"),
        ({"content-type": BATCH}, orjson.dumps([EVENT, {}]), "`id`"),
        ({**HEADERS, "ce-specversion": "0.3"}, b"", "must be 1.0"),
        ({"ce-id": "1", "ce-source": "/s", "ce-type": "t"}, b"", "ce-specversion"),
        ({**HEADERS, "ce-subject": "%ff"}, b"", "percent"),
        ({**HEADERS, "content-type": "application/json"}, b"{", "is no JSON"),
    ],
)
def test_what_holds_no_event_is_refused(headers: dict[str, str], body: bytes, why: str) -> None:
    with pytest.raises(InvalidOptionError, match=why):
        events_of(headers, body)


@given(
    st.dictionaries(
        st.sampled_from(["content-type", *HEADERS, "ce-x", "ce-Bad-name"]),
        st.sampled_from([STRUCTURED, BATCH, "1.0", "%c3", "text/plain"]) | st.text(max_size=9),
    ),
    st.binary(max_size=30) | st.sampled_from([b"{}", b"[{}]", orjson.dumps(EVENT)]),
)
def test_any_request_is_read_or_refused(headers: dict[str, str], body: bytes) -> None:
    try:
        events_of(headers, body)
    except InvalidOptionError:
        return
