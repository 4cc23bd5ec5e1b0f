from __future__ import annotations

import asyncio
import traceback
from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast_workflow import errors
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import (
    MAX_CAUSES,
    MAX_TEXT,
    activity_error,
    activity_timeout_failure,
    category_of,
    clipped,
    exception_of,
    failure_of,
    in_words,
    message_of,
    plain_failure,
)
from outlast_workflow.errors import (
    ActivityError,
    ActivityTimeoutError,
    ApplicationError,
    ChildWorkflowError,
    NonDeterminismError,
    OutlastError,
    PayloadDecodeError,
    StructuralLimitError,
    WorkflowCancelledError,
    WorkflowContinuedAsNewError,
    WorkflowFailedError,
    WorkflowTerminatedError,
    WorkflowTimeoutError,
)
from outlast_workflow.errors.root import in_words as in_words_of
from outlast_workflow.history.events import ActivityFailed, ActivityTimedOut
from outlast_workflow.primitives.enums import FailureCategory, RetryState, TimeoutKind
from outlast_workflow.primitives.payloads import dumps

CONVERTER = DataConverter()
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class DeclinedError(Exception):
    pass


class ActivityErrorOfMine(ApplicationError):
    pass


def raised(exc, cause=None):
    try:
        raise exc from cause
    except BaseException as caught:
        return caught


def chain(exc):
    while exc is not None:
        yield exc
        exc = exc.__cause__


texts = st.text(max_size=20)
plain = st.none() | st.integers(-9, 9) | texts | st.lists(st.integers(0, 9), max_size=2)
kinds = st.sampled_from([kind for kind in TimeoutKind if not kind.endswith("_timeout")])
workflow_kinds = st.sampled_from([kind for kind in TimeoutKind if kind.endswith("_timeout")])
moments = st.just(NOON)
who = {"workflow_id": texts, "run_id": texts}
activity = {
    "activity_type": texts,
    "activity_id": st.integers(1, 9),
    "attempt": st.integers(1, 9),
    "retry_state": st.sampled_from(RetryState),
}
leaves = st.one_of(
    st.builds(DeclinedError, texts),
    st.builds(ValueError, texts, st.integers()),
    st.builds(KeyError, texts),
    st.builds(asyncio.CancelledError),
    st.builds(
        lambda message, details, **facts: ApplicationError(message, *details, **facts),
        texts,
        st.lists(plain, max_size=2),
        type=st.none() | texts,
        non_retryable=st.booleans(),
        next_retry_delay=st.none() | st.integers(0, 9) | st.just(0.5),
    ),
    st.builds(ActivityErrorOfMine, texts),
    st.builds(ActivityError, **activity),
    st.builds(
        ActivityTimeoutError,
        timeout_kind=kinds,
        deadline_at=moments,
        heartbeat_details=st.lists(plain, max_size=2).map(tuple),
        **activity,
    ),
    st.builds(StructuralLimitError, texts, value=st.integers(0, 2**63), limit=st.integers(0, 2**63)),
    st.builds(NonDeterminismError, expected=st.lists(texts), actual=st.lists(texts)),
    st.builds(WorkflowFailedError, **who),
    st.builds(WorkflowTimeoutError, timeout_kind=workflow_kinds, deadline_at=moments, **who),
    st.builds(WorkflowCancelledError, reason=st.none() | texts, **who),
    st.builds(WorkflowTerminatedError, reason=st.none() | texts, **who),
    st.builds(WorkflowContinuedAsNewError, next_run_id=texts, **who),
)
exceptions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(raised, leaves, inner),
        st.builds(
            lambda parts: BaseExceptionGroup("several", parts), st.lists(inner, min_size=1, max_size=3)
        ),
    ),
    max_leaves=5,
)


