"""The bodies of what starts workflows: a start, and a schedule's, whose workflows take the same options."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AwareDatetime, Field, StrictFloat, StrictInt, StrictStr, WithJsonSchema

from outlast import AlertPolicy, RetryPolicy, StartOptions
from outlast_dashboard.api.contract.fields import (
    Duration,
    Name,
    OwnName,
    OwnSegment,
    Priority,
    SearchAttributes,
    Segment,
    Timeout,
)
from outlast_dashboard.api.contract.models import Body
from outlast_workflow.options.validation import MAX_INTEGER, MAX_SECONDS, MAX_SUMMARY_LENGTH
from outlast_workflow.primitives.enums import AlertKind, DuplicatePolicy


class RetryPolicyBody(Body):
    """When a new run follows a failed one.

    ``max_attempts`` 0 means unlimited. Without ``max_interval_seconds`` the longest wait is 100 times the first.
    """

    initial_interval_seconds: Annotated[
        StrictFloat,
        WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": MAX_SECONDS}),
    ] = 1
    backoff_coefficient: Annotated[
        StrictFloat, WithJsonSchema({"type": "number", "minimum": 1, "maximum": MAX_INTEGER})
    ] = 2
    max_interval_seconds: (
        Annotated[
            StrictFloat,
            WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": MAX_SECONDS}),
        ]
        | None
    ) = None
    max_attempts: Annotated[
        StrictInt, WithJsonSchema({"type": "integer", "minimum": 0, "maximum": MAX_INTEGER})
    ] = 0
    jitter: Annotated[StrictFloat, WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1})] = 0
    non_retryable_error_types: list[
        Annotated[StrictStr, WithJsonSchema({"type": "string", "minLength": 1})]
    ] = Field(default_factory=list)

    def policy(self) -> RetryPolicy:
        """Return the policy, which the engine's validator checks."""
        return RetryPolicy(
            initial_interval=self.initial_interval_seconds,
            backoff_coefficient=self.backoff_coefficient,
            max_interval=self.max_interval_seconds,
            max_attempts=self.max_attempts,
            jitter=self.jitter,
            non_retryable_error_types=tuple(self.non_retryable_error_types),
        )


class AlertsBody(Body):
    """When to be told of a deadline of the workflow before it passes."""

    at: list[
        Annotated[StrictFloat, WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1})]
    ] = Field(default_factory=list, description="Shares of a deadline's time that are used up.")
    before_seconds: list[Timeout] = Field(default_factory=list, description="How long ahead of a deadline.")
    after_seconds: list[Timeout] = Field(
        default_factory=list, description="How long after the start; no deadline is needed."
    )
    at_instant: AwareDatetime | None = None
    kinds: list[AlertKind] | None = Field(
        default=None,
        description="The deadlines that shares and leads are about; by default all that are set.",
    )
    signal: Segment | None = Field(default=None, description="The signal that tells the workflow itself.")
    channels: list[Segment] = Field(default_factory=list, description="The channels that are told.")

    def policy(self) -> AlertPolicy:
        """Return the policy, which the engine's validator checks."""
        return AlertPolicy(
            at=self.at,
            before=self.before_seconds,
            after=self.after_seconds,
            at_instant=self.at_instant,
            kinds=self.kinds,
            signal=self.signal,
            channels=self.channels,
        )


class StartOptionsBody(Body):
    """The options of workflows that are started."""

    execution_timeout_seconds: Timeout | None = None
    run_timeout_seconds: Timeout | None = None
    start_delay_seconds: Duration | None = None
    priority: Priority = 5
    memo: dict[str, Any] | None = None
    search_attributes: SearchAttributes | None = None
    retry_policy: RetryPolicyBody | None = None
    summary: str | None = Field(
        default=None,
        max_length=MAX_SUMMARY_LENGTH,
        description="What the workflow does, in plain text that everybody sees.",
    )
    queue: OwnSegment | None = None
    partition_key: Name | None = None
    schedule_to_start_timeout_seconds: Timeout | None = None
    alerts: AlertsBody | None = None

    def given_options(self) -> dict[str, Any]:
        """Return the options that were given, as :class:`StartOptions` names them."""
        found: dict[str, Any] = {}
        for name in _OPTIONS:
            if name in self.model_fields_set:
                value = getattr(self, name)
                found[name.removesuffix("_seconds")] = (
                    value.policy() if isinstance(value, RetryPolicyBody | AlertsBody) else value
                )
        return found

    def options(self) -> StartOptions:
        """Return the options, which the engine's validator checks."""
        return StartOptions(**self.given_options())


_OPTIONS: Final = tuple(StartOptionsBody.model_fields)


class DebounceBody(Body):
    """The starts of one key go to one workflow, which begins once no further one has come for the period."""

    key: Name
    period_seconds: Timeout
    timeout_seconds: Timeout | None = Field(
        default=None, description="When it begins at the latest, after the first of them."
    )


class StartBody(StartOptionsBody):
    """A start. Only ``workflow_type`` is needed."""

    workflow_type: OwnName
    workflow_id: Segment | None = None
    args: list[Any] = Field(default_factory=list, description="The arguments of the run method.")
    task_queue: OwnName = "default"
    duplicate_policy: DuplicatePolicy = DuplicatePolicy.ALLOW_DUPLICATE
    execution_deadline: AwareDatetime | None = Field(
        default=None, description="When all runs must have ended; instead of the execution timeout."
    )

    debounce: DebounceBody | None = Field(
        default=None, description="Wait for further starts; the last one's input counts."
    )

    def options(self) -> StartOptions:
        """Return the options, which the engine's validator checks."""
        options = super().options()
        if "duplicate_policy" in self.model_fields_set:
            options = options.replace(duplicate_policy=self.duplicate_policy)
        return (
            options.replace(execution_deadline=self.execution_deadline)
            if self.execution_deadline
            else options
        )
