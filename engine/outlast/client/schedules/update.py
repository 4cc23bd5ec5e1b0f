"""An update of a schedule: the fields that can be changed, and the edit that they make of its row."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict

from outlast.client.context import ClientContext
from outlast.client.schedules.definition import (
    check_queue,
    checked_catch_up,
    checked_flag,
    checked_max_runs,
    checked_overlap,
    checked_workflow,
    encoded_options,
)
from outlast_schedules.action import action_of, options_of
from outlast_schedules.changes import limit_runs
from outlast_schedules.specs.calendar import Calendar
from outlast_schedules.specs.spec import Spec
from outlast_store.schema.rows import ScheduleRow
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.errors import InvalidOptionError, PayloadDecodeError
from outlast_workflow.options.alerts import AlertPolicy
from outlast_workflow.options.options import RetryPolicy, StartOptions
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.search_attributes import SearchValue
from outlast_workflow.options.validation import (
    Seconds,
    duration_seconds,
    validate_note,
    validate_task_queue,
)
from outlast_workflow.primitives.enums import CatchUp, Overlap
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.primitives.times import microseconds


class StartOptionsUpdate(TypedDict, total=False):
    """Single options of the workflows that a schedule starts; :class:`outlast.StartOptions` explains them."""

    execution_timeout: Seconds | None
    run_timeout: Seconds | None
    retry_policy: RetryPolicy | None
    memo: dict[str, Any] | None
    search_attributes: dict[str, SearchValue] | None
    start_delay: Seconds | None
    priority: int
    summary: str | None
    queue: str | None
    partition_key: str | None
    schedule_to_start_timeout: Seconds | None
    alerts: AlertPolicy | None


class ScheduleUpdate(TypedDict, total=False):
    """What :meth:`ScheduleHandle.update` can change; :class:`outlast.Schedule` explains the fields."""

    workflow: Callable[..., Coroutine[Any, Any, Any]] | str
    args: Sequence[Any]
    spec: Spec | Sequence[Spec]
    exclude: Spec | Sequence[Spec]
    start_at: datetime | None
    end_at: datetime | None
    jitter: Seconds
    overlap: Overlap | str
    catch_up: CatchUp | str
    catch_up_window: Seconds
    pause_on_failure: bool
    max_runs: int | None
    note: str | None
    task_queue: str
    options: StartOptions | StartOptionsUpdate


class _CalendarFields(TypedDict, total=False):
    specs: Spec | Sequence[Spec]
    exclude: Spec | Sequence[Spec]
    start_at: datetime | None
    end_at: datetime | None
    jitter: Seconds


_KNOWN: Final = tuple(ScheduleUpdate.__annotations__)
_KNOWN_OPTIONS: Final = tuple(StartOptionsUpdate.__annotations__)


class ScheduleEdit:
    """The edit that an update makes of a row. Its values are checked; calling it checks how they fit the row's others.

    Args:
        context: The converter and the limits.
        schedule_id: The schedule.
        fields: What is changed.

    Raises:
        DurableCallError: The workflow cannot be called with the arguments.
        InvalidOptionError: A value is not valid, or there is no such field.
    """

    def __init__(self, context: ClientContext, schedule_id: str, fields: ScheduleUpdate) -> None:
        unknown = {name: value for name, value in fields.items() if name not in _KNOWN}
        if unknown:
            refuse_unknown("update", unknown, _KNOWN)
        self._context = context
        self._schedule_id = schedule_id
        self._values = _values(fields)
        self._calendar = _calendar(fields)
        self._limit = "max_runs" in fields
        self._max_runs = checked_max_runs(fields.get("max_runs"))
        self._called = schedule_id
        self._signature: CallSignature | None = None
        if "workflow" in fields:
            self._called, self._signature = checked_workflow(fields["workflow"])
            self._values["workflow_type"] = self._called
        if "args" in fields:
            self._values["input"] = self._encoded(fields["args"])
        self._options = fields.get("options")
        self._option_fields: dict[str, Any] = {}
        self._payloads: tuple[Payload | None, dict[str, Any] | None] = (None, None)
        if self._options is not None:
            self._read_options(self._options)

    def __call__(self, row: ScheduleRow, now: int) -> None:
        """Change a row."""
        for name, value in self._values.items():
            setattr(row, name, value)
        if self._calendar:
            row.spec = Calendar.from_json(row.spec).replace(**self._calendar).to_json()
        if self._limit:
            limit_runs(row, self._max_runs)
        if self._options is not None:
            row.action = self._action(row.action)
        if self._options is not None or "overlap" in self._values:
            check_queue(options_of(row.action)[0], Overlap(row.overlap))

    def check_arguments(self, row: ScheduleRow) -> None:
        """Refuse another workflow that cannot be called with the arguments of a row, if no others were given.

        Raises:
            InvalidOptionError: They do not fit it.
        """
        if self._signature is None or "input" in self._values:
            return
        try:
            self._context.converter.decode_args(Payload(row.input.encode()), self._signature)
        except PayloadDecodeError as error:
            raise InvalidOptionError(
                f"{row.workflow_type!r} cannot be called with the arguments of before: give args= as well",
                field="args",
            ) from error

    def _encoded(self, args: Any) -> str:
        if isinstance(args, str | bytes) or not isinstance(args, Sequence):
            raise InvalidOptionError(
                f"args must be a list of arguments, not {type(args).__name__}", field="args"
            )
        if self._signature is not None:
            self._signature.check(args, self._called)
        payload = self._context.converter.encode_request(args, self._signature, self._called)
        self._context.limits.check("payload_bytes", len(payload.json), whose=self._schedule_id)
        return payload.json.decode()

    def _read_options(self, options: Any) -> None:
        """Check the options: all of them, or those that are named."""
        if isinstance(options, StartOptions):
            checked = options
        elif isinstance(options, dict):
            unknown = {name: value for name, value in options.items() if name not in _KNOWN_OPTIONS}
            if unknown:
                refuse_unknown("options", unknown, _KNOWN_OPTIONS)
            self._option_fields = options
            # What needs a queue is checked together with the options of before.
            apart = {"memo", "search_attributes"} & options.keys()
            checked = StartOptions(**{name: options[name] for name in apart})
        else:
            raise InvalidOptionError(
                f"options must be StartOptions, or a dict of those to change, not {type(options).__name__}",
                field="options",
            )
        self._payloads = encoded_options(self._context, self._schedule_id, checked)

    def _action(self, before: str) -> str:
        """Return the action of a row with the options that were given."""
        memo, attributes = self._payloads
        if isinstance(self._options, StartOptions):
            return action_of(self._options, memo, attributes)
        options, memo_before, attributes_before = options_of(before)
        changed = {
            name: value
            for name, value in self._option_fields.items()
            if name not in ("memo", "search_attributes")
        }
        if changed.get("queue", "") is None:
            # Without a queue there is no line to stand in.
            changed = {"partition_key": None, "schedule_to_start_timeout": None, **changed}
        return action_of(
            options.replace(**changed),
            memo if "memo" in self._option_fields else memo_before,
            attributes if "search_attributes" in self._option_fields else attributes_before,
        )


def _values(fields: ScheduleUpdate) -> dict[str, str | int | bool | None]:
    """Return the columns that an update sets, by name."""
    values: dict[str, str | int | bool | None] = {}
    if "overlap" in fields:
        values["overlap"] = checked_overlap(fields["overlap"]).value
    if "catch_up" in fields:
        values["catch_up"] = checked_catch_up(fields["catch_up"]).value
    if "catch_up_window" in fields:
        values["catch_up_window"] = microseconds(
            duration_seconds("catch up window", fields["catch_up_window"])
        )
    if "pause_on_failure" in fields:
        values["pause_on_failure"] = checked_flag("pause_on_failure", fields["pause_on_failure"])
    if "note" in fields:
        values["note"] = validate_note(fields["note"])
    if "task_queue" in fields:
        values["task_queue"] = validate_task_queue(fields["task_queue"])
    return values


def _calendar(fields: ScheduleUpdate) -> _CalendarFields:
    """Return the fields of the calendar that an update changes."""
    calendar = _CalendarFields()
    if "spec" in fields:
        calendar["specs"] = fields["spec"]
    if "exclude" in fields:
        calendar["exclude"] = fields["exclude"]
    if "start_at" in fields:
        calendar["start_at"] = fields["start_at"]
    if "end_at" in fields:
        calendar["end_at"] = fields["end_at"]
    if "jitter" in fields:
        calendar["jitter"] = fields["jitter"]
    return calendar
