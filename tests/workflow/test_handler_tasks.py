"""A run's handlers at work: the order of signals, updates that are validated, and queries that only read."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.workflow.driver import CONVERTER, START, new_machine, started

from outlast import workflow
from outlast_workflow.errors import PayloadDecodeError
from outlast_workflow.errors.request import UnknownHandlerError
from outlast_workflow.errors.task import ReadOnlyContextError
from outlast_workflow.history.events import Event, SignalReceived, UpdateAccepted, UpdateCompleted
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.run.handler_tasks import STACK_TRACE, SpoiledMachine
from outlast_workflow.run.machine import WorkflowMachine

EMPTY = Payload.of([])


@workflow.defn
class Basket:
    """Holds items until it is told to close."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self.closed = False

    @workflow.run
    async def run(self) -> list[str]:
        self.items.append("run")
        await workflow.wait_condition(lambda: self.closed)
        return self.items

    @workflow.signal
    async def add(self, item: str) -> None:
        self.items.append(item)

    @workflow.signal
    async def add_later(self, item: str) -> None:
        await workflow.sleep(60)
        self.items.append(item)

    @workflow.update
    async def put(self, item: str) -> int:
        self.items.append(item)
        return len(self.items)

    @put.validator
    def check(self, item: str) -> None:
        if item == "meddle":
            workflow.uuid4()
        if not item:
            raise ValueError("an item needs a name")

    @workflow.query
    def count(self) -> int:
        return len(self.items)

    @workflow.query
    def meddle(self) -> int:
        try:
            workflow.uuid4()
        except ReadOnlyContextError:
            pass
        return 0


def signal(name: str, *args: Any) -> SignalReceived:
    return SignalReceived(name, Payload.of(list(args)))


def update(update_id: str, *args: Any) -> UpdateAccepted:
    return UpdateAccepted(update_id, "put", Payload.of(list(args)))


def run_task(
    machine: WorkflowMachine, *events: Event, updates: tuple[UpdateAccepted, ...] = ()
) -> list[Event]:
    return machine.run_workflow_task(events, START, history_events=1, history_bytes=1, updates=updates)


@pytest.fixture
def basket() -> WorkflowMachine:
    machine = new_machine(Basket)
    run_task(machine, started(workflow_type="Basket"))
    return machine


def items(machine: WorkflowMachine) -> list[str]:
    instance: Any = machine._instance
    found: list[str] = instance.items
    return found


def test_signals_of_the_first_workflow_task_are_handled_in_order_before_the_run_method():
    machine = new_machine(Basket)
    run_task(machine, started(workflow_type="Basket"), signal("add", "a"), signal("add", "b"))
    assert items(machine) == ["a", "b", "run"]


def test_a_signal_without_a_handler_waits_in_order_and_is_logged_live_only(
    basket: WorkflowMachine, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.WARNING, logger="outlast.workflow"):
        run_task(basket, signal("paint", 1), signal("add", "a"), signal("polish", 2))
        basket.replaying = True
        run_task(basket, signal("paint", 3))
    assert [event.name for event in basket.buffered] == ["paint", "polish", "paint"]
    assert len(caplog.records) == 2


def test_a_signal_that_its_handler_cannot_be_given_fails_the_task_and_is_not_dropped(basket: WorkflowMachine):
    with pytest.raises(PayloadDecodeError, match=r"signal 'add', number 1 .*parameter 'item'"):
        run_task(basket, signal("add", [1]))


def test_a_handler_counts_as_running_until_it_has_ended(basket: WorkflowMachine):
    run_task(basket, signal("add", "a"), signal("add_later", "b"))
    assert basket.handlers_running == 1


def test_a_run_that_ends_before_its_handlers_names_them(
    basket: WorkflowMachine, caplog: pytest.LogCaptureFixture
):
    run_task(basket, signal("add_later", "a"), signal("add", "b"), signal("add_later", "c"))
    assert basket.handling_so_far is not None
    with caplog.at_level(logging.WARNING, logger="outlast.workflow"):
        basket.handling_so_far.log_unfinished()
    assert "still running: add_later (2 times); await workflow.wait_condition" in caplog.text


def test_an_update_is_answered_with_what_its_handler_returns(basket: WorkflowMachine):
    commands = run_task(basket, updates=(update("u-1", "a"),))
    assert basket.considered is not None
    assert [event.update_id for event in basket.considered.accepted] == ["u-1"]
    assert commands == [UpdateCompleted("u-1", Payload.of(2))]


def test_a_rejected_update_leaves_no_trace(basket: WorkflowMachine):
    assert run_task(basket, updates=(update("u-1", ""),)) == []
    assert basket.considered is not None
    ((update_id, failure),) = basket.considered.rejected
    assert (update_id, failure["message"]) == ("u-1", "an item needs a name")
    assert basket.considered.alone
    assert items(basket) == ["run"]


def test_an_update_is_validated_after_what_came_before_it_has_run(basket: WorkflowMachine):
    commands = run_task(basket, signal("add", "a"), updates=(update("u-1", "b"), update("u-2", "c")))
    assert items(basket) == ["run", "a", "b", "c"]
    assert [
        event.result.value for event in commands if isinstance(event, UpdateCompleted) and event.result
    ] == [
        3,
        4,
    ]


def test_a_validator_that_tries_to_change_the_run_spoils_the_machine(basket: WorkflowMachine):
    with pytest.raises(SpoiledMachine) as caught:
        run_task(basket, updates=(update("u-1", "meddle"),))
    assert caught.value.update_id == "u-1"


def test_a_query_reads_the_state_as_it_is(basket: WorkflowMachine):
    run_task(basket, signal("add", "a"))
    assert CONVERTER.decode(basket.query("count", EMPTY)) == 2


def test_a_query_that_tries_to_change_the_run_is_an_error_even_where_it_swallows_ours(
    basket: WorkflowMachine,
):
    with pytest.raises(ReadOnlyContextError, match="query 'meddle'"):
        basket.query("meddle", EMPTY)


def test_an_unknown_query_names_those_that_there_are(basket: WorkflowMachine):
    with pytest.raises(UnknownHandlerError) as caught:
        basket.query("total", EMPTY)
    assert caught.value.known == ["count", "meddle"]


def test_every_workflow_says_where_its_code_waits(basket: WorkflowMachine):
    run_task(basket, signal("add_later", "b"))
    trace = CONVERTER.decode(basket.query(STACK_TRACE, EMPTY))
    assert "Basket.run" in trace
    assert "Basket.add_later" in trace
