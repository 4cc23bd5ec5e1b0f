import copy
import importlib
import pickle
import pkgutil
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from outlast import errors as public
from outlast_workflow import errors
from outlast_workflow.errors import (
    ActivityError,
    ActivityTimeoutError,
    ApplicationError,
    ContinueAsNew,
    DagValidationError,
    ForkedConnectionError,
    InvalidDocumentError,
    InvalidOptionError,
    InvalidUrlError,
    JournalClosedError,
    MissingCodeError,
    NonDeterminismError,
    OutlastError,
    PayloadDecodeError,
    PayloadEncodeError,
    QueueExistsError,
    QueueInUseError,
    QueueNotFoundError,
    RefusedError,
    RunNotFoundError,
    SchemaMissingError,
    SchemaTooNewError,
    SchemaTooOldError,
    StructuralLimitError,
    UnknownWorkflowTypeError,
    UnstorableValueError,
    WorkflowAlreadyBegunError,
    WorkflowAlreadyStartedError,
    WorkflowCancelledError,
    WorkflowClosedError,
    WorkflowContinuedAsNewError,
    WorkflowFailedError,
    WorkflowNotFoundError,
    WorkflowTaskError,
    WorkflowTerminatedError,
    WorkflowTimeoutError,
)
from outlast_workflow.errors.documents import Problem
from outlast_workflow.errors.options import DocumentProblem
from outlast_workflow.primitives.enums import RetryState, TimeoutKind

PACKAGES = (
    "outlast",
    "outlast_activities",
    "outlast_dag",
    "outlast_dashboard",
    "outlast_runs",
    "outlast_schedules",
    "outlast_serverless",
    "outlast_store",
    "outlast_watchdog",
    "outlast_workflow",
)

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def timeout(kind=TimeoutKind.HEARTBEAT, retry_state=RetryState.MAXIMUM_ATTEMPTS_REACHED):
    return ActivityTimeoutError(
        timeout_kind=kind,
        deadline_at=NOON,
        activity_type="charge",
        activity_id=3,
        attempt=2,
        retry_state=retry_state,
        heartbeat_details=("half",),
    )


