import copy
import pickle
from datetime import timedelta
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from outlast_workflow.errors import InvalidOptionError, OutlastError
from outlast_workflow.options.options import (
    DEFAULT_RETRY_POLICY,
    MAX_SECONDS,
    ActivityOptions,
    RetryPolicy,
    StartOptions,
    timeout_seconds,
    validate_name,
    validate_task_queue,
    validate_workflow_id,
)
from outlast_workflow.primitives.enums import DuplicatePolicy


def activity(**options: Any) -> ActivityOptions:
    return ActivityOptions(**options)


def start(**options: Any) -> StartOptions:
    return StartOptions(**options)


FOREVER = 100 * 31_557_600
seconds = st.one_of(st.integers(1, FOREVER), st.floats(1, FOREVER))

# --- the one validator ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5),
        (5.0, 5),
        (0.5, 0.5),
        (timedelta(minutes=2), 120),
        (timedelta(milliseconds=1500), 1.5),
        (FOREVER, FOREVER),
    ],
)
def test_a_timeout_is_an_int_when_whole_and_else_a_float(value, expected):
    found = timeout_seconds("heartbeat timeout", value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    "value", [True, False, "5", None, Decimal(5), [5], float("nan"), float("inf"), FOREVER + 1, 10**400]
)
@pytest.mark.parametrize("minimum", [None, 1])
def test_what_is_no_duration_is_refused(value, minimum):
    with pytest.raises(ValueError, match=r"^run timeout must be"):
        timeout_seconds("run timeout", value, minimum_seconds=minimum)


@pytest.mark.parametrize(
    "value", [0, -1, 0.0, -0.5, timedelta(), timedelta(microseconds=-1), float("-inf"), -(10**400)]
)
def test_a_timeout_is_positive(value):
    with pytest.raises(InvalidOptionError, match=r"^heartbeat timeout must be (positive|finite)$"):
        ActivityOptions(heartbeat_timeout=value)


@pytest.mark.parametrize("value", [0, 0.999, -5, timedelta(milliseconds=999)])
@pytest.mark.parametrize("field", ["execution_timeout", "run_timeout"])
def test_a_workflow_timeout_is_at_least_one_second(field, value):
    words = field.replace("_", " ")
    with pytest.raises(InvalidOptionError, match=f"^{words} must be at least 1 second$") as caught:
        start(**{field: value})
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, OutlastError)
    assert caught.value.field == field
    with pytest.raises(ValueError, match=f"^{words} must be at least 1 second$"):
        getattr(StartOptions(), f"with_{field}")(value)


@pytest.mark.parametrize(
    "validate", [validate_workflow_id, validate_task_queue, lambda value: validate_name("name", value)]
)
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "empty"),
        ("  ", "empty"),
        (None, "text"),
        (5, "text"),
        (b"a", "text"),
        ("a" * 201, "200 characters"),
        ("a\0", "control"),
        ("a\n", "control"),
        ("a\x7f", "control"),
        ("a\x85", "control"),
        ("a\ud800", "surrogate"),
    ],
)
def test_a_name_that_can_be_no_key_is_refused_and_not_repeated(validate, value, why):
    with pytest.raises(InvalidOptionError, match=why) as caught:
        validate(value)
    str(caught.value).encode()


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=200))
def test_every_other_text_is_a_name(text):
    assume(text not in (".", ".."))
    assume(not text.isspace())
    assert validate_workflow_id(text) == text


def test_an_enum_that_is_text_is_taken_as_plain_text():
    assert type(validate_task_queue(DuplicatePolicy.ALLOW_DUPLICATE)) is str


# --- values -----------------------------------------------------------------------------------------------------------

