"""Calendars as lines of text, which forms show and read: a cron text, ``every 5m`` or ``at`` with instants."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from outlast.text.parsing import duration
from outlast_schedules.specs.calendar import spec_from
from outlast_schedules.specs.cron import Cron
from outlast_schedules.specs.spec import Every, Spec
from outlast_workflow.errors import InvalidOptionError

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"))


def lines_of(specs: Sequence[Mapping[str, Any]], time_zone: str) -> str:
    """Return specs as lines.

    Args:
        specs: Their JSON forms.
        time_zone: The zone of the cron texts that name none.
    """
    return "\n".join(_line_of(spec, time_zone) for spec in specs)


def specs_of(field: str, text: str, time_zone: str) -> list[Spec]:
    """Return the specs of lines.

    Args:
        field: What messages call it.
        text: The lines.
        time_zone: The zone of the cron texts that name none.

    Raises:
        InvalidOptionError: A line cannot be read; the error is of that field.
    """
    try:
        return [_spec_of(line.strip(), time_zone) for line in text.splitlines() if line.strip()]
    except InvalidOptionError as error:
        named = "time_zone" if error.field == "time_zone" else field
        raise InvalidOptionError(str(error), field=named) from None


def _line_of(spec: Mapping[str, Any], time_zone: str) -> str:
    if "cron" in spec:
        zone = spec.get("time_zone", "UTC")
        return f"{spec['cron']}" if zone == time_zone else f"{spec['cron']} ({zone})"
    if "every" in spec:
        offset = f" offset {duration_text(spec['offset'])}" if spec.get("offset") else ""
        return f"every {duration_text(spec['every'])}{offset}"
    return f"at {', '.join(spec['at'])}"


def _spec_of(line: str, time_zone: str) -> Spec:
    word, _, rest = line.partition(" ")
    if word.lower() == "every":
        period, _, offset = rest.partition(" offset ")
        return Every(duration("every", period) or 0, duration("offset", offset.strip() or None) or 0)
    if word.lower() == "at":
        return spec_from({"at": [instant.strip() for instant in rest.split(",")]})
    named = re.fullmatch(r"(.*?)\s*\(([^()]*)\)", line)
    return Cron(line, time_zone) if named is None else Cron(named[1], named[2])


def duration_text(seconds: float) -> str:
    """Return a duration as forms take it: ``2h``, ``90s``."""
    for size, unit in _UNITS:
        if seconds and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:g}s"
