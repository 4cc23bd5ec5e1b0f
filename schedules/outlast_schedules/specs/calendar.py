"""The slots of a schedule: what its specs name, without what its exclusions cover, from a start to an end."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import orjson

from outlast_schedules.specs.cron import Cron
from outlast_schedules.specs.spec import At, Every, Spec
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import duration_seconds, instant_of
from outlast_workflow.primitives.times import LAST_INSTANT, from_iso, iso, later, microseconds, to_datetime
from outlast_workflow.primitives.value_object import Value

MOST_SPECS: Final = 100
MOST_EXCLUDED: Final = 1_000
"""How many slots that are excluded one search passes over."""
MOST_LOOKED_AT: Final = 5_000
"""How many slots, excluded or not, are looked at for those that people are shown."""
MOST_SEARCHES: Final = 40
"""After how many searches in a row that find nothing a schedule counts as one that never fires."""
VERSION: Final = 1


class Found(NamedTuple):
    """What a search for a slot found.

    Attributes:
        slot: The slot.
        on_from: Where the search was given up, if it was: all slots before this instant are excluded.
    """

    slot: int | None
    on_from: int | None


class Calendar(Value):
    """The slots of a schedule. Instants are microseconds since the epoch.

    Args:
        specs: What names the slots: one spec or several, of which each adds its own.
        exclude: Slots that one of these covers are left out.
        start_at: No slot is earlier.
        end_at: No slot is later.
        jitter: Each slot fires later by a part of this, in seconds or as a timedelta. The part is the same in every
            process, and shorter than the time to the next slot.

    Raises:
        InvalidOptionError: A value is not valid.
    """

    __slots__ = ("_end", "_jitter", "_start", "end_at", "exclude", "jitter", "specs", "start_at")
    fields = ("specs", "exclude", "start_at", "end_at", "jitter")

    specs: tuple[Spec, ...]
    exclude: tuple[Spec, ...]
    start_at: datetime | None
    end_at: datetime | None
    jitter: int | float
    _start: int | None
    _end: int | None
    _jitter: int

    def __init__(
        self,
        specs: Spec | Sequence[Spec],
        exclude: Spec | Sequence[Spec] = (),
        start_at: datetime | None = None,
        end_at: datetime | None = None,
        jitter: float | timedelta = 0,
    ) -> None:
        named = _checked("spec", specs)
        if not named:
            raise InvalidOptionError("spec must name at least one Cron, Every or At", field="spec")
        start = None if start_at is None else instant_of("start at", start_at)
        end = None if end_at is None else instant_of("end at", end_at)
        if start is not None and end is not None and end < start:
            raise InvalidOptionError("end at must not be before start at", field="end_at")
        later = duration_seconds("jitter", jitter)
        self._set(
            {
                "specs": named,
                "exclude": _checked("exclude", exclude),
                "start_at": None if start is None else to_datetime(start),
                "end_at": None if end is None else to_datetime(end),
                "jitter": later,
                "_start": start,
                "_end": end,
                "_jitter": microseconds(later),
            }
        )

    def search(self, after: int) -> Found:
        """Look for the first slot after an instant; the search is short, and may have to go on."""
        return self._search(after, self._looks(MOST_EXCLUDED))[0]

    def first_slots(self, after: int, most: int) -> tuple[list[int], int | None]:
        """Return the first slots after an instant, and from where the search would have to go on, if it was too long.

        Args:
            after: The instant.
            most: How many slots.
        """
        slots: list[int] = []
        looks = self._looks(MOST_LOOKED_AT)
        while len(slots) < most:
            (slot, on_from), looks = self._search(after, looks)
            if slot is None:
                return slots, on_from
            slots.append(slot)
            after = slot
        return slots, None

    def _looks(self, slots: int) -> int:
        """Return how many slots are looked at where one spec without exclusions would look at so many."""
        return max(slots // (len(self.specs) + len(self.exclude)), 1)

    def _search(self, after: int, looks: int) -> tuple[Found, int]:
        """Look for the first slot after an instant.

        Args:
            after: The instant.
            looks: How many slots are looked at, at most.

        Returns:
            What it found, and how many looks are left.
        """
        at = after + 1 if self._start is None else max(after + 1, self._start)
        while looks > 0:
            looks -= 1
            found = [slot for spec in self.specs if (slot := spec.first_from(at)) is not None]
            slot = min(found, default=None)
            if slot is None or slot > (LAST_INSTANT if self._end is None else self._end):
                return Found(None, None), looks
            covered = [until for spec in self.exclude if (until := spec.covered_until(slot)) is not None]
            if not covered:
                return Found(slot, None), looks
            at = max(covered)
        return Found(None, at), looks

    def slot_after(self, after: int) -> int | None:
        """Return the first slot after an instant, or ``None`` where there is none."""
        for _ in range(MOST_SEARCHES):
            slot, on_from = self.search(after)
            if on_from is None:
                return slot
            after = on_from - 1
        return None

    def slots(self, after: int) -> Iterator[int]:
        """Yield the slots after an instant."""
        slot = self.slot_after(after)
        while slot is not None:
            yield slot
            slot = self.slot_after(slot)

    def fire_at(self, schedule_id: str, slot: int) -> int:
        """Return when a slot fires: at the slot, or later by its share of the jitter.

        Args:
            schedule_id: The schedule, so that two of them with the same slots fire at different times.
            slot: The slot.
        """
        if not self._jitter:
            return slot
        following, on_from = self.search(slot)
        bound = following if on_from is None else on_from
        room = self._jitter if bound is None else min(self._jitter, bound - slot)
        digest = hashlib.blake2b(f"{schedule_id}\x00{slot}".encode(), digest_size=8).digest()
        return later(slot, int.from_bytes(digest) % max(room, 1))

    def to_json(self) -> str:
        """Return the calendar as JSON text, which :meth:`from_json` reads."""
        document: dict[str, Any] = {"version": VERSION, "specs": [spec.to_document() for spec in self.specs]}
        if self.exclude:
            document["exclude"] = [spec.to_document() for spec in self.exclude]
        if self._start is not None:
            document["start_at"] = iso(self._start)
        if self._end is not None:
            document["end_at"] = iso(self._end)
        if self.jitter:
            document["jitter"] = self.jitter
        return orjson.dumps(document).decode()

    @classmethod
    def from_json(cls, text: str) -> Calendar:
        """Return the calendar of JSON text.

        Raises:
            InvalidOptionError: A later version of Outlast wrote it, or it is no calendar.
        """
        document = orjson.loads(text)
        if not isinstance(document, dict) or document.get("version") != VERSION:
            raise InvalidOptionError("the calendar has a form that this version does not read", field="spec")
        start, end = document.get("start_at"), document.get("end_at")
        return cls(
            [spec_from(spec) for spec in document["specs"]],
            [spec_from(spec) for spec in document.get("exclude", ())],
            None if start is None else to_datetime(from_iso(start)),
            None if end is None else to_datetime(from_iso(end)),
            document.get("jitter", 0),
        )


def spec_from(document: Any) -> Spec:
    """Return the spec of a JSON object.

    Raises:
        InvalidOptionError: It is none; the message has the three forms.
    """
    known = document if isinstance(document, dict) else {}
    if "cron" in known and not known.keys() - {"cron", "time_zone"}:
        return Cron(known["cron"], known.get("time_zone", "UTC"))
    if "every" in known and not known.keys() - {"every", "offset"}:
        return Every(known["every"], known.get("offset", 0))
    if isinstance(known.get("at"), list) and len(known) == 1:
        return At(*[_read_instant(instant) for instant in known["at"]])
    raise InvalidOptionError(
        'a spec is {"cron": text, "time_zone": name}, {"every": seconds, "offset": seconds} or {"at": [instant, …]}',
        field="spec",
    )


def _read_instant(text: Any) -> datetime:
    try:
        return to_datetime(from_iso(text))
    except (TypeError, ValueError, OverflowError):
        raise InvalidOptionError(
            "an instant is ISO 8601 text with an offset, such as 2026-11-23T02:00:00Z", field="spec"
        ) from None


def _checked(field: str, given: Any) -> tuple[Spec, ...]:
    specs = (given,) if isinstance(given, Spec) else given
    if not isinstance(specs, Sequence) or isinstance(specs, str):
        raise InvalidOptionError(
            f"{field} must be a Cron, an Every or an At, or a list of them, not {type(given).__name__}",
            field=field,
        )
    for spec in specs:
        if not isinstance(spec, Cron | Every | At):
            raise InvalidOptionError(
                f"{field} must hold Cron, Every and At only, not {type(spec).__name__}", field=field
            )
    if len(specs) > MOST_SPECS:
        raise InvalidOptionError(
            f"{field} must hold at most {MOST_SPECS} specs, not {len(specs)}", field=field
        )
    return tuple(specs)
