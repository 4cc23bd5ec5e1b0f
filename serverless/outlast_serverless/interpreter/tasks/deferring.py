"""What the activities of calls and processes are given. What may hold a secret is evaluated there, and not recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from outlast import workflow
from outlast_serverless.interpreter.data_flow import filled_uri
from outlast_serverless.interpreter.request import Loaded
from outlast_serverless.interpreter.scope import Execution, Interpreting
from outlast_serverless.plan.model import Constant, Expression, Template, Value
from outlast_serverless.plan.templates import is_uri_template
from outlast_serverless.rules.jq_text import glance

_SECRET: Final = frozenset({"secrets", "authorization"})


def call_request(
    self: Interpreting,
    loaded: Loaded,
    run: Execution,
    value: Value,
    data: Any,
    now: float,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what the activity of a call or process is given, as JSON.

    Args:
        self: Evaluates.
        loaded: The document.
        run: The execution of the task.
        value: The arguments of the call.
        data: The input of the task.
        now: The time, in seconds since the epoch.
        more: What else the activity is told.
    """
    head = loaded.definition["document"]
    use: dict[str, Any] = loaded.definition.get("use") or {}
    request: dict[str, Any] = {
        "pointer": run.task.pointer,
        "name": run.task.name,
        "document": f"{head['namespace']}/{head['name']}:{head['version']}",
        "key": f"{workflow.info().run_id}:{run.id}",
        "timeout": run.timeout,
        **more,
    }
    authenticates = _authenticates(value)
    if not authenticates and not _is_secret(value):
        arguments = self.evaluate(value, data, run.during(), run.task.pointer)
        return {**request, "value": _with_uri(arguments, value, data, run.task.pointer)}
    deferred: dict[str, Any] = {
        "value": _written(value),
        "pointer": _pointer(value),
        "now": now,
        "data": data,
    }
    if isinstance(value, Expression | Template):
        used = {name for one in _expressions(value) for name in glance(one.text).used}
        if authenticates:
            # The policies are the document's own, and see what the call sees.
            used |= run.during().keys()
        deferred["variables"] = {
            name: known for name, known in run.during().items() if name in used and name not in _BULKY
        }
    return {
        **request,
        "value": None,
        "deferred": {**deferred, "strict": loaded.plan.strict},
        "secrets": list(loaded.plan.secrets),
        "authentications": use.get("authentications") or {},
    }


def _with_uri(arguments: Any, value: Value, data: Any, pointer: str) -> Any:
    """Return arguments whose endpoint is filled in, where it is a URI template of the document."""
    written = _written(value)
    if not isinstance(arguments, dict) or not isinstance(written, dict):
        return arguments
    found = _with_endpoint(arguments, written, data, pointer)
    described = written.get("document")
    if isinstance(described, dict) and isinstance(arguments.get("document"), dict):
        found = {**found, "document": _with_endpoint(arguments["document"], described, data, pointer)}
    return found


def _with_endpoint(
    arguments: dict[str, Any], written: dict[str, Any], data: Any, pointer: str
) -> dict[str, Any]:
    endpoint: Any = written.get("endpoint")
    if is_uri_template(endpoint):
        return {**arguments, "endpoint": filled_uri(endpoint, data, pointer)}
    if isinstance(endpoint, dict) and is_uri_template(endpoint.get("uri")):
        uri = filled_uri(endpoint["uri"], data, pointer)
        return {**arguments, "endpoint": {**arguments["endpoint"], "uri": uri}}
    return arguments


_BULKY: Final = frozenset({"workflow", "task"})
"""What holds the definition is not repeated in each call that authenticates."""


def _expressions(value: Value) -> tuple[Expression, ...]:
    if isinstance(value, Expression):
        return (value,)
    return () if isinstance(value, Constant) else value.expressions


def _is_secret(value: Value) -> bool:
    return any(_SECRET.intersection(glance(one.text).used) for one in _expressions(value))


def _authenticates(value: Value) -> bool:
    """Return whether arguments name an authentication, which may need secrets."""
    return not isinstance(value, Expression) and _mentions(value.value, "authentication")


def _mentions(value: Any, key: str) -> bool:
    if isinstance(value, dict):
        return key in value or any(_mentions(inner, key) for inner in value.values())
    return isinstance(value, list) and any(_mentions(inner, key) for inner in value)


def _written(value: Value) -> Any:
    return f"${{ {value.text} }}" if isinstance(value, Expression) else value.value


def _pointer(value: Value) -> str:
    return "" if isinstance(value, Constant) else value.pointer