VALUES = [
    RetryPolicy(max_attempts=3, non_retryable_error_types=["Declined"]),
    ActivityOptions(start_to_close_timeout=5, retry_policy=RetryPolicy(), priority=0),
    StartOptions(execution_timeout=7200, memo={"a": [1]}, priority=9),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_options_are_immutable_values(value):
    again = type(value)(**value.given())
    assert again == value
    assert hash(again) == hash(value)
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.deepcopy(value) == value
    assert value != object()
    name = value.fields[0]
    with pytest.raises(AttributeError, match="immutable"):
        setattr(value, name, 1)
    with pytest.raises(AttributeError, match="immutable"):
        delattr(value, name)
    with pytest.raises(AttributeError):
        value.no_such_field = 1
    with pytest.raises(TypeError):
        type(value)(1)


def test_a_memo_is_not_shown():
    assert "secret" not in repr(StartOptions(memo={"key": "secret"}))


@pytest.mark.parametrize(
    ("cls", "field", "value", "why"),
    [
        (RetryPolicy, "initial_interval", 0, "positive"),
        (RetryPolicy, "max_interval", 0.5, "at least the initial interval"),
        (RetryPolicy, "backoff_coefficient", 0.9, "at least 1"),
        (RetryPolicy, "backoff_coefficient", float("nan"), "finite"),
        (RetryPolicy, "backoff_coefficient", True, "number"),
        (RetryPolicy, "max_attempts", -1, "at least 0"),
        (RetryPolicy, "max_attempts", 1.0, "whole number"),
        (RetryPolicy, "jitter", 1.1, "from 0 to 1"),
        (RetryPolicy, "non_retryable_error_types", "Declined", "list"),
        (RetryPolicy, "non_retryable_error_types", [5], "names"),
        (RetryPolicy, "non_retryable_error_types", [""], "names"),
        (ActivityOptions, "retry_policy", {"max_attempts": 1}, "RetryPolicy"),
        (ActivityOptions, "task_queue", "", "empty"),
        (ActivityOptions, "priority", 10, "from 0 to 9"),
        (StartOptions, "priority", -1, "from 0 to 9"),
        (StartOptions, "priority", True, "whole number"),
        (StartOptions, "start_delay", -1, "negative"),
        (StartOptions, "retry_policy", 3, "RetryPolicy"),
        (StartOptions, "memo", [1], "dict"),
        (StartOptions, "memo", {1: 2}, "text keys"),
        (StartOptions, "duplicate_policy", "overwrite", "reject_duplicate"),
    ],
)
def test_a_field_out_of_range_is_named(cls, field, value, why):
    with pytest.raises(InvalidOptionError, match=why) as caught:
        cls(**{field: value})
    assert (
        str(caught.value)
        .replace("-", " ")
        .split(" must")[0]
        .split(" (")[0]
        .endswith(field.replace("_", " ").split(" ", 1)[-1])
    )


# --- retries ----------------------------------------------------------------------------------------------------------


def test_the_default_policy_is_one_second_doubled_to_a_hundred_without_end():
    delays = [DEFAULT_RETRY_POLICY.delay_us(attempt, 0.5) for attempt in range(1, 10)]
    assert delays == [s * 1_000_000 for s in (1, 2, 4, 8, 16, 32, 64, 100, 100)]
    assert DEFAULT_RETRY_POLICY.allows(10**9)
    assert DEFAULT_RETRY_POLICY.delay_us(10**6, 0.5) == 100_000_000


@given(st.floats(0.000_001, FOREVER))
def test_the_longest_wait_is_usually_a_hundred_times_the_first(initial):
    policy = RetryPolicy(initial_interval=initial)
    assert policy == RetryPolicy(initial_interval=initial, max_interval=None)
    assert policy.max_us == min(100 * policy.initial_us, FOREVER * 1_000_000)
    assert RetryPolicy.from_document(policy.to_document()).max_us == policy.max_us


def test_a_usual_longest_wait_follows_the_first():
    assert RetryPolicy(initial_interval=500).max_interval == 50_000
    assert RetryPolicy(max_attempts=3).replace(initial_interval=500).max_interval == 50_000
    assert RetryPolicy(max_interval=30).replace(initial_interval=20).max_interval == 30
    assert RetryPolicy(initial_interval=5).replace(max_attempts=3).max_interval == 500
    with pytest.raises(InvalidOptionError, match="at least the initial interval"):
        RetryPolicy(max_interval=30).replace(initial_interval=500)


def test_a_stored_policy_keeps_the_longest_wait_that_it_was_stored_with():
    stored = {**RetryPolicy(max_interval=100).to_document(), "initial_interval": 20}
    assert RetryPolicy.from_document(stored).max_us == 100_000_000


policies = st.builds(
    RetryPolicy,
    initial_interval=st.floats(0.001, 10),
    backoff_coefficient=st.floats(1, 1000),
    max_interval=st.floats(10, FOREVER),
    max_attempts=st.integers(0, 10),
    jitter=st.floats(0, 1),
    non_retryable_error_types=st.lists(st.sampled_from(["A", "B"])),
)


@given(policies, st.integers(1, 10**6), st.floats(0, 1))
def test_a_delay_is_spread_around_the_backoff_and_never_beyond_the_cap(policy, attempt, unit):
    plain = policy.replace(jitter=0).delay_us(attempt, unit)
    delay = policy.delay_us(attempt, unit)
    assert 0 <= delay <= policy.max_us
    assert plain * (1 - policy.jitter) - 1 <= delay <= plain * (1 + policy.jitter) + 1
    assert plain <= policy.replace(jitter=0).delay_us(attempt + 1, unit)


@given(policies)
def test_a_policy_survives_being_a_document(policy):
    document = orjson.loads(orjson.dumps(policy.to_document()))
    again = RetryPolicy.from_document(document)
    assert again == policy
    assert (again.initial_us, again.max_us, hash(again)) == (policy.initial_us, policy.max_us, hash(policy))


@pytest.mark.parametrize(
    ("max_attempts", "made", "allowed"), [(0, 999, True), (3, 2, True), (3, 3, False), (1, 1, False)]
)
def test_attempts_are_counted(max_attempts, made, allowed):
    assert RetryPolicy(max_attempts=max_attempts).allows(made) is allowed


@pytest.mark.parametrize(
    ("failure", "final"),
    [
        ({"type": "Declined"}, True),
        ({"type": "Other", "class": "shop.Declined"}, False),
        ({"type": "Other", "class": "shop.Lost"}, True),
        ({"type": "Other", "non_retryable": True}, True),
        ({"type": "ValueError"}, True),
        ({"type": "Other", "message": "Declined"}, False),
    ],
)
def test_a_failure_is_final_by_its_flag_or_its_type(failure, final):
    policy = RetryPolicy(non_retryable_error_types=["Declined", "shop.Lost", ValueError])
    assert policy.is_non_retryable(failure) is final


# --- activities -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lesser", "greater"),
    [
        ("heartbeat", "start_to_close"),
        ("heartbeat", "schedule_to_close"),
        ("start_to_close", "schedule_to_close"),
        ("schedule_to_start", "schedule_to_close"),
    ],
)
def test_timeouts_that_contradict_each_other_are_refused_and_equal_ones_are_not(lesser, greater):
    activity(**{f"{lesser}_timeout": 5, f"{greater}_timeout": 5})
    with pytest.raises(
        InvalidOptionError, match=rf"^{lesser.replace('_', '-')} timeout \(6 s\) must not be longer"
    ):
        activity(**{f"{lesser}_timeout": 6, f"{greater}_timeout": 5})
    with pytest.raises(InvalidOptionError, match="must not be longer"):
        getattr(activity(**{f"{greater}_timeout": 5}), f"with_{lesser}_timeout")(6)
    with pytest.raises(InvalidOptionError, match="must not be longer"):
        activity(**{f"{greater}_timeout": 5}).merged(activity(**{f"{lesser}_timeout": 6}))


