from __future__ import annotations

import asyncio
import sys
from dataclasses import fields
from typing import Any

import pytest
from tests.workflow.driver import START, Driver, new_machine, started

from outlast import workflow
from outlast_workflow.declare.definitions import definition_of, defn
from outlast_workflow.errors import NonDeterminismError
from outlast_workflow.history.events import (
    REGISTRY,
    ActivityCancelled,
    ActivityCompleted,
    ActivityScheduled,
    Event,
    TimerCancelled,
    TimerFired,
    TimerScheduled,
    WorkflowCompleted,
    WorkflowFailed,
    WorkflowTaskCompleted,
    WorkflowTaskFailed,
    WorkflowTerminated,
)
from outlast_workflow.history.transitions import check_history
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.primitives.payloads import NOT_NEEDED, Payload
from outlast_workflow.run.replay import Row, replay, task_record


@defn
async def pays(amount: int) -> str:
    await workflow.execute_activity("reserve")
    await asyncio.gather(workflow.execute_activity("charge"), asyncio.sleep(60))
    return "paid"


def record(through: int, own: int, commands: int, at: int = START, **fields: Any) -> WorkflowTaskCompleted:
    return WorkflowTaskCompleted(through, own, at, commands, through + own, 10, 11, **fields)


def scheduled(command_id: int, activity_type: str) -> ActivityScheduled:
    return ActivityScheduled(command_id, activity_type, "default", Payload.of([]), Payload.of({}), 5)


def completed(command_id: int) -> ActivityCompleted:
    return ActivityCompleted(command_id, Payload.of(None), 1)


def rows(*events: Event) -> list[Row]:
    return [(seq, event.type, event.to_json()) for seq, event in enumerate(events, 1)]


BEGUN = [started(5, workflow_type="pays"), record(1, 0, 1), scheduled(1, "reserve")]
HALF = [
    *BEGUN,
    completed(1),
    record(2, 1, 2, START + 5),
    scheduled(2, "charge"),
    TimerScheduled(3, START + 60_000_005),
]


def test_a_replay_stops_where_history_does():
    machine = new_machine(pays)
    replayed = replay(machine, rows(*HALF))
    assert (replayed.last_seq, replayed.workflow_tasks, replayed.last_task_at) == (7, 2, START + 5)
    assert not replayed.closed
    assert replayed.unapplied == []
    assert not machine.replaying
    commands = machine.run_workflow_task(
        [completed(2), TimerFired(3, START + 60_000_005)], START, history_events=9, history_bytes=1
    )
    assert commands == [WorkflowCompleted(Payload.of("paid"))]
    assert machine.time == START + 60_000_005


def test_events_that_no_workflow_task_applied_are_the_next_ones():
    machine = new_machine(pays)
    replayed = replay(machine, rows(*BEGUN, completed(1), WorkflowTaskFailed({"type": "x"})))
    assert replayed.unapplied == [(4, completed(1))]
    assert replayed.last_seq == 5


def test_an_event_that_landed_beside_an_own_result_waits_for_the_next_workflow_task():
    @defn
    async def order() -> list[str]:
        first, second = workflow.start_activity("a"), workflow.start_activity("b")
        done, _ = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
        await workflow.execute_activity("c")
        return ["a" if one is first else "b" for one in done]

    history = [
        started(workflow_type="order"),
        record(1, 0, 2),
        scheduled(1, "a"),
        scheduled(2, "b"),
        completed(2),  # landed while the workflow task of the record below was running
        completed(1),
        record(4, 1, 1),
        scheduled(3, "c"),
    ]
    assert check_history(history) == []
    machine = new_machine(order)
    replayed = replay(machine, rows(*history))
    assert replayed.unapplied == [(5, completed(2))]
    (end,) = machine.run_workflow_task([completed(2), completed(3)], START, history_events=9, history_bytes=1)
    assert isinstance(end, WorkflowCompleted)
    assert end.result.value == ["a"]


