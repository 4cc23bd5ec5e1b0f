"""A schedule as code declares it, checked and encoded into a row."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Required, TypedDict, TypeVarTuple, Unpack, overload

from outlast_schedules.specs.calendar import Calendar
from outlast_schedules.specs.spec import Spec
from outlast_workflow.declare.definitions import definition_of
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.ambient import start_options, unsaid
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.start import DEFAULT_TASK_QUEUE, StartOptions
from outlast_workflow.options.validation import (
    Seconds,
    duration_seconds,
    integer,
    refuse_family,
    validate_note,
    validate_task_queue,
    validate_workflow_type,
)
from outlast_workflow.primitives.enums import CatchUp, Overlap
from outlast_workflow.primitives.type_families import WILDCARD

if TYPE_CHECKING:
    from outlast.client.context import ClientContext
    from outlast_store.schema.rows import ScheduleRow
    from outlast_workflow.data.signatures import CallSignature
    from outlast_workflow.options.search_attributes import Document
    from outlast_workflow.primitives.payloads import Payload

YEAR_S: Final = 365 * 86_400

Ts = TypeVarTuple("Ts")


class ScheduleOptions(TypedDict, total=False):
    """The options of a schedule; :class:`Schedule` explains them."""

    spec: Required[Spec | Sequence[Spec]]
    exclude: Spec | Sequence[Spec]
    start_at: datetime | None
    end_at: datetime | None
    jitter: Seconds
    overlap: Overlap | str
    catch_up: CatchUp | str
    catch_up_window: Seconds
    pause_on_failure: bool
    max_runs: int | None
    paused: bool
    note: str | None
    task_queue: str
    options: StartOptions | None


class Schedule:
    """A schedule, declared beside the workflow that it starts; ``client.schedules.apply`` makes the database follow.

    Args:
        schedule_id: Its id, at most 150 characters. The ids of its workflows begin with it.
        workflow: ``Report.run``, a workflow function, or a workflow type's name.
        *args: The workflow's arguments.
        spec: When it fires: a :class:`Cron`, an :class:`Every`, an :class:`At`, or several of them.
        exclude: What is left out: a slot that one of these covers.
        start_at: No slot is earlier (aware).
        end_at: No slot is later (aware).
        jitter: Each slot fires later by a part of this, so that not everything happens at the full hour.
        overlap: What happens to a slot while the workflow started last is open; see :class:`Overlap`.
        catch_up: What happens to slots that nobody was there to fire: ``latest`` starts the newest, ``all`` each of
            them, ``none`` counts them. A slot that is found within a minute is fired whatever this says.
        catch_up_window: How old a slot may be that is caught up; a year by default.
        pause_on_failure: Whether the schedule pauses when a workflow that it started fails or times out.
        max_runs: How many slots it starts at most.
        paused: Whether it is created paused. One that is there already stays as it is.
        note: What its users should know about it.
        task_queue: The task queue of its workflows.
        options: The options of each start: timeouts, retries, memo, search attributes, priority, queue and so on.

    Durations take seconds or a timedelta.

    Raises:
        InvalidOptionError: A value is not valid.
    """

    @overload
    def __init__(
        self,
        schedule_id: str,
        workflow: Callable[[*Ts], Coroutine[Any, Any, Any]],
        *args: *Ts,
        **options: Unpack[ScheduleOptions],
    ) -> None: ...

    @overload
    def __init__(
        self, schedule_id: str, workflow: str, *args: Any, **options: Unpack[ScheduleOptions]
    ) -> None: ...

    # mypy cannot match a TypeVarTuple with *args: Any, as in the client.
    def __init__(self, schedule_id: str, workflow: Any, *args: Any, **options: Any) -> None:  # type: ignore[misc]
        from outlast_schedules.action import validate_schedule_id

        known = tuple(ScheduleOptions.__annotations__)
        if options.keys() - set(known):
            refuse_unknown("Schedule", {name: options[name] for name in options if name not in known}, known)
        if "spec" not in options:
            raise InvalidOptionError(
                "spec is missing: say when it fires, for example spec=Cron('0 2 * * *')", field="spec"
            )
        self.schedule_id = validate_schedule_id(schedule_id)
        self.workflow = workflow
        self.args = args
        self.calendar = Calendar(
            options["spec"],
            options.get("exclude", ()),
            options.get("start_at"),
            options.get("end_at"),
            options.get("jitter", 0),
        )
        self.overlap = checked_overlap(options.get("overlap", Overlap.SKIP))
        self.catch_up = checked_catch_up(options.get("catch_up", CatchUp.LATEST))
        self.catch_up_window = duration_seconds("catch up window", options.get("catch_up_window", YEAR_S))
        self.pause_on_failure = checked_flag("pause_on_failure", options.get("pause_on_failure", False))
        self.max_runs = checked_max_runs(options.get("max_runs"))
        self.paused = checked_flag("paused", options.get("paused", False))
        self.note = validate_note(options.get("note"))
        self.task_queue = options.get("task_queue", DEFAULT_TASK_QUEUE)
        self.options = start_options(options.get("options"))
        self.workflow_type, self._signature = checked_workflow(workflow)
        if not isinstance(workflow, str):
            timeouts = unsaid(definition_of(workflow).timeouts, self.options.given())
            self.options = self.options.replace(**timeouts) if timeouts else self.options
        if self._signature is not None:
            self._signature.check(args, self.workflow_type)
        if self.task_queue != DEFAULT_TASK_QUEUE:
            validate_task_queue(self.task_queue)
        check_queue(self.options, self.overlap)

    def __repr__(self) -> str:
        return f"Schedule({self.schedule_id!r}, {self.workflow_type!r})"

    def to_row(self, context: ClientContext) -> ScheduleRow:
        """Return the schedule as a row that was never written.

        Args:
            context: The converter and the limits.

        Raises:
            PayloadEncodeError: An argument has no JSON form.
            StructuralLimitError: The arguments, the memo or the search attributes are too large.
        """
        from outlast_schedules.action import action_of
        from outlast_store.schema.rows import ScheduleRow
        from outlast_workflow.primitives.times import microseconds

        payload = context.converter.encode_request(self.args, self._signature, self.workflow_type)
        context.limits.check("payload_bytes", len(payload.json), whose=self.schedule_id)
        memo, attributes = encoded_options(context, self.schedule_id, self.options)
        return ScheduleRow(
            schedule_id=self.schedule_id,
            version=1,
            workflow_type=self.workflow_type,
            task_queue=self.task_queue,
            input=payload.json.decode(),
            action=action_of(self.options, memo, attributes),
            spec=self.calendar.to_json(),
            overlap=self.overlap.value,
            catch_up=self.catch_up.value,
            catch_up_window=microseconds(self.catch_up_window),
            pause_on_failure=self.pause_on_failure,
            paused_at=0 if self.paused else None,
            note=self.note,
            max_runs=self.max_runs,
            remaining_runs=self.max_runs,
            decided_until=0,
            last_slot_at=None,
            next_look_at=None,
            buffered=None,
            last_workflow_id=None,
            last_first_run_id=None,
            failed_run_id=None,
            recent=None,
            started=0,
            skipped=0,
            missed=0,
            created_at=0,
            updated_at=0,
        )


def checked_workflow(workflow: Any) -> tuple[str, CallSignature | None]:
    """Return the type of a workflow, and its signature unless only the type's name is known."""
    if isinstance(workflow, str):
        return validate_workflow_type("workflow", workflow), None
    definition = definition_of(workflow)
    if definition.name.endswith(WILDCARD):
        refuse_family("workflow", definition.name)
    return definition.name, definition.signature


