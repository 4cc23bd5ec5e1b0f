"""Making steps: what both faces, the builder and the trace, do with an activity and its options."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypedDict, get_args

from outlast_activities.definitions import ActivityDefinition
from outlast_dag.build.auxiliaries import set_when
from outlast_dag.build.draft import Draft, Step
from outlast_dag.build.outputs import Check
from outlast_dag.spec.nodes import CompensateWhen, ItemFailure, Rule
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.retry_policy import RetryPolicy
from outlast_workflow.options.validation import validate_name

Activity = Callable[..., Coroutine[Any, Any, Any]]

Condition = bool | Check
"""A comparison of outputs. To type checkers it is the ``bool`` that the comparison of the values would be."""


class StepOptions(TypedDict, total=False):
    """The options of a step. Durations are seconds or a timedelta.

    Attributes:
        timeout: How long one attempt may run: its start-to-close timeout.
        extended_by_heartbeat: Whether each heartbeat gives the attempt the timeout anew. It is the heartbeat timeout
            then, and schedule_to_close_timeout or the DAG's timeout must bound the step.
        heartbeat_timeout: How long a running attempt may go without a heartbeat.
        schedule_to_start_timeout: How long an attempt may wait for a worker.
        schedule_to_close_timeout: How long all attempts together may take.
        retry: The retry policy, or how many attempts there may be.
        task_queue: Where it runs; by default the DAG's task queue.
        queue: The queue that decides when each attempt begins.
        partition_key: Its partition of the queue.
        priority: 0 (first) to 9.
        after: The steps that must have ended before, beside those whose outputs it is given.
        trigger: How they must have ended.
        skip_when: It is skipped if this holds.
        run_when: It is skipped unless this holds.
        compensate_when: Whether it is undone only if it has ``completed`` (the default), or also if it has ``started``:
            an attempt that timed out may have had its effect. What it returned is null then.
    """

    timeout: float | timedelta | None
    extended_by_heartbeat: bool
    heartbeat_timeout: float | timedelta | None
    schedule_to_start_timeout: float | timedelta | None
    schedule_to_close_timeout: float | timedelta | None
    retry: RetryPolicy | int | None
    task_queue: str | None
    queue: str | None
    partition_key: str | None
    priority: int | None
    after: Sequence[object]
    trigger: Rule
    skip_when: Condition
    run_when: Condition
    compensate_when: CompensateWhen


class MapOptions(StepOptions, total=False):
    """The options of a step for each item of a list: those of a step, which hold for each item, and these.

    Attributes:
        max_items: A longer list fails the step; 1,000 by default, at most 10,000.
        concurrency: How many items run at once; 0, the default, for all.
        on_item_failure: What a failed item does: ``fail`` the step (the default), ``skip`` the item, or ``collect`` its
            failure in the item's place.
        collect: Whether the output is the list of results; otherwise it is ``{"count": …}``.
    """

    max_items: int
    concurrency: int
    on_item_failure: ItemFailure
    collect: bool


OPTION_NAMES: Final = {"retry": "retry_policy"}
"""Options that the engine calls otherwise."""
_OF_STEPS: Final = tuple(StepOptions.__annotations__)
_OF_MAPS: Final = ("max_items", "concurrency", "on_item_failure", "collect")


def new_step(
    draft: Draft,
    kind: str,
    activity: Any,
    options: Mapping[str, Any],
    source: str,
    *,
    id: str | None = None,
    result: Any = Any,
) -> Step:
    """Return a new step of a draft, without arguments.

    Args:
        draft: The DAG.
        kind: The kind of node.
        activity: What it calls: an activity, or the name of one.
        options: Its options by name.
        source: Where it is written.
        id: The node's id; by default the activity's name, with a number behind it where that is taken.
        result: The type hint of what an activity that is given by name returns.
    """
    step = Step(kind, "", source, result_hint=result)
    refused = _set_activity(step, activity)
    draft.add(step, id)
    if refused is not None:
        draft.problem("bad_activity", step, refused, "")
    known = _OF_STEPS + (_OF_MAPS if kind == "map" else ())
    unknown = {name: value for name, value in options.items() if name not in known}
    if unknown:
        draft.attempt("bad_option", step, lambda: refuse_unknown("a step", unknown, known))
    for name, value in options.items():
        if name in known:
            set_option(draft, step, name, value)
    if kind == "map":
        collected = step.fields.get("collect", True)
        step.result_hint = list[step.result_hint] if collected else dict[str, int]  # type: ignore[name-defined]
    return step


def set_option(draft: Draft, step: Step, name: str, value: Any) -> None:
    """Set an option of a step.

    Args:
        draft: The DAG.
        step: The step.
        name: The option, as :class:`StepOptions` and :class:`MapOptions` name it.
        value: Its value.
    """
    if name == "after":
        step.after += value if isinstance(value, list | tuple) else [value]
    elif name == "trigger":
        if value in get_args(Rule):
            step.rule = value
        else:
            draft.problem("bad_option", step, f"trigger must be one of {', '.join(get_args(Rule))}", "")
    elif name == "skip_when":
        step.skip.append(value)
    elif name == "run_when":
        step.run.append(value)
    elif name == "compensate_when":
        set_when(draft, step, value)
    elif name in _OF_MAPS:
        step.fields[name] = value
    else:
        step.given[OPTION_NAMES.get(name, name)] = value


def _set_activity(step: Step, activity: Any) -> str | None:
    """Set what a step calls; return what is wrong with it."""
    if isinstance(activity, ActivityDefinition):
        step.type = activity.name
        step.signature = activity.signature
        step.declared = activity.options
        step.result_hint = activity.result_hint
        return None
    if isinstance(activity, str):
        try:
            step.type = validate_name("activity type", activity)
        except InvalidOptionError as error:
            return error.message
        return None
    name = getattr(activity, "__name__", type(activity).__name__)
    step.type = name
    return f"{name} is not an activity: put @activity.defn on the function, or give the name of one"


def bind(step: Step, draft: Draft, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of a call by position.

    Args:
        step: The step that calls.
        draft: The DAG.
        args: Those given by position.
        kwargs: Those given by name.
    """
    if not kwargs:
        return args
    signature = step.signature
    if signature is None:
        draft.problem(
            "wrong_arguments",
            step,
            "is given arguments by name, and its parameters are not known",
            "give them in order",
        )
        return args
    values, left = list(args), dict(kwargs)
    while left and len(values) < len(signature.names):
        name = signature.names[len(values)]
        if name in left:
            values.append(left.pop(name))
        elif len(values) >= signature.required:
            values.append(signature.defaults[len(values) - signature.required])
        else:
            break
    if left:
        names = ", ".join(repr(name) for name in left)
        draft.problem(
            "wrong_arguments",
            step,
            f"{step.type} cannot take {names} by name here",
            "give each parameter once",
        )
    return tuple(values)