def test_what_the_engine_wrote_by_itself_is_neither_counted_nor_compared():
    @defn
    async def order() -> None:
        _ = [workflow.start_activity("a"), asyncio.create_task(asyncio.sleep(9))]
        await asyncio.sleep(0)

    history = [
        started(workflow_type="order"),
        record(1, 0, 3),
        scheduled(1, "a"),
        TimerScheduled(2, START + 9_000_000),
        ActivityCancelled(1, by="workflow_closed"),
        TimerCancelled(2, by="workflow_closed"),
        WorkflowCompleted(Payload.of(None)),
    ]
    assert check_history(history) == []
    assert replay(new_machine(order), rows(*history)).closed


@pytest.mark.parametrize(
    "ending",
    [
        [WorkflowTerminated("enough")],
        [ActivityCancelled(2, by="t"), TimerCancelled(3, by="t"), WorkflowFailed({"type": "x"}, by="limit")],
    ],
)
def test_a_run_that_the_engine_ended_replays_up_to_its_last_workflow_task(ending: list[Event]):
    replayed = replay(new_machine(pays), rows(*HALF, completed(2), *ending))
    assert replayed.closed
    assert replayed.workflow_tasks == 2
    assert replayed.unapplied == [(8, completed(2))]


@pytest.mark.parametrize(
    ("recorded", "difference"),
    [
        (
            [scheduled(1, "reserved")],
            "history has ActivityScheduled #1 reserved, the code asks for ActivityScheduled #1 reserve",
        ),
        ([TimerScheduled(1, START)], "history has TimerScheduled #1"),
        ([], "command 1: history has nothing, the code asks for ActivityScheduled #1 reserve"),
        (
            [scheduled(1, "reserve"), scheduled(2, "more")],
            "command 2: history has ActivityScheduled #2 more, the code asks for nothing",
        ),
    ],
)
def test_any_difference_in_a_block_of_commands_is_non_determinism(recorded: list[Event], difference: str):
    history = [BEGUN[0], record(1, 0, len(recorded)), *recorded]
    with pytest.raises(NonDeterminismError) as caught:
        replay(new_machine(pays), rows(*history))
    error = caught.value
    assert difference in str(error)
    assert "workflow.patched" in str(error)
    assert error.workflow_type == "pays"
    assert error.source is not None
    file, _, line = error.source.rpartition(":")
    assert file == __file__
    assert int(line) == pays.__code__.co_firstlineno + 2  # the line of the call, not the decorator's


def test_a_surplus_command_is_found_in_its_own_workflow_task_and_its_line_is_named():
    @defn(name="pays")
    async def changed(amount: int) -> str:
        await workflow.execute_activity("reserve")
        first = workflow.execute_activity("charge")
        audit = workflow.execute_activity("audit")
        await asyncio.gather(first, audit, asyncio.sleep(60))
        return "paid"

    with pytest.raises(NonDeterminismError) as caught:
        replay(new_machine(changed), rows(*HALF))
    error = caught.value
    assert error.command_index == 1
    assert error.expected == ["ActivityScheduled #2 charge", "TimerScheduled #3"]
    assert error.actual == ["ActivityScheduled #2 charge", "ActivityScheduled #3 audit", "TimerScheduled #4"]
    assert error.source == f"{__file__}:{changed.__code__.co_firstlineno + 4}"
    assert error.event_seq is not None
    assert HALF[error.event_seq - 1].type == "WorkflowTaskCompleted"
    assert f"what its history records after event {error.event_seq}. First difference: command 2" in str(
        error
    )


def test_a_missing_command_names_the_line_that_the_code_waits_at():
    @defn(name="pays")
    async def changed(amount: int) -> str:
        await workflow.execute_activity("reserve")
        await workflow.execute_activity("charge")
        return "paid"

    with pytest.raises(NonDeterminismError) as caught:
        replay(new_machine(changed), rows(*HALF))
    assert caught.value.source == f"{__file__}:{changed.__code__.co_firstlineno + 3}"


