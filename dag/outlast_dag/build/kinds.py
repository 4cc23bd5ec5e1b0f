"""From a draft to a spec: the nodes that wait, that start a child, and that repeat a call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, get_args

from outlast_activities.definitions import ActivityDefinition
from outlast_dag.build.draft import Draft, Step
from outlast_dag.build.hints import unlike
from outlast_dag.build.outputs import Output, Place
from outlast_dag.build.values import condition_of, hint_of, value_of
from outlast_dag.spec.conditions import Condition, Joined
from outlast_dag.spec.nodes import (
    MAX_PLANNED,
    Approval,
    Child,
    ClosePolicy,
    Plan,
    Repeat,
    Sleep,
    TimeoutDecision,
    WaitFor,
)
from outlast_dag.spec.values import Bound, Constant, Value
from outlast_workflow.data.reading import hint_name
from outlast_workflow.declare.definitions import definition_of
from outlast_workflow.errors import DagValidationError, InvalidOptionError
from outlast_workflow.options.validation import (
    duration_seconds,
    integer,
    priority,
    timeout_seconds,
    validate_list,
    validate_name,
    validate_task_queue,
)

NEVER: Final = Joined("any_of", ())
"""Stands for a condition that is wrong."""

Checks = dict[str, tuple[str, Callable[[Any], Any]]]
"""By option the kind of the problem with it, and what returns it as the spec has it, or refuses it."""


def child_of(step: Step, draft: Draft, common: dict[str, Any], args: tuple[Value, ...]) -> Child:
    """Return a node that starts a child.

    Args:
        step: The step.
        draft: The DAG.
        common: The fields that all nodes have.
        args: The child's arguments.
    """
    checks: Checks = {
        # Starts take no shorter one.
        "timeout": ("timeout_out_of_range", partial(timeout_seconds, "timeout", minimum_seconds=1)),
        "task_queue": ("bad_option", validate_task_queue),
        "priority": ("bad_option", priority),
        "parent_close_policy": ("bad_option", partial(_one_of, "parent_close_policy", ClosePolicy)),
    }
    return Child(**common, type=step.type, args=args, **_checked(step, draft, checks))


def sleep_of(step: Step, draft: Draft, common: dict[str, Any]) -> Sleep:
    """Return a node that sleeps.

    Args:
        step: The step.
        draft: The DAG.
        common: The fields that all nodes have.
    """
    checks: Checks = {
        "seconds": ("timeout_out_of_range", partial(timeout_seconds, "a sleep")),
        "timeout": ("timeout_out_of_range", partial(timeout_seconds, "timeout")),
    }
    fields = _checked(step, draft, checks)
    if "until" in fields:
        raw = fields["until"]
        if unlike(hint_of(raw), str):
            draft.problem(
                "type_mismatch",
                step,
                f"sleeps until an instant, and is given {hint_name(hint_of(raw))}",
                "give it a datetime with a time zone, or an output that is one",
            )
        fields["until"] = value_of(raw, draft, step)
    return Sleep(**common, **fields)


def wait_of(step: Step, draft: Draft, common: dict[str, Any]) -> WaitFor:
    """Return a node that waits for a signal.

    Args:
        step: The step.
        draft: The DAG.
        common: The fields that all nodes have.
    """
    checks: Checks = {
        "event": ("bad_option", partial(validate_name, "signal name", segment=True)),
        "timeout": ("timeout_out_of_range", partial(timeout_seconds, "timeout")),
    }
    fields = _checked(step, draft, checks)
    fields.setdefault("event", step.id)
    if "match" in fields:
        fields["match"] = asked_of(fields["match"], "event", "match", draft, step)
    given = fields.pop("on_timeout", "fail")
    if not (isinstance(given, str) and given == "fail"):
        value = value_of(given, draft, step)
        if isinstance(value, Constant):
            fields["on_timeout"] = value
        else:
            draft.problem(
                "bad_option",
                step,
                "on_timeout is not known when the DAG is built",
                'give it a constant, or "fail" and what stands in with or_else',
            )
    return WaitFor(**common, **fields)


def approval_of(step: Step, draft: Draft, common: dict[str, Any]) -> Approval:
    """Return a node that waits for a decision.

    Args:
        step: The step.
        draft: The DAG.
        common: The fields that all nodes have.
    """
    checks: Checks = {
        "timeout": ("timeout_out_of_range", partial(timeout_seconds, "timeout")),
        "on_timeout": ("bad_option", partial(_one_of, "on_timeout", TimeoutDecision)),
    }
    return Approval(**common, **_checked(step, draft, checks))


def repeat_of(step: Step, draft: Draft, common: dict[str, Any], args: tuple[Value, ...]) -> Repeat:
    """Return a node that repeats a call.

    Args:
        step: The step.
        draft: The DAG.
        common: The fields that all calls have.
        args: The arguments of each call.
    """
    checks: Checks = {
        "max_iterations": ("bad_repeat", lambda value: integer("max_iterations", value, 1)),
        "max_duration": ("timeout_out_of_range", partial(timeout_seconds, "max_duration")),
        "delay": ("bad_repeat", partial(duration_seconds, "delay")),
    }
    # What is wrong is told once: it stands for a bound all the same.
    fields = _checked(step, draft, checks)
    if "max_iterations" in step.fields:
        fields.setdefault("max_iterations", 1)
    until = fields.pop("until", None)
    if until is None:
        draft.problem(
            "bad_condition",
            step,
            "has no until",
            "say what must hold of the result: until=lambda result: result.done == True",
        )
        condition: Condition | None = None
    else:
        condition = asked_of(until, "result", "until", draft, step)
    return Repeat(**common, args=args, until=NEVER if condition is None else condition, **fields)


def plan_of(step: Step, draft: Draft, common: dict[str, Any], args: tuple[Value, ...]) -> Plan:
    """Return a node that plans others.

    Args:
        step: The step.
        draft: The DAG.
        common: The fields that all calls have.
        args: The planner's arguments.
    """
    checks: Checks = {
        "allow": ("bad_plan", _names),
        "max_nodes": ("bad_plan", lambda value: integer("max_nodes", value, 1, MAX_PLANNED)),
        "run_timeout": ("timeout_out_of_range", partial(timeout_seconds, "run_timeout", minimum_seconds=1)),
    }
    return Plan(**common, args=args, **_checked(step, draft, checks))


def _names(allowed: Any) -> tuple[str, ...]:
    """Return the names of activities and workflows."""
    names = []
    for one in validate_list("allow", allowed, "activities and workflows"):
        if isinstance(one, ActivityDefinition):
            names.append(one.name)
        else:
            names.append(validate_name("allow", one) if isinstance(one, str) else definition_of(one).name)
    return tuple(dict.fromkeys(names))


def asked_of(raw: Any, name: Bound, option: str, draft: Draft, step: Step) -> Condition | None:
    """Return the condition that a function of a value gives that is known only when the DAG runs.

    Args:
        raw: The function, which is called once.
        name: What the value is called in the spec.
        option: The option that it was given for.
        draft: The DAG.
        step: The step.
    """
    if not callable(raw) or isinstance(raw, Output):
        draft.problem(
            "bad_condition",
            step,
            f"{option} is no function",
            f"give it a function of the {name}: {option}=lambda {name}: {name}.status == …",
        )
        return None
    try:
        asked = raw(Output(Place(draft, "bound", name=name, hint=step.result_hint)))
    except DagValidationError as error:
        draft.problems.append(error.problems[-1]._replace(node=step.id))
        return None
    return condition_of(asked, draft, step, option)


def _checked(step: Step, draft: Draft, checks: Checks) -> dict[str, Any]:
    """Return the fields of a node that are sound; the others become problems."""
    found = {}
    for name, value in step.fields.items():
        kind, check = checks.get(name, ("", None))
        if check is None:
            found[name] = value
            continue
        sound = draft.attempt(kind, step, partial(check, value))
        if sound is not None:
            found[name] = sound
    return found


def _one_of(field: str, names: Any, value: Any) -> Any:
    if not isinstance(value, str) or value not in get_args(names):
        raise InvalidOptionError(f"{field} must be one of {', '.join(get_args(names))}", field=field)
    return value
