"""One validator for all inputs: options, client, command line.

Each function returns the value in its normal form or raises :class:`InvalidOptionError`, a ``ValueError`` whose message
begins with the field's name. Nothing has been written then.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, NoReturn, TypeVar, get_args

from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.primitives.enums import CancellationType, ParentClosePolicy
from outlast_workflow.primitives.times import (
    LAST_INSTANT,
    MICROSECONDS_PER_SECOND,
    from_datetime,
    timedelta_microseconds,
)
from outlast_workflow.primitives.type_families import WILDCARD

E = TypeVar("E", bound=StrEnum)

Seconds = float | timedelta
"""A duration as users give it: seconds or a timedelta."""

IfExists = Literal["error", "keep", "update"]
"""What to do about a queue or schedule that is there already."""

MAX_SECONDS = 100 * 31_557_600
"""100 years in seconds."""

LAST_SAFE_START = LAST_INSTANT - 2 * MAX_SECONDS * MICROSECONDS_PER_SECOND
"""Before this instant, in microseconds, no start delay and timeout together can reach beyond the year 9999."""

MAX_INTEGER = 2**53 - 1
"""The largest integer that a column and every JSON reader can hold."""

MAX_NAME_LENGTH = 200

RESERVED_PREFIX = "outlast"
"""The engine's own prefix. Users cannot choose it, nor a name that continues it with a dot or an underscore."""

MAX_REASON_LENGTH = 10_000

MAX_NOTE_LENGTH = 1_000

MAX_SUMMARY_LENGTH = 200


def duration_seconds(field: str, value: Any) -> int | float:
    """Return a duration in seconds, not negative: an int if whole.

    Raises:
        InvalidOptionError: It is not a number or timedelta, not finite, negative, or over 100 years.
    """
    seconds: int | float
    if isinstance(value, timedelta):
        us = timedelta_microseconds(value)
        seconds = (
            us // MICROSECONDS_PER_SECOND
            if us % MICROSECONDS_PER_SECOND == 0
            else us / MICROSECONDS_PER_SECOND
        )
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise _bad(field, f"must be a number of seconds or a timedelta, not {type(value).__name__}")
    elif isinstance(value, int):
        seconds = int(value)
    elif not math.isfinite(value):
        raise _bad(field, "must be finite")
    else:
        seconds = int(value) if value.is_integer() else float(value)
    if seconds < 0:
        raise _bad(field, "must not be negative")
    if seconds > MAX_SECONDS:
        raise _bad(field, "must be at most 100 years")
    return seconds


def timeout_seconds(field: str, value: Any, *, minimum_seconds: int | None = None) -> int | float:
    """Return a timeout in seconds: an int if whole.

    Args:
        field: Its name in messages, in words: ``execution timeout``.
        value: Seconds (int or float) or a timedelta.
        minimum_seconds: The minimum in seconds; without one, it must be positive.

    Raises:
        InvalidOptionError: It is not a number or timedelta, not finite, too small, or over 100 years.
    """
    negative = (
        isinstance(value, timedelta | int | float) and not isinstance(value, bool) and _is_negative(value)
    )
    seconds = 0 if negative else duration_seconds(field, value)
    if minimum_seconds is not None:
        if seconds < minimum_seconds:
            raise _bad(
                field, f"must be at least {minimum_seconds} second{'' if minimum_seconds == 1 else 's'}"
            )
    elif seconds <= 0:
        raise _bad(field, "must be positive")
    return seconds


def instant_of(words: str, moment: Any, *, field: str | None = None) -> int:
    """Return the microseconds since the epoch of a datetime with a time zone.

    Args:
        words: What messages call it.
        moment: The datetime.
        field: The error's field, if it is called otherwise.

    Raises:
        InvalidOptionError: It is no datetime, or a naive one, or none that UTC can write.
    """
    name = field or words.replace(" ", "_")
    if not isinstance(moment, datetime):
        raise InvalidOptionError(f"{words} must be a datetime, not {type(moment).__name__}", field=name)
    try:
        return from_datetime(moment.astimezone(UTC) if moment.tzinfo is not None else moment)
    except OverflowError:
        where = "before the year 1" if moment.year == 1 else "after the year 9999"
        raise InvalidOptionError(f"{words} lies {where}: give another one", field=name) from None
    except ValueError as error:
        raise InvalidOptionError(f"{words}: {error}", field=name) from None


