import asyncio
import copy
import logging
from dataclasses import fields

import pytest
from tests.workflow.driver import START, new_machine, started

from outlast_workflow.declare.definitions import defn
from outlast_workflow.errors import InvalidOptionError, StructuralLimitError
from outlast_workflow.options.limits import StructuralLimits

KINDS = [field.name for field in fields(StructuralLimits)]


def only(kind, value):
    return StructuralLimits(**{kind: value})


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_is_exceeded_when_the_value_is_greater(kind):
    only(kind, 100).check(kind, 100)
    with pytest.raises(StructuralLimitError) as caught:
        only(kind, 100).check(kind, 101)
    assert (caught.value.kind, caught.value.value, caught.value.limit) == (kind, 101, 100)


def test_a_limit_of_zero_is_off(caplog):
    only("open_updates", 0).check("open_updates", 10**12)
    assert not caplog.records
    assert only("open_updates", 0).near["open_updates"] > 10**15


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 99, 100, 101])
def test_what_is_not_near_a_limit_needs_no_check(caplog, limit):
    limits = copy.copy(only("open_updates", limit))
    near = limits.near["open_updates"]
    limits.check("open_updates", near - 1)
    assert not caplog.records
    limits.check("open_updates", near)
    assert caplog.records


@pytest.mark.parametrize(("value", "warnings"), [(79, 0), (80, 1), (100, 1)])
def test_a_warning_is_logged_from_eighty_percent_on(caplog, value, warnings):
    with caplog.at_level(logging.WARNING, "outlast.limits"):
        only("open_updates", 100).check("open_updates", value, whose="order-1")
    assert len(caplog.records) == warnings
    assert all("order-1: open updates at" in record.getMessage() for record in caplog.records)


def test_a_run_is_warned_of_once_per_kind(caplog):
    warned: set[str] = set()
    for _ in range(3):
        only("open_updates", 10).check("open_updates", 9, warned=warned)
    assert len(caplog.records) == 1
    assert warned == {"open_updates"}


@pytest.mark.parametrize(("limit", "warned_at"), [(100, [80, 85, 90, 95, 100]), (5, [4, 5]), (0, [])])
def test_a_count_that_nobody_watches_is_warned_of_now_and_then(caplog, limit, warned_at):
    with caplog.at_level(logging.WARNING, "outlast.limits"):
        for count in range(1, limit + 1):
            only("open_updates", limit).check_next("open_updates", count, whose="order-1")
    assert [record.args[2] for record in caplog.records] == warned_at


def test_a_count_that_nobody_watches_is_refused_beyond_its_limit():
    with pytest.raises(StructuralLimitError, match=r"101 > 100: let the workflow answer them first"):
        only("open_updates", 100).check_next("open_updates", 101)


@pytest.mark.parametrize("value", [-1, 1.5, True, "9", None])
def test_a_limit_is_a_whole_number(value):
    with pytest.raises(InvalidOptionError, match="open updates limit must be a whole number"):
        only("open_updates", value)


@defn
async def waits() -> None:
    await asyncio.sleep(1)


@pytest.mark.parametrize(
    ("events", "size", "suggested"),
    [(4095, 0, False), (4096, 0, True), (0, 4 * 1024**2 - 1, False), (0, 4 * 1024**2, True)],
)
def test_a_long_history_suggests_to_continue_as_new(events, size, suggested):
    off = StructuralLimits(continue_as_new_events=0, continue_as_new_bytes=0)
    for limits, wanted in ((StructuralLimits(), suggested), (off, False)):
        machine = new_machine(waits, limits)
        machine.run_workflow_task([started()], START, history_events=events, history_bytes=size)
        assert machine.info().continue_as_new_suggested is wanted
        machine.evict()
