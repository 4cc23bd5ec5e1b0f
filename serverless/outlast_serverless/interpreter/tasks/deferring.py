"""What the activities of calls and processes are given. What may hold a secret is evaluated there, and not recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from outlast import workflow
from outlast_serverless.interpreter.data_flow import check_recordable, filled_uri
from outlast_serverless.interpreter.request import Loaded
from outlast_serverless.interpreter.scope import Execution, Interpreting
from outlast_serverless.plan.model import Constant, Expression, Template, Value
from outlast_serverless.plan.templates import bare, is_uri_template, texts, wrapped
from outlast_serverless.rules.jq_text import glance

_SECRET: Final = frozenset({"secrets", "authorization"})
_ENDPOINTS: Final = (
    ("endpoint",),
    ("document", "endpoint"),
    ("proto", "endpoint"),
    ("agentCard", "endpoint"),
    ("server",),
    ("transport", "http", "endpoint"),
)
"""Where the arguments of calls have endpoints, which may be URI templates."""


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

    Raises:
        Fault: An expression failed, or what it is given cannot be recorded.
    """
    about = {"name": run.task.name, "timeout": run.timeout, **more}
    request = _request(self, loaded, run.task.pointer, run.id, about, value, data, run.during(), now)
    check_recordable([request], "input of the call", run.task.pointer)
    return request


def fetch_request(
    self: Interpreting,
    unit: Loaded,
    run: Execution | None,
    value: Value,
    input: Any,
    now: float,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what the activity that fetches is given, as JSON. It is the same whichever task asks for it first.

    Args:
        self: Evaluates.
        unit: What the resource stands in.
        run: The execution that needs it; ``None`` for the workflow itself.
        value: Where it is. Expressions see the input of the workflow.
        input: That input.
        now: The time, in seconds since the epoch.
        more: What else the activity is told.
    """
    pointer, identity = ("/", "/") if run is None else (run.task.pointer, run.id)
    about = {"timeout": None if run is None else run.timeout, **more}
    return _request(self, unit, pointer, identity, about, value, input, self.common, now)


def _request(
    self: Interpreting,
    loaded: Loaded,
    pointer: str,
    identity: str,
    about: Mapping[str, Any],
    value: Value,
    data: Any,
    variables: Mapping[str, Any],
    now: float,
) -> dict[str, Any]:
    head = loaded.definition["document"]
    use: dict[str, Any] = loaded.definition.get("use") or {}
    request: dict[str, Any] = {
        "pointer": pointer,
        "document": f"{head['namespace']}/{head['name']}:{head['version']}",
        "key": f"{workflow.info().run_id}:{identity}",
        **about,
    }
    authenticates = _authenticates(value)
    if not authenticates and not _is_secret(value):
        arguments = self.evaluate(value, data, variables, pointer)
        return {**request, "value": _with_uri(arguments, value, data, pointer)}
    deferred: dict[str, Any] = {
        "value": _written(value),
        "pointer": _pointer(value),
        "now": now,
        "data": data,
    }
    if isinstance(value, Expression | Template):
        deferred["variables"] = _seen(value, use if authenticates else {}, variables)
    return {
        **request,
        "value": None,
        "deferred": {**deferred, "strict": loaded.plan.strict},
        "secrets": list(loaded.plan.secrets),
        "authentications": use.get("authentications") or {},
    }


def _with_uri(arguments: Any, value: Value, data: Any, pointer: str) -> Any:
    """Return arguments whose endpoints are filled in, where they are URI templates of the document."""
    written = _written(value)
    for place in _ENDPOINTS:
        arguments = _filled_at(place, arguments, written, data, pointer)
    return arguments


def _filled_at(place: tuple[str, ...], arguments: Any, written: Any, data: Any, pointer: str) -> Any:
    """Return arguments with the URI template at a place filled in, if there is one."""
    if not place:
        if isinstance(written, dict):
            return _filled_at(("uri",), arguments, written, data, pointer) if "uri" in written else arguments
        return filled_uri(written, data, pointer) if is_uri_template(written) else arguments
    name, *rest = place
    if not (isinstance(written, dict) and isinstance(arguments, dict) and name in written):
        return arguments
    found = _filled_at(tuple(rest), arguments[name], written[name], data, pointer)
    return arguments if found is arguments[name] else {**arguments, name: found}


_BULKY: Final = frozenset({"workflow", "task"})
"""What holds the definition, which is not repeated in each call that authenticates."""


def _seen(value: Value, use: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables that the expressions of arguments see, and those of the authentications that they may name.

    Of what holds the definition, only what is named is sent.
    """
    written = (text for _, text in texts(use.get("authentications") or {}, ""))
    found = [one.text for one in _expressions(value)] + [bare(text) for text in written if wrapped(text)]
    seen: dict[str, Any] = {}
    for text in found:
        looked = glance(text)
        for name in looked.used:
            if name not in variables:
                continue
            known = variables[name]
            fields = [field for variable, field in looked.paths if variable == name]
            if name in _BULKY and len(fields) == text.count(f"${name}"):
                known = {field: known.get(field) for field in fields} | seen.get(name, {})
            seen[name] = known
    return seen


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
