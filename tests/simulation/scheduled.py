"""Schedules of a simulation: some of the seeds have one or two, which any watchdog fires and clients change.

They draw from a source of their own, so that seeds without schedules are as they were. The story begins some seconds
before clocks in Zurich are put back, so that a cron text for two o'clock names wall times that come a second time.

Each write of a schedule's row is judged where it is made (:class:`Watched`): of the slots that it decides, the policies
say once more what becomes of them (:mod:`tests.scheduled`). What is left when all is over is judged by
:func:`check_schedules`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import takewhile
from typing import Any
from zoneinfo import ZoneInfo

import orjson
from sqlalchemy import Connection
from tests.scheduled import Policy
from tests.simulation import programs
from tests.simulation.story import Story

from outlast import Client, Cron, Every, StartOptions
from outlast_schedules.action import slot_workflow_id
from outlast_schedules.changes import TriggerSchedule
from outlast_schedules.firing import FireSchedule
from outlast_schedules.specs.calendar import Calendar
from outlast_store.database.sql_text import Values, columns_of, fetch
from outlast_store.journal.batch import Batch
from outlast_store.schema import tables
from outlast_store.schema.rows import RunRow, ScheduleRow
from outlast_workflow.history.events import WorkflowStarted
from outlast_workflow.primitives.enums import Overlap
from outlast_workflow.primitives.times import to_datetime

ZURICH = ZoneInfo("Europe/Zurich")
ON_TIME_US = 1_500_000
"""How late a slot may be found that is on time: so little that slots are missed while watchdogs are frozen."""
NAMES = ("sch1", "sch2")
OVERLAPS = tuple(overlap.value for overlap in Overlap)
TEXT = "*/2 * 2 * * *"
"""Every other second from two to three o'clock."""

Action = dict[str, Any]
Schedule = tuple[ScheduleRow, Calendar]


