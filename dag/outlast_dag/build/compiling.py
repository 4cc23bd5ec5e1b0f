"""From a draft to a spec, with all that is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, cast, get_args

from outlast_dag.build.auxiliaries import assign_roles, failure_of, id_of
from outlast_dag.build.draft import Draft, Step
from outlast_dag.build.hints import item_of, unlike
from outlast_dag.build.kinds import approval_of, child_of, plan_of, repeat_of, sleep_of, wait_of
from outlast_dag.build.outputs import Output, output_of, parameter_of
from outlast_dag.build.values import NOTHING, check_type, condition_of, hint_of, value_of
from outlast_dag.check.checks import MAX_ITEMS
from outlast_dag.check.findings import NO_TIMEOUT
from outlast_dag.spec.conditions import Condition, Joined
from outlast_dag.spec.dag import DEFAULT_OPTIONS, DagSpec, FailurePolicy, Parameter
from outlast_dag.spec.nodes import ItemFailure, Map, Node, Task
from outlast_dag.spec.options import OPTIONS, read_options, without_defaults
from outlast_dag.spec.values import Constant, Ref, Value, obj, references
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.activity import ActivityOptions
from outlast_workflow.options.validation import duration_seconds, integer, timeout_seconds, validate_name

DAG_OPTIONS: Final = ("retry_policy", "task_queue", "priority")
"""Options of calls that a DAG may have for all of them."""

INPUT: Final = "input"
"""The parameter of a DAG that is built step by step."""


def compiled(draft: Draft, result: Sequence[Any]) -> DagSpec:
    """Return the spec of a draft. What is wrong is among the draft's problems then, or stands in the spec.

    Args:
        draft: The DAG as the user gave it.
        result: What a run returns, in a sequence of one; empty for what the last nodes return.
    """
    defaults = _defaults(draft)
    assign_roles(draft)
    nodes = tuple(_node(step, draft, defaults) for step in draft.steps)
    output = value_of(result[0], draft, None) if result else _last_outputs(draft, nodes)
    return DagSpec(
        name=draft.name,
        options=defaults,
        params=_parameters(draft, nodes, output),
        nodes=nodes,
        output=None if output == NOTHING else output,
        **_dag_options(draft),
    )


def _dag_options(draft: Draft) -> dict[str, Any]:
    """Return the DAG's own options that are sound."""
    checks: dict[str, tuple[str, Callable[[Any], Any]]] = {
        "timeout": ("timeout_out_of_range", partial(timeout_seconds, "timeout", minimum_seconds=1)),
        "max_parallel": ("bad_concurrency", lambda value: integer("max_parallel", value, 0)),
        "failure": ("bad_option", _failure_policy),
        "version": ("bad_option", _version),
        "reserve": ("timeout_out_of_range", partial(duration_seconds, "reserve")),
        "cancel_on": ("bad_option", partial(validate_name, "signal name", segment=True)),
        "compensate_on_cancel": ("bad_option", _compensate_on_cancel),
    }
    found = {}
    for name, (kind, check) in checks.items():
        if draft.given.get(name) is not None:
            value = draft.attempt(kind, None, partial(check, draft.given[name]))
            if value is not None:
                found[name] = value
    return found


def _failure_policy(value: Any) -> str:
    if value not in get_args(FailurePolicy):
        raise InvalidOptionError(f"failure must be one of {', '.join(get_args(FailurePolicy))}")
    return cast("str", value)


