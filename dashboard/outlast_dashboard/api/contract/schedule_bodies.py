"""The bodies of requests about schedules."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, StrictBool, StrictInt, StrictStr, WithJsonSchema

from outlast import CatchUp, Overlap
from outlast_dashboard.api.contract.fields import (
    Duration,
    OwnName,
    OwnSegment,
    Priority,
    Reason,
    SearchAttributes,
    Timeout,
)
from outlast_dashboard.api.contract.models import Body, RetryPolicyBody
from outlast_schedules.action import MOST_ID, MOST_REQUEST_ID
from outlast_schedules.specs.calendar import spec_from
from outlast_workflow.options.options import StartOptions

SpecDocument = Annotated[
    dict[str, Any],
    Field(
        description='`{"cron": text, "time_zone": name}`, `{"every": seconds, "offset": seconds}` or '
        '`{"at": [instant, …]}`.'
    ),
]
_DURATIONS = {"jitter_seconds": "jitter", "catch_up_window_seconds": "catch_up_window"}


class UpdateScheduleBody(Body):
    """What is changed of a schedule; what is not given stays."""

    spec: list[SpecDocument] | None = None
    exclude: list[SpecDocument] | None = None
    start_at: AwareDatetime | None = None
    end_at: AwareDatetime | None = None
    jitter_seconds: Duration | None = None
    overlap: Overlap | None = None
    catch_up: CatchUp | None = None
    catch_up_window_seconds: Duration | None = None
    pause_on_failure: StrictBool | None = None
    max_runs: Annotated[StrictInt, WithJsonSchema({"type": "integer", "minimum": 1})] | None = None
    note: Reason | None = None
    args: list[Any] | None = Field(default=None, description="The arguments of the workflow.")

    def fields(self) -> dict[str, Any]:
        """Return the fields that were given, without the arguments."""
        found: dict[str, Any] = {}
        for name in UpdateScheduleBody.model_fields:
            value = getattr(self, name)
            if name not in self.model_fields_set or name == "args":
                continue
            if value is None and name not in ("start_at", "end_at", "max_runs", "note"):
                continue
            if name in ("spec", "exclude"):
                value = [spec_from(one) for one in value or ()]
            found[_DURATIONS.get(name, name)] = value
        return found


class CreateScheduleBody(UpdateScheduleBody):
    """A schedule: its id, what it starts, and when."""

    schedule_id: Annotated[OwnSegment, Field(description=f"At most {MOST_ID} characters.")]
    workflow_type: OwnName
    if_exists: Literal["error", "keep", "update"] = "error"
    paused: StrictBool = False
    task_queue: OwnName = "default"
    execution_timeout_seconds: Timeout | None = None
    run_timeout_seconds: Timeout | None = None
    priority: Priority = 5
    memo: dict[str, Any] | None = None
    search_attributes: SearchAttributes | None = None
    retry_policy: RetryPolicyBody | None = None

    def options(self) -> StartOptions:
        """Return the options of each start, which the engine's validator checks."""
        return StartOptions(
            execution_timeout=self.execution_timeout_seconds,
            run_timeout=self.run_timeout_seconds,
            priority=self.priority,
            memo=self.memo,
            search_attributes=self.search_attributes,
            retry_policy=self.retry_policy.policy() if self.retry_policy is not None else None,
        )


class NoteBody(Body):
    """A note on a schedule that is paused or resumed."""

    note: Reason | None = None


class TriggerBody(Body):
    """A trigger; two with the same key start one workflow."""

    overlap: Literal["skip", "terminate_other", "allow_all"] = "allow_all"
    request_id: (
        Annotated[StrictStr, Field(description=f"A key, at most {MOST_REQUEST_ID} characters.")] | None
    ) = None


class BackfillBody(Body):
    """A time that has passed; its end is not included."""

    start_time: AwareDatetime
    end_time: AwareDatetime