@given(exceptions)
def test_a_failure_reads_the_same_however_many_histories_it_passes_through(exc):
    first = orjson.loads(dumps(failure_of(exc, CONVERTER)))
    once = exception_of(first, CONVERTER)
    second = orjson.loads(dumps(failure_of(raised(once, once.__cause__), CONVERTER)))
    assert second == first
    twice = exception_of(second, CONVERTER)
    for left, right in zip(chain(once), chain(twice), strict=True):
        assert type(left) is type(right)
        assert str(left) == str(right)
        assert vars(left) == vars(right)


@given(exceptions)
def test_the_category_of_a_failure_does_not_change_on_the_way(exc):
    failure = failure_of(exc, CONVERTER)
    assert failure["category"] == category_of(exc) == category_of(exception_of(failure, CONVERTER))


@pytest.mark.parametrize(
    ("exc", "name", "qualified"),
    [
        (DeclinedError("card 12"), "DeclinedError", f"{__name__}.DeclinedError"),
        (ActivityErrorOfMine("no"), "ActivityErrorOfMine", f"{__name__}.ActivityErrorOfMine"),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError", "ZeroDivisionError"),
        (TimeoutError(), "TimeoutError", "TimeoutError"),
        (KeyError("key"), "KeyError", "KeyError"),
    ],
)
def test_a_users_exception_comes_back_as_an_application_error_of_its_type(exc, name, qualified):
    failure = failure_of(raised(exc), CONVERTER)
    back = exception_of(failure, CONVERTER)
    assert type(back) is ApplicationError
    assert (back.type, back.exception_class, back.message) == (name, qualified, str(exc))
    assert (
        str(back)
        == "".join(traceback.format_exception_only(type(exc), exc)).strip().rpartition("test_failures.")[2]
    )
    assert (failure["type"], failure["class"], failure["category"]) == (name, qualified, "application")
    assert "in raised" in failure["stack"]
    assert back.stack == failure["stack"]


def test_the_text_of_an_error_ends_with_what_was_raised_first() -> None:
    """Everything that says why a call had no result names the type of the exception, not its message alone."""
    activity = ActivityError(
        activity_type="charge", activity_id=1, attempt=3, retry_state=RetryState.MAXIMUM_ATTEMPTS_REACHED
    )
    activity.__cause__ = raised(KeyError("missing"))
    child = raised(ChildWorkflowError(workflow_type="ship", workflow_id="s-1", run_id="r"), activity)
    failed = raised(WorkflowFailedError(workflow_id="order 1", run_id="r"), child)
    for error in (failed, exception_of(failure_of(failed, CONVERTER), CONVERTER)):
        assert str(error) == (
            "workflow 'order 1' failed (see `outlast describe 'order 1'`): "
            "child workflow ship ('s-1') failed: "
            "activity charge failed (attempt 3, maximum attempts reached): KeyError: 'missing'"
        )
    document = failure_of(failed, CONVERTER)
    assert document["message"] == "workflow 'order 1' failed (see `outlast describe 'order 1'`)"
    assert message_of(document) == in_words(document) == str(failed)
    assert in_words(document["cause"]["cause"]["cause"]) == "KeyError: 'missing'"


@given(exceptions)
def test_a_document_has_the_words_of_its_exception(exc: BaseException) -> None:
    document = failure_of(exc, CONVERTER)
    again = exception_of(document, CONVERTER)
    assert in_words(document) == in_words_of(again)
    if isinstance(again, OutlastError) and not isinstance(again, ApplicationError):
        assert message_of(document) == str(again)


def test_a_child_that_was_ended_from_outside_is_told_once() -> None:
    terminated = WorkflowTerminatedError(workflow_id="s-1", run_id="r", reason="fire")
    child = ChildWorkflowError(workflow_type="ship", workflow_id="s-1", run_id="r", message="was terminated")
    assert str(raised(child, terminated)) == "child workflow ship ('s-1') was terminated"


def test_a_plain_traceback_shows_where_a_recorded_exception_was_raised() -> None:
    failure = failure_of(raised(DeclinedError("card 12")), CONVERTER)
    shown = "".join(traceback.format_exception(exception_of(failure, CONVERTER)))
    assert "outlast.errors.ApplicationError: DeclinedError: card 12\n" in shown
    assert "Recorded where it was raised (most recent call last):" in shown
    assert f"  {failure['stack']}" in shown
    assert "in raised" in failure["stack"]