def check_end(field: str, begin: int, duration: int | None) -> None:
    """Refuse a duration that ends after the year 9999.

    Args:
        field: Its name in messages, in words: ``execution timeout``.
        begin: When it begins, in microseconds.
        duration: How long it is, in microseconds; ``None`` for none.

    Raises:
        InvalidOptionError: No such instant can be written.
    """
    if duration is not None and begin + duration > LAST_INSTANT:
        raise _bad(field, "ends after the year 9999: give a shorter one")


def _is_negative(value: timedelta | int | float) -> bool:
    if isinstance(value, timedelta):
        return value < timedelta()
    return math.isfinite(value) and value < 0 if isinstance(value, float) else value < 0


def integer(field: str, value: Any, minimum: int, maximum: int | None = None) -> int:
    """Return a whole number within a range; booleans are refused."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise _bad(field, f"must be a whole number, not {type(value).__name__}")
    if value < minimum or (maximum is not None and value > maximum):
        wanted = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise _bad(field, f"must be {wanted}")
    if value > MAX_INTEGER:
        raise _bad(field, f"must be at most {MAX_INTEGER}")
    return int(value)


def number(field: str, value: Any, minimum: float, maximum: float | None = None) -> int | float:
    """Return a finite number within a range: an int if whole; booleans are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _bad(field, f"must be a number, not {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise _bad(field, "must be finite")
    if value < minimum or (maximum is not None and value > maximum):
        wanted = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise _bad(field, f"must be {wanted}")
    if value > MAX_INTEGER:
        raise _bad(field, f"must be at most {MAX_INTEGER}")
    return int(value) if float(value).is_integer() else value


def priority(value: Any) -> int:
    """Return a priority: 0 (first) to 9."""
    return integer("priority", value, 0, 9)


def valid_cancellation_type(value: Any) -> CancellationType:
    """Return a cancellation type: try, wait or abandon."""
    return _one_of(CancellationType, "cancellation type", value)


def valid_parent_close_policy(value: Any) -> ParentClosePolicy:
    """Return a parent close policy: terminate, abandon or request_cancel."""
    return _one_of(ParentClosePolicy, "parent close policy", value)


def check_if_exists(value: Any) -> None:
    """Refuse what is no :data:`IfExists`.

    Raises:
        InvalidOptionError: It is none.
    """
    if value not in get_args(IfExists):
        raise _bad("if_exists", f"must be one of {', '.join(get_args(IfExists))}")


def _one_of(kind: type[E], field: str, value: Any) -> E:
    try:
        return kind(value)
    except ValueError:
        raise _bad(field, f"must be one of {', '.join(kind)}") from None


def validate_name(field: str, value: Any, *, segment: bool = False) -> str:
    """Return a name or id: text, not empty, printable, short enough to be a key in every database.

    Args:
        field: What messages call it, in words.
        value: The name.
        segment: Whether it becomes a segment of a path in URLs, as workflow ids and names of handlers do: then it is
            neither ``.`` nor ``..``, which browsers and proxies resolve.

    Raises:
        InvalidOptionError: It is not.
    """
    if not isinstance(value, str):
        raise _bad(field, f"must be text, not {type(value).__name__}")
    if not value or value.isspace():
        raise _bad(field, "must not be empty")
    if segment and value in (".", ".."):
        raise _bad(field, f"must not be {value!r}: no URL could name it; choose another one")
    if len(value) > MAX_NAME_LENGTH:
        raise _bad(
            field,
            f"must be at most {MAX_NAME_LENGTH} characters, not {len(value)}: it is a key in every index; "
            "put data into the input or the memo",
        )
    for char in value:
        code = ord(char)
        if code < 0x20 or 0x7F <= code < 0xA0:
            raise _bad(field, f"must not hold control characters (it has U+{code:04X})")
        if 0xD800 <= code <= 0xDFFF:
            raise _bad(field, f"must be valid Unicode text (it has the lone surrogate U+{code:04X})")
    return str.__str__(value)


def is_reserved(name: str) -> bool:
    """Return whether a name is the engine's: ``outlast``, ``outlast.…`` or ``outlast_…``."""
    return name.startswith(RESERVED_PREFIX) and name[len(RESERVED_PREFIX) :][:1] in ("", ".", "_")


def refuse_reserved(what: str, name: str, *, field: str | None = None) -> None:
    """Refuse a name that is reserved for the engine.

    Args:
        what: What is named, in words, for the message.
        name: The name.
        field: The error's field, if it is called otherwise than what is named.

    Raises:
        InvalidOptionError: The name is ``outlast`` or begins with ``outlast.`` or ``outlast_``.
    """
    if is_reserved(name):
        raise InvalidOptionError(
            f"{what} {name!r:.60} is reserved for the engine, as are all names that begin with 'outlast.' or "
            "'outlast_': choose another one",
            field=field or what.replace(" ", "_"),
        )


def validate_workflow_id(value: Any) -> str:
    """Return a workflow id. No prefix of it is reserved."""
    return validate_name("workflow id", value, segment=True)


def validate_workflow_type(field: str, value: Any) -> str:
    """Return the name of a workflow type.

    Args:
        field: What messages call it, in words.
        value: The name.

    Raises:
        InvalidOptionError: It is not a valid name, or it is reserved for the engine.
    """
    name = validate_name(field, value)
    refuse_reserved(field, name)
    if name.endswith(WILDCARD):
        refuse_family(field, name)
    return name


def refuse_family(field: str, name: str) -> NoReturn:
    """Refuse a family of types where a run's own type is asked for.

    Args:
        field: What messages call it, in words.
        name: The family's name.

    Raises:
        InvalidOptionError: Always.
    """
    raise _bad(field, f"must name one type, not the family {name!r}: give the type's name as text")


def validate_task_queue(value: Any) -> str:
    """Return the name of a task queue that users choose.

    Raises:
        InvalidOptionError: It is not a valid name, or it is reserved for the engine.
    """
    name = validate_name("task queue", value)
    refuse_reserved("task queue", name)
    return name


def validate_queue(value: Any) -> str:
    """Return the name of a queue that users choose.

    Raises:
        InvalidOptionError: It is not a valid name, or it is reserved for the engine.
    """
    name = validate_name("queue", value, segment=True)
    refuse_reserved("queue", name)
    return name


def validate_stream(value: Any) -> str:
    """Return the name of a stream, which becomes a segment of a path in URLs."""
    return validate_name("stream name", value, segment=True)


def validate_partition_key(value: Any) -> str:
    """Return the key of a partition of a queue."""
    return validate_name("partition key", value)


def validate_reason(value: Any, field: str = "reason") -> str | None:
    """Return the reason for a cancel request or a termination: any text that every database can hold, or none.

    Args:
        value: The text.
        field: What messages call it, in words.

    Raises:
        InvalidOptionError: It is not.
    """
    return _text_or_none(field, value, MAX_REASON_LENGTH)


def validate_note(value: Any) -> str | None:
    """Return the note on a queue or a schedule: a text that every database can hold, or none.

    Raises:
        InvalidOptionError: It is not.
    """
    return _text_or_none("note", value, MAX_NOTE_LENGTH)


def validate_summary(value: Any, field: str = "summary") -> str | None:
    """Return a summary, or another text that is shown to everybody: short, and storable in every database, or none.

    Args:
        value: The text; an empty one is none.
        field: What messages call it, in words.

    Raises:
        InvalidOptionError: It is not such a text.
    """
    hint = ": it is a label, so put data into the input, the memo or the search attributes"
    return _text_or_none(field, value, MAX_SUMMARY_LENGTH, hint) or None


def validate_after(value: Any) -> str:
    """Return the name or id behind which a listing goes on; the empty one is before all.

    Raises:
        InvalidOptionError: It is no text that a database can hold.
    """
    text = _text_or_none("after", value, 10_000)
    if text is None:
        raise _bad("after", "must be text, not NoneType")
    return text


def validate_list(field: str, value: Any, holds: str) -> list[Any]:
    """Return what was given as a list, from anything that gives one thing after the other.

    Args:
        field: What messages call it, in words.
        value: What was given; a text is not meant as a list of characters.
        holds: What it is a list of, for the message.

    Raises:
        InvalidOptionError: It is not.
    """
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise _bad(field, f"must be a list of {holds}, not {type(value).__name__}")
    return list(value)


def _text_or_none(field: str, value: Any, most: int, hint: str = "") -> str | None:
    """Return any text that every database can hold, or none.

    Args:
        field: What messages call it, in words.
        value: The text.
        most: How many characters it may have.
        hint: What to do about a text that is too long.

    Raises:
        InvalidOptionError: It is not such a text.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise _bad(field, f"must be text, not {type(value).__name__}")
    if len(value) > most:
        raise _bad(field, f"must be at most {most:,} characters, not {len(value):,}{hint}")
    if "\x00" in value:
        raise _bad(field, "must not hold NUL (U+0000), which PostgreSQL does not accept")
    for char in value:
        if 0xD800 <= ord(char) <= 0xDFFF:
            raise _bad(field, f"must be valid Unicode text (it has the lone surrogate U+{ord(char):04X})")
    return str.__str__(value)


def _bad(field: str, what: str) -> InvalidOptionError:
    return InvalidOptionError(f"{field} {what}", field=field.replace(" ", "_").replace("-", "_"))
