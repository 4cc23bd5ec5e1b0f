"""The filters of listings as query parameters."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from fastapi import Depends, Query
from pydantic import BeforeValidator, Field, WithJsonSchema

from outlast.text.attributes import conditions
from outlast.visibility.filters import MOST_IDS, Filters
from outlast_dashboard.api.contract.fields import NAME_SCHEMA
from outlast_dashboard.authorization import Known
from outlast_workflow.primitives.enums import RunStatus

NameFilter = Annotated[str | None, WithJsonSchema(NAME_SCHEMA)]


def _instant(value: object) -> object:
    """Accept only ISO 8601: pydantic would read a number as seconds since an epoch."""
    return datetime.fromisoformat(value) if isinstance(value, str) else value


RUN_ID: Final = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
"""What a run id looks like: anything else is a mistake, most likely a workflow id."""
Moment = Annotated[
    datetime | None,
    Query(description="An instant with its offset, ISO 8601."),
    BeforeValidator(_instant),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]


def _filters(
    # First, so that an unknown caller does not learn what is wrong with a filter.
    _: Known,
    status: Annotated[list[RunStatus] | None, Query()] = None,
    run_id: Annotated[
        list[Annotated[str, Field(pattern=RUN_ID)]] | None,
        Query(description=f"A run; repeatable, {MOST_IDS} at most."),
    ] = None,
    workflow_type: Annotated[
        list[Annotated[str, WithJsonSchema(NAME_SCHEMA)]] | None,
        Query(description="A workflow type; repeatable."),
    ] = None,
    task_queue: NameFilter = None,
    workflow_id: NameFilter = None,
    workflow_ids: Annotated[
        list[Annotated[str, WithJsonSchema(NAME_SCHEMA)]] | None,
        Query(description=f"A workflow id; repeatable, {MOST_IDS} at most."),
    ] = None,
    id_prefix: NameFilter = None,
    parent: NameFilter = None,
    has_parent: bool | None = None,
    owner: NameFilter = None,
    build_id: NameFilter = None,
    queue: NameFilter = None,
    partition_key: NameFilter = None,
    schedule: NameFilter = None,
    forked_from: NameFilter = None,
    was_forked_from: bool | None = None,
    where: Annotated[
        list[str] | None,
        Query(description="A search attribute, as in `amount>=5`; repeatable, and all must hold."),
    ] = None,
    started_after: Moment = None,
    started_before: Moment = None,
    created_after: Moment = None,
    created_before: Moment = None,
    closed_after: Moment = None,
    closed_before: Moment = None,
    deadline_before: Moment = None,
    attention: bool = False,
    overdue: bool = False,
    open: bool | None = None,
    latest: bool = False,
) -> Filters:
    return Filters(
        status=status or None,
        run_ids=run_id or None,
        workflow_type=workflow_type or None,
        task_queue=task_queue,
        workflow_id=workflow_id,
        workflow_ids=workflow_ids or None,
        id_prefix=id_prefix,
        parent=parent,
        has_parent=has_parent,
        owner=owner,
        build_id=build_id,
        queue=queue,
        partition_key=partition_key,
        schedule=schedule,
        forked_from=forked_from,
        was_forked_from=was_forked_from,
        where=conditions(where) if where else None,
        started_after=started_after,
        started_before=started_before,
        created_after=created_after,
        created_before=created_before,
        closed_after=closed_after,
        closed_before=closed_before,
        deadline_before=deadline_before,
        attention=attention,
        overdue=overdue,
        open=open,
        latest=latest,
    )


RunFilters = Annotated[Filters, Depends(_filters)]
