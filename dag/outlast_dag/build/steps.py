"""Making steps: what both faces, the builder and the trace, do with an activity and its options."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, TypedDict, get_args

from outlast_activities.definitions import ActivityDefinition
from outlast_dag.build.auxiliaries import set_when
from outlast_dag.build.draft import Draft, Step
from outlast_dag.build.outputs import Check
from outlast_dag.spec.nodes import CompensateWhen, ItemFailure, Rule
from outlast_workflow.declare.definitions import definition_of
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.other_names import refuse_unknown
from outlast_workflow.options.retry_policy import RetryPolicy
from outlast_workflow.options.validation import validate_name, validate_workflow_type

Activity = Callable[..., Coroutine[Any, Any, Any]]

Condition = bool | Check
"""A comparison of outputs. To type checkers it is the ``bool`` that the comparison of the values would be."""


class NodeOptions(TypedDict, total=False):
    """The options of everything that a DAG has, whether it calls something or waits.

    Attributes:
        after: The steps that must have ended before, beside those whose outputs it is given.
        trigger: How they must have ended.
        skip_when: It is skipped if this holds.
        run_when: It is skipped unless this holds.
    """

    after: Sequence[object]
    trigger: Rule
    skip_when: Condition
    run_when: Condition


class StepOptions(NodeOptions, total=False):
    """The options of a step that calls an activity. Durations are seconds or a timedelta.

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
    compensate_when: CompensateWhen


class MapOptions(StepOptions, total=False):
    """The options of a step for each item of a list: those of a step, which hold for each item, and these.

    Attributes:
        max_items: A longer list fails the step; 1,000 by default, at most 10,000, or 10,000 chunks.
        concurrency: How many items run at once; 0, the default, for all.
        on_item_failure: What a failed item does: ``fail`` the step (the default), ``skip`` the item, or ``collect`` its
            failure in the item's place.
        collect: Whether the output is the list of results; otherwise it is ``{"count": …}``.
        chunks_of: How many items each child has, if the list is to be divided among children.
    """

    max_items: int
    concurrency: int
    on_item_failure: ItemFailure
    collect: bool
    chunks_of: int


class RepeatOptions(StepOptions, total=False):
    """The options of a step that is repeated: those of a step, which hold for each call, and these.

    Attributes:
        max_iterations: After so many calls the step fails.
        max_duration: After so long the step fails, and the call that runs is stopped.
        delay: The wait between two calls.
    """

    max_iterations: int
    max_duration: float | timedelta
    delay: float | timedelta


class PlanOptions(StepOptions, total=False):
    """The options of a planner: those of a step, which hold for the planner's call, and these.

    Attributes:
        allow: The activities and workflows that the planned DAG may call, or their names.
        max_nodes: How many nodes it may have, with those that its own planners may plan; 100 by default, at most 500.
        run_timeout: How long it may run.
    """

    allow: Sequence[Any]
    max_nodes: int
    run_timeout: float | timedelta


class DetachedOptions(NodeOptions, total=False):
    """The options of a child workflow that is not waited for.

    Attributes:
        timeout: How long all its runs together may take; by default the timeout of its declaration.
        task_queue: Its task queue; by default where the DAG runs.
        priority: 0 (first) to 9; by default the DAG's.
        compensate_when: Whether it is undone only if it has ``completed`` (the default), or also if it has ``started``.
    """

    timeout: float | timedelta | None
    task_queue: str | None
    priority: int | None
    compensate_when: CompensateWhen


class ChildOptions(DetachedOptions, total=False):
    """The options of a child workflow that is waited for: those of one that is not, and this.

    Attributes:
        parent_close_policy: What happens to it when the DAG's run ends: ``terminate`` (the default) or
            ``request_cancel``. With ``abandon`` it is not waited for.
    """

    parent_close_policy: Literal["terminate", "request_cancel"]


@dataclass(frozen=True, slots=True)
class DetachedChild:
    """A child that was started and is not waited for.

    Attributes:
        workflow_id: Its id.
        run_id: Its first run.
    """

    workflow_id: str
    run_id: str


