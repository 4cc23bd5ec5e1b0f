"""Looking at jq without running it: brackets, variables and names. A :class:`Checker` says whether it compiles.

One pass over the text, whose state is a stack of open brackets and texts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Protocol

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:::[A-Za-z_][A-Za-z0-9_]*)*")
_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
LARGEST_INTEGER: Final = 2**53
"""jq keeps numbers as doubles: an integer beyond this would be changed silently."""
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}


class Checker(Protocol):
    """What can say whether an expression compiles."""

    def problem(self, expression: str, variables: frozenset[str]) -> str | None:
        """Return why an expression does not compile, or ``None`` if it does.

        Args:
            expression: The jq program.
            variables: The variables that are bound when it runs, without ``$``.
        """


@dataclass(slots=True)
class Glance:
    """What stands in an expression.

    Attributes:
        trouble: Why it cannot be jq; empty if nothing is seen.
        used: The variables that it uses and does not bind itself, in order.
        names: The functions and keywords that it names, in order.
        paths: The first field of each variable: ``("secrets", "token")`` for ``$secrets.token``.
    """

    trouble: str = ""
    used: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    paths: list[tuple[str, str]] = field(default_factory=list)


def glance(text: str) -> Glance:
    """Look at an expression."""
    return _Looking(text).look()


class _Looking:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.open: list[str] = []
        self.seen = Glance()
        self.bound: set[str] = set()
        self.binding = False
        """Whether names after ``as``, or of a ``def``, are being read."""
        self.last = ""
        """The last thing that was not space."""

    def look(self) -> Glance:
        text = self.text
        while self.at < len(text) and not self.seen.trouble:
            char = text[self.at]
            if self.open and self.open[-1] == '"':
                self._in_text(char)
            elif char.isspace():
                self.at += 1
            elif char == "#":
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            else:
                self._in_code(char)
        if not self.seen.trouble and self.open:
            self.seen.trouble = (
                "a text is not closed" if self.open[-1] == '"' else f"`{self.open[-1]}` is not closed"
            )
        self.seen.used = [name for name in dict.fromkeys(self.seen.used) if name not in self.bound]
        return self.seen

    def _in_text(self, char: str) -> None:
        if char == '"':
            self.open.pop()
            self.last = '"'
        elif char == "\\":
            if self.text.startswith("\\(", self.at):
                self.open.append("(")
                self.last = "("
            self.at += 1
        self.at += 1

    def _in_code(self, char: str) -> None:
        if char == '"':
            self.open.append(char)
        elif char in _CLOSING:
            if char == "(" and self.last != "def":
                self.binding = False
            self.open.append(char)
        elif char in ")]}":
            if not self.open or _CLOSING.get(self.open[-1]) != char:
                self.seen.trouble = f"`{char}` closes nothing"
                return
            self.open.pop()
        elif char == "$":
            self._variable()
            return
        elif char.isalpha() or char == "_":
            self._name()
            return
        elif char in "0123456789":
            self._number()
            return
        elif char in "|:" and (char == "|" or not self.open or self.open[-1] != "{"):
            self.binding = False
        self.last = char
        self.at += 1

    def _variable(self) -> None:
        found = _NAME.match(self.text, self.at + 1)
        if found is None:
            self.seen.trouble = "`$` names no variable"
            return
        name = found[0]
        self.at = found.end()
        if self.binding:
            self.bound.add(name)
        elif name != "__loc__":
            self.seen.used.append(name)
            path = re.compile(r'\.([A-Za-z_]\w*)|(?:\.?\["([^"\\]*)"\])|\."([^"\\]*)"').match(
                self.text, self.at
            )
            if path is not None:
                self.seen.paths.append((name, path[1] or path[2] or path[3] or ""))
        self.last = "$"

    def _number(self) -> None:
        found = _NUMBER.match(self.text, self.at)
        assert found is not None
        is_fraction = self.text[self.at - 1 : self.at] == "."
        if not is_fraction and found.lastindex is None and int(found[0]) > LARGEST_INTEGER:
            self.seen.trouble = (
                f"jq would change the integer {found[0]}, which is beyond 2^53: write it as text"
            )
            return
        self.at = found.end()
        self.last = "0"

    def _name(self) -> None:
        found = _NAME.match(self.text, self.at)
        if found is None:
            # A letter that no name of jq has.
            self.seen.trouble = f"`{self.text[self.at]}` stands for nothing"
            return
        name, before = found[0], self.last
        self.at = found.end()
        rest = self.text[self.at :].lstrip()[:1]
        is_field = before == "." and self.text[found.start() - 1] == "."
        is_key = bool(self.open) and self.open[-1] == "{" and before in "{," and rest in (",", "}", ":", "")
        is_format = before == "@"
        if name in ("as", "label") and not is_field and not is_key:
            self.binding = True
        elif name == "def" and not is_field and not is_key:
            self.binding = True
            self.last = "def"
            return
        elif not is_field and not is_key and not is_format and before != "def":
            self.seen.names.append(name)
        if before == "def":
            # Its parameters are bound until the colon.
            self.last = "def"
            return
        self.last = name
