"""A spec as JSON: canonical, so that equal specs have equal text and one hash."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any

import orjson

from outlast_dag.spec.conditions import Compare, Condition, Exists, Joined
from outlast_dag.spec.nodes import Call, Node, fields_of
from outlast_dag.spec.options import options_document, without_defaults
from outlast_dag.spec.values import Array, Constant, Object, Ref, Value
from outlast_workflow.options.activity import ActivityOptions


def canonical(document: Any) -> bytes:
    """Return JSON text with sorted keys and no spaces."""
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def spec_document(spec: Any, usual: ActivityOptions) -> dict[str, Any]:
    """Return a spec as a document, defaults left out.

    Args:
        spec: The :class:`~outlast_dag.spec.dag.DagSpec`.
        usual: The options of a DAG that names none.
    """
    document = _given(spec, {field.name: field for field in fields(spec)})
    document["interpreter"] = spec.interpreter
    document["nodes"] = [_node_within(node, spec.options) for node in spec.nodes]
    document["params"] = [
        parameter.name if parameter.required else {"name": parameter.name, "default": parameter.default}
        for parameter in spec.params
    ]
    document.pop("options", None)
    options = {
        name: value
        for name, value in options_document(spec.options).items()
        if getattr(usual, name) != getattr(spec.options, name)
    }
    if options:
        document["options"] = options
    if not document["params"]:
        del document["params"]
    return document


def _node_within(node: Node, defaults: ActivityOptions) -> dict[str, Any]:
    document = node_document(node)
    if isinstance(node, Call):
        document["options"] = options_document(without_defaults(node.options, defaults))
        if not document["options"]:
            del document["options"]
    return document


def node_document(node: Node) -> dict[str, Any]:
    """Return a node as a document."""
    return {"kind": node.kind, **_given(node, fields_of(type(node)))}


def value_document(value: Value) -> dict[str, Any]:
    """Return a value as a document."""
    if isinstance(value, Constant):
        return {"is": value.value}
    if isinstance(value, Array):
        return {"array": [value_document(item) for item in value.items]}
    if isinstance(value, Object):
        return {"object": {name: value_document(member) for name, member in value.members}}
    document: dict[str, Any] = {value.root: value.name}
    if value.path:
        document["path"] = list(value.path)
    if value.or_else is not None:
        document["or_else"] = value_document(value.or_else)
    return document


def condition_document(condition: Condition) -> dict[str, Any]:
    """Return a condition as a document."""
    if isinstance(condition, Compare):
        return {
            "op": condition.op,
            "left": value_document(condition.left),
            "right": value_document(condition.right),
        }
    if isinstance(condition, Exists):
        return {"op": "exists", "value": value_document(condition.value)}
    return {"op": condition.op, "of": [condition_document(part) for part in condition.conditions]}


def _given(thing: Any, fields: dict[str, Field[Any]]) -> dict[str, Any]:
    """Return the fields that differ from their defaults, as JSON."""
    return {
        name: _json(value)
        for name, field in fields.items()
        if (value := getattr(thing, name)) != field.default or field.default is MISSING
    }


def _json(value: Any) -> Any:
    if isinstance(value, Constant | Ref | Array | Object):
        return value_document(value)
    if isinstance(value, Compare | Exists | Joined):
        return condition_document(value)
    if isinstance(value, Node):
        return node_document(value)
    if isinstance(value, ActivityOptions):
        return options_document(value)
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    return value
