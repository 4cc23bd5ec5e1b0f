"""The bodies of requests and responses, other than the client's own views."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
)

from outlast import ActivityIds, ApplicationError
from outlast.visibility.views import Instant, View
from outlast_dashboard.api.contract.fields import (
    ActivityNumber,
    Duration,
    Name,
    Reason,
    Segment,
    Timeout,
    Token,
    Wait,
)
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.primitives.enums import DuplicatePolicy, RunStatus, TimeoutKind


class Body(BaseModel):
    """A request. An unknown field is an error, since it may be misspelt."""

    model_config = ConfigDict(extra="forbid")


class Started(View):
    """The run that was started."""

    workflow_id: str
    run_id: str


class ArgsBody(Body):
    """Arguments."""

    args: list[Any] = Field(default_factory=list)


class EndError(View):
    """Why a workflow ended without a result; ``cause`` is the cause of that error."""

    type: str
    message: str
    timeout_kind: TimeoutKind | None = None
    deadline_at: Instant | None = None
    reason: str | None = None
    next_run_id: str | None = None
    cause: EndError | None = None


class Ending(View):
    """How a workflow ended, in the last run of its chain. The status is ``pending`` or ``running`` until it has."""

    workflow_id: str
    run_id: str
    status: RunStatus
    result: Any = None
    error: EndError | None = None


class QueryBody(ArgsBody):
    """A query's arguments, and how long to wait."""

    timeout_seconds: Wait = 5


class Answer(View):
    """The result of a query or an update."""

    answer: Any


class UpdateBody(ArgsBody):
    """An update's arguments, its id, and what to wait for."""

    update_id: Name | None = None
    wait_for: Literal["accepted", "completed"] = "completed"
    timeout_seconds: Wait = 5


class UpdateState(View):
    """The state of an update. It has an ``answer`` once it is ``completed``."""

    update_id: str
    state: Literal["sent", "accepted", "completed"]
    answer: Any = None


class ActivityBody(Body):
    """An activity that runs, named by ``task_token``, or by ``workflow_id``, ``activity_id`` and perhaps ``run_id``."""

    task_token: Token | None = None
    workflow_id: Name | None = None
    activity_id: ActivityNumber | None = None
    run_id: Name | None = None

    def named(self) -> str | ActivityIds:
        """Return what the client calls it by.

        Raises:
            InvalidOptionError: It is named in neither way, or in both.
        """
        by_ids = (self.workflow_id, self.activity_id, self.run_id)
        if self.task_token is not None and by_ids == (None, None, None):
            return self.task_token
        if self.task_token is None and self.workflow_id is not None and self.activity_id is not None:
            return ActivityIds(self.workflow_id, self.activity_id, self.run_id)
        raise InvalidOptionError(
            "name the activity by its task_token, or by workflow_id and activity_id", field="task_token"
        )


class CompleteActivityBody(ActivityBody):
    """The result of an activity."""

    result: Any = None


class FailActivityBody(ActivityBody):
    """Why an attempt of an activity failed."""

    message: StrictStr = "failed from outside"
    type: Name | None = Field(default=None, description="The name that retry policies know the failure by.")
    details: list[Any] = Field(default_factory=list)
    non_retryable: StrictBool = False
    next_retry_delay_seconds: Duration | None = None

    def error(self) -> ApplicationError:
        """Return the failure as an exception."""
        return ApplicationError(
            self.message,
            *self.details,
            type=self.type,
            non_retryable=self.non_retryable,
            next_retry_delay=self.next_retry_delay_seconds,
        )


class HeartbeatActivityBody(ActivityBody):
    """A heartbeat."""

    details: list[Any] = Field(default_factory=list)


class ReasonBody(Body):
    """The reason, for the history."""

    reason: Reason | None = None


class AddressedSignal(Body):
    """A signal and the workflow that it is for."""

    workflow_id: Segment
    name: Segment
    args: list[Any] = Field(default_factory=list)
    request_id: Name | None = None


class SignalsBody(Body):
    """Signals that are sent together."""

    signals: list[AddressedSignal]
    to_forks: bool = False


class Signalled(View):
    """The workflows that have the signals."""

    workflow_ids: list[str]


class MemoValue(View):
    """A field of a memo."""

    value: Any


class StartDelayBody(Body):
    """When the workflow may begin: so many seconds from now, or an instant."""

    delay_seconds: Duration | None = None
    until: AwareDatetime | None = None


Point = Literal["first-workflow-task", "last-workflow-task", "last-successful", "before-cancel"]
"""A point of a history by its name."""


class ResetBody(ReasonBody):
    """The point of the history from which the new run starts: the last event to keep, or a name for it."""

    to: StrictInt | Point = "last-workflow-task"
    execution_timeout_seconds: Timeout | None = None
    signals: bool = True


class ResumeBody(ReasonBody):
    """How a workflow goes on. Without ``queue`` it joins the line of its own queue; ``null`` takes it out of that."""

    execution_timeout_seconds: Timeout | None = None
    queue: Name | None = None
    signals: bool = True


class ForkBody(ResumeBody):
    """The point of the history, and the fork. What is left out is as for the original; ``null`` is for no queue."""

    to: StrictInt | Point = "last-workflow-task"
    before: Annotated[StrictInt, Field(ge=1)] | None = None
    workflow_id: Name | None = None
    duplicate_policy: DuplicatePolicy = DuplicatePolicy.ALLOW_DUPLICATE
    task_queue: Name | None = None
    partition_key: Name | None = None


class Count(View):
    """The number of runs that match."""

    count: int


class EventView(View):
    """An event of a history. Without the scope ``payloads``, payloads are ``{"hidden": true}``."""

    seq: int
    type: str
    recorded_at: Instant
    payload: dict[str, Any]


class HistoryPage(View):
    """Events in order. If more may follow, ``next_after_seq`` is the ``after_seq`` of the next page."""

    run_id: str
    events: list[EventView]
    next_after_seq: int | None


class StreamItemView(View):
    """An item of a stream. ``activity_id`` and ``attempt`` are those of the activity that wrote it, if one did."""

    offset: int
    value: Any
    written_at: Instant
    run_id: str
    activity_id: int | None
    attempt: int | None


class StreamPage(View):
    """Items in order. ``next_start`` is the ``start`` of the next page; ``ended`` says that it will have none."""

    items: list[StreamItemView]
    next_start: int
    ended: bool


class Health(View):
    """Whether the control plane works."""

    status: str
    version: str
    database: str
    now: Instant


class Done(View):
    """The request was carried out durably."""

    workflow_id: str
    done: StrictBool = True
