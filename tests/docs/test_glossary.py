"""The glossary is a list to look things up in."""

import re
from itertools import pairwise
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "docs/glossary.md").read_text()


def test_the_words_of_each_table_stand_in_the_order_of_the_alphabet() -> None:
    tables = [re.findall(r"^\| \*\*(.+?)\*\*", part, re.M) for part in TEXT.split("\n## ")[1:]]
    assert [len(words) > 20 for words in tables] == [True, True]
    late = [
        after for words in tables for before, after in pairwise(words) if before.casefold() > after.casefold()
    ]
    assert late == []


def test_each_word_has_its_own_address() -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\*\{ #(\S+) \}", TEXT, re.M)
    assert len(rows) == len(re.findall(r"^\| \*\*", TEXT, re.M))
    assert [word for word, address in rows if address != word.casefold().replace(" ", "-")] == []
