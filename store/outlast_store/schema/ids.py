"""Instants in ids: an id begins with the millisecond in which it was made, so a range of time is a range of ids."""

from __future__ import annotations

_LAST_MILLISECOND = (1 << 48) - 1


def first_id_at(instant_us: int) -> str:
    """Return the least id (a UUIDv7) that can be made at an instant, in microseconds since the epoch."""
    millisecond = min(max(instant_us // 1000, 0), _LAST_MILLISECOND)
    digits = f"{millisecond:012x}"
    return f"{digits[:8]}-{digits[8:]}"
