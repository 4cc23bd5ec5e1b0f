"""The bodies of requests about queues."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import StrictFloat, StrictInt, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from outlast import Rate
from outlast_dashboard.api.contract.fields import Note, OwnSegment
from outlast_dashboard.api.contract.models import Body
from outlast_workflow.options.queues import MOST, SHORTEST_WINDOW_S
from outlast_workflow.options.validation import MAX_SECONDS, IfExists

Number = Annotated[StrictInt, WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MOST})]


class RateBody(Body):
    """How many may be admitted in any window of so many seconds."""

    @model_validator(mode="before")
    @classmethod
    def _is_object(cls, given: Any) -> Any:
        if not isinstance(given, dict | RateBody):
            raise PydanticCustomError("rate", 'must be an object such as {"limit": 20, "per_seconds": 1}')
        return given

    limit: Number
    per_seconds: Annotated[
        StrictFloat,
        WithJsonSchema({"type": "number", "minimum": SHORTEST_WINDOW_S, "maximum": MAX_SECONDS}),
    ]


class UpdateQueueBody(Body):
    """Limits of a queue; `null` is no limit.

    A partition's limit must not exceed the queue's own.
    """

    concurrency: Number | None = None
    worker_concurrency: Number | None = None
    rate: RateBody | None = None
    partition_concurrency: Number | None = None
    partition_worker_concurrency: Number | None = None
    partition_rate: RateBody | None = None

    def limits(self) -> Any:
        """Return the limits that were given."""
        given: dict[str, Any] = {}
        for name in UpdateQueueBody.model_fields:
            if name in self.model_fields_set:
                value = getattr(self, name)
                given[name] = Rate(value.limit, value.per_seconds) if isinstance(value, RateBody) else value
        return given


class DefineQueueBody(UpdateQueueBody):
    """A queue: its name, and its limits."""

    name: OwnSegment
    if_exists: IfExists = "error"


class PauseQueueBody(Body):
    """Why a queue is paused."""

    note: Note | None = None
