"""What the client shows of schedules: typed, immutable, and written as JSON by ``model_dump_json()``."""

from __future__ import annotations

from typing import Any, Final

import orjson
from pydantic import Field
from sqlalchemy import Connection

from outlast.visibility.columns import instant
from outlast.visibility.views import Instant, View
from outlast_schedules.action import options_of
from outlast_schedules.damage import damaged_columns, without_damage
from outlast_schedules.specs.calendar import Calendar, spec_from
from outlast_store.reads.queues import find_queue, unknown_queue
from outlast_store.reads.serving import Polled
from outlast_store.reads.workers import list_workers
from outlast_store.schema.rows import ScheduleRow
from outlast_workflow.errors import DamagedScheduleError, OutlastError
from outlast_workflow.primitives.enums import CatchUp, Overlap
from outlast_workflow.primitives.times import from_iso, seconds, to_datetime


class SlotOutcome(View):
    """What became of a slot, or of a trigger, which has none.

    Attributes:
        slot: The slot; ``None`` for a trigger.
        at: When it was decided.
        outcome: ``started``, ``skipped``, ``buffered``, ``missed``, ``existing`` (its workflow id was taken) or
            ``triggered``.
        workflow_id: The workflow, if one was started.
        missed: How many slots were missed up to this one, if it was.
    """

    slot: Instant | None
    at: Instant
    outcome: str
    workflow_id: str | None = None
    missed: int | None = None


class ScheduledOptions(View):
    """The options of each start, without the memo, which only the workflows show. Durations are in seconds.

    :class:`outlast.StartOptions` explains them.
    """

    execution_timeout: int | float | None = None
    run_timeout: int | float | None = None
    start_delay: int | float | None = None
    schedule_to_start_timeout: int | float | None = None
    priority: int = 5
    queue: str | None = None
    partition_key: str | None = None
    summary: str | None = None
    retry_policy: dict[str, Any] | None = None
    search_attributes: dict[str, Any] | None = None
    alerts: dict[str, Any] | None = None


class ScheduleDescription(View):
    """A schedule, what it has done, and when it fires next.

    Attributes:
        trouble: Why it starts nothing although it is not paused, and what to do about that; ``None`` as a rule.
        unserved: That no live worker can run what it starts, and what to do about that; ``None`` where one can.
        options: The options of each start.
        specs: When it fires, each as its JSON form.
        exclude: What is left out, likewise.
        jitter: In seconds, as ``catch_up_window``.
        remaining_runs: How many slots it may still start, of those since it had a limit; ``None`` without one.
        next_slots: The slots to come; none of a schedule that is paused or used up.
        next_look_at: When it has something to do next, jitter included.
        buffered: The slots that wait for the open workflow to end.
        recent: What became of the last ten slots and triggers, the newest last.
        started: How many slots it has started, triggers and backfills not counted.
        skipped: How many it has left out.
        missed: How many were missed.
    """

    schedule_id: str
    workflow_type: str
    task_queue: str
    trouble: str | None = None
    unserved: str | None = None
    options: ScheduledOptions
    specs: tuple[dict[str, Any], ...]
    exclude: tuple[dict[str, Any], ...]
    when: str = Field(description="The specs in words")
    start_at: Instant | None
    end_at: Instant | None
    jitter: int | float
    overlap: Overlap
    catch_up: CatchUp
    catch_up_window: int | float
    pause_on_failure: bool
    paused: bool
    paused_at: Instant | None
    note: str | None
    max_runs: int | None
    remaining_runs: int | None
    next_slots: tuple[Instant, ...]
    next_look_at: Instant | None
    last_slot_at: Instant | None
    last_workflow_id: str | None
    buffered: tuple[Instant, ...]
    recent: tuple[SlotOutcome, ...]
    started: int
    skipped: int
    missed: int
    created_at: Instant
    updated_at: Instant

    @property
    def time_zone(self) -> str:
        """The time zone of its cron texts if all have the same, and UTC otherwise."""
        zones = {spec.get("time_zone", "UTC") for spec in self.specs if "cron" in spec}
        return zones.pop() if len(zones) == 1 else "UTC"

    @property
    def excluded(self) -> str:
        """What is left out, in words."""
        return "; ".join(str(spec_from(one)) for one in self.exclude)