class Schedules:
    """The schedules of one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(f"schedules of {seed}")
        self.names = NAMES[: rng.choice((1, 1, 2))] if rng.random() < 0.5 else ()
        self.untouched = set(self.names)
        """Those of which every start is one of a slot that it fired."""

    def use(self, plan: list[Action], queues: bool) -> None:
        """Let a client create schedules, and change some of them.

        Args:
            plan: What the client is going to do.
            queues: Whether there are queues.
        """
        rng = self.rng
        for name in self.names:
            if rng.random() < 0.3:
                continue
            actions = [self._create(name, queues)]
            actions += [self._change(name) for _ in range(rng.choice((0, 2, 4, 8)))]
            places = sorted(rng.randint(0, len(plan)) for _ in actions)
            for place, action in reversed(list(zip(places, actions, strict=True))):
                plan.insert(place, action)

    def _create(self, name: str, queues: bool) -> Action:
        rng = self.rng
        overlap = rng.choice(OVERLAPS)
        options: dict[str, Any] = {}
        if queues and rng.random() < 0.3:
            options["queue"], overlap = rng.choice(("narrow", "wide")), rng.choice(("skip", "allow_all"))
        if rng.random() < 0.2:
            options["run_timeout"] = 1
        steps, pauses = programs.draw(rng, size=2, whom="w1"), rng.random() < 0.4
        if rng.random() < 0.4:
            steps = [{"do": "continue"}, {"do": "sleep", "for": 3}, *steps]
        if pauses and rng.random() < 0.7:
            steps = [*steps[-1:], {"do": "fail", "attempts": 99}]
        return {
            "do": "schedule", "verb": "create", "id": name, "after": rng.choice((0, 0, 0.5)),
            "spec": self._spec(), "last": rng.choice((6, 9, 13)), "jitter": rng.choice((0, 0, 0.7)),
            "steps": steps, "options": options,
            "task_queue": rng.choice(programs.QUEUES), "overlap": overlap,
            "catch_up": rng.choice(("latest", "all", "none")), "pause_on_failure": pauses,
            "max_runs": rng.choice((None, None, 2, 3)),
        }  # fmt: skip

    def _spec(self) -> list[Any]:
        every = self.rng.choice((1, 2, 3))
        return self.rng.choice(
            (
                [Every(every)],
                [Every(every)],
                [Cron(TEXT, "Europe/Zurich")],
                [Cron(TEXT, "Europe/Zurich"), Every(3)],
            )
        )

    def _change(self, name: str) -> Action:
        rng = self.rng
        verb = rng.choice(["pause"] * 4 + ["resume"] * 6 + ["update", "trigger", "trigger", "backfill"])
        action: Action = {"do": "schedule", "verb": verb, "id": name, "after": rng.choice((0.2, 0.7, 1, 2))}
        if verb == "update":
            action["fields"] = rng.choice(
                (
                    {"overlap": rng.choice(("skip", "allow_all"))},
                    {"max_runs": rng.choice((None, 1, 4))},
                    {"spec": Every(rng.choice((1, 2)))},
                )
            )
        elif verb == "trigger":
            action["overlap"] = rng.choice(("skip", "terminate_other", "allow_all"))
            action["key"] = f"t{rng.randrange(1_000_000)}"
        elif verb == "backfill":
            self.untouched.discard(name)
        return action


async def ask(client: Client, action: Action) -> None:
    """Do what a client's plan says of a schedule.

    Args:
        client: The client.
        action: What to do.
    """
    handle, verb = client.schedules.handle(action["id"]), action["verb"]
    now = to_datetime(client.runtime.environment.clock.now())
    if verb == "create":
        options: dict[str, Any] = {**action["options"], "alerts": programs.alerts_of(action["options"])}
        await client.schedules.create(
            action["id"], programs.Program.run, action["steps"], [], [],
            spec=action["spec"], end_at=now + timedelta(seconds=action["last"]), jitter=action["jitter"],
            overlap=action["overlap"], catch_up=action["catch_up"], max_runs=action["max_runs"],
            pause_on_failure=action["pause_on_failure"], task_queue=action["task_queue"],
            options=StartOptions(**options),
            if_exists="keep",
        )  # fmt: skip
    elif verb == "pause":
        await handle.pause("simulated")
    elif verb == "resume":
        await handle.resume()
    elif verb == "update":
        await handle.update(**action["fields"])
    elif verb == "trigger":
        await handle.trigger(overlap=action["overlap"], request_id=action["key"])
    else:
        await handle.backfill(now - timedelta(seconds=5), now)


# --- at each write ----------------------------------------------------------------------------------------------------


class Watched:
    """What one statement makes of a schedule's row, and what else its change does by the end of the batch.

    Args:
        batch: The batch, before the statement.
        values: The values of the statement, the schedule's id third from behind.
    """

    def __init__(self, batch: Batch, values: Values) -> None:
        self.batch = batch
        self.change = batch.change
        self.schedule_id: str = values[-3]
        self.before = self._row()
        self.last = self._last_run()
        self.was_open = self.last is not None and self.last.is_open
        self.taken = self._taken()
        self.known = set(batch.run_rows.keys())

    def _row(self) -> ScheduleRow | None:
        columns = ", ".join(columns_of(tables.schedules))
        text = f"SELECT {columns} FROM schedules WHERE schedule_id = ?"
        rows = self.batch.scan(text, (self.schedule_id,))
        return ScheduleRow(*rows[0]) if rows else None

    def _last_run(self) -> RunRow | None:
        """The latest run of the chain that was started last: as it is now, whatever the change had read."""
        if self.before is None or self.before.last_first_run_id is None:
            return None
        first = self.before.last_first_run_id
        columns = ", ".join(columns_of(tables.workflow_runs))
        text = f"SELECT {columns} FROM workflow_runs WHERE first_run_id = ?"
        runs = {row[0]: RunRow(*row) for row in self.batch.scan(text, (first,))}
        for run_id, run in self.batch.run_rows.items():
            if run.first_run_id == first:
                runs[run_id] = run
        return max(runs.values(), key=lambda run: run.run_number, default=None)

    def _taken(self) -> set[int]:
        """The slots whose workflow ids somebody has."""
        change = self.change
        if not isinstance(change, FireSchedule):
            return set()
        ids = {start.slot: start.instance.workflow_id for start in change.starts}
        return {slot for slot, workflow_id in ids.items() if self.batch.instance(workflow_id) is not None}

    def wrong(self) -> Iterator[str]:
        """Say what is wrong with the write, after its change has done all that it does."""
        before, after = self.before, self._row()
        if before is None or after is None:
            yield f"schedule {self.schedule_id} is written, and was {before}"
            return
        where = f"schedule {self.schedule_id} (version {before.version})"
        found = (
            self._fired(before, after)
            if isinstance(self.change, FireSchedule)
            else self._changed(before, after)
        )
        for what in found:
            yield f"{where} {what}"

    def _changed(self, before: ScheduleRow, after: ScheduleRow) -> Iterator[str]:
        """What users ask for decides no slot."""
        counts = ("started", "skipped", "missed", "buffered", "last_slot_at")
        for name in counts:
            if getattr(before, name) != getattr(after, name):
                who = type(self.change).__name__
                yield f"has {name} {getattr(before, name)}, and {who} makes it {getattr(after, name)}"
        if isinstance(self.change, TriggerSchedule) and (before.remaining_runs, before.decided_until) != (
            after.remaining_runs,
            after.decided_until,
        ):
            yield "lets a trigger use a slot"
        if after.decided_until < before.decided_until:
            yield "decides slots again"

    def _started(self) -> list[int]:
        """The slots whose workflows the change has started."""
        found: list[int] = []
        change = self.change
        assert isinstance(change, FireSchedule)
        slots = {start.instance.workflow_id: start.slot for start in change.starts}
        for run_id in self.batch.run_rows.keys() - self.known:
            for _, event, by in self.batch.appended(run_id):
                if by is change and isinstance(event, WorkflowStarted) and event.schedule is not None:
                    found.append(slots.get(event.workflow_id, -1))
        return sorted(found)

    def _fired(self, before: ScheduleRow, after: ScheduleRow) -> Iterator[str]:
        started = self._started()
        decided = (
            after.started - before.started,
            after.skipped - before.skipped,
            after.missed - before.missed,
        )
        if before.paused_at is not None:
            yield f"is paused, and starts {started}"
        failed = self.last is not None and self.last.status in ("failed", "timed_out")
        if after.paused_at is not None and before.paused_at is None:
            run_id = None if self.last is None else self.last.run_id
            if not failed or run_id == before.failed_run_id or started or any(decided):
                yield f"pauses for run {run_id}, having paused for {before.failed_run_id}, and decides {decided}"
            return
        if (
            before.pause_on_failure
            and failed
            and self.last is not None
            and self.last.run_id != before.failed_run_id
        ):
            yield f"does not pause, and run {self.last.run_id} has failed"
        calendar = Calendar.from_json(before.spec)
        slots = list(
            takewhile(lambda slot: slot <= after.decided_until, calendar.slots(before.decided_until))
        )
        waiting: list[int] = orjson.loads(before.buffered) if before.buffered is not None else []
        waits: list[int] = orjson.loads(after.buffered) if after.buffered is not None else []
        if sum(decided) + len(waits) - len(waiting) != len(slots):
            yield f"decides slots {slots} as {decided}, and {waiting} that waited are {waits}"
            return
        yield from self._on_time(before, calendar, slots, decided[2])
        policy = Policy(before.overlap, before.catch_up, before.catch_up_window)
        look = policy.look(
            slots[decided[2] :], late_by=lambda slot: 0, age=lambda slot: 0, waiting=waiting,
            left=before.remaining_runs, is_open=self.was_open, taken=self.taken,
        )  # fmt: skip
        expected = (sorted(look.started), len(look.skipped), look.waiting)
        if (started, decided[1], waits) != expected:
            yield (
                f"({before.overlap}, open: {self.was_open}, left: {before.remaining_runs}) decides {slots} with "
                f"{waiting} waiting as {(started, decided[1], waits)}, not as {expected}"
            )
        if decided[0] != len(started):
            yield f"counts {decided[0]} starts, and starts {started}"
        left = None if before.remaining_runs is None else before.remaining_runs - len(started)
        if after.remaining_runs != left:
            yield f"starts {len(started)} of {before.remaining_runs}, and {after.remaining_runs} are left"
        if look.ends is not None and not self._is_ending(look.ends):
            yield f"takes the place of run {self.last and self.last.run_id}, which goes on"

    def _on_time(
        self, before: ScheduleRow, calendar: Calendar, slots: list[int], missed: int
    ) -> Iterator[str]:
        """A slot fires at its time, at the wall times that come first, and is missed only if it is late."""
        fires = [calendar.fire_at(before.schedule_id, slot) for slot in slots]
        now = self.batch.now
        early = [slot for slot, fire_at in zip(slots, fires, strict=True) if fire_at > now]
        if early:
            yield f"fires {early} before their time"
        again = [slot for slot in slots if to_datetime(slot).astimezone(ZURICH).fold]
        if again and f'"{TEXT}"' in before.spec and "every" not in before.spec:
            yield f"fires {again}, wall times that have come before"
        if any(now - fire_at <= ON_TIME_US for fire_at in fires[:missed]):
            yield f"misses {slots[:missed]}, which are on time"
        if missed and before.catch_up == "all":
            yield f"misses {slots[:missed]}, and was to catch up with all"
        # With no starts left, the newest that are due stay undecided: what is missed before them may be late.
        following = next(iter(calendar.slots(slots[-1])), None) if slots else None
        undecided = following is not None and calendar.fire_at(before.schedule_id, following) <= now
        if before.catch_up == "latest" and missed and missed == len(slots) and not undecided:
            yield f"misses the latest of {slots}"
        # The look came after the newest was due.
        kept = fires[missed : -1 if before.catch_up == "latest" else None]
        if before.catch_up != "all" and any(fires[-1] - fire_at > ON_TIME_US for fire_at in kept):
            yield f"catches up with {slots[missed:]}, which it was to miss"

    def _is_ending(self, how: str) -> bool:
        last = self.last
        if last is None:
            return False
        run = self.batch.run_rows.get(last.run_id, last)
        return not run.is_open or (how == "cancel_other" and run.cancel_requested_at is not None)


# --- when all is over -------------------------------------------------------------------------------------------------


def over(connection: Any) -> bool:
    """Whether no schedule has anything to do any more."""
    text = "SELECT EXISTS (SELECT 1 FROM schedules WHERE next_look_at IS NOT NULL)"
    return not connection.execute(text).fetchone()[0]


def started_by_schedules(story: Story) -> dict[str, dict[str, Any]]:
    """The chains that schedules have started, by their first run: the schedule and the slot."""
    return {
        first: told
        for first in story.chains
        if (told := story.events[first][0][2].get("schedule")) is not None
    }


def check_schedules(connection: Connection, story: Story, schedules: Schedules) -> Iterator[str]:
    """No slot has started twice, and each schedule has started what it says, exported or not."""
    told = started_by_schedules(story)
    started: Counter[str] = Counter()
    for first, one in told.items():
        workflow_id = story.events[first][0][2]["workflow_id"]
        started[workflow_id] += 1
        if not workflow_id.startswith(f"{one['schedule_id']}-"):
            yield f"{workflow_id} is there for {one}"
    # A backfill starts again what retention has deleted.
    for workflow_id, times in started.items():
        if times > 1 and workflow_id.partition("-")[0] in schedules.untouched:
            yield f"{workflow_id} was started {times} times"
    columns = ", ".join(columns_of(tables.schedules))
    for row in (ScheduleRow(*values) for values in fetch(connection, f"SELECT {columns} FROM schedules")):
        slots = [workflow_id for workflow_id in started if workflow_id.startswith(f"{row.schedule_id}-2")]
        exact = row.schedule_id in schedules.untouched
        if len(slots) != row.started if exact else len(slots) < row.started:
            yield f"schedule {row.schedule_id} says that it has started {row.started} slots, and {slots} are there"
        if row.last_slot_at is not None and slot_workflow_id(row.schedule_id, row.last_slot_at) not in slots:
            yield f"schedule {row.schedule_id} has started {row.last_slot_at} last, which is not there"
