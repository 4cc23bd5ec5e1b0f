"""Tables fit the terminal: columns are left out, and no word is broken."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.cli.conftest import Command

from outlast.cli.common.tables import GAP, FittedTable, Paragraph

WORDS = st.text("abcdefgh-_", min_size=1, max_size=12)
CELLS = st.lists(WORDS, max_size=6).map(" ".join)


def printed(thing: Any, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(thing, markup=False)
    return out.getvalue().splitlines()


@given(
    st.integers(20, 120),
    st.lists(st.lists(CELLS, min_size=5, max_size=5), min_size=1, max_size=5),
    st.permutations(["B", "C", "D", "E"]),
    st.integers(0, 4),
)
def test_no_line_is_longer_than_the_terminal_and_no_word_is_broken(
    width: int, rows: list[list[str]], order: list[str], named: int
) -> None:
    table = FittedTable(["A", "B", "C", "D", "E"], drop=order[:named])
    for row in rows:
        table.add_row(*row)
    lines = printed(table, width)
    # A column that does not fit alone wraps at its words; 24 characters never do.
    assert all(len(line) <= max(width, 24) for line in lines)
    shown = [name for name in "ABCDE" if name in lines[0].split()]
    assert shown[0] == "A"
    words = [word for line in lines[1:] for word in line.split()]
    expected = [word for row in rows for name in shown for word in row["ABCDE".index(name)].split()]
    assert sorted(words) == sorted(expected)


@given(st.lists(st.lists(WORDS, min_size=4, max_size=4), min_size=1, max_size=4), st.integers(10, 80))
def test_columns_are_left_out_only_where_they_do_not_fit(rows: list[list[str]], width: int) -> None:
    table = FittedTable(["A", "B", "C", "D"], drop=("C",))
    for row in rows:
        table.add_row(*row)
    natural = {name: max(1, *(len(row[place]) for row in rows)) for place, name in enumerate("ABCD")}
    shown = ["A", "B", "C", "D"]
    for name in ("C", "D", "B"):
        if sum(natural[one] for one in shown) + GAP * (len(shown) - 1) > width:
            shown.remove(name)
    assert printed(table, width)[0].split() == shown


def test_an_empty_column_goes_first_and_a_clipped_one_gives_way() -> None:
    table = FittedTable(["ID", "NOTHING", "PAYLOAD", "END"], clip="PAYLOAD")
    table.add_row("order-1", "", '{"a":' + "1" * 100 + "}", "done")
    assert printed(table, 60)[0].split() == ["ID", "NOTHING", "PAYLOAD", "END"]
    assert printed(table, 34)[0].split() == ["ID", "PAYLOAD", "END"]
    line = printed(table, 34)[1]
    assert len(line) == 34
    assert "…" in line
    assert line.endswith("done")


def test_a_word_that_takes_most_of_the_line_drives_out_no_column() -> None:
    table = FittedTable(["ID", "TYPE", "STATUS"], drop=("TYPE",))
    table.add_row("x" * 150, "Order", "running")
    lines = printed(table, 80)
    assert lines[0].split() == ["ID", "TYPE", "STATUS"]
    assert lines[1].split()[1:] == ["Order", "running"]
    assert "".join(line.split()[0] for line in lines[1:]) == "x" * 150
    assert lines[4:] == [] or len(lines) == 5
    # A pipe has long lines, whose words are for programs.
    assert printed(table, 200)[1].split() == ["x" * 150, "Order", "running"]


def test_a_paragraph_is_indented_and_ends_its_lines_with_words() -> None:
    lines = printed(Paragraph("a failure that takes more than one line of text", 4), 24)
    assert lines == ["    a failure that takes", "    more than one line", "    of text"]


LONG_ID = "order-2026-11-23-customer-4711-europe-west-1"


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("columns", ["60", "80", "100", "200"])
def test_every_command_that_prints_tables_fits(
    columns: str, outlast: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlast("start", "fail", "--id", LONG_ID, "--wait")
    outlast("start", "Missing", "--id", "waits", "--task-queue", "nobody-polls-this")
    monkeypatch.setenv("COLUMNS", columns)
    for command in (
        ("list",),
        ("workers",),
        ("top", "--once"),
        ("describe", LONG_ID),
        ("describe", "waits"),
        ("history", LONG_ID),
        ("history", "waits"),
    ):
        done = outlast(*command)
        assert done.code == 0, done.err
        lines = done.out.splitlines()
        # A path in a stack is left to the terminal.
        too_long = [
            line for line in lines if len(line) > int(columns) and not line.lstrip().startswith('File "')
        ]
        assert not too_long, command
    assert LONG_ID in outlast("list").out
    described = outlast("describe", LONG_ID).out
    assert "ValueError: card declined" in described
    assert "in fail" in described
