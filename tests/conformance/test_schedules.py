"""Schedules on each store: what each change does to a schedule, against a model, and what races leave."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from sqlalchemy import Connection
from tests.scheduled import DAY_US, Look, Model, Policy, a_row
from tests.watchdog.stage import SECOND, Stage

from outlast import Every, RetryPolicy, StartOptions
from outlast.testing import check_database
from outlast_runs.deadlines import EnforceRunDeadline
from outlast_runs.run_change import TerminateRun
from outlast_schedules.action import action_of, slot_workflow_id
from outlast_schedules.changes import (
    ApplySchedules,
    BackfillSchedule,
    ChangeSchedule,
    CreateSchedule,
    DeleteSchedule,
    TriggerSchedule,
    limit_runs,
    pausing,
    resuming,
)
from outlast_schedules.due_slots import due_slots
from outlast_schedules.firing import FireSchedule, Start
from outlast_schedules.specs.calendar import Calendar
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.reads.schedules import find_schedule
from outlast_store.schema.rows import RunRow, ScheduleRow
from outlast_watchdog import scans
from outlast_workflow.errors import (
    OutlastError,
    ScheduleExistsError,
    ScheduleNotFoundError,
    WorkflowAlreadyStartedError,
)
from outlast_workflow.history.events import WorkflowStarted
from outlast_workflow.primitives.enums import Overlap

NAMES = ("a", "b")
OVERLAPS = tuple(overlap.value for overlap in Overlap)
CATCH_UPS = ("latest", "all", "none")
PERIODS = (10 * SECOND, 20 * SECOND, 60 * SECOND)
WINDOWS = (90 * SECOND, DAY_US)
LIMITS = (None, None, 2, 5)


def stored(stage: Stage, schedule_id: str = "a") -> ScheduleRow | None:
    return stage.runtime.read_now(find_schedule, schedule_id)


def there(stage: Stage, schedule_id: str = "a") -> ScheduleRow:
    row = stored(stage, schedule_id)
    assert row is not None
    return row


def waiting_in(row: ScheduleRow) -> list[int]:
    return orjson.loads(row.buffered) if row.buffered is not None else []


def looks(stage: Stage) -> list[FireSchedule]:
    """What a watchdog hands over that looks now."""
    now = stage.clock.now()
    found = stage.runtime.read_now(scans.due_schedules, now, None, 100)
    return [
        FireSchedule(
            due.row,
            due_slots(Calendar.from_json(due.row.spec), due.row, now),
            due.latest_run_id,
            stage.runtime.environment,
        )
        for due in found
    ]


@pytest.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    opened = await Stage.open(database_url)
    yield opened
    with opened.runtime.database.reader() as connection:
        assert check_database(connection) == []
    await opened.close()


# --- a model of what a sequence of changes does ---------------------------------------------------------------------


@dataclass
class World:
    """What there is of schedules and workflows, as the model knows it."""

    schedules: dict[str, Model] = field(default_factory=dict)
    workflows: dict[str, bool] = field(default_factory=dict)
    """Whether each is open."""

    def is_open(self, model: Model) -> bool:
        return model.last is not None and self.workflows[model.last]

    def taken(self, name: str, slots: list[int]) -> list[int]:
        return [slot for slot in slots if slot_workflow_id(name, slot) in self.workflows]

    def start(self, workflow_id: str) -> None:
        assert workflow_id not in self.workflows
        self.workflows[workflow_id] = True

    def look(self, name: str, now: int) -> Look:
        model = self.schedules[name]
        found = [*model.slots(now), *model.waiting]
        look = model.look(now, is_open=self.is_open(model), taken=self.taken(name, found))
        if look.ends == "terminate_other" and model.last is not None:
            self.workflows[model.last] = False
        for slot in look.started:
            model.last = slot_workflow_id(name, slot)
            self.start(model.last)
        return look


class Player:
    """Does the same to a database and to the model, step by step."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.chance = random.Random(seed)
        self.world = World()
        self.met: set[str] = set()

    @property
    def now(self) -> int:
        now: int = self.stage.clock.now()
        return now

    async def step(self) -> None:
        chance = self.chance
        kind = chance.choice(
            ["look"] * 6
            + ["wait"] * 5
            + ["end"] * 3
            + ["create", "create", "pause", "resume", "update", "update", "apply", "trigger", "backfill"]
            + ["delete"] * (chance.random() < 0.3)
        )
        if kind == "wait":
            # Longer than a minute: slots are missed.
            self.stage.clock.advance_us(chance.choice((5, 10, 13, 25, 40, 200)) * SECOND)
        elif kind == "look":
            await self.look()
        elif kind == "end":
            await self.end()
        else:
            await getattr(self, kind)(chance.choice(NAMES))

    async def look(self) -> None:
        due = {name for name, model in self.world.schedules.items() if model.looks(self.now)}
        fires = looks(self.stage)
        found = {fire.row.schedule_id for fire in fires}
        # One that waits for a workflow to end is looked at once a second.
        assert found <= due
        assert {name for name in due if self.world.schedules[name].slots(self.now)} - {
            name for name in due if self.world.schedules[name].left == 0
        } <= found
        for fire in sorted(fires, key=lambda fire: fire.row.schedule_id):
            name = fire.row.schedule_id
            look = self.world.look(name, self.now)
            fired = await self.stage.apply(fire)
            assert fired is not None
            assert [slot for slot, _ in fired.started] == look.started
            assert (fired.skipped, fired.missed) == (len(look.skipped), len(look.missed))
            self.met |= {what for what in ("started", "skipped", "missed", "waiting") if getattr(look, what)}
            self.met |= {look.ends} if look.ends else set()

    async def end(self) -> None:
        opened = sorted(workflow_id for workflow_id, is_open in self.world.workflows.items() if is_open)
        if opened:
            workflow_id = self.chance.choice(opened)
            await self.stage.apply(TerminateRun(workflow_id, self.run_of(workflow_id), "ended"))
            self.world.workflows[workflow_id] = False

    def run_of(self, workflow_id: str) -> str:
        [run_id] = [row[0] for row in self.stage.rows("workflow_runs", "workflow_id = ?", workflow_id)]
        return str(run_id)

    def drawn(self, name: str) -> tuple[ScheduleRow, Model]:
        chance = self.chance
        policy = Policy(chance.choice(OVERLAPS), chance.choice(CATCH_UPS), chance.choice(WINDOWS))
        period, most = chance.choice(PERIODS), chance.choice(LIMITS)
        row = a_row(
            name, period, overlap=policy.overlap, catch_up=policy.catch_up, catch_up_window=policy.window,
            max_runs=most,
        )  # fmt: skip
        return row, Model(policy, period, self.now, most, most)

    async def create(self, name: str) -> None:
        row, model = self.drawn(name)
        if self.chance.random() < 0.2:
            row.paused_at, model.paused = 0, True
        refused = await self.outcome(CreateSchedule(row))
        assert (refused is ScheduleExistsError) == (name in self.world.schedules)
        self.world.schedules.setdefault(name, model)

    async def apply(self, name: str) -> None:
        row, wanted = self.drawn(name)
        model = self.world.schedules.setdefault(name, wanted)
        if model is not wanted:
            model.policy = wanted.policy
            model.count_from(self.now, wanted.period)
            model.limit(wanted.most)
        await self.stage.apply(ApplySchedules([row], prune=False))

    async def update(self, name: str) -> None:
        _, wanted = self.drawn(name)

        def edit(row: ScheduleRow, now: int) -> None:
            row.overlap, row.spec = wanted.policy.overlap, Calendar(Every(wanted.period // SECOND)).to_json()
            limit_runs(row, wanted.most)

        if await self.known(name, ChangeSchedule(name, edit)):
            model = self.world.schedules[name]
            model.go_by(overlap=wanted.policy.overlap)
            model.count_from(self.now, wanted.period)
            model.limit(wanted.most)

    async def pause(self, name: str) -> None:
        if await self.known(name, ChangeSchedule(name, pausing("by hand"))):
            self.world.schedules[name].paused = True

    async def resume(self, name: str) -> None:
        if await self.known(name, ChangeSchedule(name, resuming(None))):
            self.world.schedules[name].resume(self.now)

    async def delete(self, name: str) -> None:
        if await self.known(name, DeleteSchedule(name)):
            del self.world.schedules[name]

    async def trigger(self, name: str) -> None:
        model, row = self.world.schedules.get(name), stored(self.stage, name)
        assert (model is None) == (row is None)
        if row is None or model is None:
            return
        workflow_id = f"{name}-trigger-{self.chance.randrange(20)}"
        overlap = self.chance.choice((Overlap.SKIP, Overlap.TERMINATE_OTHER, Overlap.ALLOW_ALL))
        refused = await self.outcome(self.triggering(row, workflow_id, overlap))
        if workflow_id in self.world.workflows:
            assert refused is None
            return
        is_open = self.world.is_open(model)
        assert (refused is WorkflowAlreadyStartedError) == (is_open and overlap == "skip")
        if refused is None:
            if is_open and overlap == "terminate_other" and model.last is not None:
                self.world.workflows[model.last] = False
            model.last = workflow_id
            self.world.start(workflow_id)

    def triggering(self, row: ScheduleRow, workflow_id: str, overlap: Overlap) -> TriggerSchedule:
        latest = self.stage.runtime.read_now(scans._latest_run, row)
        run_id = None if latest is None else latest[0]
        return TriggerSchedule(row, workflow_id, overlap, run_id, self.stage.runtime.environment)

    async def backfill(self, name: str) -> None:
        model, row = self.world.schedules.get(name), stored(self.stage, name)
        if row is None or model is None:
            return
        begin = self.now - self.chance.choice((30, 100, 300)) * SECOND
        slots = list(range(-(-begin // model.period) * model.period, self.now, model.period))
        taken = self.world.taken(name, slots)
        environment = self.stage.runtime.environment
        starts = [Start(row, slot, slot_workflow_id(name, slot), environment) for slot in slots]
        found = await self.stage.apply(BackfillSchedule(row, starts))
        assert found == (len(slots) - len(taken), len(taken))
        for slot in slots:
            self.world.workflows.setdefault(slot_workflow_id(name, slot), True)
        again = [Start(row, slot, slot_workflow_id(name, slot), environment) for slot in slots]
        assert await self.stage.apply(BackfillSchedule(row, again)) == (0, len(slots)), "twice adds nothing"

    async def known(self, name: str, change: Any) -> bool:
        """Apply a change of a schedule that must be there; return whether it is."""
        refused = await self.outcome(change)
        assert (refused is None) == (name in self.world.schedules)
        assert refused in (None, ScheduleNotFoundError)
        return refused is None

    async def outcome(self, change: Any) -> type[OutlastError] | None:
        try:
            await self.stage.apply(change)
        except OutlastError as error:
            return type(error)
        return None

    def compare(self) -> None:
        """The database says what the model says."""
        for name in NAMES:
            model, row = self.world.schedules.get(name), stored(self.stage, name)
            assert (model is None) == (row is None)
            if model is None or row is None:
                continue
            found = (row.started, row.skipped, row.missed, waiting_in(row))
            assert found == (model.started, model.skipped, model.missed, model.waiting)
            assert (row.remaining_runs, row.max_runs) == (model.left, model.most)
            assert (row.paused_at is not None) == model.paused
            assert row.last_workflow_id == model.last
            if not model.waiting:
                assert row.next_look_at == model.next_slot
        assert self.stage.runtime.read_now(_open_workflows) == self.world.workflows


def _open_workflows(connection: Connection) -> dict[str, bool]:
    text = "SELECT workflow_id, closed_at FROM workflow_runs"
    return {row[0]: row[1] is None for row in connection.exec_driver_sql(text)}


@pytest.mark.parametrize("seed", range(4))
async def test_any_sequence_of_changes_does_what_the_model_says(stage: Stage, seed: int) -> None:
    player = Player(stage, seed)
    for _ in range(250):
        await player.step()
        player.compare()
    assert player.met >= {"started", "skipped", "missed"}


# --- how the workflow before has ended ------------------------------------------------------------------------------


TEN_SECONDS = '{"run_timeout":10}'
RETRIED = action_of(StartOptions(run_timeout=10, retry_policy=RetryPolicy()), None, None)


async def fire(stage: Stage) -> Any:
    """Let ten seconds pass, and look before the watchdog's other steps; return what became of the slot."""
    stage.clock.advance(10)
    [look] = looks(stage)
    return await stage.apply(look)


def last_failure(stage: Stage, workflow_id: str) -> Any:
    """The failure that a workflow was handed."""
    [row] = stage.rows("workflow_runs", "workflow_id = ?", workflow_id)
    begun = stage.history(row[0])[0]
    assert isinstance(begun, WorkflowStarted)
    return begun.last_failure and begun.last_failure["type"]


@pytest.mark.parametrize("overlap", OVERLAPS)
async def test_a_look_pauses_for_a_workflow_past_its_deadline(stage: Stage, overlap: str) -> None:
    await stage.apply(CreateSchedule(a_row(overlap=overlap, pause_on_failure=True, action=TEN_SECONDS)))
    [(_, workflow_id)] = (await fire(stage)).started
    fired = await fire(stage)
    assert (fired.paused_by, fired.started, fired.skipped) == (workflow_id, [], 0)
    row = there(stage)
    assert row.note == f"workflow {workflow_id} ended as timed_out"
    assert (row.started, row.buffered, row.failed_run_id) == (1, None, row.last_first_run_id)


async def test_a_workflow_past_its_deadline_that_is_retried_has_not_failed(stage: Stage) -> None:
    await stage.apply(CreateSchedule(a_row(pause_on_failure=True, action=RETRIED)))
    [(_, workflow_id)] = (await fire(stage)).started
    fired = await fire(stage)
    assert (fired.paused_by, fired.started, fired.skipped) == (None, [], 1)
    runs = [RunRow(*row) for row in stage.rows("workflow_runs", "workflow_id = ?", workflow_id)]
    assert sorted((run.run_number, run.is_open) for run in runs) == [(1, False), (2, True)]


@pytest.mark.parametrize("overlap", ["cancel_other", "terminate_other"])
async def test_what_is_past_its_deadline_is_replaced_as_timed_out(stage: Stage, overlap: str) -> None:
    await stage.apply(CreateSchedule(a_row(overlap=overlap, action=TEN_SECONDS)))
    await fire(stage)
    [(_, workflow_id)] = (await fire(stage)).started
    assert last_failure(stage, workflow_id) == "WorkflowTimeoutError"


async def test_a_trigger_learns_that_what_it_takes_the_place_of_has_timed_out(stage: Stage) -> None:
    await stage.apply(CreateSchedule(a_row(action=TEN_SECONDS)))
    await fire(stage)
    stage.clock.advance(10)
    row = there(stage)
    environment = stage.runtime.environment
    trigger = TriggerSchedule(row, "a-trigger-x", Overlap.TERMINATE_OTHER, row.last_first_run_id, environment)
    await stage.apply(trigger)
    assert last_failure(stage, "a-trigger-x") == "WorkflowTimeoutError"


class Together(BaseChange):
    """Two changes of one transaction."""

    def __init__(self, first: Any, second: Any) -> None:
        self.changes = (first, second)
        self.runs = (*first.runs, *second.runs)
        self.new_instances = second.new_instances
        self.needs_locks = True

    def apply(self, batch: Batch) -> Any:
        return [change.apply(batch) for change in self.changes][1]


async def test_what_ends_in_the_transaction_of_the_look_hands_on_how(stage: Stage) -> None:
    await stage.apply(CreateSchedule(a_row(action=TEN_SECONDS)))
    [(_, workflow_id)] = (await fire(stage)).started
    stage.clock.advance(10)
    [look] = looks(stage)
    ends = EnforceRunDeadline(there(stage).last_first_run_id or "", workflow_id, retries=False)
    [(_, workflow_id)] = (await stage.apply(Together(ends, look))).started
    assert last_failure(stage, workflow_id) == "WorkflowTimeoutError"


# --- races ----------------------------------------------------------------------------------------------------------


@pytest.fixture
async def stages(stage: Stage, database_url: str) -> AsyncIterator[tuple[Stage, Stage]]:
    """Two processes' ways to write; they have one clock."""
    second = await Stage.open(database_url, stage.clock, seed=2)
    yield stage, second
    await second.close()


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("overlap", OVERLAPS)
async def test_of_looks_at_the_same_slots_one_decides_them(stages: tuple[Stage, Stage], overlap: str) -> None:
    for number in range(12):
        await stages[0].apply(CreateSchedule(a_row(f"s{number}", overlap=overlap)))
    for _ in range(4):
        stages[0].clock.advance(10)
        changes = [(stage, fire) for stage in stages for _ in range(2) for fire in looks(stage)]
        found = await asyncio.gather(*[stage.apply(fire) for stage, fire in changes])
        assert sum(one is not None for one in found) == 12
    for number in range(12):
        row = there(stages[0], f"s{number}")
        assert (row.started + row.skipped + len(waiting_in(row)), row.missed) == (4, 0)


async def pause(stage: Stage) -> None:
    await stage.apply(ChangeSchedule("a", pausing(None)))


async def update(stage: Stage) -> None:
    def edit(row: ScheduleRow, now: int) -> None:
        row.input = f"[{row.version}]"

    await stage.apply(ChangeSchedule("a", edit))


async def delete(stage: Stage) -> None:
    await stage.apply(DeleteSchedule("a"))


async def replace(stage: Stage) -> None:
    """Make another schedule of the same id, with the same versions."""
    row = there(stage)
    stage.clock.advance_us(1)
    await stage.apply(DeleteSchedule("a"))
    await stage.apply(CreateSchedule(a_row(workflow_type="Other")))
    while there(stage).version < row.version:
        await update(stage)


@pytest.mark.parametrize("changed", [pause, update, delete, replace])
async def test_a_look_that_was_overtaken_writes_nothing(stage: Stage, changed: Any) -> None:
    await stage.apply(CreateSchedule(a_row(overlap="allow_all")))
    await update(stage)
    stage.clock.advance(10)
    [fire] = looks(stage)
    await changed(stage)
    before = stage.rows("schedules")
    assert await stage.apply(fire) is None
    assert stage.rows("schedules") == before
    assert stage.rows("workflow_runs") == []


@pytest.mark.parametrize("catch_up", CATCH_UPS)
async def test_a_clock_that_is_set_back_after_the_look_fires_nothing_early(
    stage: Stage, catch_up: str
) -> None:
    await stage.apply(CreateSchedule(a_row(overlap="allow_all", catch_up=catch_up)))
    stage.clock.advance(100)
    [look] = looks(stage)
    before = stage.rows("schedules")
    stage.clock.us -= 55 * SECOND
    assert await stage.apply(look) is None
    assert stage.rows("schedules") == before
    [look] = looks(stage)
    fired = await stage.apply(look)
    assert (len(fired.started), fired.missed) == (4, 0)


async def test_a_change_by_a_process_whose_clock_is_ahead_does_not_put_off_what_is_due(stage: Stage) -> None:
    await stage.apply(CreateSchedule(a_row(overlap="buffer_one")))
    for _ in range(2):
        await fire(stage)
    stage.clock.advance(11)
    await update(stage)
    assert len(waiting_in(there(stage))) == 1
    stage.clock.us -= SECOND
    assert len(looks(stage)) == 1


async def test_a_trigger_sees_what_was_started_after_it_had_read_the_schedule(stage: Stage) -> None:
    await stage.apply(CreateSchedule(a_row()))
    stage.clock.advance(10)
    environment = stage.runtime.environment
    trigger = TriggerSchedule(there(stage), "a-trigger-x", Overlap.SKIP, None, environment)
    [fire] = looks(stage)
    await stage.apply(fire)
    with pytest.raises(WorkflowAlreadyStartedError):
        await stage.apply(trigger)
    trigger = TriggerSchedule(trigger.row, "a-trigger-y", Overlap.TERMINATE_OTHER, None, environment)
    await stage.apply(trigger)
    assert sorted(stage.runtime.read_now(_open_workflows).values()) == [False, True]


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("seed", range(2))
async def test_a_storm_of_two_processes_decides_each_slot_once(
    stages: tuple[Stage, Stage], seed: int
) -> None:
    chance = random.Random(seed)
    clock = stages[0].clock
    overlaps = {f"s{number}": overlap for number, overlap in enumerate(OVERLAPS)}
    for name, overlap in overlaps.items():
        await stages[0].apply(CreateSchedule(a_row(name, overlap=overlap, catch_up="all")))
    created_at, triggered = clock.now(), 0

    async def end(stage: Stage, workflow_id: str, run_id: str) -> None:
        await asyncio.gather(stage.apply(TerminateRun(workflow_id, run_id, "ended")), return_exceptions=True)

    for _ in range(25):
        clock.advance(chance.choice((4, 10, 10, 70)))
        work: list[Any] = []
        for stage in stages:
            work += [stage.apply(fire) for fire in looks(stage)]
            for workflow_id, is_open in stage.runtime.read_now(_open_workflows).items():
                if is_open and chance.random() < 0.2:
                    [run] = stage.rows("workflow_runs", "workflow_id = ?", workflow_id)
                    work.append(end(stage, workflow_id, run[0]))
            if chance.random() < 0.5:
                name = chance.choice(sorted(overlaps))
                row = there(stage, name)
                triggered += 1
                trigger = TriggerSchedule(
                    row, f"{name}-trigger-{triggered}", Overlap.ALLOW_ALL, None, stage.runtime.environment
                )
                work.append(stage.apply(trigger))
        chance.shuffle(work)
        await asyncio.gather(*work)
    for name in overlaps:
        row = there(stages[0], name)
        slots = (row.decided_until - created_at) // (10 * SECOND)
        waiting = waiting_in(row)
        assert row.started + row.skipped + row.missed + len(waiting) == slots
        found = stages[0].rows("workflow_runs", "workflow_id LIKE ?", f"{name}-2%")
        assert len(found) == row.started
    found = stages[0].rows("workflow_runs", "workflow_id LIKE ?", "%-trigger-%")
    assert len(found) == triggered
