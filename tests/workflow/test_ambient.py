"""The scopes of ``outlast.starting``: field by field, innermost first, restored at their end."""

from __future__ import annotations

import asyncio
import threading
from collections import ChainMap
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast import RetryPolicy, starting
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.ambient import filled, leave_scopes, start_options
from outlast_workflow.options.start import StartOptions

LATER = datetime(2100, 1, 1, tzinfo=UTC)
FIELDS = {
    "run_timeout": st.sampled_from([None, 60, 90]),
    "priority": st.sampled_from([None, 1, 5]),
    "summary": st.sampled_from([None, "a", "b"]),
    "queue": st.sampled_from([None, "q", "r"]),
    "partition_key": st.sampled_from([None, "t", "u"]),
}
SCOPES = st.lists(st.fixed_dictionaries({}, optional=FIELDS), max_size=4)
GIVEN = st.fixed_dictionaries(
    {}, optional={"run_timeout": st.sampled_from([None, 30]), "priority": st.sampled_from([5, 9])}
)


@given(SCOPES, GIVEN)
def test_what_is_given_wins_then_the_innermost_scope_and_none_clears(scopes, explicit):
    def within(left):
        if not left:
            return start_options(StartOptions(**explicit))
        with starting(**left[0]):
            inside = within(left[1:])
        return inside

    found = within(scopes)
    expected = dict(ChainMap(explicit, *reversed(scopes)))
    wanted: dict[str, Any] = {
        name: value for name, value in expected.items() if value is not None or name in explicit
    }
    if "queue" not in wanted:
        wanted.pop("partition_key", None)
    assert found == StartOptions(**wanted)
    assert start_options(None) == StartOptions()


def test_no_scope_costs_nothing_and_changes_nothing():
    options = StartOptions(run_timeout=60)
    assert start_options(options) is options
    given = {"priority": 3}
    assert filled(given, ("priority",)) is given


def test_a_timeout_takes_the_place_of_a_deadline_and_the_other_way_round():
    with starting(execution_deadline=LATER):
        assert start_options(None).execution_deadline == LATER
        assert start_options(StartOptions(execution_timeout=60)) == StartOptions(execution_timeout=60)
        with starting(execution_timeout=90):
            assert start_options(None) == StartOptions(execution_timeout=90)
            assert start_options(StartOptions(execution_deadline=LATER)).execution_timeout is None
        with starting(execution_timeout=None):
            assert start_options(None).execution_deadline == LATER


def test_what_needs_a_queue_goes_only_to_starts_that_have_one():
    with starting(partition_key="t", schedule_to_start_timeout=60):
        assert start_options(None) == StartOptions()
        assert start_options(StartOptions(queue="q")).partition_key == "t"
        with starting(queue="r"):
            assert start_options(None) == StartOptions(
                queue="r", partition_key="t", schedule_to_start_timeout=60
            )
            assert start_options(StartOptions(queue=None)) == StartOptions()
            with pytest.raises(InvalidOptionError, match="needs a queue"):
                start_options(StartOptions(queue="q").with_queue(None).replace(partition_key="u"))


def test_builders_give_what_they_name():
    with starting(priority=1, run_timeout=60):
        assert start_options(StartOptions().with_priority(5)).priority == 5
        assert start_options(StartOptions.reject_duplicate().with_run_timeout(None)).run_timeout is None


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"run_timout": 60}, "run_timeout"),
        ({"id": "w"}, "id"),
        ({"run_timeout": 0.1}, "at least 1"),
        ({"execution_deadline": datetime(2100, 1, 1)}, "time zone"),
        ({"execution_deadline": "tomorrow"}, "datetime"),
        ({"execution_timeout": 60, "execution_deadline": LATER}, "not both"),
        ({"retry_policy": 3}, "RetryPolicy"),
        ({"priority": 10}, "from 0 to 9"),
        ({"queue": ""}, "empty"),
    ],
)
def test_a_scope_refuses_at_once_what_no_start_could_have(options, why):
    with pytest.raises(InvalidOptionError, match=why), starting(**options):
        pytest.fail("the scope was entered")
    assert start_options(None) == StartOptions()


def test_an_exception_ends_the_scope():
    with pytest.raises(KeyError), starting(retry_policy=RetryPolicy(max_attempts=2)):
        raise KeyError
    assert start_options(None) == StartOptions()


async def test_tasks_have_scopes_of_their_own():
    entered = asyncio.Event()

    async def within():
        with starting(priority=1):
            entered.set()
            await asyncio.sleep(0)
            return start_options(None).priority

    async def outside():
        await entered.wait()
        return start_options(None).priority

    assert tuple(await asyncio.gather(within(), outside())) == (1, 5)


def test_threads_begin_outside_unless_they_copy_the_context():
    found = []

    def note():
        found.append(start_options(None).priority)

    with starting(priority=1):
        context = copy_context()
        for target in (note, lambda: context.run(note)):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
        leave_scopes()
        note()
    assert found == [5, 1, 5]


def test_a_deadline_must_lie_ahead():
    now = 1_000_000_000_000_000
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=now + 5_000_000)
    StartOptions(execution_deadline=at).check_deadline(now)
    StartOptions(execution_deadline=at, start_delay=4).check_deadline(now)
    with pytest.raises(InvalidOptionError, match="start delay"):
        StartOptions(execution_deadline=at, start_delay=5).check_deadline(now)
    with pytest.raises(InvalidOptionError, match="has passed"):
        StartOptions(execution_deadline=at).check_deadline(now + 5_000_000)
