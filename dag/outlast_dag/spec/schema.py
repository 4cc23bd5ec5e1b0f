"""The JSON Schema of a spec. It requires a timeout of everything that could go on without end."""

from __future__ import annotations

from typing import Any, Final, get_args

from outlast_dag.spec.conditions import Comparison, Junction
from outlast_dag.spec.dag import INTERPRETER, FailurePolicy
from outlast_dag.spec.nodes import (
    KINDS,
    MAX_PLANNED,
    ClosePolicy,
    CompensateWhen,
    ItemFailure,
    Rule,
    TimeoutDecision,
)
from outlast_dag.spec.options import OPTIONS, TIMEOUTS
from outlast_dag.spec.values import Bound
from outlast_workflow.options.retry_policy import RetryPolicy

_ID: Final = "[A-Za-z0-9_-]{1,64}"


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _one_of(literal: Any) -> dict[str, Any]:
    return {"enum": list(get_args(literal))}


_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": 200}
_SECONDS: Final = {"type": "number", "exclusiveMinimum": 0}
_WAIT: Final = {"type": "number", "minimum": 0}
_COUNT: Final = {"type": "integer", "minimum": 0}
_FLAG: Final = {"type": "boolean"}

_COMMON: Final[dict[str, Any]] = {
    "id": {"type": "string", "pattern": f"^{_ID}(/{_ID})*$", "maxLength": 200},
    "kind": {"enum": list(KINDS)},
    "after": _list({"type": "string"}),
    "rule": _one_of(Rule),
    "skip_when": _ref("condition"),
    "on_failure": {"type": "string"},
    "compensate": {"type": "string"},
    "compensate_when": _one_of(CompensateWhen),
}

_CALL: Final[dict[str, Any]] = {"type": _TEXT, "args": _list(_ref("value")), "options": _ref("options")}


def _node(kind: str, fields: dict[str, Any], *required: str) -> dict[str, Any]:
    return _object({**_COMMON, "kind": {"const": kind}, **fields}, "id", "kind", *required)


_NODES: Final = {
    "task": _node("task", _CALL, "type"),
    "map": _node(
        "map",
        {
            **_CALL,
            "over": _ref("value"),
            "max_items": {"type": "integer", "minimum": 1},
            "concurrency": _COUNT,
            "on_item_failure": _one_of(ItemFailure),
            "collect": _FLAG,
            "chunks_of": {"type": "integer", "minimum": 1},
        },
        "type",
        "over",
    ),
    "child": _node(
        "child",
        {
            "type": _TEXT,
            "args": _list(_ref("value")),
            "timeout": _SECONDS,
            "task_queue": _TEXT,
            "priority": {"type": "integer", "minimum": 0, "maximum": 9},
            "parent_close_policy": _one_of(ClosePolicy),
        },
        "type",
        "timeout",
    ),
    "sleep": {
        **_node("sleep", {"seconds": _SECONDS, "until": _ref("value"), "timeout": _SECONDS}),
        "oneOf": [{"required": ["seconds"]}, {"required": ["until", "timeout"]}],
    },
    "wait_for": _node(
        "wait_for",
        {"event": _TEXT, "match": _ref("condition"), "timeout": _SECONDS, "on_timeout": _ref("constant")},
        "event",
        "timeout",
    ),
    "approval": _node("approval", {"timeout": _SECONDS, "on_timeout": _one_of(TimeoutDecision)}, "timeout"),
    "repeat": {
        **_node(
            "repeat",
            {
                **_CALL,
                "until": _ref("condition"),
                "max_iterations": {"type": "integer", "minimum": 1},
                "max_duration": _SECONDS,
                "delay": _WAIT,
            },
            "type",
            "until",
        ),
        "anyOf": [{"required": ["max_iterations"]}, {"required": ["max_duration"]}],
    },
    "plan": _node(
        "plan",
        {
            **_CALL,
            "allow": {**_list(_TEXT), "minItems": 1},
            "max_nodes": {"type": "integer", "minimum": 1, "maximum": MAX_PLANNED},
            "run_timeout": _SECONDS,
        },
        *("type", "allow", "run_timeout"),
    ),
}

