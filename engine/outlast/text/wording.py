"""Durations, instants, counts and values in the words that people read."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import orjson

from outlast_workflow.primitives.enums import CatchUp, Overlap

# Seconds in a unit, the unit, seconds in the smaller unit that follows it, the smaller unit.
_STEPS: Final = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def words(seconds: float) -> str:
    """Return a duration in at most two units: ``2 h 13 min``."""
    seconds = abs(seconds)
    for size, unit, less, lesser in _STEPS:
        if seconds >= size:
            whole, rest = divmod(int(seconds), size)
            rest //= less
            return f"{whole} {unit} {rest} {lesser}" if rest else f"{whole} {unit}"
    if seconds >= 10 or seconds == int(seconds):
        return f"{int(seconds)} s"
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"


def counted(number: int, noun: str) -> str:
    """Return a number of things: ``1 run``, ``2 runs``, ``3 histories``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun.removesuffix('y')}ies" if noun.endswith("y") else f"{number:,} {noun}s"


def capped(number: int, most: int) -> str:
    """Return a number that was counted up to a limit: ``12``, ``10,000+``.

    Args:
        number: The number.
        most: Up to which number it was counted.
    """
    return f"{number:,}+" if number >= most else f"{number:,}"


def ago(instant: datetime | None, now: datetime) -> str:
    """Return how long ago an instant was, or how far it lies ahead."""
    if instant is None:
        return ""
    seconds = (now - instant).total_seconds()
    return f"{words(seconds)} ago" if seconds >= 0 else f"in {words(seconds)}"


def at(instant: datetime | None, now: datetime) -> str:
    """Return an instant and its distance from now."""
    return "" if instant is None else f"{clock(instant)} ({ago(instant, now)})"


def clock(instant: datetime) -> str:
    """Return an instant in UTC, to the millisecond."""
    return instant.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")


def pretty(value: Any) -> str:
    """Return a value as indented JSON."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def label(text: str | None) -> str:
    """Return a user's label on one line, without control characters; empty if there is none."""
    printable = "".join(char if char.isprintable() else " " for char in text or "")
    return " ".join(printable.split())


def progress_words(done: float, total: float | None = None, message: str | None = None) -> str:
    """Return how far something is: ``3 of 10 (30 %): row 3``.

    Args:
        done: How much is done.
        total: How much there is to do, if that is known.
        message: What it is doing.
    """
    text = f"{done:,}" if total is None else f"{done:,} of {total:,}"
    if total:
        text += f" ({min(int(done / total * 100), 100)} %)"
    return f"{text}: {label(message)}" if message else text


OVERLAP_WORDS: Final = {
    Overlap.SKIP: "a slot that comes while the workflow before is open is left out",
    Overlap.BUFFER_ONE: "one slot waits until the workflow before has ended, further ones are left out",
    Overlap.BUFFER_ALL: "each slot waits until the workflow before has ended",
    Overlap.CANCEL_OTHER: "the workflow before is asked to cancel, and the slot starts when it has ended",
    Overlap.TERMINATE_OTHER: "the workflow before is terminated, and the slot starts at once",
    Overlap.ALLOW_ALL: "each slot starts at once, side by side",
}
"""What each overlap policy does."""

CATCH_UP_WORDS: Final = {
    CatchUp.LATEST: "starts the newest of the missed slots",
    CatchUp.ALL: "starts all missed slots",
    CatchUp.NONE: "starts none of the missed slots",
}
"""What each catch-up policy does."""
