from __future__ import annotations

import enum
import tracemalloc
import zlib
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar
from uuid import UUID

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator

from outlast_workflow.data.converter import DataConverter, PayloadCodec
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.data.writing import MOST_LEVELS, is_deep
from outlast_workflow.errors import (
    InvalidOptionError,
    PayloadDecodeError,
    PayloadEncodeError,
    WorkflowTaskError,
)
from outlast_workflow.options.start import StartOptions
from outlast_workflow.primitives.payloads import Payload

RAW = b"\xff\x00raw"
T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    label: bytes = b""


class Address(TypedDict):
    street: str
    secret: NotRequired[bytes]


@dataclass
class Line:
    sku: str
    price: Decimal
    blob: bytes = b""
    tags: set[str] = field(default_factory=set)
    _hidden: int = 0
    total: Decimal = field(init=False)

    def __post_init__(self) -> None:
        self.total = self.price * 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    id: UUID
    lines: list[Line]
    by_key: dict[int, bytes] = field(default_factory=dict)
    parent: Order | None = None
    colour: Colour = Colour.RED
    placed: datetime | None = None


@dataclass
class Box(Generic[T]):
    content: T


class Customer(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    name: str = Field(alias="Name")
    key: bytes = b""
    born: date | None = None
    scores: set[int] = set()
    line: Line | None = None
    ratio: float = 1.0


class Small(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def no_secrets(cls, n: int) -> int:
        if n == 4711:
            raise ValueError("4711 is secret")
        return n


class Xor:
    """A codec whose output is no text."""

    name = "xor"

    def encode(self, data: bytes) -> bytes:
        return bytes(byte ^ 0x5A for byte in data)

    def decode(self, data: bytes) -> bytes:
        return bytes(byte ^ 0x5A for byte in data)


class Zip:
    name = "zip"

    def encode(self, data: bytes) -> bytes:
        return zlib.compress(data)

    def decode(self, data: bytes) -> bytes:
        return zlib.decompress(data)


CONVERTERS = [DataConverter(), DataConverter(Xor())]
ids = st.uuids()
decimals = st.decimals(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers(-(2**63), 2**64 - 1)
floats = st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | numbers | floats | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)
zones: st.SearchStrategy[Any] = (
    st.timezones()
    | st.just(UTC)
    | st.builds(timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23)))
)
# An hour that a zone has twice equals nothing in another zone (PEP 495), so it can't be compared with what comes back.
instants = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=zones).filter(
    lambda instant: instant == instant.astimezone(UTC)
) | st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1))
lines = st.builds(Line, texts, decimals, st.binary(), st.sets(texts), numbers)
orders = st.builds(
    Order,
    id=ids,
    lines=st.lists(lines, max_size=2),
    by_key=st.dictionaries(numbers, st.binary(), max_size=2),
    parent=st.none() | st.builds(Order, id=ids, lines=st.just([])),
    colour=st.sampled_from(Colour),
    placed=instants | st.none(),
)
customers = st.builds(
    Customer, Name=texts, key=st.binary(), born=st.none() | st.dates(), scores=st.sets(numbers), ratio=floats
)
TYPED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (Any, plain),
    (None, plain),
    (str, texts),
    (int, numbers),
    (float, floats),
    (float, st.integers(-(2**53), 2**53)),
    (bool, st.booleans()),
    (dict, st.dictionaries(texts, plain)),
    (list, st.lists(plain)),
    (dict[str, Any], st.dictionaries(texts, plain)),
    (str | None, st.none() | texts),
    (int | str | None, st.none() | texts | numbers),
    (bytes, st.binary()),
    (list[bytes], st.lists(st.binary())),
    (dict[bytes, int], st.dictionaries(st.binary(), numbers)),
    (dict[int, bytes], st.dictionaries(numbers, st.binary())),
    (dict[float, int], st.dictionaries(floats, numbers)),
    (dict[bool, int], st.dictionaries(st.booleans(), numbers)),
    (dict[date, int], st.dictionaries(st.dates(), numbers)),
    (dict[Colour, int], st.dictionaries(st.sampled_from(Colour), numbers)),
    (dict[Size, int], st.dictionaries(st.sampled_from(Size), numbers)),
    (dict[UUID, Decimal], st.dictionaries(ids, decimals)),
    (Mapping[str, Sequence[bytes]], st.dictionaries(texts, st.lists(st.binary()))),
    (Iterable[bytes], st.lists(st.binary())),
    (set[bytes], st.sets(st.binary())),
    (frozenset[tuple[int, str]], st.frozensets(st.tuples(numbers, texts))),
    (tuple[int, ...], st.lists(numbers).map(tuple)),
    (tuple[int, bytes, Line], st.tuples(numbers, st.binary(), lines)),
    (deque[int], st.lists(numbers).map(deque)),
    (OrderedDict[str, int], st.dictionaries(texts, numbers).map(OrderedDict)),
    (datetime, instants),
    (date, st.dates()),
    (time, st.times()),
    (time, st.times(timezones=st.just(UTC))),
    (timedelta, st.timedeltas()),
    (UUID, ids),
    (Decimal, decimals),
    (complex, st.just(1 + 2j)),
    (Path, st.just(Path("a/b"))),
    (Colour, st.sampled_from(Colour)),
    (Size, st.sampled_from(Size)),
    (Rights, st.just(Rights.READ | Rights.WRITE)),
    (Literal["a", 1], st.sampled_from(["a", 1])),
    (Annotated[int, Field(gt=0)], st.integers(1, 100)),
    (Point, st.builds(Point, numbers, st.binary())),
    (Address, st.fixed_dictionaries({"street": texts}, optional={"secret": st.binary()})),
    (list[Address], st.lists(st.fixed_dictionaries({"street": texts}, optional={"secret": st.binary()}))),
    (Address | None, st.none()),
    (Line, lines),
    (Order, orders),
    (list[Order], st.lists(orders, max_size=2)),
    (Order | Line, orders | lines),
    (Box[bytes], st.builds(Box, st.binary())),
    (Customer, customers),
    (dict[str, Customer | None], st.dictionaries(texts, st.none() | customers, max_size=2)),
]