def test_a_users_class_named_like_one_of_the_engines_is_not_taken_for_it():
    impostor = type("ActivityTimeoutError", (Exception,), {"__module__": "shop.errors"})("no")
    assert type(exception_of(failure_of(impostor, CONVERTER), CONVERTER)) is ApplicationError


def test_every_error_of_the_engine_is_known_by_name():
    for name, cls in errors.REGISTRY.items():
        assert issubclass(cls, OutlastError)
        assert cls.__name__ == name
    assert errors.REGISTRY["ActivityTimeoutError"] is ActivityTimeoutError


@pytest.mark.parametrize(
    ("exc", "category"),
    [
        (ValueError("timeout cancelled terminated"), "application"),
        (TimeoutError("timed out"), "application"),
        (asyncio.CancelledError(), "cancelled"),
        (StructuralLimitError("payload_bytes", value=2, limit=1), "structural_limit"),
        (NonDeterminismError(expected=["a"], actual=[]), "task_failure"),
        (errors.StoreUnreachableError("no"), "internal"),
        (
            WorkflowTimeoutError(
                workflow_id="w", run_id="r", timeout_kind=TimeoutKind.RUN_TIMEOUT, deadline_at=NOON
            ),
            "timeout",
        ),
        (WorkflowTerminatedError(workflow_id="w", run_id="r"), "terminated"),
        (WorkflowCancelledError(workflow_id="w", run_id="r"), "cancelled"),
        (
            ActivityError(activity_type="a", activity_id=1, attempt=1, retry_state=RetryState.TIMEOUT),
            "activity",
        ),
        (BaseExceptionGroup("g", [asyncio.CancelledError()]), "cancelled"),
        (BaseExceptionGroup("g", [asyncio.CancelledError(), ValueError()]), "application"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_category_comes_from_the_class(exc, category):
    assert category_of(exc) == FailureCategory(category)


def test_a_group_keeps_its_first_failure_as_the_cause_and_names_them_all():
    group = ExceptionGroup("unhandled errors", [DeclinedError("a"), ValueError("b")])
    back = exception_of(failure_of(group, CONVERTER), CONVERTER)
    assert isinstance(back, ApplicationError)
    assert (back.type, back.message, back.exception_types) == (
        "ExceptionGroup",
        "unhandled errors",
        ("DeclinedError", "ValueError"),
    )
    assert isinstance(back.__cause__, ApplicationError)
    assert back.__cause__.type == "DeclinedError"


def test_causes_are_kept_to_a_depth():
    exc = ValueError("0")
    for i in range(100):
        exc = raised(ValueError(str(i)), exc)
    assert len(list(chain(exception_of(failure_of(exc, CONVERTER), CONVERTER)))) == MAX_CAUSES + 1


def test_a_cause_that_leads_back_to_itself_ends():
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert failure_of(first, CONVERTER)["cause"]["message"] == "b"


def test_what_json_can_not_hold_never_keeps_a_failure_from_being_told():
    class RudeError(Exception):
        def __str__(self):
            raise RuntimeError

    assert "RudeError" in failure_of(RudeError(), CONVERTER)["message"]
    assert failure_of(ValueError("\ud800" + "x" * 10**6), CONVERTER)["message"].startswith("?x")
    assert len(failure_of(ValueError("x" * 10**6), CONVERTER)["message"]) <= MAX_TEXT
    failure = failure_of(ApplicationError("no", 1, object(), float("nan")), CONVERTER)
    assert failure["details"] == [
        1,
        "(a object, which has no JSON form)",
        "(a float, which has no JSON form)",
    ]
    dumps(failure)
    odd = [
        StructuralLimitError("\ud800", value=2**70, limit=1),
        ApplicationError("no", type="\ud800"),
        NonDeterminismError(expected=["\ud800"], actual=[]),
    ]
    for exc in odd:
        document = orjson.loads(dumps(failure_of(exc, CONVERTER)))
        assert failure_of(exception_of(document, CONVERTER), CONVERTER) == document


def test_details_go_through_the_codec():
    class Reverse:
        name = "reverse"

        def encode(self, data):
            return data[::-1]

        decode = encode

    converter = DataConverter(Reverse())
    failure = failure_of(ApplicationError("no", "secret"), converter)
    assert b"secret" not in dumps(failure)
    back = exception_of(failure, converter)
    assert isinstance(back, ApplicationError)
    assert back.details == ("secret",)
    with pytest.raises(PayloadDecodeError, match="reverse"):
        exception_of(failure, CONVERTER)


# --- activities -------------------------------------------------------------------------------------------------------


def test_a_failed_activity_is_an_activity_error_with_the_failure_as_its_cause():
    event = ActivityFailed(
        command_id=3,
        failure=failure_of(raised(DeclinedError("no")), CONVERTER),
        attempt=2,
        retry_state="maximum_attempts_reached",
    )
    error = activity_error(event, "charge", CONVERTER)
    assert type(error) is ActivityError
    assert (error.activity_type, error.activity_id, error.attempt) == ("charge", 3, 2)
    assert error.retry_state is RetryState.MAXIMUM_ATTEMPTS_REACHED
    assert isinstance(error.__cause__, ApplicationError)
    assert error.__cause__.type == "DeclinedError"


@pytest.mark.parametrize("kind", ["schedule_to_start", "start_to_close", "schedule_to_close", "heartbeat"])
def test_a_timed_out_activity_is_a_timeout_error_with_two_levels_of_causes(kind):
    def timed_out(cause=None, retry_state=None):
        return activity_timeout_failure(
            timeout_kind=TimeoutKind(kind),
            deadline_at=1_893_499_200_000_000,
            activity_type="charge",
            activity_id=3,
            attempt=2,
            retry_state=retry_state,
            heartbeat_details=CONVERTER.encode_args(["half", {"rows": 5}]),
            cause=cause,
        )

    failure = timed_out(timed_out(timed_out(timed_out())), RetryState.TIMEOUT)
    event = ActivityTimedOut(
        command_id=3,
        timeout_kind=kind,
        deadline_at=failure["deadline_at"],
        failure=orjson.loads(dumps(failure)),
        attempt=2,
        retry_state="timeout",
    )
    error = activity_error(event, "charge", CONVERTER)
    assert isinstance(error, ActivityTimeoutError)
    assert isinstance(error, TimeoutError)
    assert error.timeout_kind is TimeoutKind(kind)
    assert (error.deadline_at, error.heartbeat_details) == (NOON, ("half", {"rows": 5}))
    assert error.message == failure["message"]
    assert str(error) == f"{error.message}; before that: {error.__cause__}"
    causes = list(chain(error))[1:]
    assert len(causes) == 2
    assert all(isinstance(cause, ActivityTimeoutError) and cause.retry_state is None for cause in causes)
    again = exception_of(failure_of(error, CONVERTER), CONVERTER)
    assert [str(e) for e in chain(again)] == [str(e) for e in chain(error)]


def test_a_failure_that_no_exception_stands_for_comes_back_with_its_category():
    failure = plain_failure(FailureCategory.INTERNAL, "WorkerLost", "its workers kept dying")
    back = exception_of(failure, CONVERTER)
    assert isinstance(back, ApplicationError)
    assert (back.type, category_of(back)) == ("WorkerLost", FailureCategory.INTERNAL)


def test_clipping_cuts_causes_and_leaves_the_rest():
    deep = {"type": "A", "cause": {"type": "B", "cause": {"type": "C"}}}
    assert clipped(deep, 1) == {"type": "A", "cause": {"type": "B"}}
    assert clipped(deep, 0) == {"type": "A"}
    assert clipped(deep, 5) == deep