def encoded_options(
    context: ClientContext, schedule_id: str, options: StartOptions
) -> tuple[Payload | None, Document | None]:
    """Return the memo of options, encoded, and their search attributes.

    Args:
        context: The converter and the limits.
        schedule_id: The schedule, for messages.
        options: The options.

    Raises:
        PayloadEncodeError: The memo has no JSON form.
        StructuralLimitError: One of them is too large.
    """
    from outlast_workflow.options.search_attributes import size_of, to_document

    memo = context.converter.encode(options.memo, "the memo") if options.memo else None
    if memo is not None:
        context.limits.check("memo_bytes", len(memo.json), whose=schedule_id)
    attributes = to_document(options.search_attributes) if options.search_attributes else None
    if attributes is not None:
        context.limits.check("search_attributes_bytes", size_of(attributes), whose=schedule_id)
    return memo, attributes


def checked_overlap(value: Any) -> Overlap:
    """Return an overlap policy."""
    try:
        return Overlap(value)
    except ValueError:
        raise InvalidOptionError(f"overlap must be one of {', '.join(Overlap)}", field="overlap") from None


def checked_catch_up(value: Any) -> CatchUp:
    """Return a catch-up policy."""
    try:
        return CatchUp(value)
    except ValueError:
        raise InvalidOptionError(f"catch_up must be one of {', '.join(CatchUp)}", field="catch_up") from None


def checked_flag(field: str, value: Any) -> bool:
    """Return a boolean.

    Args:
        field: What messages call it.
        value: The value.
    """
    if not isinstance(value, bool):
        raise InvalidOptionError(f"{field} must be True or False, not {type(value).__name__}", field=field)
    return value


def checked_max_runs(value: Any) -> int | None:
    """Return a limit of runs."""
    return None if value is None else integer("max_runs", value, 1)


def check_queue(options: StartOptions, overlap: Overlap) -> None:
    """Refuse overlap policies that a queue makes senseless: the queue itself orders what it holds."""
    if options.queue is not None and overlap not in (Overlap.SKIP, Overlap.ALLOW_ALL):
        raise InvalidOptionError(
            f"overlap {overlap.value!r} cannot be combined with a queue, which orders its workflows itself: "
            "give skip or allow_all",
            field="overlap",
        )
