"""Steps that run for another one: because it has failed, or to undo it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from outlast_dag.build.draft import Draft, Role, Step
from outlast_dag.build.hints import unlike
from outlast_dag.build.outputs import Output, Place, output_of
from outlast_dag.run.actions import NodeFailure
from outlast_dag.spec.nodes import CompensateWhen
from outlast_workflow.data.reading import hint_name

ROLES: tuple[Role, ...] = get_args(Role)


def failure_of(draft: Draft, step: Step | None = None) -> Output:
    """Return what a step is given that runs because another one has failed.

    Args:
        draft: The DAG.
        step: The step that failed; ``None`` for whichever did.
    """
    return Output(Place(draft, "bound", step, "failure", hint=NodeFailure))


def trace_role(draft: Draft, step: Step, role: Role, function: Callable[[Any], Any]) -> None:
    """Call the function that adds the step for a role of another one, and keep that step.

    Args:
        draft: The DAG.
        step: The step that the other one runs for.
        role: Why it does.
        function: What the user gave.
    """
    before = len(draft.steps)
    result = function(failure_of(draft, step) if role == "on_failure" else output_of(draft, step))
    added = draft.steps[before:]
    at = result._at if isinstance(result, Output) else None
    if at is None or at.path or at.or_else or not any(one is at.step for one in added):
        draft.problem(
            "bad_option",
            step,
            f"{role} must return what one step returns that it adds",
            f"write {role}=lambda given: step(activity, timeout=…)(…)",
        )
        return
    helpers = {id(helper) for one in added for helper in (one.on_failure, one.compensate)}
    for one in added:
        if one is not at.step and id(one) not in helpers:
            draft.problem(
                "auxiliary_has_dependencies",
                one,
                f"is another step in {role} of {step.id!r}",
                "give it one step: what needs several belongs in an activity or a child workflow",
            )
    setattr(step, role, at.step)


def set_role(draft: Draft, step: Step, role: Role, given: Any) -> None:
    """Keep the step for a role of another one.

    Args:
        draft: The DAG.
        step: The step that the other one runs for.
        role: Why it does.
        given: The step, or its id.
    """
    if getattr(step, role) is not None:
        draft.problem("bad_option", step, f"has {role} twice", "give it one step")
    if isinstance(given, str):
        setattr(step, role, given)
    elif not isinstance(given, Output) or given._at.root != "of" or given._at.path:
        draft.problem(
            "bad_option", step, f"{role} takes a step", "give it what flow.task(…) returns, or its id"
        )
    elif given._at.draft is not draft:
        draft.problem(
            "foreign_handle",
            step,
            f"{role} is {given._at.words}, of the DAG {given._at.draft.name}",
            "add that step to this DAG",
        )
    else:
        setattr(step, role, given._at.step)


def set_when(draft: Draft, step: Step, when: Any) -> None:
    """Set whether a step is undone only if it has completed, or also if it has only begun.

    Args:
        draft: The DAG.
        step: The step.
        when: ``completed`` or ``started``.
    """
    if when in get_args(CompensateWhen):
        step.compensate_when = when
    else:
        draft.problem(
            "bad_option", step, f"compensate_when must be one of {', '.join(get_args(CompensateWhen))}", ""
        )


def assign_roles(draft: Draft) -> None:
    """Let each step know which one it runs for, and compare what the two return."""
    steps = {step.id: step for step in reversed(draft.steps)}
    for owner in draft.steps:
        for role in ROLES:
            given = getattr(owner, role)
            step = steps.get(given) if isinstance(given, str) else given
            if step is None:
                continue
            step.serves = step.serves or (role, owner)
            if role == "on_failure" and unlike(step.result_hint, owner.result_hint):
                draft.problem(
                    "type_mismatch",
                    step,
                    f"returns {hint_name(step.result_hint)} in place of {owner.id!r}, which returns "
                    f"{hint_name(owner.result_hint)}",
                    "return the same, since the steps behind take either",
                )


def id_of(given: Any) -> str | None:
    """Return the id of the step for a role: it was given by its id, or as a step."""
    return given.id if isinstance(given, Step) else given
