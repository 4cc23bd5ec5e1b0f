"""The bodies of requests about schedules."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from pydantic import AwareDatetime, Field, StrictBool, StrictInt, StrictStr, WithJsonSchema

from outlast import CatchUp, Overlap
from outlast.client.schedules.handle import DEFAULT_BACKFILL, DEFAULT_NEXT, MOST_NEXT
from outlast.client.schedules.update import ScheduleUpdate
from outlast_dashboard.api.contract.fields import Duration, Note, OwnName, OwnSegment
from outlast_dashboard.api.contract.models import Body
from outlast_dashboard.api.contract.start_bodies import StartOptionsBody
from outlast_schedules.action import MOST_ID, MOST_REQUEST_ID
from outlast_schedules.specs.calendar import spec_from
from outlast_workflow.options.validation import IfExists

SpecDocument = Annotated[
    dict[str, Any],
    Field(
        description='`{"cron": text, "time_zone": name}`, `{"every": seconds, "offset": seconds}` or '
        '`{"at": [instant, …]}`.'
    ),
]


class CalendarBody(Body):
    """When something fires."""

    spec: list[SpecDocument] | None = None
    exclude: list[SpecDocument] | None = None
    start_at: AwareDatetime | None = None
    end_at: AwareDatetime | None = None
    jitter_seconds: Duration | None = None

    def calendar(self) -> dict[str, Any]:
        """Return the fields of the calendar that were given, as :class:`Schedule` names them."""
        found: dict[str, Any] = {}
        for name, specs in (("spec", self.spec), ("exclude", self.exclude)):
            if specs is not None:
                found[name] = [spec_from(one) for one in specs]
        found.update(_given(self, "start_at", "end_at"))
        if self.jitter_seconds is not None:
            found["jitter"] = self.jitter_seconds
        return found


class ScheduleBody(CalendarBody, StartOptionsBody):
    """What can be said of a schedule, without what it starts."""

    args: list[Any] | None = Field(default=None, description="The arguments of the workflow.")
    overlap: Overlap | None = None
    catch_up: CatchUp | None = None
    catch_up_window_seconds: Duration | None = None
    pause_on_failure: StrictBool | None = None
    max_runs: Annotated[StrictInt, WithJsonSchema({"type": "integer", "minimum": 1})] | None = None
    note: Note | None = None

    def policies(self) -> dict[str, Any]:
        """Return the other fields that were given, without what is started and where."""
        found: dict[str, Any] = _given(self, "max_runs", "note")
        for name in ("overlap", "catch_up", "pause_on_failure"):
            value = getattr(self, name)
            if value is not None:
                found[name] = value
        if self.catch_up_window_seconds is not None:
            found["catch_up_window"] = self.catch_up_window_seconds
        return found


class UpdateScheduleBody(ScheduleBody):
    """What is changed of a schedule; what is not given stays. ``null`` takes away what need not be there."""

    workflow_type: OwnName | None = None
    task_queue: OwnName | None = None

    def fields(self) -> ScheduleUpdate:
        """Return everything that was given."""
        found: dict[str, Any] = {**self.calendar(), **self.policies()}
        if self.workflow_type is not None:
            found["workflow"] = self.workflow_type
        if self.task_queue is not None:
            found["task_queue"] = self.task_queue
        if self.args is not None:
            found["args"] = self.args
        options = self.given_options()
        if options:
            found["options"] = options
        return cast(ScheduleUpdate, found)


class CreateScheduleBody(ScheduleBody):
    """A schedule: its id, what it starts, and when."""

    schedule_id: Annotated[OwnSegment, Field(description=f"At most {MOST_ID} characters.")]
    workflow_type: OwnName
    task_queue: OwnName = "default"
    if_exists: IfExists = "error"
    paused: StrictBool = False


class PreviewBody(CalendarBody):
    """A calendar whose slots are asked for."""

    next: Annotated[StrictInt, WithJsonSchema({"type": "integer", "minimum": 0, "maximum": MOST_NEXT})] = (
        DEFAULT_NEXT
    )


def _given(body: Body, *names: str) -> dict[str, Any]:
    """Return the fields that were given, null included."""
    return {name: getattr(body, name) for name in names if name in body.model_fields_set}


class NoteBody(Body):
    """A note on a schedule that is paused or resumed."""

    note: Note | None = None


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
    limit: (
        Annotated[
            StrictInt,
            Field(description="How many slots there may be; `null` is no limit."),
            WithJsonSchema({"type": "integer", "minimum": 1}),
        ]
        | None
    ) = DEFAULT_BACKFILL