_REFERENCE: Final[dict[str, Any]] = {
    "path": _list({"type": ["string", "integer"]}),
    "or_else": _ref("value"),
}

_DEFINITIONS: Final[dict[str, Any]] = {
    "constant": _object({"is": {}}, "is"),
    "value": {
        "oneOf": [
            _ref("constant"),
            _ref("reference"),
            _object({"array": _list(_ref("value"))}, "array"),
            _object({"object": {"type": "object", "additionalProperties": _ref("value")}}, "object"),
        ]
    },
    "reference": {
        "oneOf": [
            _object({"of": {"type": "string"}, **_REFERENCE}, "of"),
            _object({"param": {"type": "string"}, **_REFERENCE}, "param"),
            _object({"bound": _one_of(Bound), **_REFERENCE}, "bound"),
        ]
    },
    "condition": {
        "oneOf": [
            _object(
                {"op": _one_of(Comparison), "left": _ref("value"), "right": _ref("value")},
                *("op", "left", "right"),
            ),
            _object({"op": {"const": "exists"}, "value": _ref("reference")}, "op", "value"),
            _object({"op": _one_of(Junction), "of": _list(_ref("condition"))}, "op", "of"),
        ]
    },
    "retry_policy": _object(
        {
            **{name: {"type": "number"} for name in RetryPolicy.fields},
            "max_attempts": _COUNT,
            "non_retryable_error_types": _list({"type": "string"}),
        }
    ),
    "options": _object(
        {
            **dict.fromkeys(OPTIONS, _TEXT),
            **dict.fromkeys(TIMEOUTS, _SECONDS),
            "retry_policy": _ref("retry_policy"),
            "priority": {"type": "integer", "minimum": 0, "maximum": 9},
        }
    ),
    "bounded": {
        "description": "What calls an activity has a timeout: of one attempt, or of all together.",
        "if": {"required": ["kind"], "properties": {"kind": {"enum": ["task", "map", "repeat", "plan"]}}},
        "then": {
            "required": ["options"],
            "properties": {
                "options": {
                    "anyOf": [
                        {"required": [name]}
                        for name in (
                            "start_to_close_timeout",
                            "schedule_to_close_timeout",
                            "heartbeat_timeout",
                        )
                    ]
                }
            },
        },
    },
    "node": {"oneOf": [_ref(kind) for kind in _NODES]},
    **_NODES,
}

SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A DAG of Outlast",
    **_object(
        {
            "$schema": {"type": "string"},
            "name": _TEXT,
            "version": {"type": "string"},
            "interpreter": {"const": INTERPRETER},
            "timeout": _SECONDS,
            "reserve": _WAIT,
            "max_parallel": _COUNT,
            "failure": _one_of(FailurePolicy),
            "compensate_on_cancel": _FLAG,
            "cancel_on": _TEXT,
            "options": _ref("options"),
            "params": _list(
                {
                    "oneOf": [
                        {"type": "string"},
                        _object({"name": {"type": "string"}, "default": {}}, "name", "default"),
                    ]
                }
            ),
            "nodes": _list(_ref("node")),
            "output": _ref("value"),
        },
        *("name", "nodes"),
    ),
    "if": {
        "not": {
            "required": ["options"],
            "properties": {
                "options": {
                    "anyOf": [
                        {"required": [name]}
                        for name in ("start_to_close_timeout", "schedule_to_close_timeout")
                    ]
                }
            },
        }
    },
    "then": {"properties": {"nodes": _list(_ref("bounded"))}},
    "$defs": _DEFINITIONS,
}
"""Nodes need a timeout of their own unless the DAG has one for all of them."""