@pytest.mark.parametrize(("hint", "values"), TYPED, ids=lambda value: str(value)[:40])
@settings(max_examples=40)
@given(data=st.data())
def test_what_is_decoded_by_its_hint_is_what_was_encoded(hint, values, data):
    value = data.draw(values)
    for converter in CONVERTERS:
        payload = converter.encode(value, "value")
        stored = Payload.of(orjson.loads(payload.json))
        for read in (payload, stored):
            back = converter.decode(read, hint, "value")
            assert back == value
            if hint not in (float, Any, None):
                assert isinstance(back, type(value)) or isinstance(value, datetime | time)


@given(st.lists(plain, max_size=4))
def test_arguments_without_a_signature_are_plain_json(values):
    for converter in CONVERTERS:
        assert converter.decode_args(converter.encode_args(values)) == values


def takes(order: Order, amount: int, note: str = "none", *blobs: bytes) -> None: ...


SIGNATURE = CallSignature.of(takes)


@given(orders, numbers, texts, st.lists(st.binary(), max_size=2))
def test_arguments_are_read_by_the_hints_of_their_parameters(order, amount, note, blobs):
    args = [order, amount, note, *blobs]
    for converter in CONVERTERS:
        payload = converter.encode_args(args, SIGNATURE)
        assert converter.decode_args(payload, SIGNATURE) == args


def test_missing_trailing_arguments_take_the_defaults():
    def fn(a: int, b: str = "b", c: Line | None = None) -> None: ...

    signature = CallSignature.of(fn)
    cases: list[tuple[list[Any], list[Any]]] = [([1], [1, "b", None]), ([1, "x"], [1, "x", None])]
    for given_args, read in cases:
        assert DataConverter().decode_args(DataConverter().encode_args(given_args), signature) == read


@pytest.mark.parametrize(
    ("document", "parameter", "why"),
    [
        ([], "order", "takes at least 2 arguments"),
        ([{}], "amount", "'amount' is missing"),
        ([{"id": "x", "lines": []}, 1], "order", "at id: Input should be a valid UUID|at id: a validator"),
        (
            [{"id": str(UUID(int=1)), "lines": [{"sku": "a"}]}, 1],
            "order",
            r"at lines\[0\].price: Field required",
        ),
        ([{"id": str(UUID(int=1)), "lines": []}, "many"], "amount", "read as int"),
        ([{"id": str(UUID(int=1)), "lines": []}, None], "amount", "read as int"),
        ([{"id": str(UUID(int=1)), "lines": []}, 1, 2], "note", "read as str"),
        ([{"id": str(UUID(int=1)), "lines": []}, 1, "", "?"], r"*blobs", "read as bytes"),
    ],
)
def test_what_does_not_fit_names_the_parameter(document, parameter, why):
    with pytest.raises(PayloadDecodeError, match=why) as caught:
        DataConverter().decode_args(Payload.of(document), SIGNATURE)
    assert caught.value.parameter == parameter
    assert isinstance(caught.value, WorkflowTaskError)


@pytest.mark.parametrize("document", [{"a": 1}, "text", None])
def test_an_input_that_is_no_array_is_refused(document):
    with pytest.raises(PayloadDecodeError, match="not a JSON array"):
        DataConverter().decode_args(Payload.of(document), SIGNATURE)