def test_inputs_durations_and_options_are_not_compared_and_not_looked_at():
    @defn(name="pays")
    async def changed(amount: int) -> str:
        await workflow.execute_activity("reserve", object(), start_to_close_timeout=-5)
        await asyncio.gather(workflow.execute_activity("charge", "more"), asyncio.sleep(5))
        return "paid"

    machine = new_machine(
        changed, StructuralLimits(commands_per_workflow_task=1), default_activity_options=None
    )
    assert replay(machine, rows(*HALF)).workflow_tasks == 2


def test_every_command_compares_alike_live_and_read():
    samples = {"fire_at": 1, "command_id": 3, "priority": 5, "workflow_type": "w", "activity_type": "a"}
    for event_type in REGISTRY.values():
        if event_type.command:
            made: Any = event_type
            required = [field.name for field in fields(made) if field.default is not None]
            values = {
                name: samples.get(name, NOT_NEEDED if name in made.payload_names else name)
                for name in required
            }
            event = made(**values)
            assert event.signature() == made.recorded_signature(event.document())
            assert event.signature()[0] == event.type


def test_the_record_of_a_workflow_task_says_what_info_showed():
    machine = new_machine(pays)
    commands = machine.run_workflow_task([started(5)], START, history_events=7, history_bytes=70)
    made = task_record(machine, commands, through=1, own=0, python=sys.version_info.minor, build_id="b")
    assert made == WorkflowTaskCompleted(1, 0, START, 1, 7, 70, sys.version_info.minor, "b")


@defn
async def cleans_up_when_told() -> None:
    for _ in range(3):
        await asyncio.sleep(1 if workflow.info().continue_as_new_suggested else 2)


@pytest.mark.parametrize("suggested", [True, False])
def test_what_was_suggested_is_suggested_again_under_other_limits(suggested: bool):
    suggesting, other = StructuralLimits(continue_as_new_events=1), StructuralLimits(continue_as_new_events=2)
    limits = [suggesting, other] if suggested else [other, suggesting]
    machine = new_machine(cleans_up_when_told, limits[0])
    commands = machine.run_workflow_task([started()], START, history_events=1, history_bytes=1)
    made = task_record(machine, commands, through=1, own=0, python=11)
    assert made is not None
    assert made.suggested is (True if suggested else None)
    recorded = [started(), made, *commands]
    assert isinstance(commands[0], TimerScheduled)
    fired = TimerFired(1, commands[0].fire_at)
    commands = machine.run_workflow_task([fired], fired.fire_at, history_events=1, history_bytes=1)
    made = task_record(machine, commands, through=4, own=0, python=11)
    assert made is not None
    assert made.suggested is None  # it is known
    recorded += [fired, made, *commands]
    again = new_machine(cleans_up_when_told, limits[1])
    assert replay(again, rows(*recorded)).workflow_tasks == 2
    assert again.info().continue_as_new_suggested is suggested


def test_a_workflow_task_that_a_limit_ended_has_no_record():
    machine = new_machine(pays, StructuralLimits(payload_bytes=1))
    commands = machine.run_workflow_task([started(5)], START, history_events=1, history_bytes=1)
    assert task_record(machine, commands, through=1, own=0, python=11) is None
    assert isinstance(machine.terminal, WorkflowFailed)


@defn
async def long(count: int) -> int:
    total = 0
    for _ in range(count):
        total += len(await workflow.execute_activity("a"))
        if total % 50 == 0:
            await asyncio.sleep(1)
    return total


def test_a_history_of_twenty_thousand_events_replays():
    driver = Driver(long, 6_600, seed=1)
    driver.end_of = lambda command: ActivityCompleted(command.command_id, Payload.of("xy"), 1)  # type: ignore[method-assign]
    driver.run(most_workflow_tasks=10_000)
    assert len(driver.rows) > 20_000
    machine = new_machine(long)
    replayed = replay(machine, iter(driver.rows))
    assert replayed.closed
    assert replayed.workflow_tasks == driver.workflow_tasks
    assert isinstance(machine.terminal, WorkflowCompleted)
    assert definition_of(long).name == "long"
