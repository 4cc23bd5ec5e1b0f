"""From text to JSON: with the place of each value, and everything that is wrong with the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from outlast_serverless.documents.builder import MOST_BYTES, Builder, Stop
from outlast_serverless.documents.json_text import is_json, read_json
from outlast_serverless.documents.places import Place, Position
from outlast_serverless.documents.yaml_text import read_yaml
from outlast_workflow.errors.options import DocumentProblem


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read.

    Attributes:
        value: The value, of the kinds of JSON; ``None`` if the text could not be read to its end.
        place: Where it stands.
        problems: What is wrong with the text.
        whole: Whether the text could be read to its end.
        text: The text.
    """

    value: Any
    place: Place
    problems: tuple[DocumentProblem, ...]
    whole: bool
    text: str


def read(text: str | bytes) -> Reading:
    """Read YAML 1.2, or JSON. Nothing is raised: what is wrong is in ``problems``."""
    if len(text) > MOST_BYTES:
        return _nothing(
            "too_large", f"it is longer than {MOST_BYTES:,} bytes", "divide it into several workflows"
        )
    if isinstance(text, bytes):
        try:
            decoded = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            return _nothing("not_utf8", f"byte {error.start} is not UTF-8", "save the file as UTF-8")
    else:
        decoded = text.removeprefix("\ufeff")
        if not _encodable(decoded):
            return _nothing("not_utf8", "it has half of a surrogate pair", "write the character itself")
        if len(decoded.encode()) > MOST_BYTES:
            return _nothing(
                "too_large", f"it is longer than {MOST_BYTES:,} bytes", "divide it into several workflows"
            )
    builder = Builder()
    try:
        (read_json if is_json(decoded) else read_yaml)(decoded, builder)
    except Stop:
        return Reading(None, Place(Position(1, 1)), tuple(builder.problems), False, decoded)
    if builder.built is None:
        return _nothing("empty", "there is nothing in it", "begin with `document:` and `do:`")
    value, place = builder.built.value, builder.built.place
    halves = [] if _encodable(decoded) and "\\" not in decoded else list(_half_characters(value, place))
    return Reading(value, place, (*builder.problems, *halves), not halves, decoded)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _half_characters(value: Any, place: Place, pointer: str = "") -> list[DocumentProblem]:
    r"""Return the texts that escapes such as ``\ud800`` made unfit for UTF-8. The depth is within the limit."""
    found: list[DocumentProblem] = []
    if isinstance(value, str) and not _encodable(value):
        at = place.told
        found.append(
            DocumentProblem(
                "not_utf8",
                pointer,
                at.line,
                at.column,
                "it has half of a surrogate pair",
                "write the character itself",
            )
        )
    elif isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        inside = place.inside or {}
        for key, inner in items:
            if isinstance(key, str) and not _encodable(key):
                at = place.told
                found.append(
                    DocumentProblem(
                        "not_utf8", pointer, at.line, at.column, "a key has half of a surrogate pair"
                    )
                )
                continue
            found += _half_characters(
                inner, inside[str(key)], f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
            )
    return found


def _nothing(code: str, message: str, hint: str) -> Reading:
    at = Position(1, 1)
    return Reading(None, Place(at), (DocumentProblem(code, "", *at, message, hint),), False, "")