@pytest.mark.parametrize(
    ("field", "bounded"),
    [
        ("schedule_to_start", False),
        ("start_to_close", True),
        ("schedule_to_close", True),
        ("heartbeat", True),
    ],
)
def test_an_activity_is_bounded_by_what_ends_an_attempt(field, bounded):
    options = activity(**{f"{field}_timeout": timedelta(seconds=1.5)})
    assert options.is_bounded is bounded
    assert getattr(options, f"{field}_us") == 1_500_000
    assert getattr(options, f"{field}_timeout") == 1.5
    assert not ActivityOptions().is_bounded


fields_of_activities = st.fixed_dictionaries(
    {},
    optional={
        "schedule_to_start_timeout": seconds,
        "start_to_close_timeout": seconds,
        "schedule_to_close_timeout": seconds,
        "heartbeat_timeout": seconds,
        "retry_policy": policies,
        "priority": st.integers(0, 9),
        "task_queue": st.sampled_from(["a", "b"]),
    },
)


def made(given_fields):
    try:
        return activity(**given_fields)
    except InvalidOptionError:
        return reject()


@given(fields_of_activities, fields_of_activities)
def test_merging_lets_what_is_given_win(below, above):
    base, over, both = made(below), made(above), made({**below, **above})
    assert base.merged(over) == both
    assert base.merged(over) is base.merged(over)
    assert base.merged(ActivityOptions()) == base
    assert ActivityOptions().merged(base) == base


