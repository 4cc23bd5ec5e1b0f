"""The options that say when a schedule fires, and what it does with its slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from outlast.cli.common.added_options import Options, option, with_options
from outlast.client.schedules.views import ScheduleDescription
from outlast.text.parsing import duration, limit, moment
from outlast_schedules.specs.cron import Cron
from outlast_schedules.specs.spec import At, Every, Spec
from outlast_workflow.errors import InvalidOptionError

CALENDAR: Final[Options] = {
    "cron": (
        list[str] | None,
        option("--cron", metavar="TEXT", help="Fire at the times of a cron text; repeatable."),
    ),
    "time_zone": (
        str | None,
        option("--time-zone", metavar="NAME", help="The time zone of the cron texts, such as Europe/Zurich."),
    ),
    "every": (
        list[str] | None,
        option("--every", metavar="TIME", help="Fire at an interval; repeatable."),
    ),
    "at": (
        list[str] | None,
        option("--at", metavar="INSTANT", help="Fire once at an instant; repeatable."),
    ),
    "exclude": (
        list[str] | None,
        option("--exclude", metavar="TEXT", help="Leave out what a cron text covers; repeatable."),
    ),
    "start_at": (str | None, option("--start-at", metavar="INSTANT", help="Fire no earlier.")),
    "end_at": (str | None, option("--end-at", metavar="INSTANT", help="Fire no later.")),
}
"""Each option of a calendar, by parameter."""

POLICIES: Final[Options] = {
    "jitter": (
        str | None,
        option("--jitter", metavar="TIME", help="Fire each slot later by a part of this."),
    ),
    "overlap": (
        str | None,
        option(
            "--overlap",
            help="While the workflow before is open: skip, buffer_one, buffer_all, cancel_other, terminate_other or "
            "allow_all.",
        ),
    ),
    "catch_up": (str | None, option("--catch-up", help="After an outage, start: latest, all or none.")),
    "catch_up_window": (
        str | None,
        option("--catch-up-window", metavar="TIME", help="How old a slot may be that is caught up."),
    ),
    "pause_on_failure": (
        bool | None,
        option(
            "--pause-on-failure/--no-pause-on-failure",
            help="Pause when a workflow that it started fails, or do not.",
        ),
    ),
    "max_runs": (
        str | None,
        option("--max-runs", metavar="NUMBER", help="How many slots it starts at most. `none` is no limit."),
    ),
    "note": (str | None, option("--note", help="A note for those who look at it.")),
}
"""Each further option of a schedule, by parameter."""


class GivenCalendar:
    """The options of a calendar that a command was given, perhaps with those of the policies."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = {name: value for name, value in given.items() if value not in (None, [], ())}

    @property
    def is_empty(self) -> bool:
        """Whether nothing was given."""
        return not self._given

    @property
    def time_zone(self) -> str:
        """The time zone of the cron texts."""
        return str(self._given.get("time_zone", "UTC"))

    @property
    def lacks_time_zone(self) -> bool:
        """Whether it has cron texts, and does not say in which time zone they are."""
        return "time_zone" not in self._given and any(
            text for name in ("cron", "exclude") for text in self._given.get(name, ())
        )

    def in_time_zone_of(self, found: ScheduleDescription) -> GivenCalendar:
        """Return these options with cron texts in the time zone of those that a schedule has.

        Raises:
            InvalidOptionError: Those are in several time zones, so nobody knows which is meant.
        """
        zones = sorted({str(one["time_zone"]) for one in (*found.specs, *found.exclude) if "cron" in one})
        if len(zones) > 1:
            raise InvalidOptionError(
                f"the schedule's cron texts are in several time zones ({', '.join(zones)}): give --time-zone",
                field="time_zone",
            )
        return GivenCalendar({**self._given, "time_zone": zones[0]}) if zones else self

    def fields(self, now: datetime) -> dict[str, Any]:
        """Return what was given, as :class:`Schedule` names it. An empty text takes away what need not be there.

        Args:
            now: The time, which distances such as ``2h`` count from.

        Raises:
            InvalidOptionError: Something cannot be read.
        """
        if "time_zone" in self._given and not self._given.keys() & {"cron", "exclude"}:
            raise InvalidOptionError(
                "the time zone is that of cron texts: give --cron as well, or --exclude", field="time_zone"
            )
        fields: dict[str, Any] = {}
        specs = self._specs(now)
        if specs:
            fields["spec"] = specs
        for name, value in self._given.items():
            if name == "exclude":
                fields[name] = [self._cron(text) for text in value if text]
            elif name in ("start_at", "end_at"):
                fields[name] = moment(name.replace("_", " "), value, now, ahead=True) if value else None
            elif name in ("jitter", "catch_up_window"):
                fields[name] = duration(name.replace("_", " "), value)
            elif name in ("overlap", "catch_up"):
                fields[name] = value.replace("-", "_")
            elif name == "max_runs":
                fields[name] = limit(name, value) if value else None
            elif name in ("pause_on_failure", "note"):
                fields[name] = value if value != "" else None
        return fields

    def _specs(self, now: datetime) -> Sequence[Spec]:
        specs: list[Spec] = [self._cron(text) for text in self._given.get("cron", ())]
        specs += [Every(duration("every", text) or 0) for text in self._given.get("every", ())]
        instants = [moment("at", text, now, ahead=True) for text in self._given.get("at", ())]
        if instants:
            specs.append(At(*[instant for instant in instants if instant is not None]))
        return specs

    def _cron(self, text: str) -> Cron:
        return Cron(text, self.time_zone)


def with_calendar(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a calendar. It receives what was given of them as its argument ``when``."""
    return with_options(command, "when", CALENDAR, GivenCalendar)


def with_schedule(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a calendar and of the policies, as its argument ``when``."""
    return with_options(command, "when", {**CALENDAR, **POLICIES}, GivenCalendar)