_SHOWN: Final = tuple(ScheduledOptions.model_fields.keys() - {"retry_policy", "search_attributes", "alerts"})


class BackfillResult(View):
    """What a backfill did.

    Attributes:
        started: How many workflows it started.
        existing: How many slots had a workflow already.
    """

    started: int
    existing: int


def description(connection: Connection, row: ScheduleRow, now: int, next: int) -> ScheduleDescription:
    """Return a schedule as people and programs are shown it, without what cannot be read.

    Args:
        connection: Where to read whether its queue is there.
        row: Its row.
        now: Microseconds since the epoch: slots before it are not to come.
        next: How many slots to come are shown.
    """
    trouble: OutlastError | None = None
    damaged = damaged_columns(row)
    if damaged:
        trouble, row = DamagedScheduleError(row.schedule_id, damaged[0]), without_damage(row)
    options = _options(row.action)
    if trouble is None and options.queue is not None and find_queue(connection, options.queue) is None:
        trouble = unknown_queue(connection, options.queue)
    calendar = Calendar.from_json(row.spec)
    specs = () if "spec" in damaged else calendar.specs
    lack = Polled.of(list_workers(connection), now).lack_of_workflow(
        row.task_queue, row.workflow_type, options.queue
    )
    live = trouble is None and row.paused_at is None and row.remaining_runs != 0
    most = next if row.remaining_runs is None else min(next, row.remaining_runs)
    slots, _ = calendar.first_slots(max(row.decided_until, now), most if live else 0)
    return ScheduleDescription(
        schedule_id=row.schedule_id,
        workflow_type=row.workflow_type,
        task_queue=row.task_queue,
        trouble=None if trouble is None else str(trouble),
        unserved=None if lack is None else f"{lack.cause}: {lack.remedy}",
        options=options,
        specs=tuple(spec.to_document() for spec in specs),
        exclude=tuple(spec.to_document() for spec in calendar.exclude),
        when="; ".join(str(spec) for spec in specs),
        start_at=calendar.start_at,
        end_at=calendar.end_at,
        jitter=calendar.jitter,
        overlap=Overlap(row.overlap),
        catch_up=CatchUp(row.catch_up),
        catch_up_window=seconds(row.catch_up_window) or 0,
        pause_on_failure=row.pause_on_failure,
        paused=row.paused_at is not None,
        paused_at=instant(row.paused_at),
        note=row.note,
        max_runs=row.max_runs,
        remaining_runs=row.remaining_runs,
        next_slots=tuple(to_datetime(slot) for slot in slots),
        next_look_at=instant(row.next_look_at),
        last_slot_at=instant(row.last_slot_at),
        last_workflow_id=row.last_workflow_id,
        buffered=tuple(to_datetime(slot) for slot in orjson.loads(row.buffered or "[]")),
        recent=tuple(_outcome(one) for one in orjson.loads(row.recent or "[]")),
        started=row.started,
        skipped=row.skipped,
        missed=row.missed,
        created_at=to_datetime(row.created_at),
        updated_at=to_datetime(row.updated_at),
    )


def _options(action: str) -> ScheduledOptions:
    options, _, attributes = options_of(action)
    policy = options.retry_policy
    return ScheduledOptions(
        **{name: getattr(options, name) for name in _SHOWN},
        retry_policy=None if policy is None else policy.to_document(),
        search_attributes=attributes,
        alerts=None if options.alerts is None else options.alerts.to_document(),
    )


def _outcome(document: dict[str, Any]) -> SlotOutcome:
    slot = document["slot"]
    return SlotOutcome(
        slot=None if slot is None else to_datetime(from_iso(slot)),
        at=to_datetime(from_iso(document["at"])),
        outcome=document["outcome"],
        workflow_id=document.get("workflow_id"),
        missed=document.get("missed"),
    )
