"""What users give as arguments and conditions, turned into the spec's values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, cast

import orjson

from outlast_dag.build.draft import Draft, Step
from outlast_dag.build.hints import hint_at, kind_of, unlike
from outlast_dag.build.outputs import Check, Output
from outlast_dag.spec.conditions import Compare, Comparison, Condition, Exists, Joined, Junction
from outlast_dag.spec.reading import MAX_DEPTH
from outlast_dag.spec.values import Array, Constant, Object, Ref, Value, array, obj, references
from outlast_workflow.data.reading import hint_name
from outlast_workflow.data.writing import UnwritableError, dump

NOTHING: Final = Constant(None)
"""What stands where something is wrong, so that the rest can be looked at."""

_ORDERED: Final = (bool, int, float, str)


def value_of(raw: Any, draft: Draft, step: Step | None, depth: int = 0) -> Value:
    """Return a value as the spec holds it; what it cannot hold becomes a problem.

    Args:
        raw: An output, JSON, a dataclass or a model, or a list or dict of these.
        draft: The DAG.
        step: The step that it is given to; ``None`` for the DAG's result.
        depth: How deep in another value it lies.
    """
    if isinstance(raw, Output):
        return _reference(raw, draft, step, depth)
    if isinstance(raw, Check):
        draft.problem(
            "not_data",
            step,
            "a condition is no value",
            "give it to skip_when; a step that needs a bool takes it from an activity",
        )
        return NOTHING
    if depth > MAX_DEPTH:
        draft.problem("too_large", step, f"a value is nested deeper than {MAX_DEPTH} levels", "flatten it")
        return NOTHING
    if isinstance(raw, list | tuple) and _holds_output(raw, depth):
        return array(value_of(item, draft, step, depth + 1) for item in raw)
    if (
        isinstance(raw, dict)
        and _holds_output(raw.values(), depth)
        and all(isinstance(key, str) for key in raw)
    ):
        return obj((key, value_of(member, draft, step, depth + 1)) for key, member in raw.items())
    return _constant(raw, draft, step)


def _holds_output(items: Any, depth: int) -> bool:
    if depth > MAX_DEPTH:
        return True
    for item in items:
        if isinstance(item, Output | Check) or inspect.iscoroutine(item):
            return True
        if isinstance(item, list | tuple) and _holds_output(item, depth + 1):
            return True
        if isinstance(item, dict) and _holds_output(item.values(), depth + 1):
            return True
    return False


def _constant(raw: Any, draft: Draft, step: Step | None) -> Constant:
    if inspect.iscoroutine(raw):
        name = raw.__name__
        raw.close()
        draft.problem(
            "not_data", step, f"{name}(…) is a call, not what a step returns", f"write step({name}, …)(…)"
        )
        return NOTHING
    if inspect.isfunction(raw):
        draft.problem(
            "not_data", step, "a function is given, not what a step returns", "write step(activity, …)(…)"
        )
        return NOTHING
    try:
        return Constant(orjson.loads(dump(raw)))
    except UnwritableError as error:
        draft.problem("not_data", step, str(error), "give JSON values, dataclasses or models, and outputs")
        return NOTHING


def _reference(output: Output, draft: Draft, step: Step | None, depth: int = 0) -> Value:
    at = output._at
    if at.draft is not draft:
        draft.problem(
            "foreign_handle",
            step,
            f"{at.words} belongs to the DAG {at.draft.name}",
            "a DAG is given what its own steps return: give the value to its run, or add the step to this DAG",
        )
        return NOTHING
    if (
        at.root == "bound"
        and at.step is not None
        and (step is None or step.serves != ("on_failure", at.step))
    ):
        draft.problem(
            "unknown_dependency",
            step,
            f"takes the failure of {at.step.id!r}, which only the step has that runs because of it",
            "use it there",
        )
    wrong = hint_at(at.hint, at.path)[1]
    if wrong:
        draft.problem("type_mismatch", step, f"{at.words}: {wrong}", "correct the path")
    other: Value | None = None
    for raw in reversed(at.or_else):
        replacement = value_of(raw, draft, step, depth + 1)
        other = _chained(replacement, other) if other is not None else replacement
    name = at.step.id if at.root == "of" and at.step is not None else at.name
    return Ref(at.root, name, at.path, other)


def _chained(value: Value, other: Value) -> Value:
    """Return a value that is used where there is one, and another one otherwise."""
    if isinstance(value, Ref):
        last = other if value.or_else is None else _chained(value.or_else, other)
        return Ref(value.root, value.name, value.path, last)
    return value


def condition_of(raw: Any, draft: Draft, step: Step, what: str) -> Condition | None:
    """Return a condition as the spec holds it; ``None`` and a problem if it is none.

    Args:
        raw: What the user gave: a :class:`Check`.
        draft: The DAG.
        step: The step that asks it.
        what: The option that it was given for.
    """

    def refuse(message: str, advice: str) -> None:
        draft.problem("bad_condition", step, f"{what} {message}", advice)

    if isinstance(raw, Output):
        if unlike(hint_of(raw), bool):
            refuse("is a value, not a condition", "compare it, as in page.count == 0")
            return None
        # What is a boolean is as good as its comparison with true.
        return Compare("==", value_of(raw, draft, step), Constant(True))
    if not isinstance(raw, Check):
        known = f"is {raw} already when the DAG is built" if isinstance(raw, bool) else "is no condition"
        refuse(
            known, "compare what a step returns, as in page.count == 0; other logic belongs in an activity"
        )
        return None
    if raw.op in ("all_of", "any_of", "none_of"):
        if not raw.parts:
            refuse(f"has {raw.op}() of nothing", "give it conditions")
            return None
        parts = [condition_of(part, draft, step, what) for part in raw.parts]
        sound = tuple(part for part in parts if part is not None)
        return Joined(cast("Junction", raw.op), sound) if len(sound) == len(parts) else None
    return _comparison(raw, draft, step, refuse)


def _comparison(raw: Check, draft: Draft, step: Step, refuse: Callable[[str, str], None]) -> Condition | None:
    values = [value_of(part, draft, step) for part in raw.parts]
    if not any(True for value in values for _ in references(value)):
        refuse("compares what is known already when the DAG is built", "compare what a step returns")
        return None
    if raw.op == "exists":
        (value,) = values
        if isinstance(value, Ref):
            return Exists(value)
        refuse("asks whether a constant exists", "ask it of what a step returns")
        return None
    left, right = values
    for value in values:
        if (
            isinstance(value, Constant)
            and raw.op in ("<", "<=", ">", ">=")
            and not isinstance(value.value, _ORDERED)
        ):
            refuse(
                f"compares by {raw.op} with a {kind_of(value.value)}", "only numbers and texts have an order"
            )
            return None
    if raw.op == "in" and isinstance(right, Constant | Object) and not _is_list(right):
        refuse("asks whether a value is in what is no list", "give is_in() a list")
        return None
    return Compare(cast("Comparison", raw.op), left, right)


def _is_list(value: Value) -> bool:
    return isinstance(value, Array) or (isinstance(value, Constant) and isinstance(value.value, list))


def hint_of(raw: Any) -> Any:
    """Return the type hint of what a user gives; ``Any`` if it is not known."""
    if isinstance(raw, Output):
        at = raw._at
        return Any if at.or_else else hint_at(at.hint, at.path)[0]
    return type(raw)


def check_type(given: Any, wanted: Any, parameter: str, draft: Draft, step: Step) -> None:
    """Keep a problem if what is given can never be read as what a parameter takes.

    Args:
        given: The hint of what is given.
        wanted: The parameter's hint.
        parameter: The parameter's name in messages.
        draft: The DAG.
        step: The step whose activity has the parameter.
    """
    if unlike(given, wanted):
        draft.problem(
            "type_mismatch",
            step,
            f"{parameter} of {step.type} takes {hint_name(wanted)}, and is given {hint_name(given)}",
            "give it what it takes, or a part of it by its path",
        )