OPTION_NAMES: Final = {"retry": "retry_policy"}
"""Options that the engine calls otherwise."""
_OF_NODES: Final = tuple(NodeOptions.__annotations__)
_OF_STEPS: Final = tuple(StepOptions.__annotations__)
FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "task": (),
    "map": ("max_items", "concurrency", "on_item_failure", "collect", "chunks_of"),
    "repeat": ("until", "max_iterations", "max_duration", "delay"),
    "plan": ("allow", "max_nodes", "run_timeout"),
    "child": ("timeout", "task_queue", "priority", "parent_close_policy"),
    "sleep": ("seconds", "until", "timeout"),
    "wait_for": ("event", "match", "timeout", "on_timeout"),
    "approval": ("timeout", "on_timeout"),
}
"""The options of each kind of nodes that are fields of the spec's node."""
_CALLS: Final = ("task", "map", "repeat", "plan")
_NOUNS: Final = {
    "map": "a list of steps",
    "repeat": "a repeated step",
    "plan": "a planner",
    "wait_for": "a wait for a signal",
}
_ARTICLES: Final = {"approval": "an approval"}


def _known(kind: str) -> tuple[str, ...]:
    return (*(_OF_STEPS if kind in _CALLS else _OF_NODES), *FIELDS[kind], "compensate_when")


def noun_of(kind: str) -> str:
    """Return what a kind of nodes is called in messages."""
    if kind == "task":
        return "a step"
    return _NOUNS.get(kind) or _ARTICLES.get(kind) or f"a {kind}"


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
        activity: What it calls: an activity or a workflow, or the name of one; of a wait what it is named after.
        options: Its options by name.
        source: Where it is written.
        id: The node's id; by default the activity's name, with a number behind it where that is taken.
        result: The type hint of what an activity that is given by name returns.
    """
    step = Step(kind, "", source, result_hint=result)
    refused = None
    if kind in _CALLS:
        refused = _set_activity(step, activity)
    elif kind == "child":
        refused = _set_workflow(step, activity)
    else:
        step.type = activity if isinstance(activity, str) else kind
    draft.add(step, id)
    if refused is not None:
        draft.problem("bad_workflow" if kind == "child" else "bad_activity", step, refused, "")
    for name, value in options.items():
        set_option(draft, step, name, value)
    if kind == "map":
        collected = step.fields.get("collect", True)
        step.result_hint = list[step.result_hint] if collected else dict[str, int]  # type: ignore[name-defined]
    if kind == "plan":
        # Its activity returns a plan, and the step what that returns.
        step.result_hint = result
    policy = step.fields.get("parent_close_policy")
    if isinstance(policy, str) and policy == "abandon":
        step.result_hint = DetachedChild
    return step


def set_option(draft: Draft, step: Step, name: str, value: Any) -> None:
    """Set an option of a step.

    Args:
        draft: The DAG.
        step: The step.
        name: The option, as :class:`StepOptions` and its like name it.
        value: Its value.
    """
    known = _known(step.kind)
    if name not in known and any(name in _known(kind) for kind in FIELDS):
        draft.problem(
            "bad_option", step, f"{noun_of(step.kind)} has no option {name!r}", f"it has {', '.join(known)}"
        )
    elif name not in known:
        draft.attempt("bad_option", step, lambda: refuse_unknown(noun_of(step.kind), {name: value}, known))
    elif name in FIELDS[step.kind]:
        if value is not None or name == "on_timeout":
            step.fields[name] = value
    elif name == "after":
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


def _set_workflow(step: Step, workflow: Any) -> str | None:
    """Set what child a step starts; return what is wrong with it."""
    try:
        if isinstance(workflow, str):
            step.type = validate_workflow_type("workflow", workflow)
            return None
        definition = definition_of(workflow)
    except InvalidOptionError as error:
        step.type = getattr(workflow, "__name__", "child")
        return error.message
    step.type = definition.name
    step.signature = definition.signature
    step.result_hint = definition.signature.result_hint
    timeouts = definition.timeouts
    declared = timeouts.get("execution_timeout", timeouts.get("run_timeout"))
    if declared is not None:
        step.fields["timeout"] = declared
    return None


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
