"""Building JSON from what a reader meets, with the place of each value, and within limits.

Nothing here is recursive, and nothing is expanded: an alias shares the value of its anchor. What it would be when
expanded is counted, because all later readers walk it so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from outlast_serverless.documents.places import Place, Position
from outlast_serverless.plan.pointers import child
from outlast_workflow.errors.options import DocumentProblem

MOST_BYTES: Final = 256 * 1024
"""The longest text, in UTF-8."""
MOST_DEPTH: Final = 64
MOST_NODES: Final = 50_000
"""The most values, those of aliases counted wherever they stand."""
MOST_EXPANDED_BYTES: Final = 4 * MOST_BYTES
"""The most text in values, that of aliases counted wherever it stands."""
MOST_PROBLEMS: Final = 200
"""Reading ends with so many: nobody reads more."""


class Stop(Exception):
    """Nothing more can be read: the problem is recorded."""


@dataclass(slots=True)
class Measure:
    """How large a value is when its aliases are expanded."""

    nodes: int = 1
    height: int = 0
    text: int = 0


@dataclass(slots=True)
class Built:
    """A value with its place and its measure."""

    value: Any
    place: Place
    measure: Measure


@dataclass(slots=True)
class _Frame:
    """A mapping or list that is open."""

    value: Any
    place: Place
    pointer: str
    anchor: str | None
    measure: Measure
    key: str | None = None
    key_position: Position | None = None
    skip: bool = False
    """Whether the next value belongs to a key that was there before."""


class Builder:
    """Builds one value from openings, endings, scalars and aliases.

    Attributes:
        problems: What was wrong on the way.
        built: The value, once it is whole.
    """

    def __init__(self) -> None:
        self.problems: list[DocumentProblem] = []
        self.built: Built | None = None
        self._open: list[_Frame] = []
        self._anchors: dict[str, Built] = {}
        self._nodes = 0
        self._text = 0

    def problem(self, code: str, at: Position, message: str, hint: str = "") -> None:
        """Record a problem at the place that is being read."""
        self._record(code, at, message, hint)
        if len(self.problems) >= MOST_PROBLEMS:
            raise Stop

    def stop(self, code: str, at: Position, message: str, hint: str = "") -> Stop:
        """Record a problem after which nothing can be read, and return what is to be raised."""
        self._record(code, at, message, hint)
        return Stop()

    def open(self, value: dict[str, Any] | list[Any], at: Position, anchor: str | None = None) -> None:
        """Begin a mapping or a list."""
        frame = self._open[-1] if self._open else None
        if frame is not None and isinstance(frame.value, dict) and frame.key is None:
            raise self.stop("non_text_key", at, "a key is a mapping or a list", "keys of JSON are texts")
        if len(self._open) >= MOST_DEPTH:
            raise self._too_deep(at)
        key = None if frame is None else frame.key_position
        self._open.append(_Frame(value, Place(at, key, {}), self._pointer(), anchor, Measure(height=1)))
        self._count(Measure(), at)

    def close(self) -> None:
        """End what was opened last."""
        frame = self._open.pop()
        self._add(Built(frame.value, frame.place, frame.measure), frame.anchor)

    def scalar(self, value: Any, at: Position, anchor: str | None = None, written: str = "") -> None:
        """Take a scalar: a key where one is due, a value otherwise.

        Args:
            value: The scalar.
            at: Where it stands.
            anchor: The name under which aliases know it.
            written: What stands in the text, for a key that is no text.
        """
        measure = Measure(text=len(value) if isinstance(value, str) else 8)
        if self._key_is_due():
            self._count(measure, at)
            if anchor is not None:
                self._anchors[anchor] = Built(value, Place(at), measure)
            self._take_key(value, at, written)
            return
        self._count(measure, at)
        key = self._open[-1].key_position if self._open else None
        # A value that is left out has no place of its own: the parser names the next line.
        place = Place(key if value is None and not written and key is not None else at, key)
        self._add(Built(value, place, measure), anchor)

    def alias(self, name: str, at: Position) -> None:
        """Take what an anchor names."""
        if any(frame.anchor == name for frame in self._open):
            raise self.stop("recursive_alias", at, f"*{_shown(name)} stands inside of what it names")
        anchored = self._anchors.get(name)
        if anchored is None:
            raise self.stop(
                "syntax",
                at,
                f"*{_shown(name)} names no anchor above it",
                f"write &{_shown(name)} where it is",
            )
        self._count(anchored.measure, at)
        if self._key_is_due():
            self._take_key(anchored.value, at, f"*{name}")
            return
        if len(self._open) + anchored.measure.height > MOST_DEPTH:
            raise self._too_deep(at)
        key = self._open[-1].key_position if self._open else None
        self._add(Built(anchored.value, Place(at, key, anchored.place.inside), anchored.measure), None)

    def _record(self, code: str, at: Position, message: str, hint: str) -> None:
        self.problems.append(DocumentProblem(code, self._pointer(), at.line, at.column, message, hint))

    def _pointer(self) -> str:
        if not self._open:
            return ""
        frame = self._open[-1]
        if isinstance(frame.value, list):
            return child(frame.pointer, len(frame.value))
        return frame.pointer if frame.key is None else child(frame.pointer, frame.key)

    def _key_is_due(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _take_key(self, value: Any, at: Position, written: str) -> None:
        frame = self._open[-1]
        if not isinstance(value, str):
            if isinstance(value, dict | list):
                raise self.stop("non_text_key", at, "a key is a mapping or a list", "keys of JSON are texts")
            self.problem(
                "non_text_key", at, f"the key {_shown(written)} is no text", f'write "{_shown(written)}"'
            )
            value = written
        frame.key, frame.key_position, frame.skip = value, at, value in frame.value
        if frame.skip:
            assert frame.place.inside is not None
            first = frame.place.inside[value].key
            before = f", first in line {first.line}" if first is not None else ""
            self.problem(
                "duplicate_key", at, f"the key {_shown(value)} is there twice{before}", "keep one of them"
            )

    def _add(self, built: Built, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = built
        if not self._open:
            self.built = built
            return
        frame = self._open[-1]
        assert frame.place.inside is not None
        frame.measure.nodes += built.measure.nodes
        frame.measure.text += built.measure.text
        frame.measure.height = max(frame.measure.height, built.measure.height + 1)
        if isinstance(frame.value, list):
            frame.place.inside[str(len(frame.value))] = built.place
            frame.value.append(built.value)
            return
        assert frame.key is not None
        if not frame.skip:
            frame.measure.text += len(frame.key)
            frame.value[frame.key] = built.value
            frame.place.inside[frame.key] = built.place
        frame.key = frame.key_position = None

    def _count(self, measure: Measure, at: Position) -> None:
        self._nodes += measure.nodes
        self._text += measure.text
        if self._nodes > MOST_NODES or self._text > MOST_EXPANDED_BYTES:
            raise self.stop(
                "too_many_nodes",
                at,
                f"it has more than {MOST_NODES:,} values or {MOST_EXPANDED_BYTES:,} characters, aliases expanded",
                "divide it into workflows that call each other",
            )

    def _too_deep(self, at: Position) -> Stop:
        return self.stop(
            "too_deep",
            at,
            f"it is nested deeper than {MOST_DEPTH} levels",
            "move inner tasks to use.functions, or to another workflow",
        )


def _shown(key: str) -> str:
    return key if len(key) <= 60 else f"{key[:60]}…"