@given(fields_of_activities)
def test_a_snapshot_keeps_timeouts_and_policy_and_nothing_else(given_fields):
    options = made(given_fields)
    wanted = options.with_priority(None).with_task_queue(None)
    text = options.snapshot.json
    for form in (text, text.decode(), orjson.loads(text)):
        again = ActivityOptions.from_snapshot(form)
        assert again == wanted
        assert again.policy == options.policy
        assert (again.heartbeat_us, again.is_bounded) == (options.heartbeat_us, options.is_bounded)
    assert ActivityOptions.from_snapshot(text) is ActivityOptions.from_snapshot(text)


def test_a_snapshot_is_read_without_being_judged():
    odd = ActivityOptions.from_snapshot({"heartbeat_timeout": 9, "start_to_close_timeout": 5})
    assert odd.heartbeat_us == 9_000_000


def test_a_snapshot_is_readable():
    options = ActivityOptions(start_to_close_timeout=5.0, heartbeat_timeout=0.5, priority=1)
    assert options.snapshot.json == b'{"start_to_close_timeout":5,"heartbeat_timeout":0.5}'
    assert options.snapshot is options.snapshot


# --- starts -----------------------------------------------------------------------------------------------------------

ACTIVITIES = {
    "task_queue": "payments",
    "schedule_to_start_timeout": 60,
    "start_to_close_timeout": timedelta(minutes=5),
    "schedule_to_close_timeout": 3600,
    "heartbeat_timeout": 10,
    "retry_policy": RetryPolicy(max_attempts=2),
    "priority": 2,
    "cancellation_type": "abandon",
}


@pytest.mark.parametrize("field", ACTIVITIES)
def test_an_activity_option_may_be_given_at_once_or_step_by_step(field):
    at_once = activity(**{field: ACTIVITIES[field]})
    assert at_once == getattr(ActivityOptions(), f"with_{field}")(ACTIVITIES[field])
    assert at_once != ActivityOptions()


STARTS = {
    "execution_timeout": 7200,
    "run_timeout": 9000,
    "retry_policy": RetryPolicy(max_attempts=2),
    "memo": {"customer": "c-1"},
    "start_delay": timedelta(minutes=1),
    "priority": 2,
}


@pytest.mark.parametrize("field", STARTS)
def test_a_start_option_may_be_given_at_once_or_step_by_step(field):
    at_once = start(**{field: STARTS[field]})
    assert at_once == getattr(StartOptions(), f"with_{field}")(STARTS[field])
    assert at_once != StartOptions()


def test_all_start_options_together():
    fluent = StartOptions.reject_duplicate()
    for field, value in STARTS.items():
        fluent = getattr(fluent, f"with_{field}")(value)
    assert fluent == start(**STARTS, duplicate_policy="reject_duplicate")
    assert (fluent.execution_timeout_us, fluent.run_timeout_us, fluent.start_delay_us) == (
        7200e6,
        9000e6,
        60e6,
    )


@pytest.mark.parametrize("policy", DuplicatePolicy)
def test_each_duplicate_policy_has_a_constructor(policy):
    options = getattr(StartOptions, policy)().with_run_timeout(3600)
    assert options == StartOptions(run_timeout=3600, duplicate_policy=policy)
    assert StartOptions().duplicate_policy is DuplicatePolicy.ALLOW_DUPLICATE


@pytest.mark.parametrize("delay", [10, 11.5])
def test_a_start_delay_that_leaves_no_time_is_refused(delay):
    for make in (
        lambda: StartOptions(start_delay=delay, execution_timeout=10),
        lambda: StartOptions().with_start_delay(delay).with_execution_timeout(10),
        lambda: StartOptions().with_execution_timeout(10).with_start_delay(delay),
    ):
        with pytest.raises(
            InvalidOptionError, match=r"start delay .* must be shorter than the execution timeout"
        ):
            make()
    StartOptions(start_delay=9.5, execution_timeout=10, run_timeout=3600)


def test_a_memo_is_the_options_own():
    memo = {"a": [1]}
    options = StartOptions(memo=memo)
    memo["a"].append(2)
    assert options.memo == {"a": [1]}


def test_the_longest_wait_is_a_hundred_times_the_first_unless_it_is_given() -> None:
    assert RetryPolicy(initial_interval=500).max_interval == 50_000
    assert RetryPolicy() == RetryPolicy(max_interval=100) == RetryPolicy(max_interval=None)
    assert RetryPolicy(initial_interval=MAX_SECONDS).max_interval == MAX_SECONDS
    assert RetryPolicy(initial_interval=0.5).delay_us(30, 0) == 50_000_000