EXAMPLES = [
    InvalidOptionError("priority must be from 0 to 9", field="priority"),
    InvalidUrlError("no"),
    DagValidationError(
        "etl", [Problem("missing_timeout", "fetch", "etl.py:14", "nothing bounds it", "give one")]
    ),
    UnstorableValueError("no"),
    WorkflowAlreadyStartedError("order-1", run_id="r", status="running"),
    WorkflowNotFoundError("order-1"),
    RunNotFoundError("r", workflow_id="order-1"),
    InvalidDocumentError(
        "order.yaml", [DocumentProblem("unknown_timeout", "/do/0/a/timeout", 7, 9, "no", "PT5S")]
    ),
    WorkflowAlreadyBegunError("order-1", run_id="r", status="running"),
    WorkflowClosedError("order-1", run_id="r", status="completed"),
    UnknownWorkflowTypeError("Order", known=["Other"]),
    RefusedError("fenced"),
    QueueNotFoundError("emials", similar=["emails"]),
    QueueExistsError("emails"),
    QueueInUseError("emails", waiting=3, running=1),
    SchemaMissingError(),
    SchemaTooOldError("0001", "0002"),
    SchemaTooNewError("0003", "0002"),
    ForkedConnectionError(),
    JournalClosedError(),
    NonDeterminismError(expected=["a"], actual=["b"], source="order.py:3", workflow_type="Order"),
    PayloadDecodeError("no", parameter="order", hint="Order"),
    PayloadEncodeError("no", what="result"),
    MissingCodeError("no", name="Order"),
    StructuralLimitError("payload_bytes", value=3, limit=2),
    ApplicationError("no", 1, {"a": 2}, type="Declined", non_retryable=True, next_retry_delay=1.5),
    ActivityError(
        activity_type="charge", activity_id=3, attempt=2, retry_state=RetryState.NON_RETRYABLE_FAILURE
    ),
    timeout(),
    WorkflowFailedError(workflow_id="order-1", run_id="r"),
    WorkflowTimeoutError(
        workflow_id="order-1", run_id="r", timeout_kind=TimeoutKind.RUN_TIMEOUT, deadline_at=NOON
    ),
    WorkflowCancelledError(workflow_id="order-1", run_id="r", reason="enough"),
    WorkflowTerminatedError(workflow_id="order-1", run_id="r"),
    WorkflowContinuedAsNewError(workflow_id="order-1", run_id="r", next_run_id="s"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_has_its_facts_and_keeps_them_between_processes(error):
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert other.message == error.message
        assert other.category == error.category
        for fact in error.facts:
            assert getattr(other, fact) == getattr(error, fact)


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_the_facts_of_an_error_include_those_of_its_parents(error):
    for parent in type(error).__mro__:
        assert set(vars(parent).get("facts", ())) <= set(error.facts)


INTERNAL = {"CommandFailedError", "NotRecordedError"}
"""Never met as exceptions: a command prints the first and exits, replay catches the second."""


def drawn_tree() -> dict[str, str]:
    """Return each error of the tree at the top of the face with the name of its parent."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ((?:│   |    )*(?:[├└]── )?)(\w+)", line)
        if found is None or found[2] == "ContinueAsNew":
            continue
        depth = len(found[1]) // 4
        path[depth:] = [found[2]]
        parents[found[2]] = path[depth - 1] if depth else ""
    return parents


def all_subclasses(cls: type[OutlastError]) -> Iterator[type[OutlastError]]:
    for child in cls.__subclasses__():
        yield child
        yield from all_subclasses(child)


def defined_errors() -> dict[str, type[OutlastError]]:
    """Return every error that a module of the product defines, all modules being imported."""
    for root in PACKAGES:
        package = importlib.import_module(root)
        for module in pkgutil.walk_packages(package.__path__, root + "."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    return {
        cls.__name__: cls
        for cls in all_subclasses(OutlastError)
        if cls.__module__.partition(".")[0] in PACKAGES and not cls.__name__.startswith("_")
    }


def test_the_face_draws_every_error_under_its_parent():
    defined = defined_errors()
    expected = {"OutlastError": ""}
    for name, cls in defined.items():
        if name not in INTERNAL:
            parents = (base for base in cls.__mro__[1:] if not base.__name__.startswith("_"))
            expected[name] = next(parents).__name__
    assert drawn_tree() == expected
    assert all(cls.__doc__ for cls in defined.values())


def test_every_error_of_the_tree_is_exported_to_users():
    assert set(public.__all__) == set(drawn_tree())
    for name in public.__all__:
        assert getattr(public, name) is getattr(errors, name)


def test_a_recorded_failure_names_any_error_of_the_tree_under_outlast_errors():
    for name in drawn_tree().keys() - {"OutlastError"}:
        assert errors.REGISTRY[name] is getattr(public, name)


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [
        (InvalidOptionError, ValueError),
        (InvalidUrlError, ValueError),
        (ActivityTimeoutError, TimeoutError),
        (WorkflowTimeoutError, TimeoutError),
        (NonDeterminismError, WorkflowTaskError),
    ],
)
def test_errors_are_also_what_python_calls_them(cls, builtin):
    assert issubclass(cls, builtin)


@pytest.mark.parametrize("kind", [k for k in TimeoutKind if "_timeout" not in k])
def test_an_activity_timeout_says_its_kind_in_words(kind):
    message = str(timeout(kind))
    assert f"{kind.replace('_', '-')} timeout" in message
    assert "2030-01-01T12:00:00+00:00" in message
    assert "charge" in message
    assert "maximum attempts reached" in message


@pytest.mark.parametrize(
    ("expected", "actual", "index", "difference"),
    [
        (["a", "b"], ["a", "c"], 1, "command 2: history has b, the code asks for c"),
        (["a"], ["a", "b"], 1, "command 2: history has nothing, the code asks for b"),
        (["a"], [], 0, "command 1: history has a, the code asks for nothing"),
    ],
)
def test_non_determinism_shows_both_sides_and_what_to_do(expected, actual, index, difference):
    error = NonDeterminismError(expected=expected, actual=actual, source="order.py:7")
    assert error.command_index == index
    assert error.first_difference == difference
    assert "=>" in str(error)
    for part in (difference, "order.py:7", "workflow.patched"):
        assert part in str(error)


def test_non_determinism_among_thousands_of_commands_shows_only_what_is_near():
    lines = [f"command-{i}" for i in range(5_000)]
    error = NonDeterminismError(expected=lines, actual=[*lines[:4_000], "other", *lines[4_001:]])
    assert error.command_index == 4_000
    assert len(str(error).splitlines()) < 20


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), timedelta(seconds=-1), True])
def test_a_retry_delay_that_makes_no_sense_is_refused(delay):
    with pytest.raises(InvalidOptionError, match="next retry delay"):
        ApplicationError("no", next_retry_delay=delay)


def test_a_subclass_of_an_application_error_is_known_by_its_own_name():
    class DeclinedError(ApplicationError):
        pass

    assert DeclinedError("no").type == "DeclinedError"
    assert ApplicationError("no", next_retry_delay=timedelta(minutes=1)).next_retry_delay == 60


def test_continue_as_new_passes_except_exception():
    assert not issubclass(ContinueAsNew, Exception)
    assert ContinueAsNew((1, 2), run_timeout=5).arguments == (1, 2)
