"""The filters of the page of runs, as its address has them: one set for the list, its chips and its bulk actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import Depends, Query

from outlast.text.attributes import conditions
from outlast.text.parsing import moment
from outlast.visibility.filters import Filters
from outlast_store.reads.run_listing import Order
from outlast_workflow.errors import InvalidOptionError

Choice = Annotated[str, Query()]

OPEN: Final = "open"
"""A choice of status: queued, pending or running."""
PERIODS: Final = (
    ("15m", "15 minutes"),
    ("1h", "hour"),
    ("24h", "24 hours"),
    ("7d", "7 days"),
    ("30d", "30 days"),
)
"""What ``created_after`` may be beside an instant: that long ago."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was chosen, as text: ``fields`` by their names, and the runs that were selected one by one."""

    fields: Mapping[str, str]
    run_ids: Sequence[str] = ()
    order: str = Order.NEWEST.value

    @property
    def is_empty(self) -> bool:
        """Whether nothing was chosen, so that every run matches."""
        return not self.run_ids and not any(self.fields.values())

    def filters(self, now: datetime) -> Filters:
        """Return what was chosen as filters of a listing.

        Raises:
            InvalidOptionError: A field cannot be read; the error names it.
        """
        filters = Filters()
        for name, text in self.fields.items():
            if not text:
                continue
            if name == "status" and text == OPEN:
                filters["open"] = True
            elif name == "where":
                filters["where"] = conditions([part for part in text.split(" and ") if part.strip()])
            elif name in ("created_after", "created_before"):
                filters[name] = moment(name.replace("_", " "), text, now)  # type: ignore[literal-required]
            elif name == "attention":
                filters["attention"] = True
            elif name in ("has_parent", "was_forked_from"):
                if text not in ("yes", "no"):
                    raise InvalidOptionError(f"{name.replace('_', ' ')} must be yes or no", field=name)
                filters[name] = text == "yes"  # type: ignore[literal-required]
            elif name == "workflow_type":
                filters["workflow_type"] = [part.strip() for part in text.split(",") if part.strip()]
            else:
                filters[name] = text  # type: ignore[literal-required]  # the names are those of Filters
        if self.run_ids:
            filters["run_ids"] = self.run_ids
        return filters

    def pinned(self, now: datetime) -> Chosen:
        """Return the same with instants for what counts from now, so that runs that start later do not match."""
        if self.run_ids:
            return self
        fields = dict(self.fields)
        for name, none in (("created_after", None), ("created_before", now)):
            at = moment(name.replace("_", " "), fields[name], now) if fields[name] else none
            fields[name] = "" if at is None else at.isoformat()
        return Chosen(fields, (), self.order)

    def query(self, **changes: str) -> str:
        """Return what was chosen as the query of an address.

        Args:
            **changes: Other values of fields, and further parameters; an empty text leaves one out.
        """
        order = "" if self.order == Order.NEWEST else self.order
        named = {**self.fields, "order": order, **changes}
        pairs = [(name, text) for name, text in named.items() if text]
        return urlencode([*pairs, *(("run_id", run_id) for run_id in self.run_ids)])


def _chosen(
    status: Choice = "",
    workflow_type: Choice = "",
    task_queue: Choice = "",
    queue: Choice = "",
    partition_key: Choice = "",
    schedule: Choice = "",
    owner: Choice = "",
    build_id: Choice = "",
    has_parent: Choice = "",
    forked_from: Choice = "",
    was_forked_from: Choice = "",
    id_prefix: Choice = "",
    where: Choice = "",
    created_after: Choice = "",
    created_before: Choice = "",
    attention: Choice = "",
    order: Choice = Order.NEWEST.value,
    run_id: Annotated[list[str] | None, Query()] = None,
) -> Chosen:
    fields = {
        "status": status,
        "workflow_type": workflow_type,
        "task_queue": task_queue,
        "queue": queue,
        "partition_key": partition_key,
        "schedule": schedule,
        "owner": owner,
        "build_id": build_id,
        "has_parent": has_parent,
        "forked_from": forked_from,
        "was_forked_from": was_forked_from,
        "id_prefix": id_prefix,
        "where": where,
        "created_after": created_after,
        "created_before": created_before,
        "attention": attention,
    }
    if order not in [*Order]:
        raise InvalidOptionError(f"order must be one of {', '.join(Order)}", field="order")
    return Chosen({name: text.strip() for name, text in fields.items()}, tuple(run_id or ()), order)


ChosenRuns = Annotated[Chosen, Depends(_chosen)]
"""The filters in the address of a request."""
