"""The filters that ``list``, ``count`` and the commands about many runs share, as options."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from outlast.cli.common.added_options import Options, option, with_options
from outlast.client.client import Client
from outlast.text.attributes import conditions
from outlast.text.parsing import moment
from outlast.visibility.filters import Filters, leaves_out
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.primitives.times import to_datetime

_WHEN: Final = "WHEN"
OPTIONS: Final[Options] = {
    "status": (
        list[str] | None,
        option("--status", help="Only runs with this status; repeatable."),
    ),
    "type": (list[str] | None, option("--type", help="Only this workflow type; repeatable.")),
    "task_queue": (str | None, option("--task-queue", help="Only this task queue.")),
    "id": (list[str] | None, option("--id", help="Only the runs of this workflow id; repeatable.")),
    "id_prefix": (str | None, option("--id-prefix", help="Only ids that start with this text.")),
    "parent": (str | None, option("--parent", help="Only children of this workflow id.", metavar="ID")),
    "has_parent": (
        bool | None,
        typer.Option("--child/--no-child", help="Only children, or only what is none.", show_default=False),
    ),
    "owner": (str | None, option("--owner", help="Only runs that this worker holds.", metavar="WORKER_ID")),
    "build_id": (
        str | None,
        option("--build-id", help="Only runs whose last workflow task ran this build."),
    ),
    "queue": (str | None, option("--queue", help="Only runs of this queue.")),
    "schedule": (str | None, option("--schedule", help="Only what this schedule has started.")),
    "forked_from": (
        str | None,
        option("--forked-from", help="Only forks of this workflow id.", metavar="ID"),
    ),
    "was_forked_from": (
        bool,
        option("--was-forked-from", help="Only workflows that there are forks of."),
    ),
    "partition_key": (str | None, option("--partition-key", help="Only this partition of its queue.")),
    "where": (
        list[str] | None,
        option(
            "--where",
            help="A search attribute, as in 'amount>=5'; repeatable, and all must hold.",
            metavar="CONDITION",
        ),
    ),
    "created_after": (
        str | None,
        option("--created-after", help="Created at that time or later.", metavar=_WHEN),
    ),
    "created_before": (str | None, option("--created-before", help="Created earlier.", metavar=_WHEN)),
    "started_after": (
        str | None,
        option("--started-after", help="First workflow task at that time or later.", metavar=_WHEN),
    ),
    "started_before": (
        str | None,
        option("--started-before", help="First workflow task earlier.", metavar=_WHEN),
    ),
    "closed_after": (
        str | None,
        option("--closed-after", help="Closed at that time or later.", metavar=_WHEN),
    ),
    "closed_before": (str | None, option("--closed-before", help="Closed earlier.", metavar=_WHEN)),
    "deadline_before": (
        str | None,
        option("--deadline-before", help="Open, with a deadline that is earlier.", metavar=_WHEN),
    ),
    "attention": (bool, typer.Option("--attention", help="Only runs that need attention.")),
    "overdue": (
        bool,
        typer.Option(
            "--overdue", help="Only runs with a deadline or timer that has passed and has not been enforced."
        ),
    ),
    "open": (bool, typer.Option("--open", help="Only open runs.")),
    "closed": (bool, typer.Option("--closed", help="Only closed runs.")),
    "latest": (
        bool,
        typer.Option("--latest", help="Only the last run of each chain."),
    ),
}
"""Each filter's type and option, by parameter."""


_FLAGS: Final = frozenset(name for name, (kind, _) in OPTIONS.items() if kind is bool)
"""Options that, not given, are ``False``."""

# For commands that take only some of the filters.
Status = Annotated[
    list[str] | None,
    typer.Option("--status", help="Only runs with this status; repeatable.", show_default=False),
]
Type = Annotated[str | None, typer.Option("--type", help="Only this workflow type.", show_default=False)]
CreatedAfter = Annotated[
    str | None,
    typer.Option(
        "--created-after", metavar="WHEN", help="Created at that time or later.", show_default=False
    ),
]
Open = Annotated[
    bool | None, typer.Option("--open/--closed", help="Only open, or only closed runs.", show_default=False)
]


class Chosen:
    """The filters that a command was given. Times relative to now are worked out once a client knows the time."""

    def __init__(self, given: dict[str, Any]) -> None:
        if given["open"] and given["closed"]:
            raise InvalidOptionError(
                "a run is open or closed: leave out --open and --closed for all", field="open"
            )
        self._given = given
        self._where = conditions(given["where"] or ())

    @property
    def is_empty(self) -> bool:
        """Whether no filter was given, so that every workflow matches. ``--latest`` alone does not count as one."""
        # A flag that was not given is False, an option that may be repeated an empty list. Zero is a value.
        return not leaves_out(
            {
                name: None if (value is False and name in _FLAGS) or value in ([], ()) else value
                for name, value in self._given.items()
            }
        )

    def filters(self, client: Client) -> Filters:
        """Return the filters for ``client.list``, ``count`` and ``bulk``."""
        given, now = self._given, to_datetime(client.runtime.environment.clock.now())

        def instant(name: str, *, ahead: bool = False) -> datetime | None:
            return moment(name.replace("_", " "), given[name], now, ahead=ahead)

        return Filters(
            status=given["status"] or None,
            workflow_type=given["type"] or None,
            task_queue=given["task_queue"],
            workflow_ids=given["id"] or None,
            id_prefix=given["id_prefix"],
            parent=given["parent"],
            has_parent=given["has_parent"],
            owner=given["owner"],
            build_id=given["build_id"],
            queue=given["queue"],
            schedule=given["schedule"],
            forked_from=given["forked_from"],
            was_forked_from=given["was_forked_from"] or None,
            partition_key=given["partition_key"],
            where=self._where or None,
            created_after=instant("created_after"),
            created_before=instant("created_before"),
            started_after=instant("started_after"),
            started_before=instant("started_before"),
            closed_after=instant("closed_after"),
            closed_before=instant("closed_before"),
            deadline_before=instant("deadline_before", ahead=True),
            attention=given["attention"],
            overdue=given["overdue"],
            open=True if given["open"] else False if given["closed"] else None,
            latest=given["latest"],
        )


def with_filters(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of all filters. It receives their values as its argument ``chosen``."""
    return with_options(command, "chosen", OPTIONS, Chosen)
