"""When to be told of a deadline: what a policy says, and what is refused before anything is written."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast import ActivityOptions, AlertPolicy, StartOptions, activity
from outlast.errors import InvalidOptionError
from outlast_workflow.options.alerts import dated, read_policy, read_stored, stored

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
SHARES = st.floats(min_value=1e-5, max_value=1)
SECONDS = st.floats(min_value=0.001, max_value=1e6)


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({}, "alerts", "need something to tell of: give at=, before=, after= or at_instant="),
        ({"at": 0.8}, "at", r"must be a list, as in \[0.8\]"),
        ({"at": [0]}, "at", "more than 0 and at most 1"),
        ({"at": [80]}, "alerts_at", "from 0 to 1"),
        ({"at": [True]}, "alerts_at", "must be a number"),
        ({"at": [0.8, 0.80]}, "alerts", "name 80% twice"),
        ({"before": [0]}, "alerts_before", "positive|more than 0|greater"),
        ({"after": ["soon"]}, "alerts_after", "seconds"),
        ({"at_instant": NOON.replace(tzinfo=None)}, "at_instant", "time zone"),
        ({"at_instant": "noon"}, "at_instant", "must be a datetime"),
        ({"at": [0.8], "kinds": ["heartbeat"]}, "kinds", "moves with every beat"),
        ({"at": [0.8], "kinds": ["runs"]}, "kinds", "alert kinds are execution, run, schedule_to_start"),
        ({"after": [5], "kinds": ["run"]}, "kinds", "leave kinds= away"),
        ({"at": [0.8], "kinds": []}, "kinds", "leave kinds= away"),
        ({"at": [0.8], "signal": ""}, "alert_signal", "must not be empty"),
        ({"at": [0.8], "signal": "outlast.x"}, "signal", "reserved"),
        ({"before": range(1, 23)}, "alerts", "at most 20 marks, not 22"),
        ({"at": [0.8], "channels": ["on call"]}, "channels", "letters, digits, - and _"),
        ({"at": [0.8], "channels": "oncall"}, "channels", "must be a list"),
        ({"at": [0.8], "channels": ["oncall", "oncall"]}, "channels", "each of them once"),
        ({"at": [0.8], "channels": map(str, range(21))}, "channels", "at most 20 names"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message) as caught:
        AlertPolicy(**given)
    assert caught.value.field == field


def test_a_policy_is_a_value() -> None:
    one = AlertPolicy(
        at=[0.5, 1.0], before=[timedelta(minutes=10)], after=(3600,), kinds=["run"], signal="late"
    ).replace(channels=["oncall"])
    assert one == AlertPolicy(
        at=(0.5, 1), before=[600], after=[3600.0], kinds=("run",), signal="late"
    ).replace(channels=("oncall",))
    assert one != one.replace(at=[0.5])
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
    assert hash(one) == hash(one.replace())
    with pytest.raises(AttributeError, match="immutable"):
        one.at = ()


def test_options_take_it_at_once_or_step_by_step() -> None:
    assert StartOptions().with_alerts(0.5, 0.8) == StartOptions(alerts=AlertPolicy(at=[0.5, 0.8]))
    wanted = AlertPolicy(before=[60], at_instant=NOON, signal="late")
    assert StartOptions(priority=1).with_alerts(before=[60], at_instant=NOON, signal="late").alerts == wanted
    assert ActivityOptions().with_alerts(0.8, after=[5]) == ActivityOptions(
        alerts=AlertPolicy(at=[0.8], after=[5])
    )


def test_workflows_and_activities_have_alerts_of_their_own_kinds() -> None:
    with pytest.raises(InvalidOptionError, match="kinds of workflows are execution, run, schedule_to_start"):
        StartOptions(alerts=AlertPolicy(at=[0.8], kinds=["start_to_close"]))
    with pytest.raises(InvalidOptionError, match="kinds of activities are schedule_to_start, start_to_close"):
        ActivityOptions(alerts=AlertPolicy(at=[0.8], kinds=["run"]))
    with pytest.raises(InvalidOptionError, match="at_instant is for workflows"):
        activity.defn(start_to_close_timeout=5, alerts=AlertPolicy(at_instant=NOON))
    with pytest.raises(
        InvalidOptionError, match=r"must be an AlertPolicy, not float: AlertPolicy\(at=\[0.8\]\)"
    ):
        StartOptions(alerts=0.8)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@given(
    st.lists(SHARES, max_size=5),
    st.lists(SECONDS, max_size=5),
    st.lists(SECONDS, min_size=1, max_size=5),
    st.sampled_from([None, NOON]),
)
def test_what_is_stored_is_what_was_given(
    at: list[float], before: list[float], after: list[float], instant: datetime | None
) -> None:
    try:
        policy = AlertPolicy(at=at, before=before, after=after, at_instant=instant)
    except InvalidOptionError:
        # Two of them have the same name.
        return
    document = orjson.loads(orjson.dumps(policy.to_document()))
    assert AlertPolicy.from_document(document) == read_policy(document) == policy
    assert read_stored(stored(policy, 5)) == ((policy,), 5)
    assert read_stored(dated(stored(policy, 5), 7)) == ((policy,), 7)
    options = ActivityOptions(start_to_close_timeout=5, alerts=policy.replace(at_instant=None))
    assert ActivityOptions.from_snapshot(options.snapshot.json).alerts == options.alerts


@given(SHARES, st.integers(1_000_000, 10**15))
def test_a_share_is_exact_and_never_early(share: float, total: int) -> None:
    [(name, due), *_] = [*AlertPolicy(at=[share], after=[1]).marks(total, total), ("100%", total)]
    rounded = round(share, 6)
    assert name == f"{rounded * 100:.8g}%"
    assert due - 1 < round(rounded * 1_000_000) * total / 1_000_000 * (1 + 1e-12)
    assert due * 1_000_000 >= round(rounded * 1_000_000) * total


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"since": 1, "kinds": ["x"]}', '{"at": 1, "since": 1}'])
def test_what_cannot_be_read_arms_nothing(text: str) -> None:
    assert read_stored(text) is None


@pytest.mark.parametrize("document", [5, {"at": [2]}, {"at_instant": "noon"}, {"att": [0.5]}])
def test_a_document_of_strangers_is_checked(document: Any) -> None:
    with pytest.raises(InvalidOptionError):
        read_policy(document)
