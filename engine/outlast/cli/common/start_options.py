"""The options of a workflow's start, for each command that starts one or says what will be started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from outlast.cli.common.added_options import Options, option, with_options
from outlast.client.schedules.update import StartOptionsUpdate
from outlast.text.attributes import attributes
from outlast.text.parsing import duration, instant, json_object, retry_policy_of
from outlast_workflow.options.alerts import read_policy
from outlast_workflow.options.options import StartOptions

TaskQueue = Annotated[str, typer.Option("--task-queue", help="The task queue whose workers run it.")]
OPTIONS: Final[Options] = {
    "execution_timeout": (
        str | None,
        option("--execution-timeout", metavar="TIME", help="The longest time for all runs together."),
    ),
    "run_timeout": (
        str | None,
        option("--run-timeout", metavar="TIME", help="The longest time for each run."),
    ),
    "start_delay": (
        str | None,
        option("--start-delay", metavar="TIME", help="The time to wait before it starts."),
    ),
    "priority": (
        int | None,
        option("--priority", help="0 (first) to 9, in its queue and for its activities; 5 if not given."),
    ),
    "queue": (str | None, option("--queue", help="The queue that decides when it begins.")),
    "partition_key": (str | None, option("--partition-key", help="Its partition of the queue.")),
    "schedule_to_start_timeout": (
        str | None,
        option("--schedule-to-start-timeout", metavar="TIME", help="The longest time in the queue's line."),
    ),
    "memo": (str | None, option("--memo", metavar="JSON", help="A JSON object to keep with it.")),
    "summary": (
        str | None,
        option(
            "--summary", metavar="TEXT", help="What it does, in at most 200 characters that everybody sees."
        ),
    ),
    "retry_policy": (
        str | None,
        option(
            "--retry-policy", metavar="JSON", help="Start a failed run again, as in '{\"max_attempts\": 3}'."
        ),
    ),
    "alerts": (
        str | None,
        option("--alerts", metavar="JSON", help="When to be told of a deadline, as in '{\"at\": [0.8]}'."),
    ),
    "attribute": (
        list[str] | None,
        option("--attribute", metavar="NAME=VALUE", help="A search attribute; repeatable."),
    ),
}
"""Each option's type and option, by parameter, of workflows that are started now or later."""
OPTIONS_NOW: Final[Options] = {
    "execution_deadline": (
        str | None,
        option("--execution-deadline", metavar="TIME", help="An instant by which all runs must have ended."),
    ),
    **OPTIONS,
}
"""Those of a workflow that is started now."""

_DURATIONS: Final = ("execution_timeout", "run_timeout", "start_delay", "schedule_to_start_timeout")


class GivenStartOptions:
    """The options of a start that a command was given."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = {name: value for name, value in given.items() if value not in (None, [], ())}

    def options(self) -> StartOptions:
        """Return the options of a start.

        Raises:
            InvalidOptionError: One cannot be read, or is not valid.
        """
        return StartOptions(
            **{_NAMES.get(name, name): _read(name, text) for name, text in self._given.items()}
        )

    def changes(self) -> StartOptionsUpdate:
        """Return the options that were given, to change only these. An empty text takes one away.

        Raises:
            InvalidOptionError: One cannot be read.
        """
        found: Any = {
            _NAMES.get(name, name): None if value in ("", [""]) else _read(name, value)
            for name, value in self._given.items()
        }
        return found  # type: ignore[no-any-return]


_NAMES: Final = {"attribute": "search_attributes"}


def _read(name: str, value: Any) -> Any:
    if name in _DURATIONS:
        words = name.replace("_", " ").replace("schedule to start", "schedule-to-start")
        return duration(words, value)
    if name == "execution_deadline":
        return instant("execution deadline", value)
    if name == "memo":
        return json_object("memo", value)
    if name == "retry_policy":
        return retry_policy_of(value)
    if name == "alerts":
        return read_policy(_in_seconds(json_object("alerts", value) or {}))
    if name == "attribute":
        return attributes(value)
    return value


def with_start_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a start. It receives what was given of them as its argument ``start``."""
    return with_options(command, "start", OPTIONS_NOW, GivenStartOptions)


def with_options_of_starts(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of starts to come: those of a start without its absolute deadline."""
    return with_options(command, "start", OPTIONS, GivenStartOptions)


def _in_seconds(policy: dict[str, Any]) -> dict[str, Any]:
    """Return a policy of alerts with its durations in seconds, which may be written as everywhere, like ``10m``."""
    return {
        name: [duration(f"alerts {name}", one) if isinstance(one, str) else one for one in value]
        if name in ("before", "after") and isinstance(value, list)
        else value
        for name, value in policy.items()
    }
