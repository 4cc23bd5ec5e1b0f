"""Structural limits: how large things may grow before the engine refuses them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from outlast_workflow.errors import InvalidOptionError, StructuralLimitError

logger = logging.getLogger("outlast.limits")

_KIB = 1024
_MIB = 1024 * _KIB

_ADVICE = {
    "payload_bytes": "keep large data elsewhere and pass a reference to it",
    "memo_bytes": "keep large data in the input or elsewhere",
    "search_attributes_bytes": "keep in them only what runs are searched by, and the rest in the memo",
    "unhandled_signals": "let the workflow handle them first, or raise this limit in StructuralLimits",
    "debounced_calls": "give debounce a timeout=, after which the run begins, or raise this limit in StructuralLimits",
    "open_updates": "let the workflow answer them first, or raise this limit in StructuralLimits",
    "stream_items": "write fewer and larger items, or raise this limit in StructuralLimits",
    "stream_bytes": "write references to large data, or raise this limit in StructuralLimits",
    "history_events": "call workflow.continue_as_new() earlier; workflow.info() says when it is time",
    "history_bytes": "call workflow.continue_as_new() earlier; workflow.info() says when it is time",
}


class _Near:
    """Gives limits an attribute that is no option, and that is made at its first use."""

    __slots__ = ("near",)

    near: Mapping[str, int]

    def __getattr__(self, name: str) -> Mapping[str, int]:
        if name != "near":
            raise AttributeError(f"structural limits have no attribute {name!r}")
        # Four fifths of each limit, rounded up; out of reach where it is off.
        limits: Any = self
        near = {kind.name: (getattr(self, kind.name) * 4 + 4) // 5 or sys.maxsize for kind in fields(limits)}
        object.__setattr__(self, "near", near)
        return near


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuralLimits(_Near):
    """The engine's limits, by kind; 0 switches one off. A value *greater* than its limit is refused.

    ``…_bytes`` are bytes of JSON; the others are counts. ``owner_losses`` is how many owners in a row a run may lose;
    the next loss ends it. The last two are not limits: beyond them ``workflow.info()`` suggests continuing as new.

    Attributes:
        near: By kind, the value from which on :meth:`check` warns or refuses: smaller ones need no check.
    """

    payload_bytes: int = 2 * _MIB
    memo_bytes: int = 256 * _KIB
    search_attributes_bytes: int = 40 * _KIB
    pending_activities: int = 20_000
    pending_timers: int = 20_000
    commands_per_workflow_task: int = 20_000
    open_children: int = 5_000
    unhandled_signals: int = 5_000
    debounced_calls: int = 5_000
    open_updates: int = 500
    history_events: int = 50_000
    history_bytes: int = 50 * _MIB
    owner_losses: int = 100
    stream_items: int = 1_000_000
    stream_bytes: int = 256 * _MIB
    continue_as_new_events: int = 4_096
    continue_as_new_bytes: int = 4 * _MIB

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                words = field.name.replace("_", " ")
                raise InvalidOptionError(
                    f"{words} limit must be a whole number, 0 (off) or more", field=field.name
                )

    def check(self, kind: str, value: int, *, whose: str = "", warned: set[str] | None = None) -> None:
        """Refuse a value over its limit, and log a warning from 80 % on.

        Args:
            kind: A field of this class.
            value: Bytes or a count, as the field is.
            whose: The subject that the warning names, such as a workflow id.
            warned: The kinds already warned about. A warning is logged only for a kind that is not in it.

        Raises:
            StructuralLimitError: The value is greater than the limit.
        """
        if value >= self.near[kind]:
            self._near(kind, value, getattr(self, kind), whose, warned)

    def check_next(self, kind: str, count: int, *, whose: str = "") -> None:
        """Check a count that grows by one, where no record is kept of past warnings.

        A warning is logged at 80 %, and then at every further twentieth of the limit.

        Args:
            kind: A field of this class.
            count: The count after it has grown.
            whose: The subject that the warning names, such as a workflow id.

        Raises:
            StructuralLimitError: The count is greater than the limit.
        """
        limit: int = getattr(self, kind)
        if limit and (count > limit or (count - 1) * 20 // limit < count * 20 // limit):
            self.check(kind, count, whose=whose)

    def _near(self, kind: str, value: int, limit: int, whose: str, warned: set[str] | None) -> None:
        if value > limit:
            raise StructuralLimitError(kind, value=value, limit=limit, advice=_ADVICE.get(kind))
        if warned is not None:
            if kind in warned:
                return
            warned.add(kind)
        logger.warning(
            "%s%s at %d of %d: %s",
            f"{whose}: " if whose else "",
            kind.replace("_", " "),
            value,
            limit,
            _ADVICE.get(kind, "do less at once, or raise this limit in StructuralLimits"),
        )


DEFAULT_LIMITS = StructuralLimits()
"""The limits that apply by default."""
