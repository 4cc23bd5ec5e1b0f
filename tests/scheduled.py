"""What a schedule must do, said a second time: slot by slot, from the pages, without rows, versions or transactions.

The engine decides a look at once, from what its calendar finds; this asks of each slot on its own what becomes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from outlast import Every
from outlast_schedules.specs.calendar import Calendar
from outlast_store.schema.rows import ScheduleRow

ON_TIME_US = 60_000_000
"""How late a slot may be found that is fired whatever the catch-up policy says."""
DAY_US = 86_400_000_000
REPLACING = ("cancel_other", "terminate_other")
ROOM = {"buffer_one": 1, "buffer_all": 1_000}


@dataclass
class Look:
    """What became of the slots of one look."""

    started: list[int] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    missed: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    """The slots that wait after it."""
    undecided: list[int] = field(default_factory=list)
    """What is left because the schedule may start no more."""
    ends: str | None = None
    """The policy by which it ends the workflow that is open."""


@dataclass(frozen=True)
class Policy:
    """What a schedule goes by. Instants and durations are in microseconds."""

    overlap: str
    catch_up: str
    window: int

    def look(
        self,
        slots: Sequence[int],
        *,
        late_by: Callable[[int], int],
        age: Callable[[int], int],
        waiting: Sequence[int],
        left: int | None,
        is_open: bool,
        taken: Collection[int],
        on_time: int = ON_TIME_US,
    ) -> Look:
        """Say what becomes of the slots that a look has found.

        Args:
            slots: What it found, in order.
            late_by: By how much each slot is found too late.
            age: How old each slot is.
            waiting: The slots that wait already.
            left: How many the schedule may still start; ``None``: any number.
            is_open: Whether what it started last is open.
            taken: The slots whose workflow ids are taken.
            on_time: How late a slot may be found that is on time.
        """
        look = Look(waiting=list(waiting))
        missed = self._missed(slots, late_by, age, on_time)
        look.missed = [slot for slot in slots if slot in missed]
        due = [slot for slot in slots if slot not in missed]
        if left == 0:
            look.skipped += look.waiting
            look.waiting = []
            look.undecided = due
            return look
        if look.waiting and not is_open and not (due and self.overlap in REPLACING):
            first = look.waiting.pop(0)
            if first in taken:
                look.skipped.append(first)
            else:
                look.started.append(first)
        for slot in due:
            if left is not None and len(look.started) == left:
                look.undecided.append(slot)
                continue
            busy = is_open or bool(look.started)
            if self.overlap == "allow_all":
                (look.skipped if slot in taken else look.started).append(slot)
            elif self.overlap in REPLACING:
                self._replace(look, slot, slot == due[-1], slot in taken, is_open=is_open)
            elif not busy and not look.waiting:
                (look.skipped if slot in taken else look.started).append(slot)
            elif len(look.waiting) < self._room(left, look):
                look.waiting.append(slot)
            else:
                look.skipped.append(slot)
        return look

    def _missed(
        self, slots: Sequence[int], late_by: Callable[[int], int], age: Callable[[int], int], on_time: int
    ) -> set[int]:
        late = [slot for slot in slots if late_by(slot) > on_time]
        if self.catch_up == "all":
            return {slot for slot in late if age(slot) > self.window}
        kept: list[int] = []
        if self.catch_up == "latest" and late and late[-1] == slots[-1] and age(late[-1]) <= self.window:
            kept = late[-1:]
        return set(late) - set(kept)

    def _room(self, left: int | None, look: Look) -> int:
        room = ROOM.get(self.overlap, 0)
        return room if left is None else min(room, left - len(look.started))

    def _replace(self, look: Look, slot: int, newest: bool, taken: bool, *, is_open: bool) -> None:
        if not newest or taken:
            look.skipped.append(slot)
            return
        look.skipped += look.waiting
        look.waiting = []
        if is_open:
            look.ends = self.overlap
        if is_open and self.overlap == "cancel_other":
            look.waiting = [slot]
        else:
            look.started.append(slot)


@dataclass
class Model:
    """One schedule that fires at every whole period, as its users know it. Instants are in microseconds."""

    policy: Policy
    period: int
    decided: int
    """Up to where its slots are decided."""
    most: int | None = None
    left: int | None = None
    paused: bool = False
    started: int = 0
    skipped: int = 0
    missed: int = 0
    waiting: list[int] = field(default_factory=list)
    last: str | None = None
    """The workflow that it started last."""

    def slots(self, now: int) -> list[int]:
        """The slots that are due and not decided."""
        first = self.decided // self.period * self.period + self.period
        return list(range(first, now + 1, self.period))

    @property
    def next_slot(self) -> int | None:
        """The slot that fires next, if one does."""
        if self.paused or self.left == 0:
            return None
        return self.decided // self.period * self.period + self.period

    def looks(self, now: int) -> bool:
        """Whether a watchdog has anything to do here."""
        return not self.paused and ((self.left != 0 and bool(self.slots(now))) or bool(self.waiting))

    def look(self, now: int, *, is_open: bool, taken: Collection[int]) -> Look:
        """Let a watchdog look; return what became of the slots.

        Args:
            now: The time.
            is_open: Whether what it started last is open.
            taken: The slots whose workflow ids are taken.
        """
        slots = self.slots(now)

        def since(slot: int) -> int:
            return now - slot

        look = self.policy.look(
            slots,
            late_by=since,
            age=since,
            waiting=self.waiting,
            left=self.left,
            is_open=is_open,
            taken=taken,
        )
        self.started += len(look.started)
        self.skipped += len(look.skipped)
        self.missed += len(look.missed)
        self.waiting = look.waiting
        if self.left is not None:
            self.left -= len(look.started)
        self.decided = max([self.decided, *(slot for slot in slots if slot not in look.undecided)])
        return look

    def resume(self, now: int) -> None:
        """Let it go on from now, if it is paused."""
        if self.paused:
            self.paused = False
            self.decided = max(self.decided, now)

    def count_from(self, now: int, period: int) -> None:
        """Give it another period: what lies before now was never missed."""
        if period != self.period:
            self.period = period
            self.decided = max(self.decided, now)

    def limit(self, most: int | None) -> None:
        """Give it another limit; what it has started under the one before counts."""
        if most != self.most:
            used = 0 if self.most is None or self.left is None else self.most - self.left
            self.most = most
            self.left = None if most is None else max(0, most - used)

    def go_by(self, **policy: object) -> None:
        """Give it other policies."""
        self.policy = replace(self.policy, **policy)  # type: ignore[arg-type]


def a_row(schedule_id: str = "a", period: int = 10_000_000, **values: Any) -> ScheduleRow:
    """A schedule that was never written."""
    given: dict[str, Any] = dict.fromkeys(ScheduleRow.__annotations__)
    given.update(
        schedule_id=schedule_id,
        version=1,
        workflow_type="Order",
        task_queue="default",
        input="[]",
        action="{}",
        spec=Calendar(Every(period // 1_000_000)).to_json(),
        overlap="skip",
        catch_up="latest",
        catch_up_window=DAY_US,
        pause_on_failure=False,
        started=0,
        skipped=0,
        missed=0,
        decided_until=0,
        created_at=0,
        updated_at=0,
    )
    given.update(values)
    given["remaining_runs"] = given["max_runs"]
    return ScheduleRow(**given)
