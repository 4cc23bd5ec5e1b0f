"""The options of a start, which commands share that start workflows, or say how they are to be started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final

import typer

from outlast.text.attributes import attributes
from outlast.text.parsing import duration, json_object, retry_policy_of

TaskQueue = Annotated[str, typer.Option("--task-queue", help="The task queue whose workers run it.")]
ExecutionTimeout = Annotated[
    str | None,
    typer.Option(
        "--execution-timeout",
        metavar="TIME",
        help="The longest time for all runs together.",
        show_default=False,
    ),
]
RunTimeout = Annotated[
    str | None,
    typer.Option("--run-timeout", metavar="TIME", help="The longest time for each run.", show_default=False),
]
StartDelay = Annotated[
    str | None,
    typer.Option(
        "--start-delay", metavar="TIME", help="The time to wait before it starts.", show_default=False
    ),
]
Priority = Annotated[
    int, typer.Option("--priority", help="0 (first) to 9, in its queue and for its activities.")
]
Queue = Annotated[
    str | None,
    typer.Option("--queue", help="The queue that decides when it begins.", show_default=False),
]
PartitionKey = Annotated[
    str | None,
    typer.Option("--partition-key", help="Its partition of the queue.", show_default=False),
]
ScheduleToStartTimeout = Annotated[
    str | None,
    typer.Option(
        "--schedule-to-start-timeout",
        metavar="TIME",
        help="The longest time in the queue's line.",
        show_default=False,
    ),
]
Memo = Annotated[
    str | None,
    typer.Option("--memo", metavar="JSON", help="A JSON object to keep with it.", show_default=False),
]
Summary = Annotated[
    str | None,
    typer.Option(
        "--summary",
        metavar="TEXT",
        help="What it does, in at most 200 characters that everybody sees.",
        show_default=False,
    ),
]
RetryPolicy = Annotated[
    str | None,
    typer.Option(
        "--retry-policy",
        metavar="JSON",
        help="Start a failed run again, as in '{\"max_attempts\": 3}'.",
        show_default=False,
    ),
]
SearchAttributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute", metavar="NAME=VALUE", help="A search attribute; repeatable.", show_default=False
    ),
]

_READ: Final[dict[str, Callable[[Any], Any]]] = {
    "execution_timeout": partial(duration, "execution timeout"),
    "run_timeout": partial(duration, "run timeout"),
    "start_delay": partial(duration, "start delay"),
    "schedule_to_start_timeout": partial(duration, "schedule-to-start timeout"),
    "memo": partial(json_object, "memo"),
    "retry_policy": retry_policy_of,
    "search_attributes": attributes,
}
"""What reads the text of an option; the others are used as they are given."""
_FIELDS: Final = (*_READ, "priority", "queue", "partition_key", "summary")


def start_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of :class:`outlast.StartOptions` that a command's options give.

    Raises:
        InvalidOptionError: A text cannot be read.
    """
    found = {name: given[name] for name in _FIELDS if given.get(name) not in (None, [])}
    return {name: _READ[name](value) if name in _READ else value for name, value in found.items()}
