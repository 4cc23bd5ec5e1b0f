"""Schedules as people read them: a table of all, and the lines of one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

import orjson
from rich.text import Text

from outlast.cli.common.output import show, table
from outlast.client.schedules.views import ScheduleDescription, ScheduledOptions
from outlast.text.wording import CATCH_UP_WORDS, OVERLAP_WORDS, ago, at, clock, label, words

_DURATIONS: Final = ("execution_timeout", "run_timeout", "start_delay", "schedule_to_start_timeout")
_INDENT: Final = "\n" + " " * 12


def show_table(found: Sequence[ScheduleDescription], now: datetime, *, filtered: bool) -> None:
    """Print a table of schedules.

    Args:
        found: The schedules.
        now: The time.
        filtered: Whether only some were asked for.
    """
    if not found:
        if filtered:
            show("no schedule matches: `outlast schedule list` lists all")
        else:
            show("there are no schedules: `outlast schedule create ID TYPE --cron …` creates one")
        return
    made = table(
        "SCHEDULE", "STATE", "TYPE", "WHEN", "NEXT", "STARTED", "SKIPPED", "MISSED",
        drop=("MISSED", "SKIPPED", "TYPE"),
    )  # fmt: skip
    for one in found:
        made.add_row(
            one.schedule_id,
            _state(one),
            one.workflow_type,
            one.when,
            ago(one.next_slots[0], now) if one.next_slots else "",
            f"{one.started:,}",
            f"{one.skipped:,}",
            f"{one.missed:,}",
        )
    show(made)
    for one in found:
        told = one.trouble or (None if one.paused or one.next_look_at is None else one.unserved)
        if told is not None:
            show(f"{one.schedule_id}: {label(told)}")


def show_description(found: ScheduleDescription, now: datetime) -> None:
    """Print a schedule.

    Args:
        found: The schedule.
        now: The time.
    """
    lines = {
        "schedule": found.schedule_id,
        "state": _state_words(found, now),
        "note": "" if found.paused else label(found.note),
        "trouble": found.trouble or "",
        "no worker": "" if found.trouble else label(found.unserved),
        "starts": f"{found.workflow_type} on task queue {found.task_queue}",
        "options": _options(found.options),
        "when": found.when,
        "excluded": found.excluded,
        "from": at(found.start_at, now),
        "until": at(found.end_at, now),
        "jitter": words(found.jitter) if found.jitter else "",
        "overlap": f"{found.overlap.value}: {OVERLAP_WORDS[found.overlap]}",
        "catch up": f"{found.catch_up.value}: {CATCH_UP_WORDS[found.catch_up]}, within {words(found.catch_up_window)}",
        "on failure": "pause" if found.pause_on_failure else "",
        "runs left": "" if found.remaining_runs is None else f"{found.remaining_runs} of {found.max_runs}",
        "done": f"{found.started:,} started, {found.skipped:,} skipped, {found.missed:,} missed",
        "waiting": ", ".join(clock(slot) for slot in found.buffered),
        "next": _INDENT.join(slot_words(slot, now, found.time_zone) for slot in found.next_slots),
        "last": _INDENT.join(
            f"{clock(one.slot) if one.slot is not None else clock(one.at)} {one.outcome}"
            + (f": {one.workflow_id}" if one.workflow_id is not None else "")
            for one in found.recent
        ),
    }
    for name, text in lines.items():
        if text:
            show(f"{name + ':':<12}{text}")


def slot_words(slot: datetime, now: datetime, time_zone: str) -> str:
    """Return a slot in UTC, its distance from now, and the wall time that its cron text means.

    Args:
        slot: The slot.
        now: The time.
        time_zone: The zone of the cron texts.
    """
    words = at(slot, now)
    if time_zone == "UTC":
        return words
    return f"{words}, {slot.astimezone(ZoneInfo(time_zone)):%a %d %b %H:%M} in {time_zone}"


def _state_words(found: ScheduleDescription, now: datetime) -> str:
    if not found.paused:
        return _state(found).plain
    return f"paused {ago(found.paused_at, now)}" + (f": {label(found.note)}" if found.note else "")


def _state(found: ScheduleDescription) -> Text:
    if found.paused:
        return Text("paused", style="yellow")
    if found.trouble is not None:
        return Text("in trouble", style="red")
    return Text("active", style="green") if found.next_look_at is not None else Text("ended", style="dim")


def _options(options: ScheduledOptions) -> str:
    parts = []
    for name, value in options.model_dump(exclude_defaults=True).items():
        named = name.replace("_", " ").replace("schedule to start", "schedule-to-start")
        text = words(value) if name in _DURATIONS else value
        parts.append(f"{named} {orjson.dumps(text).decode() if isinstance(text, dict) else text}")
    return ", ".join(parts)
