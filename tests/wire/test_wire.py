"""What is stored has the form that docs/wire.md fixes: other languages read and write it, and later versions must, too.

The golden files are never edited. What is added gets another line.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.recorded import ROOT
from tests.wire.samples import VALUES, failures

from outlast import ApplicationError, DataConverter
from outlast_workflow.data.failures import exception_of, failure_of
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.primitives.payloads import Payload

HERE = Path(__file__).parent
GOLDEN_VALUES: dict[str, Any] = orjson.loads((HERE / "values.json").read_bytes())
GOLDEN_FAILURES: dict[str, Any] = orjson.loads((HERE / "failures.json").read_bytes())
PAGE = (ROOT / "docs" / "wire.md").read_text()


class Reversing:
    """A codec that anybody can check by eye."""

    name = "reversed"

    def encode(self, data: bytes) -> bytes:
        return data[::-1]

    def decode(self, data: bytes) -> bytes:
        return data[::-1]


def test_every_sample_has_its_form_and_the_other_way_round() -> None:
    assert GOLDEN_VALUES.keys() == VALUES.keys()
    assert GOLDEN_FAILURES.keys() == failures().keys()


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_written_as_ever(name: str) -> None:
    value, _ = VALUES[name]
    assert orjson.loads(DataConverter().encode(value).json) == GOLDEN_VALUES[name]


@pytest.mark.parametrize("name", VALUES)
def test_what_was_ever_written_is_read(name: str) -> None:
    value, hint = VALUES[name]
    stored = Payload(orjson.dumps(GOLDEN_VALUES[name]))
    assert DataConverter().decode(stored, hint) == value


def test_arguments_are_an_array_in_the_order_of_the_signature() -> None:
    def charge(customer: str, amount: int = 5) -> None: ...

    signature = CallSignature.of(charge)
    assert DataConverter().encode_args(["ada", 7], signature).json == b'["ada",7]'
    assert DataConverter().decode_args(Payload(b'["ada"]'), signature) == ["ada", 5]
    assert DataConverter().encode_args([]).json == b"[]"


def test_a_codec_wraps_what_it_encodes_and_reads_what_is_bare() -> None:
    encoded = DataConverter(Reversing()).encode({"a": 1}).json
    assert orjson.loads(encoded) == {"$codec": "reversed", "data": base64.b64encode(b'}1:"a"{').decode()}
    for stored in (encoded, b'{"a":1}'):
        assert DataConverter(Reversing()).decode(Payload(stored), dict[str, int]) == {"a": 1}


def without_stacks(failure: dict[str, Any]) -> dict[str, Any]:
    bare = {name: value for name, value in failure.items() if name != "stack"}
    if "cause" in bare:
        bare["cause"] = without_stacks(bare["cause"])
    return bare


@pytest.mark.parametrize("name", GOLDEN_FAILURES)
def test_a_failure_is_written_as_ever(name: str) -> None:
    document = orjson.loads(orjson.dumps(failure_of(failures()[name], DataConverter())))
    assert without_stacks(document) == GOLDEN_FAILURES[name]


@pytest.mark.parametrize("name", GOLDEN_FAILURES)
def test_what_was_ever_failed_with_is_read(name: str) -> None:
    found = exception_of(GOLDEN_FAILURES[name], DataConverter())
    raised = failures()[name]
    expected = ApplicationError if type(raised).__module__.startswith("tests") else type(raised)
    assert type(found) is expected
    assert getattr(found, "type", type(found).__name__) == GOLDEN_FAILURES[name]["type"]
    again = orjson.loads(orjson.dumps(failure_of(found, DataConverter())))
    assert {**without_stacks(again), "class": ""} == {**GOLDEN_FAILURES[name], "class": ""}


def test_the_least_that_another_language_writes_is_enough() -> None:
    found = exception_of({"message": "no stock"}, DataConverter())
    assert isinstance(found, ApplicationError)
    assert found.message == "no stock"


def test_the_page_shows_what_is_stored() -> None:
    shown = dict(re.findall(r'^```json title="tests/wire/(.+?)"\n(.*?)^```', PAGE, re.M | re.S))
    assert shown.keys() == {"values.json", "failures.json"}
    for name, golden in (("values.json", GOLDEN_VALUES), ("failures.json", GOLDEN_FAILURES)):
        assert orjson.loads(shown[name]) == golden