def _version(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidOptionError(f"version must be text, not {type(value).__name__}")
    return value


def _compensate_on_cancel(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidOptionError(f"compensate_on_cancel must be True or False, not {type(value).__name__}")
    return value


def _defaults(draft: Draft) -> ActivityOptions:
    options, problems = read_options(
        {name: value for name, value in draft.given.items() if name in DAG_OPTIONS}
    )
    for kind, message in problems:
        draft.problem(kind, None, message, "")
    return DEFAULT_OPTIONS.merged(options)


def _parameters(draft: Draft, nodes: Sequence[Node], output: Value) -> tuple[Parameter, ...]:
    signature = draft.params
    is_optional = signature.names == (INPUT,) and not signature.required
    if is_optional and not any(ref.root == "param" for ref in _references(nodes, output)):
        return ()
    parameters = []
    for index, name in enumerate(signature.names):
        if index < signature.required:
            parameters.append(Parameter(name))
        else:
            default = value_of(signature.defaults[index - signature.required], draft, None)
            parameters.append(
                Parameter(name, False, default.value if isinstance(default, Constant) else None)
            )
    return tuple(parameters)


def _references(nodes: Sequence[Node], output: Value) -> Iterator[Ref]:
    for node in nodes:
        yield from (ref for ref, _ in node.references())
    yield from (ref for ref, _ in references(output))


def _last_outputs(draft: Draft, nodes: Sequence[Node]) -> Value:
    """Return the output of the one node that nothing depends on; of several, an object of them."""
    serving = {step.id for step in draft.steps if step.serves is not None}
    nodes = [node for node in nodes if node.id not in serving]
    needed = {name for node in nodes for name in node.after}
    needed |= {ref.name for node in nodes for ref, _ in node.references() if ref.root == "of"}
    last = [node.id for node in nodes if node.id not in needed]
    if len(last) == 1:
        return Ref("of", last[0])
    return obj((name, Ref("of", name)) for name in last) if last else NOTHING


def _node(step: Step, draft: Draft, defaults: ActivityOptions) -> Node:
    after, producers = _after(step, draft)
    common: dict[str, Any] = {
        "id": step.id,
        "after": after,
        "rule": step.rule,
        "skip_when": _skip_when(step, draft),
        "on_failure": id_of(step.on_failure),
        "compensate": id_of(step.compensate),
        "compensate_when": step.compensate_when,
    }
    if step.kind in _WAITS:
        return _WAITS[step.kind](step, draft, common)
    if step.kind == "child":
        return child_of(step, draft, common, _arguments(step, draft, producers))
    common |= {"type": step.type, "options": _options(step, draft, defaults)}
    if step.kind == "map":
        return _map(step, draft, common)
    args = _arguments(step, draft, producers)
    if step.kind in _CALLS:
        return _CALLS[step.kind](step, draft, common, args)
    return Task(**common, args=args)


_CALLS: Final = {"repeat": repeat_of, "plan": plan_of}
_WAITS: Final = {"sleep": sleep_of, "wait_for": wait_of, "approval": approval_of}


def _map(step: Step, draft: Draft, common: dict[str, Any]) -> Map:
    given = hint_of(step.over)
    signature = step.signature
    if signature is not None and _takes(signature, 1, draft, step):
        check_type(item_of(given), signature.hint(0), signature.parameter(0), draft, step)
    over = value_of(step.over, draft, step)
    is_list = over.value is None or isinstance(over.value, list) if isinstance(over, Constant) else True
    if not is_list or unlike(given, list):
        draft.problem(
            "bad_map", step, "goes over what is no list", "give each() a list, or an output that is one"
        )
    fields = dict(step.fields)
    size = fields.get("chunks_of")
    for name, kind, least, most in (
        ("chunks_of", "bad_map", 1, MAX_ITEMS),
        ("max_items", "bad_map", 1, MAX_ITEMS * (size if isinstance(size, int) and size > 0 else 1)),
        ("concurrency", "bad_concurrency", 0, MAX_ITEMS),
    ):
        if (
            name in fields
            and draft.attempt(kind, step, partial(integer, name, fields[name], least, most)) is None
        ):
            del fields[name]
    if fields.get("on_item_failure", "fail") not in get_args(ItemFailure):
        draft.problem(
            "bad_map", step, f"on_item_failure must be one of {', '.join(get_args(ItemFailure))}", ""
        )
        del fields["on_item_failure"]
    return Map(**common, over=over, **fields)


def _options(step: Step, draft: Draft, defaults: ActivityOptions) -> ActivityOptions:
    declared = {
        name: value
        for name in OPTIONS
        if step.declared is not None and (value := getattr(step.declared, name)) is not None
    }
    given = dict(step.given)
    extended = given.pop("extended_by_heartbeat", False)
    timeout = given.pop("timeout", None)
    if extended:
        declared.pop("start_to_close_timeout", None)
        given["heartbeat_timeout"] = timeout
    elif timeout is not None:
        given["start_to_close_timeout"] = timeout
    options, problems = read_options(
        {**declared, **{name: value for name, value in given.items() if value is not None}}
    )
    for kind, message in problems:
        draft.problem(kind, step, message, "")
    is_bounded = options.start_to_close_timeout is not None or options.schedule_to_close_timeout is not None
    if not is_bounded and options.heartbeat_timeout is not None and not extended:
        # The spec of a step that heartbeats extend looks the same: whether that was meant is known only here.
        draft.problem("missing_timeout", step, *NO_TIMEOUT)
    return without_defaults(options, defaults)


def _after(step: Step, draft: Draft) -> tuple[tuple[str, ...], list[Step]]:
    """Return the ids that a step comes after, and those of them that are steps."""
    names: dict[str, None] = {}
    producers: list[Step] = []
    for raw in step.after:
        if isinstance(raw, str):
            names[raw] = None
            producers += [one for one in draft.steps if one.id == raw][:1]
        elif not isinstance(raw, Output) or raw._at.step is None:
            draft.problem(
                "unknown_dependency", step, "comes after what is no step", "give it steps, or their ids"
            )
        elif raw._at.draft is not draft:
            value_of(raw, draft, step)
        else:
            names[raw._at.step.id] = None
            producers.append(raw._at.step)
    return tuple(names), producers


def _skip_when(step: Step, draft: Draft) -> Condition | None:
    skip = [condition_of(raw, draft, step, "skip_when") for raw in step.skip]
    run = [condition_of(raw, draft, step, "run_when") for raw in step.run]
    conditions = [one for one in skip if one is not None]
    conditions += [Joined("none_of", (one,)) for one in run if one is not None]
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return Joined("any_of", tuple(conditions))


def _arguments(step: Step, draft: Draft, producers: Sequence[Step]) -> tuple[Value, ...]:
    signature = step.signature
    given = _implied(step, draft, producers) if step.args is None else step.args
    if signature is not None and _takes(signature, len(given), draft, step):
        for index, raw in enumerate(given):
            check_type(hint_of(raw), signature.hint(index), signature.parameter(index), draft, step)
    return tuple(value_of(raw, draft, step) for raw in given)


def _implied(step: Step, draft: Draft, producers: Sequence[Step]) -> tuple[Any, ...]:
    """Return the argument of a step that was given none: what comes before it, or else the run's input.

    One that runs because another has failed is given the failure, and one that undoes another what that returned.
    """
    signature = step.signature
    if signature is not None and not signature.names and signature.var_positional is None:
        return ()
    if step.serves is not None:
        role, owner = step.serves
        return (failure_of(draft) if role == "on_failure" else output_of(draft, owner),)
    outputs = [output_of(draft, producer) for producer in producers]
    if len(outputs) > 1:
        return ({producer.id: output for producer, output in zip(producers, outputs, strict=True)},)
    return (outputs[0] if outputs else parameter_of(draft, INPUT),)


def _takes(signature: CallSignature, count: int, draft: Draft, step: Step) -> bool:
    """Return whether an activity takes so many arguments; if not, keep the problem."""
    if signature.required <= count and (
        count <= len(signature.names) or signature.var_positional is not None
    ):
        return True
    draft.problem("wrong_arguments", step, signature.arity_message(count), "")
    return False
