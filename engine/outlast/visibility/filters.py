"""The filters of a listing, and the one place that checks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypedDict

from outlast.visibility.where import Range, wanted_attributes
from outlast_store.reads.run_listing import RunFilter
from outlast_store.schema.search_index import Wanted
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.other_names import advice
from outlast_workflow.options.search_attributes import FORK_ATTRIBUTE, SCHEDULE_ATTRIBUTE
from outlast_workflow.options.validation import instant_of, validate_name, validate_workflow_id
from outlast_workflow.primitives.enums import OPEN_RUN_STATUSES, RunStatus

MOST_IDS: Final = 1000
"""How many ids of runs, or of workflows, a filter may name."""
MOST_TYPES: Final = 100

Statuses = RunStatus | str | Iterable[RunStatus | str]
WhereValue = str | int | float | bool | datetime | Range | Iterable[str | int | float | bool | datetime]


class Filters(TypedDict, total=False):
    """The filters of ``client.list``, which documents them, and of ``client.count``."""

    status: Statuses | None
    workflow_type: str | Iterable[str] | None
    task_queue: str | None
    workflow_id: str | None
    workflow_ids: Iterable[str] | None
    id_prefix: str | None
    parent: str | None
    has_parent: bool | None
    owner: str | None
    build_id: str | None
    queue: str | None
    partition_key: str | None
    schedule: str | None
    forked_from: str | None
    was_forked_from: bool | None
    run_ids: Iterable[str] | None
    where: Mapping[str, WhereValue] | None
    created_after: datetime | None
    created_before: datetime | None
    started_after: datetime | None
    started_before: datetime | None
    closed_after: datetime | None
    closed_before: datetime | None
    deadline_before: datetime | None
    attention: bool
    overdue: bool
    open: bool | None
    latest: bool


_OTHER_STATUSES: Final = {
    "success": "completed",
    "error": "failed",
    "enqueued": "queued",
    "delayed": "pending",
    "max_recovery_attempts_exceeded": "failed",
}
"""What DBOS calls them."""
_SWITCHES: Final = frozenset({"attention", "overdue", "latest"})
"""Filters that, switched off, leave out nothing."""


def leaves_out(filters: Mapping[str, Any]) -> bool:
    """Return whether filters leave out some workflow. ``latest`` does not: each workflow has a latest run."""
    return any(
        value is not None and not (name in _SWITCHES and value is False)
        for name, value in filters.items()
        if name != "latest"
    )


def run_filter(
    *,
    status: Statuses | None = None,
    run_ids: Iterable[str] | None = None,
    workflow_type: str | Iterable[str] | None = None,
    task_queue: str | None = None,
    workflow_id: str | None = None,
    workflow_ids: Iterable[str] | None = None,
    id_prefix: str | None = None,
    parent: str | None = None,
    has_parent: bool | None = None,
    owner: str | None = None,
    build_id: str | None = None,
    queue: str | None = None,
    partition_key: str | None = None,
    schedule: str | None = None,
    forked_from: str | None = None,
    was_forked_from: bool | None = None,
    where: Mapping[str, WhereValue] | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
    started_after: datetime | None = None,
    started_before: datetime | None = None,
    closed_after: datetime | None = None,
    closed_before: datetime | None = None,
    deadline_before: datetime | None = None,
    attention: bool = False,
    overdue: bool = False,
    open: bool | None = None,
    latest: bool = False,
    **unknown: Any,
) -> RunFilter:
    """Check filters, and return them as the store reads them.

    The arguments are those of :meth:`outlast.Client.list`.

    Raises:
        InvalidOptionError: There is no such filter or status (the message lists the choices), a name cannot be one, a
            datetime has no time zone, or a window ends before it begins.
    """
    if unknown:
        name = min(unknown)
        known = tuple(Filters.__annotations__)
        raise InvalidOptionError(f"there is no filter {name!r}: {advice(name, known)}", field=name)
    chosen = RunFilter(
        statuses=_statuses(status),
        run_ids=_several("run_ids", "run id", run_ids, MOST_IDS),
        workflow_types=_several(
            "workflow_type",
            "workflow type",
            workflow_type if workflow_type is None or _are_several(workflow_type) else (workflow_type,),
            MOST_TYPES,
        ),
        task_queue=None if task_queue is None else validate_name("task queue", task_queue),
        workflow_id=None if workflow_id is None else validate_workflow_id(workflow_id),
        workflow_ids=_several("workflow_ids", "workflow id", workflow_ids, MOST_IDS),
        id_prefix=None if id_prefix is None else validate_name("id prefix", id_prefix),
        parent=None if parent is None else validate_name("parent", parent),
        has_parent=None if has_parent is None else _flag("has_parent", has_parent),
        owner_id=None if owner is None else validate_name("owner", owner),
        build_id=None if build_id is None else validate_name("build id", build_id),
        queue=None if queue is None else validate_name("queue", queue),
        partition_key=None if partition_key is None else validate_name("partition key", partition_key),
        where=wanted_attributes(where) + _schedule(schedule) + _original(forked_from),
        was_forked_from=None if was_forked_from is None else _flag("was_forked_from", was_forked_from),
        created_after=_instant_or_none("created after", created_after),
        created_before=_instant_or_none("created before", created_before),
        started_after=_instant_or_none("started after", started_after),
        started_before=_instant_or_none("started before", started_before),
        closed_after=_instant_or_none("closed after", closed_after),
        closed_before=_instant_or_none("closed before", closed_before),
        deadline_before=_instant_or_none("deadline before", deadline_before),
        attention=_flag("attention", attention),
        overdue=_flag("overdue", overdue),
        open=None if open is None else _flag("open", open),
        latest=_flag("latest", latest),
    )
    for what in ("created", "started", "closed"):
        after, before = getattr(chosen, f"{what}_after"), getattr(chosen, f"{what}_before")
        if after is not None and before is not None and after >= before:
            raise InvalidOptionError(f"{what} before must lie after {what} after", field=f"{what}_before")
    if chosen.open is not None:
        for name in chosen.statuses:
            if (name in OPEN_RUN_STATUSES) is not chosen.open:
                raise InvalidOptionError(
                    f"a run that is {name} is not {'open' if chosen.open else 'closed'}: leave one of the two out",
                    field="open",
                )
    return chosen


def _statuses(status: Any) -> tuple[str, ...]:
    if status is None:
        return ()
    given = [status] if isinstance(status, str) else status
    if not isinstance(given, Iterable):
        raise _unknown_status(status)
    chosen: dict[str, None] = {}
    for name in given:
        try:
            chosen[RunStatus(name).value] = None
        except ValueError:
            raise _unknown_status(name) from None
    if not chosen:
        raise InvalidOptionError("status must name at least one: leave it out for all", field="status")
    return tuple(chosen)


def _schedule(schedule_id: Any) -> tuple[Wanted, ...]:
    if schedule_id is None:
        return ()
    return wanted_attributes({SCHEDULE_ATTRIBUTE: validate_name("schedule", schedule_id)})


def _original(workflow_id: Any) -> tuple[Wanted, ...]:
    if workflow_id is None:
        return ()
    return wanted_attributes({FORK_ATTRIBUTE: validate_name("forked_from", workflow_id)})


def _are_several(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | Mapping)


def _several(field: str, words: str, names: Any, most: int) -> tuple[str, ...]:
    """Return the names that a filter has several of, each once."""
    if names is None:
        return ()
    if not _are_several(names):
        raise InvalidOptionError(
            f"{field} must be a list of {words}s, not {type(names).__name__}", field=field
        )
    chosen = tuple(dict.fromkeys(validate_name(words, name) for name in names))
    if not 1 <= len(chosen) <= most:
        raise InvalidOptionError(
            f"{field} must name 1 to {most}, not {len(chosen)}: leave it out for all", field=field
        )
    return chosen


def _unknown_status(name: object) -> InvalidOptionError:
    shown = repr(name) if isinstance(name, str) else type(name).__name__
    known = f"status must be one of {', '.join(RunStatus)}, not {shown:.80}"
    meant = _meant_status(name.lower()) if isinstance(name, str) else None
    return InvalidOptionError(known if meant is None else f"{known}: did you mean {meant}?", field="status")


def _meant_status(name: str) -> str | None:
    import difflib

    near = difflib.get_close_matches(name, [*RunStatus], 1)
    return _OTHER_STATUSES.get(name) or (near[0] if near else None)


def _instant_or_none(words: str, moment: Any) -> int | None:
    return None if moment is None else instant_of(words, moment)


def _flag(words: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidOptionError(f"{words} must be True or False, not {type(value).__name__}", field=words)
    return value
