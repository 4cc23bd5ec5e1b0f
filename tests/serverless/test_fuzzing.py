"""Whatever the input, reading ends: with a document or with problems, in bounds, each problem at a real place."""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.serverless.cases import HERE, cases

from outlast_serverless import Document, DocumentProblem, InvalidDocumentError, graph
from outlast_serverless.documents.diagnosis import IGNORED, KEYWORDS, diagnose
from outlast_serverless.documents.reading import read
from outlast_serverless.documents.schemas import schema
from outlast_serverless.plan.pointers import child, resolve

TEXTS = [path.read_text() for path in sorted((HERE / "examples").glob("*.yaml"))] + [
    one.text for one in cases()
]
DEFINITIONS = [read(text).value for text in TEXTS if read(text).whole]
MOST_MEGABYTES = 200
"""Of the whole process of the tests; the reader itself stays far below."""
MOST_CPU_S = 10.0
"""What a bomb may take of the processor: a second or two as a rule; one that goes off takes far more."""

quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.sampled_from(["PT5S", "${ .x }", "a", "end", "http", "https://example.com/{x}", "", "data"]),
)
keys = st.one_of(
    st.sampled_from(
        [
            "document",
            "do",
            "use",
            "timeout",
            "after",
            "set",
            "call",
            "with",
            "try",
            "catch",
            "retry",
            "for",
            "in",
            "each",
            "at",
            "fork",
            "branches",
            "listen",
            "to",
            "any",
            "all",
            "one",
            "until",
            "wait",
            "if",
            "then",
            "switch",
            "when",
            "raise",
            "error",
            "emit",
            "event",
            "run",
            "shell",
            "command",
            "schema",
            "input",
            "output",
            "as",
        ]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)
yaml_text = st.lists(
    st.sampled_from(
        [*list("abc:-[]{},#&*!|>'\"%@`?~ \n\t"), "\n  ", "\n- ", ": ", "&a ", "*a", "---\n", "do:", "${", "}"]
    ),
    max_size=60,
).map("".join)


def taken(text: str | bytes) -> None:
    """Read a text; what is told about it must have a place in it."""
    told: tuple[DocumentProblem, ...] = ()
    try:
        document = Document.parse(text)
        assert graph(document.plan)
        told = document.warnings
    except InvalidDocumentError as error:
        told = (*error.problems, *error.warnings)
    lines = len(text.splitlines()) + 1
    for one in told:
        assert 1 <= one.line <= lines
        assert one.column >= 1
        assert len(one.message) + len(one.hint) < 2_000


def mutated(seed: int) -> Any:
    """Return a definition with a few things changed, moved, removed or added."""
    chance = random.Random(seed)
    definition = json.loads(json.dumps(chance.choice(DEFINITIONS)))
    for _ in range(chance.randint(1, 3)):
        place = definition
        while isinstance(place, dict | list) and place:
            key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
            if chance.random() < 0.3 or not isinstance(place[key], dict | list):
                _change(place, key, chance)
                break
            place = place[key]
    return definition


def _change(place: Any, key: Any, chance: random.Random) -> None:
    what = chance.choice(["remove", "rename", "replace", "add", "other"])
    if what == "remove":
        del place[key]
    elif what == "rename" and isinstance(place, dict):
        place[chance.choice([key + "x", key[:-1], key.upper(), "then", "do", "set"])] = place.pop(key)
    elif what == "add" and isinstance(place, dict):
        place[chance.choice(["then", "wait", "after", "foo", "with", "until", "one", "seconds"])] = (
            chance.choice(["PT5S", {}, [], None, 3, {"seconds": 0}])
        )
    else:
        other = chance.choice(DEFINITIONS)
        place[key] = chance.choice(
            [None, 0, -1, 1.5, True, "", "x", "${ .", [], {}, [[]], other, "P1M", "a" * 300]
        )


@given(st.binary(max_size=300))
@quick
def test_bytes_are_refused_or_read(data: bytes) -> None:
    taken(data)


@given(yaml_text)
@quick
def test_yaml_of_any_shape_is_refused_or_read(text: str) -> None:
    taken(text)
    taken("document: {dsl: '1.0.3', namespace: n, name: a, version: '0.1.0'}\ndo:\n" + text)


@given(st.integers(0, 2**32), st.integers(0, 10_000), yaml_text)
@quick
def test_a_text_with_something_thrown_in_is_refused_or_read(seed: int, at: int, thrown: str) -> None:
    text = TEXTS[seed % len(TEXTS)]
    at %= len(text)
    taken(text[:at] + thrown + text[at:])
    taken(text[:at] + text[at + len(thrown) :])


@given(st.integers(0, 2**32))
@quick
def test_a_changed_definition_is_refused_or_read(seed: int) -> None:
    taken(json.dumps(mutated(seed)))


@given(values)
@quick
def test_json_of_any_shape_is_refused_or_read(value: Any) -> None:
    taken(json.dumps({"do": value, "use": value, "document": value, "timeout": value}))


@given(st.integers(0, 2**32))
@settings(quick, max_examples=200)
def test_a_reason_is_found_for_what_the_schema_refuses_and_for_nothing_else(seed: int) -> None:
    judged(mutated(seed))


def judged(definition: Any) -> None:
    """Compare the diagnosis of a definition with the judgement of the validator."""
    for name in ("1.0.3", "main"):
        judge = schema(name)
        found = diagnose(definition, judge)
        assert bool(found) != judge.validator.is_valid(definition), (name, found, definition)


@given(st.dictionaries(keys, values, min_size=1, max_size=5), st.sampled_from([None, 1, 4]))
@quick
def test_what_was_dumped_is_read_back_with_the_place_of_each_value(
    value: dict[str, Any], indent: int | None
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    reading = read(text)
    assert reading.whole
    assert not reading.problems
    assert reading.value == value
    lines = text.split("\n")

    def look(inner: Any, pointer: str) -> None:
        place = reading.place
        for key in pointer.split("/")[1:]:
            assert place.inside is not None
            place = place.inside[key.replace("~1", "/").replace("~0", "~")]
        at = lines[place.value.line - 1][place.value.column - 1 :]
        assert at.startswith(
            "{"
            if isinstance(inner, dict)
            else "["
            if isinstance(inner, list)
            else json.dumps(inner, ensure_ascii=False)
        )
        if place.key is not None:
            assert lines[place.key.line - 1][place.key.column - 1] == '"'
        assert resolve(value, pointer) == inner
        for name, below in (
            inner.items() if isinstance(inner, dict) else enumerate(inner) if isinstance(inner, list) else ()
        ):
            look(below, child(pointer, name))

    look(value, "")


def test_the_diagnosis_knows_every_keyword_of_the_schemas() -> None:
    def look(part: Any, names: bool = False) -> set[str]:
        if isinstance(part, list):
            return set().union(*(look(one) for one in part)) if part else set()
        if not isinstance(part, dict):
            return set()
        met = set() if names else set(part)
        for key, inner in part.items():
            if names or key not in ("enum", "const", "default", "required", "dependentRequired"):
                met |= look(inner, not names and key in ("properties", "$defs"))
        return met

    for name in ("1.0.3", "main"):
        assert look(schema(name).document) <= KEYWORDS | IGNORED


HEAD = "document: {dsl: '1.0.3', namespace: n, name: a, version: '0.1.0'}\n"
BOMBS = {
    "laughs": "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + index)}: &{chr(98 + index)} [{','.join([f'*{chr(97 + index)}'] * 9)}]\n" for index in range(9)
    ),
    "long text": "a: &a " + "x" * 100_000 + "\nb: [" + ",".join(["*a"] * 1_000) + "]",
    "deep": "[" * 200_000,
    "deep JSON": '{"a":' * 900 + "1" + "}" * 900,
    "deep blocks": "- " * 100_000,
    "question marks": "? " * 100_000,
    "digits": "a: " + "9" * 200_000,
    "tags": "!" * 200_000,
    "versions": "document: {dsl: '1.0.0-" + "1." * 50_000 + "x'}",
    "expressions": "do: [{a: {if: '" + "(" * 16_000 + "', set: {x: 1}}}]",
    "wrong targets": HEAD
        + "do: [" + ",".join(f"{{task{n}: {{set: {{v: 1}}, then: tsak{n}}}}}" for n in range(4_900)) + "]",
    "wrong secrets": HEAD + f"use: {{secrets: [{','.join(f'secret{n}' for n in range(3_000))}]}}\n"
        + "do: [" + ",".join(f"{{t{n}: {{set: {{v: '${{ $secrets.sceret{n} }}'}}}}}}" for n in range(2_500)) + "]",
    "wrong functions": HEAD + f"use: {{functions: {{{','.join(f'f{n}: {{set: {{v: 1}}}}' for n in range(2_400))}}}}}\n"
        + "do: [" + ",".join(f"{{t{n}: {{call: g{n}}}}}" for n in range(2_500)) + "]",
}  # fmt: skip


def peak_megabytes() -> float:
    """Return the most memory that this process ever held, in MiB.

    The peak that ``getrusage`` tells is not it: a process inherits that of the one that started it, across ``exec``.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def taken_apart(bomb: str) -> tuple[float, float]:
    """Take a bomb; return the peak of this process's memory in MiB, and the processor time in seconds."""
    began = time.process_time()
    taken(BOMBS[bomb])
    return peak_megabytes(), time.process_time() - began


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[ProcessPoolExecutor]:
    """A process of its own: what other tests took before does not count."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_does_not_go_off(bomb: str, elsewhere: ProcessPoolExecutor) -> None:
    megabytes, cpu_s = elsewhere.submit(taken_apart, bomb).result(240)
    assert megabytes < MOST_MEGABYTES
    assert cpu_s < MOST_CPU_S


@pytest.mark.nightly
@given(st.integers(0, 2**62), st.binary(max_size=2_000), yaml_text, values)
@settings(quick, max_examples=100_000)
def test_the_night_finds_nothing_more(seed: int, data: bytes, text: str, value: Any) -> None:
    taken(json.dumps(mutated(seed)))
    judged(mutated(seed))
    taken(data)
    taken(text)
    taken(json.dumps({"do": value, "use": value}))
