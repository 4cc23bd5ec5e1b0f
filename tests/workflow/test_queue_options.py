"""The definition of a queue: what its limits can be, and what is refused before anything is written."""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast import Queue, QueueNotFoundError, Rate
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.queues import LIMITS, MOST, QueueOptions, checked_limits


def queue(**limits: Any) -> Queue:
    return Queue("emails", **limits)


def test_a_queue_without_limits_has_none() -> None:
    assert queue().limits == dict.fromkeys(LIMITS)
    assert set(LIMITS) == set(QueueOptions.__annotations__)


def test_values_are_immutable_and_compare_by_value() -> None:
    one = queue(concurrency=5, rate=Rate(20, per=1))
    assert one == queue(concurrency=5, rate=Rate(20, timedelta(seconds=1)))
    assert one != queue(concurrency=6, rate=Rate(20, per=1))
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
    assert hash(one.rate) == hash(Rate(20, 1.0))
    assert one.replace(concurrency=None) == queue(rate=Rate(20, per=1))
    with pytest.raises(AttributeError, match="immutable"):
        one.concurrency = 3


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (Rate(20, 1), "20 per second"),
        (Rate(1000, 86_400), "1,000 per day"),
        (Rate(2, 3600), "2 per hour"),
        (Rate(100, timedelta(minutes=5)), "100 per 5 minutes"),
        (Rate(10, 1.2), "10 per 1.2 seconds"),
        (Rate(3, 90), "3 per 90 seconds"),
        (Rate(1, timedelta(milliseconds=10)), "1 per 0.01 seconds"),
    ],
)
def test_a_rate_reads_as_it_is_meant(rate: Rate, words: str) -> None:
    assert str(rate) == words
    assert rate.per_us == round(rate.per * 1_000_000)


@pytest.mark.parametrize(
    ("limits", "field", "message"),
    [
        ({"concurrency": 0}, "concurrency", "from 1 to 1000000"),
        ({"concurrency": True}, "concurrency", "whole number, not bool"),
        ({"worker_concurrency": 1.5}, "worker_concurrency", "whole number, not float"),
        ({"partition_concurrency": MOST + 1}, "partition_concurrency", "from 1 to 1000000"),
        ({"partition_worker_concurrency": "3"}, "partition_worker_concurrency", "whole number, not str"),
        ({"rate": 20}, "rate", "must be a Rate, such as Rate(20, per=1), not int"),
        ({"partition_rate": (1, 2)}, "partition_rate", "must be a Rate"),
        ({"concurrency": 5, "partition_concurrency": 6}, "partition_concurrency", "must not exceed concurrency (5)"),
        (
            {"worker_concurrency": 1, "partition_worker_concurrency": 2},
            "partition_worker_concurrency",
            "must not exceed worker_concurrency (1)",
        ),
        (
            {"rate": Rate(10, 1), "partition_rate": Rate(601, 60)},
            "partition_rate",
            "partition_rate (601 per minute) must not exceed rate (10 per second)",
        ),
        ({"global_concurrency": 5}, "global_concurrency", "it is called concurrency here"),
        ({"limiter": {}}, "limiter", "it is called rate here"),
        ({"concurency": 5}, "concurency", "did you mean concurrency?"),
    ],
)  # fmt: skip
def test_a_limit_that_cannot_be_is_refused_and_named(
    limits: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(InvalidOptionError) as refusal:
        queue(**limits)
    assert refusal.value.field == field
    assert message in str(refusal.value)


def test_a_short_burst_of_a_partition_may_stand_beside_a_smaller_daily_limit() -> None:
    daily = queue(rate=Rate(1_000, 86_400), partition_rate=Rate(5, 1))
    assert daily.partition_rate == Rate(5, 1)
    with pytest.raises(
        InvalidOptionError, match=r"\(1,001 per second\) must not exceed rate \(1,000 per day\)"
    ):
        queue(rate=Rate(1_000, 86_400), partition_rate=Rate(1_001, 1))
    with pytest.raises(InvalidOptionError, match="must not exceed rate"):
        queue(rate=Rate(10, 2), partition_rate=Rate(21, 3))


def test_a_partition_may_have_as_much_as_its_queue() -> None:
    same = queue(concurrency=5, partition_concurrency=5, rate=Rate(10, 1), partition_rate=Rate(600, 60))
    assert same.partition_concurrency == 5


@pytest.mark.parametrize(
    ("limit", "per", "field"),
    [
        (0, 1, "limit"),
        (MOST + 1, 1, "limit"),
        (1.0, 1, "limit"),
        (1, 0.009, "per"),
        (1, 0, "per"),
        (1, -1, "per"),
        (1, float("nan"), "per"),
        (1, "1", "per"),
        (1, timedelta(microseconds=9_999), "per"),
    ],
)
def test_a_rate_that_cannot_be_is_refused_and_named(limit: Any, per: Any, field: str) -> None:
    with pytest.raises(InvalidOptionError) as refusal:
        Rate(limit, per)
    assert refusal.value.field == field


@pytest.mark.parametrize(
    "name", ["outlast", "outlast.mail", "outlast_mail", "", " ", "..", "a\nb", "a" * 201, 5, None]
)
def test_a_name_that_cannot_be_is_refused(name: Any) -> None:
    with pytest.raises(InvalidOptionError) as refusal:
        Queue(name)
    assert refusal.value.field == "queue"


def test_names_that_only_look_reserved_are_free() -> None:
    assert Queue("outlasting").name == "outlasting"


@given(
    st.fixed_dictionaries({}, optional={name: st.integers(1, MOST) for name in LIMITS if "rate" not in name})
)
def test_limits_are_given_back_unchanged_or_a_partition_exceeds_its_queue(limits: dict[str, Any]) -> None:
    assert checked_limits("update", limits) == limits
    exceeding = [
        name
        for name, value in limits.items()
        if name.startswith("partition_") and value > limits.get(name.removeprefix("partition_"), MOST)
    ]
    if exceeding:
        with pytest.raises(InvalidOptionError) as refusal:
            queue(**limits)
        assert refusal.value.field in exceeding
    else:
        assert {name: value for name, value in queue(**limits).limits.items() if value is not None} == limits


def test_an_unknown_queue_is_told_with_what_may_be_meant() -> None:
    assert "did you mean 'emails' or 'mails'?" in str(
        QueueNotFoundError("emials", similar=["emails", "mails"])
    )
    assert "`outlast queue define 'a b'`" in str(QueueNotFoundError("a b"))
