"""Which exceptions fail the run, and which only the workflow task."""

from __future__ import annotations

from typing import Any

import pytest

from outlast_workflow.declare.definitions import definition_of, defn, run
from outlast_workflow.errors import (
    ApplicationError,
    ContinueAsNew,
    DurableCallError,
    InvalidOptionError,
    MissingCodeError,
    NonDeterminismError,
    OutlastError,
    PayloadCodecError,
    PayloadDecodeError,
    StoreError,
    StoreUnreachableError,
    WorkflowTaskBlockedError,
    WorkflowTaskError,
)
from outlast_workflow.options.failure_types import NO_FAILURE_TYPES, FailureTypes, verdict

DIFFERS = NonDeterminismError(expected=["a"], actual=["b"])
RESTORED = ApplicationError("no", type="CardDeclined")
RESTORED.exception_class = "shop.errors.CardDeclined"


@pytest.mark.parametrize(
    ("lists", "error", "expected"),
    [
        ({}, ValueError(), None),
        ({"run": [NonDeterminismError]}, DIFFERS, True),
        ({"run": ["NonDeterminismError"]}, DIFFERS, True),
        ({"run": ["outlast.errors.NonDeterminismError"]}, DIFFERS, True),
        ({"run": [WorkflowTaskError]}, DIFFERS, True),
        ({"run": [Exception]}, DIFFERS, True),
        ({"run": [NonDeterminismError]}, DurableCallError(""), None),
        ({"task": [ArithmeticError]}, ZeroDivisionError(), False),
        ({"task": ["ArithmeticError"]}, ZeroDivisionError(), False),
        ({"task": ["builtins.ZeroDivisionError"]}, ZeroDivisionError(), False),
        ({"run": [Exception], "task": [ArithmeticError]}, ZeroDivisionError(), False),
        ({"run": [ZeroDivisionError], "task": [ArithmeticError]}, ZeroDivisionError(), True),
        ({"run": [ZeroDivisionError], "task": [ArithmeticError]}, OverflowError(), False),
        ({"task": ["CardDeclined"]}, RESTORED, False),
        ({"task": ["shop.errors.CardDeclined"]}, RESTORED, False),
        ({"run": ["CardDeclined"], "task": [ApplicationError]}, RESTORED, True),
        ({"run": [Exception]}, MissingCodeError("gone"), False),
        ({"run": [BaseException]}, WorkflowTaskBlockedError("busy"), False),
        ({"run": [PayloadDecodeError]}, PayloadCodecError("no key"), False),
        ({"run": [PayloadDecodeError]}, PayloadDecodeError("no int"), True),
    ],
)
def test_the_nearest_class_decides(
    lists: dict[str, Any], error: BaseException, expected: bool | None
) -> None:
    types = FailureTypes(**lists)
    assert verdict(error, types, NO_FAILURE_TYPES) is expected
    assert verdict(error, NO_FAILURE_TYPES, types) is expected


def test_the_workflows_own_lists_come_before_those_of_its_worker() -> None:
    of_workflow, of_worker = FailureTypes(run=[Exception]), FailureTypes(task=[ZeroDivisionError])
    assert verdict(ZeroDivisionError(), of_workflow, of_worker) is True
    assert verdict(ZeroDivisionError(), of_worker, of_workflow) is False


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"run": [MissingCodeError]}, "MissingCodeError always fails only the workflow task"),
        ({"run": ["WorkflowTaskBlockedError"]}, "WorkflowTaskBlockedError always fails only"),
        ({"run": ["outlast.errors.StoreUnreachableError"]}, "StoreUnreachableError always fails only"),
        ({"run": [StoreError]}, "StoreError always fails only"),
        ({"run": [StoreUnreachableError]}, "StoreUnreachableError always fails only"),
        ({"run": [PayloadCodecError]}, "PayloadCodecError always fails only"),
        ({"run": [KeyError], "task": [KeyError]}, "KeyError cannot fail the run and only the workflow task"),
        ({"run": ValueError}, "put ValueError in a tuple"),
        ({"task": "ValueError"}, "put ValueError in a tuple"),
        ({"task": [3]}, "classes or their names, not 3"),
        ({"task": [int]}, "classes or their names, not <class 'int'>"),
        ({"task": [" "]}, "classes or their names, not ' '"),
        ({"task": 3}, "a list of exception classes or names, not int"),
        ({"task": [ContinueAsNew]}, "ContinueAsNew is no failure"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_declared(lists: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        FailureTypes(**lists)
    named = {"run": "workflow_failure_types", "task": "workflow_task_failure_types"}
    with pytest.raises(InvalidOptionError, match=message) as refused:
        defn(**{named[kind]: entries for kind, entries in lists.items()})
    assert refused.value.field in named.values()


def test_a_declaration_carries_its_lists() -> None:
    @defn(workflow_failure_types=(OutlastError,), workflow_task_failure_types=[KeyError])
    class Order:
        @run
        async def go(self) -> None: ...

    types = definition_of(Order).failure_types
    assert (types.run, types.task) == (frozenset({OutlastError}), frozenset({KeyError}))


def test_lists_are_equal_by_what_they_name() -> None:
    assert FailureTypes() == NO_FAILURE_TYPES
    assert FailureTypes(run=[KeyError], task=("A",)) == FailureTypes(task=["A", "A"], run=(KeyError,))
    assert FailureTypes(run=[KeyError]) != FailureTypes(task=[KeyError])
