"""Events: what one is, and what the router looks up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import InvalidOptionError
from outlast_serverless.events.cloud_events import checked_event, identity, read_as
from outlast_serverless.events.interests import interest, is_pattern, key_hash, same

EVENT = {"id": "1", "source": "/s", "type": "t"}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ([], "an object"),
        ({**EVENT, "id": ""}, "`id`"),
        ({**EVENT, "source": 3}, "`source`"),
        ({"id": "1", "source": "/s"}, "`type`"),
        ({**EVENT, "type": "t" * 1_001}, "1,000 bytes"),
        ({**EVENT, "specversion": "0.3"}, "must be 1.0"),
        ({**EVENT, "data": 1, "data_base64": "AA=="}, "keep one"),
        ({**EVENT, "time": "yesterday"}, "RFC 3339"),
        ({**EVENT, "time": "2026-01-31T12:00:00"}, "RFC 3339"),
        ({**EVENT, "roomId": "x"}, "small letters"),
        ({**EVENT, "room": {}}, "a text, a number"),
    ],
)
def test_what_is_no_event_is_refused(event: Any, why: str) -> None:
    with pytest.raises(InvalidOptionError, match=why):
        checked_event(event)


def test_an_event_is_completed() -> None:
    given = {**EVENT, "subject": None, "data": None, "time": "2026-01-31T12:00:00Z", "room": 3}
    assert checked_event(given) == {
        **EVENT,
        "specversion": "1.0",
        "data": None,
        "time": "2026-01-31T12:00:00Z",
        "room": 3,
    }
    assert identity({**EVENT, "type": "other"}) == identity(EVENT) != identity({**EVENT, "id": "2"})
    assert [read_as({**EVENT, "data_base64": "AA=="}, form) for form in ("data", "raw")] == ["AA=="] * 2
    assert is_pattern("a.*")
    assert not is_pattern("com.fake-hospital.v1")


@given(JSON, JSON)
def test_the_router_finds_what_a_run_would_take(one: Any, other: Any) -> None:
    for value in (other, one):
        event = {**EVENT, "data": {"v": value}}
        wanted = interest("t", {".data.v": one, ".source": "/s"})
        found = key_hash(event, wanted.paths)
        if value is None:
            assert found is None
        elif one is not None:
            assert (found == wanted.key_hash) == same(one, value)


def test_a_number_is_no_truth_value() -> None:
    assert same({"a": [1, 2.0]}, {"a": [1.0, 2]})
    assert not same(1, True)
    assert not same({"a": 1}, {"a": 1, "b": 2})
