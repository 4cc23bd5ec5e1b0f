"""The fields of forms for the options of a start, which the forms of a start and of a schedule share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from outlast import RetryPolicy
from outlast.text.parsing import duration
from outlast_dashboard.pages.forms import document, whole
from outlast_workflow.options.alerts import read_policy

_DURATIONS: Final = {
    "execution_timeout": "execution timeout",
    "run_timeout": "run timeout",
    "start_delay": "start delay",
    "schedule_to_start_timeout": "schedule-to-start timeout",
}
FIELDS: Final = (
    *_DURATIONS,
    *("priority", "queue", "partition_key", "max_attempts", "search_attributes", "memo", "summary", "alerts"),
)
"""The names of the fields; ``templates/_start_options.html`` has them."""
FOLDED: Final = tuple(name for name in FIELDS if name not in ("execution_timeout", "run_timeout"))
"""Those that are unfolded only where one of them is used."""


def options_typed(typed: Mapping[str, str]) -> dict[str, Any]:
    """Return what was typed, as :class:`StartOptions` names it; an empty field is ``None``, or the default priority.

    Raises:
        InvalidOptionError: A field cannot be read.
    """
    attempts = whole("max_attempts", typed["max_attempts"])
    priority = whole("priority", typed["priority"])
    alerts = document("alerts", typed["alerts"])
    return {
        **{name: duration(words, typed[name].strip() or None) for name, words in _DURATIONS.items()},
        "priority": 5 if priority is None else priority,
        "queue": typed["queue"].strip() or None,
        "partition_key": typed["partition_key"].strip() or None,
        "retry_policy": None if attempts is None else RetryPolicy(max_attempts=attempts),
        "search_attributes": document("search_attributes", typed["search_attributes"]),
        "memo": document("memo", typed["memo"]),
        "summary": typed["summary"].strip() or None,
        "alerts": None if alerts is None else read_policy(alerts),
    }
