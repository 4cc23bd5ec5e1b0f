"""A definition as YAML: what is read from it is the same definition, and each line knows what it shows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.serverless.cases import HERE

from outlast_serverless import Document
from outlast_serverless.documents.reading import read
from outlast_serverless.documents.writing import written
from outlast_serverless.pages.text import MOST_LINES, first_lines, lines_of, lit

EXAMPLES = sorted((HERE / "examples").glob("*.yaml"))
ODD = [
    "null",
    "Yes",
    "0o17",
    "1_000",
    "1e3",
    "~",
    "---",
    "...",
    "a: b",
    "a #b",
    "- a",
    "<<",
    "a\n\nb",
    "a\n b",
]
TEXTS = st.text(
    st.characters(codec="utf-8") | st.sampled_from(" :#-?'\"\n\t{}[],&*!|>%@`$~"),
    max_size=12,
) | st.sampled_from(ODD)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def text_of(definition: Any) -> str:
    return "".join(f"{line.text}\n" for line in written(definition))


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4))
@example({"a": [[], {}, [[1]], [{"b": [2]}]]})
@example({"a": "x\ny\n", "b": "x\ny", "c": "x\ny\n\n", "d": " x\ny", "e": "\u2028\x85\ufeff"})
def test_what_is_written_is_read_as_the_same(definition: dict[str, Any]) -> None:
    found = read(text_of(definition))
    assert (found.value, found.problems) == (definition, ())


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 50


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_line_of_an_example_says_where_it_stands(path: Any) -> None:
    definition = Document.load(path).definition
    found = read(text_of(definition))
    assert found.value == definition
    first: dict[str, int] = {}
    for number, line in enumerate(written(definition), 1):
        first.setdefault(line.pointer, number)
    for pointer, number in first.items():
        assert found.place.at(pointer, key=True).line == number, pointer


def test_plain_texts_have_no_quotes() -> None:
    definition = {
        "document": {"dsl": "1.0.3"},
        "do": [{"a~/b": {"set": {"p": "${ .a }", "q": "it's", "r": "one\ntwo\n", "empty": []}}}],
    }
    assert text_of(definition) == (
        "document:\n"
        "  dsl: '1.0.3'\n"
        "do:\n"
        "  - a~/b:\n"
        "      set:\n"
        "        p: ${ .a }\n"
        "        q: 'it''s'\n"
        "        r: |\n"
        "          one\n"
        "          two\n"
        "        empty: []\n"
    )
    assert [line.pointer for line in written(definition)][3:6] == [
        "/do/0/a~0~1b",
        "/do/0/a~0~1b/set",
        "/do/0/a~0~1b/set/p",
    ]


SMALL = {
    "do": [{"a": {"set": {"v": 1}}}, {"b": {"do": [{"c": {"wait": "PT1H"}}]}}],
    "timeout": {"after": "PT1H"},
}


def test_the_lines_of_a_task_are_lit_and_the_innermost_counts() -> None:
    lines = lines_of(SMALL)
    assert lines_of(dict(SMALL)) is lines
    assert first_lines(lines, {"/do/1/b", "/do/1/b/do/0/c", "/nothing"}) == {
        "/do/1/b": 5,
        "/do/1/b/do/0/c": 7,
    }
    text = lit(lines, {"/do/1/b": "failed", "/do/1/b/do/0/c": "running"})
    assert [(line.number, line.look, line.begins) for line in text.lines if line.look] == [
        (5, "failed", True),
        (6, "failed", False),
        (7, "running", True),
        (8, "running", False),
    ]
    assert (text.count, text.after) == (10, 0)


def test_of_a_long_text_only_what_is_lit_is_shown() -> None:
    long = {"do": [{f"t{number}": {"set": {"v": number}}} for number in range(MOST_LINES)]}
    lines = lines_of(long)
    text = lit(lines, {"/do/300/t300": "running"})
    assert len(text.lines) < 60
    assert [line.text for line in text.lines if line.begins] == ["  - t300:"]
    assert text.lines[0].before + len(text.lines) + text.after == text.count == len(lines)
    assert len(lit(lines, {}).lines) == MOST_LINES