def test_too_many_arguments_are_refused():
    with pytest.raises(PayloadDecodeError, match="argument 2 has no parameter"):
        DataConverter().decode_args(Payload.of([1, 2]), CallSignature.of(lambda a: a))


@pytest.mark.parametrize(
    ("document", "hint"),
    [
        ("hunter2", int),
        ({"n": "hunter2"}, Small),
        ({"n": 4711}, Small),
        ({"hunter2": "4711"}, dict[str, bool]),
        ({"4711": {"hunter2": 5}}, dict[str, dict[str, list[int]]]),
        (["hunter2"], list[Colour]),
        ("4711-hunter2", UUID),
        ("hunter2", datetime),
    ],
)
def test_no_data_is_in_the_message_of_an_error_nor_in_its_chain(document, hint):
    with pytest.raises(PayloadDecodeError) as caught:
        DataConverter().decode(Payload.of(document), hint, "result of charge()")
    assert "result of charge()" in str(caught.value)
    for secret in ("hunter2", "4711"):
        assert secret not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@dataclass
class Cyclic:
    me: Any = None


def cyclic() -> Any:
    value = Cyclic()
    value.me = [value]
    return value


UNWRITABLE = [
    (object(), "object, which has no JSON form"),
    (print, "no JSON form"),
    (Order, "no JSON form"),
    (2**64, "64 bits"),
    (-(2**63) - 1, "64 bits"),
    ({(1, 2): 2**64}, "tuple"),
    ({1: 2**64}, "64 bits"),
    (float("nan"), "NaN or infinite"),
    ([{"a": (1, float("inf"))}], "NaN or infinite"),
    ({1: float("inf")}, "NaN or infinite"),
    (deque([float("nan")]), "NaN or infinite"),
    (Box(float("-inf")), "NaN or infinite"),
    (Customer(Name="a", ratio=float("nan")), "NaN or infinite"),
    (Decimal("NaN"), "Decimal"),
    ({Decimal("Infinity"): 1}, "Decimal"),
    ("\ud800", "surrogate"),
    ({"\ud800": 1}, "surrogate"),
    ({1: 1, "1": 2}, "the same as text"),
    ({None: 1}, "key of type NoneType"),
    (cyclic(), "nested more than 200 levels deep"),
    (Customer.model_construct(Name="a", scores="oops"), "model Customer"),
]


@pytest.mark.parametrize(("value", "why"), UNWRITABLE, ids=range(len(UNWRITABLE)))
def test_a_value_without_a_json_form_is_refused_by_name(value, why):
    for converter in CONVERTERS:
        with pytest.raises(PayloadEncodeError, match=rf"^result of f\(\) cannot be written as JSON: .*{why}"):
            converter.encode(value, "result of f()")
        with pytest.raises(PayloadEncodeError, match=rf"^parameter 'amount' of takes\(\) .*{why}"):
            converter.encode_args([1, value], SIGNATURE)
        with pytest.raises(PayloadEncodeError, match=rf"^argument 1 of input .*{why}"):
            converter.encode_args([value], None)


def test_a_hint_that_nothing_can_be_read_as_is_refused():
    class Opaque:
        pass

    with pytest.raises(PayloadDecodeError, match=r"no way is known to read JSON as .*Opaque"):
        DataConverter().decode(Payload.of(1), Opaque, "result")


def test_history_is_readable_without_a_codec():
    line = Line("a", Decimal("1.10"), RAW)
    payload = DataConverter().encode_args([Point(1, RAW), line, timedelta(days=1, seconds=2)])
    assert payload.json == (
        b'[[1,"_wByYXc="],{"sku":"a","price":"1.10","blob":"_wByYXc=","tags":[],"_hidden":0},"P1DT2S"]'
    )


# --- codecs -----------------------------------------------------------------------------------------------------------


def test_with_a_codec_a_payload_is_an_envelope():
    payload = DataConverter(Zip()).encode({"secret": 1}, "result")
    assert payload.value["$codec"] == "zip"
    assert b"secret" not in payload.json
    assert isinstance(Zip(), PayloadCodec)


def test_payloads_from_before_the_codec_are_read_as_they_are():
    old = DataConverter().encode_args([{"a": 1}])
    assert DataConverter(Zip()).decode_args(old) == [{"a": 1}]


