"""Search attributes: what they may be, and their plain form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.options import StartOptions
from outlast_workflow.options.search_attributes import (
    checked_attributes,
    from_document,
    merged,
    size_of,
    to_document,
)

AT = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))
GOOD: dict[str, Any] = {
    "customer": "c-7",
    "amount": 5,
    "ratio": 0.5,
    "vip": True,
    "due": AT,
    "tags": ["a", "b", "a"],
    "größe": "L",
}

BAD: list[tuple[Any, str]] = [
    (["customer"], "must be a dict of names and values, not list"),
    ({3: "x"}, "name must be text, not int"),
    ({"": "x"}, "name must not be empty"),
    ({"a\tb": "x"}, "name must not be empty or hold control characters"),
    ({"\ud800": "x"}, "name must be valid Unicode"),
    ({"ö" * 101: "x"}, "name must be at most 200 bytes"),
    ({"a": object()}, "'a' must be text, a number, a boolean, a datetime or a list of texts, not object"),
    ({"a": {"x": 1}}, "'a' must be text, .* not dict"),
    ({"a": b"x"}, "'a' must be text, .* not bytes"),
    ({"a": float("nan")}, "'a' must be finite"),
    ({"a": 2**63}, "'a' must be a whole number of at most 64 bits"),
    ({"a": -(2**63) - 1}, "'a' must be a whole number of at most 64 bits"),
    ({"a": AT.replace(tzinfo=None)}, "'a': a datetime without a time zone"),
    ({"a": "secret\0"}, "'a' must not hold NUL"),
    ({"a": "\udc00"}, "'a' must be valid Unicode"),
    ({"a": "secret" * 400}, "'a' must be at most 2,000 bytes of UTF-8, not 2,400"),
    ({"a": ["x", 1]}, "each item of search attribute 'a' must be text, not int"),
    ({"a": ["x"] * 101}, "'a' must have at most 100 items, not 101"),
]


@pytest.mark.parametrize(("given", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_what_can_not_be_an_attribute_is_refused_by_name_and_without_the_value(
    given: Any, message: str
) -> None:
    with pytest.raises(InvalidOptionError, match=message) as caught:
        StartOptions(search_attributes=given)
    assert caught.value.field == "search_attributes"
    assert "secret" not in str(caught.value)


def test_there_and_back_through_json() -> None:
    checked = checked_attributes(GOOD)
    assert checked["tags"] == ["a", "b"]
    assert checked["due"] == AT
    assert checked["due"].tzinfo is UTC
    read = from_document(orjson.loads(orjson.dumps(to_document(checked))))
    assert read == checked
    assert {name: type(value) for name, value in read.items()} == {
        name: type(value) for name, value in checked.items()
    }


def test_none_and_an_empty_list_take_an_attribute_away() -> None:
    assert checked_attributes({"a": None, "b": [], "c": 1}) == {"c": 1}
    over = to_document(checked_attributes({"a": None, "b": [], "c": 1}, removals=True))
    assert merged({"a": 1, "b": ["x"], "d": 2}, over) == {"c": 1, "d": 2}
    assert from_document(over) == {"c": 1}
    assert merged(None, {"a": None}) == {}
    assert size_of({}) == 2


def test_options_with_attributes_are_values_that_do_not_show_them() -> None:
    options = StartOptions(search_attributes=GOOD)
    assert options == StartOptions().with_search_attributes(GOOD)
    assert options != StartOptions()
    assert hash(options) is not None
    assert "c-7" not in repr(options)
