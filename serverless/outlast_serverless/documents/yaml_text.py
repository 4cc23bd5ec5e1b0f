"""Reading YAML 1.2 from the events of the parser, which does not recurse and does not guess types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from outlast_serverless.documents.builder import Builder
from outlast_serverless.documents.places import Position
from outlast_serverless.documents.scalars import (
    FALSE,
    NOT_FINITE,
    NULLS,
    TRUE,
    OutOfRangeError,
    number,
    plain,
)

_TAG: Final = "tag:yaml.org,2002:"
_START: Final = Position(1, 1)


def read_yaml(text: str, builder: Builder) -> None:
    """Read a YAML text into a builder.

    Args:
        text: The text.
        builder: What builds the value.

    Raises:
        Stop: Nothing more can be read.
    """
    documents = 0
    for event in _events(text, builder):
        at = Position(event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, ScalarEvent):
            _scalar(event, at, builder)
        elif isinstance(event, MappingStartEvent):
            _collection_tag(event.tag, "map", at, builder)
            builder.open({}, at, event.anchor)
        elif isinstance(event, SequenceStartEvent):
            _collection_tag(event.tag, "seq", at, builder)
            builder.open([], at, event.anchor)
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            builder.close()
        elif isinstance(event, AliasEvent):
            builder.alias(event.anchor, at)
        elif isinstance(event, DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise builder.stop(
                    "several_documents", at, "a second document begins here", "give each a file of its own"
                )


def _events(text: str, builder: Builder) -> Iterator[Any]:
    """Yield the events; damaged text ends them with a problem."""
    events = YAML(typ="safe", pure=True).parse(text)
    while True:
        try:
            event = next(events, None)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            at = _START if mark is None else Position(mark.line + 1, mark.column + 1)
            told = " ".join(part for part in (error.context, error.problem) if part)
            raise builder.stop("syntax", at, f"it is no YAML: {told[:200]}") from None
        except YAMLError as error:
            raise builder.stop("syntax", _START, f"it is no YAML: {str(error).splitlines()[0]}") from None
        except Exception:
            # Of damaged text the parser also raises errors of its own code.
            raise builder.stop("syntax", _START, "it is no YAML") from None
        if event is None:
            return
        yield event


def _scalar(event: Any, at: Position, builder: Builder) -> None:
    text: str = event.value
    tag: str | None = event.tag
    if tag is None and event.implicit[0]:
        _plain(text, at, event.anchor, builder)
        return
    if tag is None or tag in ("!", _TAG + "str"):
        value: Any = text
    else:
        value = _tagged(tag, text, at, builder)
    builder.scalar(value, at, event.anchor, text)


def _plain(text: str, at: Position, anchor: str | None, builder: Builder) -> None:
    if text == "<<":
        builder.problem(
            "merge_key",
            at,
            "YAML 1.2 has no merge keys",
            "write the keys out, or use an alias for the whole value",
        )
    if text in NOT_FINITE:
        builder.problem("not_finite", at, f"JSON has no {text}", f'write "{text}" if it is a text')
    try:
        value = plain(text)
    except OutOfRangeError:
        builder.problem(
            "number_range", at, "64 bits do not hold this number", "write it in quotes, as a text"
        )
        value = text
    builder.scalar(value, at, anchor, text)


def _tagged(tag: str, text: str, at: Position, builder: Builder) -> Any:
    try:
        if tag == _TAG + "int" or tag == _TAG + "float":
            found = number(text)
            if found is not None:
                return found
    except OutOfRangeError:
        pass
    if tag == _TAG + "bool" and text in TRUE | FALSE:
        return text in TRUE
    if tag == _TAG + "null" and text in NULLS:
        return None
    builder.problem(
        "unknown_tag", at, f"the tag {tag.removeprefix(_TAG)[:60]} makes no JSON of this", "leave it out"
    )
    return text


def _collection_tag(tag: str | None, wanted: str, at: Position, builder: Builder) -> None:
    if tag not in (None, "!", _TAG + wanted):
        builder.problem("unknown_tag", at, f"the tag {tag[:60]} makes no JSON of this", "leave it out")