@pytest.mark.parametrize(
    "value",
    [
        {"$codec": "zip", "data": "x"},
        {"data": {}, "$codec": None},
        {"$codec": "zip"},
        {"$codec": 5, "data": 1},
        {"$codec": "zip", "data": "x", "more": 1},
        {"a": {"$codec": "zip", "data": "x"}},
        {"$codec": None, "data": {"$codec": None, "data": 1}},
    ],
)
def test_a_dict_that_looks_like_an_envelope_survives(value):
    for converter in (*CONVERTERS, DataConverter(Zip())):
        payload = converter.encode(value, "value")
        assert converter.decode(Payload(payload.json)) == value
        assert converter.decode(Payload.of(payload.value), dict) == value


@pytest.mark.parametrize("converter", [DataConverter(), DataConverter(Xor())])
def test_a_payload_of_another_codec_says_which(converter):
    payload = DataConverter(Zip()).encode_args([1])
    with pytest.raises(
        PayloadDecodeError, match=r"the input of takes\(\) was encoded by the payload codec 'zip'"
    ):
        converter.decode_args(payload, SIGNATURE)


def test_a_codec_that_raises_is_named():
    class Broken(Zip):
        def encode(self, data: bytes) -> bytes:
            raise RuntimeError("no key")

    with pytest.raises(PayloadEncodeError, match="codec 'zip' raised RuntimeError"):
        DataConverter(Broken()).encode(1, "value")
    spoilt = Payload.of({"$codec": "zip", "data": "AAAA"})
    with pytest.raises(PayloadDecodeError, match="codec 'zip' raised error"):
        DataConverter(Zip()).decode(spoilt)


def test_a_codec_has_a_name():
    class Nameless(Zip):
        name = ""

    with pytest.raises(InvalidOptionError, match="name"):
        DataConverter(Nameless())


# --- who owns what ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [Payload(b'{"a":[1]}'), Payload.of({"a": [1]})])
def test_what_is_handed_out_may_be_changed_without_changing_history(payload):
    converter = DataConverter()
    for hint in (Any, dict, dict[str, list[int]]):
        converter.decode(payload, hint)["a"].append(2)
    assert payload.value == {"a": [1]}
    assert payload.json == b'{"a":[1]}'


def test_an_empty_input_is_not_shared():
    converter = DataConverter()
    converter.decode_args(converter.encode_args([])).append(1)
    assert converter.decode_args(converter.encode_args([])) == []


# --- nesting ----------------------------------------------------------------------------------------------------------


@dataclass
class Nest:
    inner: Any


WRAPS: dict[str, Any] = {
    "list": lambda value: [value, "]} text with brackets"],
    "dict": lambda value: {"[{": value, "more": "}"},
    "tuple": lambda value: (value,),
    "dataclass": Nest,
    "keys that are not text": lambda value: {1: value},
    "by turns": None,
}


def nested(levels: int, wrap: str) -> Any:
    value: Any = 1
    for level in range(levels):
        made = WRAPS[wrap]
        value = made(value) if made is not None else ([value] if level % 2 else {"a": value})
    return value


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_value_may_be_nested_so_deeply_and_no_deeper(wrap):
    for levels in (MOST_LEVELS - 1, MOST_LEVELS):
        payload = DataConverter().encode(nested(levels, wrap))
        assert DataConverter().decode(payload) == orjson.loads(payload.json)
    for levels in (MOST_LEVELS + 1, 250, 260, 600, 2_000):
        for converter in CONVERTERS:
            with pytest.raises(
                PayloadEncodeError, match=r"nested more than 200 levels deep.*make it flatter"
            ):
                converter.encode(nested(levels, wrap))


@given(
    st.recursive(
        st.text('[]{}"\\a'), lambda inner: st.lists(inner) | st.dictionaries(st.text("[]{}a"), inner)
    )
)
def test_the_depth_of_json_text_is_told_from_brackets_in_texts(value):
    def levels(value: Any) -> int:
        if not isinstance(value, list | dict):
            return 0
        return 1 + max(map(levels, value if isinstance(value, list) else value.values()), default=0)

    for most in range(6):
        assert is_deep(orjson.dumps(value), most) is (levels(value) > most)


def test_a_payload_keeps_little_more_than_its_text():
    """A worker keeps those of all its runs; orjson leaves kilobytes behind each text that it has written."""
    converter = DataConverter()
    values = [f"order {number}" for number in range(200)]
    tracemalloc.start()
    kept = [(converter.encode(value), converter.encode_args([value])) for value in values]
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1000 * len(kept)


def test_a_memo_that_is_too_deep_is_refused():
    for levels in (250, 100_000):
        memo: dict[str, Any] = {}
        for _ in range(levels):
            memo = {"a": memo}
        with pytest.raises((InvalidOptionError, PayloadEncodeError), match=r"nested .* make it flatter"):
            DataConverter().encode(StartOptions(memo=memo).memo, "the memo")
