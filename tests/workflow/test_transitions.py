from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.workflow.driver import Driver
from tests.workflow.programs import program

from outlast_workflow.history.events import (
    REGISTRY,
    ActivityCompleted,
    ActivityScheduled,
    Event,
    TimerFired,
    WorkflowCompleted,
    WorkflowStarted,
    WorkflowTaskCompleted,
)
from outlast_workflow.history.transitions import NOUN_OF, RUN_TERMINALS, START, TRANSITIONS, check_history
from outlast_workflow.primitives.payloads import Payload


def good() -> list[Event]:
    driver = Driver(program, ["seq", ["activity", "a"], ["gather", ["activity", "b"], ["sleep", 5]]], seed=3)
    driver.run()
    return driver.events


def test_the_table_names_events_that_there_are():
    for noun, table in TRANSITIONS.items():
        for state, following in table.items():
            assert state == START or state in REGISTRY
            assert following <= REGISTRY.keys(), noun
            assert START not in following
    assert NOUN_OF.keys() >= RUN_TERMINALS


def test_each_event_is_about_one_noun():
    seen: dict[str, str] = {}
    for noun, table in TRANSITIONS.items():
        for name in {*table, *(event for row in table.values() for event in row)} - {START}:
            assert seen.setdefault(name, noun) == noun


def test_a_good_history_has_no_violations():
    assert check_history(good()) == []


def index_of(events: list[Event], kind: type[Event]) -> int:
    return next(i for i, event in enumerate(events) if isinstance(event, kind))


def twice(kind: type[Event]) -> Any:
    def break_it(events: list[Event]) -> list[Event]:
        i = index_of(events, kind)
        return [*events[: i + 1], events[i], *events[i + 1 :]]

    return break_it


def without(kind: type[Event]) -> Any:
    def break_it(events: list[Event]) -> list[Event]:
        i = index_of(events, kind)
        return [*events[:i], *events[i + 1 :]]

    return break_it


def changed(**fields: Any) -> Any:
    def break_it(events: list[Event]) -> list[Event]:
        i = len(events) - 2  # the last record
        record: Any = events[i]
        return [*events[:i], replace(record, **fields), *events[i + 1 :]]

    return break_it


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda events: [], "empty"),
        (lambda events: events[1:], "a history begins with WorkflowStarted"),
        (lambda events: events[:-1], "announced commands missing"),
        (twice(WorkflowStarted), "WorkflowStarted"),
        (twice(WorkflowCompleted), "stands after the terminal event"),
        (lambda events: [*events, ActivityCompleted(1, Payload.of(1), 1)], "stands after the terminal event"),
        (twice(ActivityCompleted), "the last word on activity 1 was ActivityCompleted"),
        (twice(TimerFired), "the last word on timer 3 was TimerFired"),
        (without(ActivityScheduled), "the last word on activity 1 was nothing yet"),
        (twice(ActivityScheduled), "no workflow task record announces"),
        (without(WorkflowTaskCompleted), "no workflow task record announces"),
        (changed(at=1), "went back in time"),
        (changed(own=9), "claims 9 inbound events"),
        (changed(through=10**6), "which is not before it"),
        (changed(commands=0), "no workflow task record announces"),
        (changed(commands=2), "announced commands missing"),
    ],
)
def test_what_is_broken_is_named(break_it: Any, said: str):
    violations = check_history(break_it(good()))
    assert any(said in violation for violation in violations), violations
