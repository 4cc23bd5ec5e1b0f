"""The handlers of a workflow as a document: what another process may send, and with which arguments.

Every workflow answers the query ``__handlers`` with it, so that a process without the code can offer forms. Types are
those of the code; ``schema`` is the JSON schema of a parameter where its hint has one. Nothing of a run is in it.
"""

from __future__ import annotations

import inspect
from typing import Any

import orjson

from outlast_workflow.data.reading import hint_name, is_untyped
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.data.writing import UnwritableError, dump
from outlast_workflow.declare.definitions import WorkflowDefinition
from outlast_workflow.declare.handlers import Handler


def handler_listing(definition: WorkflowDefinition) -> dict[str, Any]:
    """Return the handlers of a workflow: names, descriptions and parameters, each kind in the order of the code."""
    return {
        "workflow_type": definition.name,
        "description": _description(definition.cls or definition.fn),
        "signals": _handlers(definition, "signal"),
        "queries": _handlers(definition, "query"),
        "updates": _handlers(definition, "update"),
    }


def _handlers(definition: WorkflowDefinition, kind: str) -> list[dict[str, Any]]:
    """Return the handlers of a kind. A dynamic one comes last, has no name, and takes whatever is sent."""
    found = [_handler(handler) for handler in definition.handlers.of(kind).values()]
    dynamic = definition.handlers.dynamic.get(kind)
    return found if dynamic is None else [*found, _handler(dynamic)]


def _handler(handler: Handler) -> dict[str, Any]:
    dynamic = handler.name is None
    return {
        "name": handler.name,
        "description": _description(handler.fn),
        "parameters": [] if dynamic else _parameters(handler.signature),
        "more": dynamic or handler.signature.var_positional is not None,
    }


def _parameters(signature: CallSignature) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for index, (name, hint) in enumerate(zip(signature.names, signature.hints, strict=True)):
        parameter: dict[str, Any] = {
            "name": name,
            "type": None if is_untyped(hint) else hint_name(hint),
            "schema": _schema(hint),
            "required": index < signature.required,
        }
        if index >= signature.required:
            parameter["default"] = _plain(signature.defaults[index - signature.required])
        found.append(parameter)
    return found


def _schema(hint: Any) -> dict[str, Any] | None:
    """Return the JSON schema of a hint; ``None`` if it has none."""
    from outlast_workflow.data.adapters import UnreadableHintError, json_schema

    try:
        return None if is_untyped(hint) else json_schema(hint)
    except UnreadableHintError:
        return None


def _plain(value: Any) -> Any:
    """Return a default as plain JSON; as Python writes it if it has no JSON form."""
    try:
        return orjson.loads(dump(value))
    except UnwritableError:
        return repr(value)


def _description(thing: Any) -> str | None:
    """Return the first paragraph of a docstring, on one line."""
    text = inspect.cleandoc(thing.__doc__ or "")
    return " ".join(text.split("\n\n")[0].split()) or None
