"""Every public error is on its page, with when it is raised and what to do; the page names no other."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import outlast.errors

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text()
ROWS = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", PAGE, re.M)


def test_every_public_error_is_on_the_page_once_and_none_is_invented() -> None:
    public = {name for name, thing in vars(outlast.errors).items() if inspect.isclass(thing)}
    assert sorted(name for name, _, _ in ROWS) == sorted(public)


def test_each_says_when_it_is_raised_and_what_to_do() -> None:
    for name, when, what in ROWS:
        assert len(when) > 20, name
        assert len(what) > 10, name
