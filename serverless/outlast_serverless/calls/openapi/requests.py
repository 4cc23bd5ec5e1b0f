"""Requests of operations: where each parameter goes, and how its value is written there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final
from urllib.parse import quote

import orjson

from outlast_serverless.calls.described import DescriptionError
from outlast_serverless.calls.http import FORM, scalar
from outlast_serverless.calls.openapi.description import Operation

_SEPARATORS: Final = {
    "spaceDelimited": "%20",
    "pipeDelimited": "|",
    "ssv": "%20",
    "tsv": "%09",
    "pipes": "|",
}
_IN_PATH: Final = re.compile(r"\{([^{}]*)\}")


def arguments_of(operation: Operation, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an HTTP call.

    Args:
        operation: The operation.
        given: The values of its parameters, by name.

    Raises:
        DescriptionError: A required one is not given, or one is given that it does not take.
    """
    left = {name: value for name, value in given.items() if value is not None}
    path: dict[str, str] = {}
    query: list[str] = []
    headers: dict[str, str] = {}
    cookies: list[str] = []
    form: dict[str, Any] = {}
    body: Any = None
    for parameter in operation.parameters:
        name, where = str(parameter["name"]), parameter["in"]
        if name not in left:
            if where == "path" or parameter.get("required") is True:
                raise DescriptionError(f"{operation.id} needs the parameter {name!r:.100} ({where})")
            continue
        value = left[name]
        if where == "path":
            path[name] = _in_path(parameter, value)
        elif where == "query":
            query += _pairs(parameter, value, old=operation.old)
        elif where == "header":
            headers[name] = _header(parameter, value)
        elif where == "cookie":
            cookies += _pairs(parameter, value, old=operation.old)
        elif where == "formData":
            form[name] = value
        elif where == "body":
            body = value
    taken = {str(parameter["name"]) for parameter in operation.parameters}
    left = {name: value for name, value in left.items() if name not in taken}
    if left and operation.body is not None and not operation.old:
        body, left = left["body"] if left.keys() == {"body"} else left, {}
    if left:
        raise DescriptionError(_unknown(operation, sorted(left)[0], taken))
    if form:
        body = form
    if body is None and operation.needs_body:
        raise DescriptionError(
            f"{operation.id} needs a body: give its members as parameters, or all as `body`"
        )
    if body is not None:
        headers["content-type"] = _media_type(operation, form=bool(form))
    if cookies:
        headers["cookie"] = "; ".join(cookies)
    return {
        "method": operation.method,
        "endpoint": operation.servers[0]
        + _filled(operation, path)
        + (f"?{'&'.join(query)}" if query else ""),
        "headers": headers,
        "body": body,
    }


def _unknown(operation: Operation, name: str, taken: set[str]) -> str:
    near = get_close_matches(name, taken, n=1)
    if near:
        return f"{operation.id} takes no parameter {name!r:.100}: did you mean {near[0]!r}?"
    known = ", ".join(sorted(taken))
    return f"{operation.id} takes no parameter {name!r:.100}: " + (
        f"it takes {known}" if known else "it takes none"
    )


def _filled(operation: Operation, values: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise DescriptionError(f"the path of {operation.id} has {found[0]}, which no parameter describes")
        return values[found[1]]

    return _IN_PATH.sub(value, operation.path)


def _media_type(operation: Operation, *, form: bool) -> str:
    """Return the media type of the body: JSON where that may be, then a form, then text."""
    offered = list(operation.consumes if operation.old else operation.body or ())
    if form:
        if offered and FORM not in offered:
            raise DescriptionError(
                f"{operation.id} takes {', '.join(offered)}: only JSON, forms and text can be sent"
            )
        return FORM
    for fits in (_is_json, lambda one: one == FORM, lambda one: one.startswith("text/")):
        for one in offered:
            if fits(one.partition(";")[0].strip().lower()):
                return str(one)
    if not offered or "*/*" in offered:
        return "application/json"
    raise DescriptionError(
        f"{operation.id} takes {', '.join(offered)}: only JSON, forms and text can be sent"
    )


def _is_json(kind: str) -> bool:
    return kind in ("application/json", "application/*") or kind.endswith("+json")


# --- how values are written -------------------------------------------------------------------------------------------


def _in_path(parameter: Mapping[str, Any], value: Any) -> str:
    name, style = str(parameter["name"]), parameter.get("style", "simple")
    explode = parameter.get("explode") is True
    if "content" in parameter:
        return _quoted(orjson.dumps(value).decode())
    if style == "label":
        return "." + _joined(value, "." if explode else ",", explode=explode)
    if style != "matrix":
        return _joined(value, ",", explode=explode)
    if not isinstance(value, list | dict) or not explode:
        return f";{_quoted(name)}={_joined(value, ',', explode=False)}"
    if isinstance(value, list):
        return "".join(f";{_quoted(name)}={_text(one)}" for one in value)
    return "".join(f";{_quoted(key)}={_text(one)}" for key, one in value.items())


def _header(parameter: Mapping[str, Any], value: Any) -> str:
    if "content" in parameter:
        return orjson.dumps(value).decode()
    explode = parameter.get("explode") is True
    if isinstance(value, list):
        return ",".join(scalar(one) for one in value)
    if isinstance(value, dict):
        return ",".join(
            f"{key}={scalar(one)}" if explode else f"{key},{scalar(one)}" for key, one in value.items()
        )
    return scalar(value)


def _pairs(parameter: Mapping[str, Any], value: Any, *, old: bool) -> Iterator[str]:
    """Yield the pairs of a query or a cookie."""
    name = _quoted(str(parameter["name"]))
    if "content" in parameter:
        yield f"{name}={_quoted(orjson.dumps(value).decode())}"
        return
    style = str(parameter.get("collectionFormat", "csv") if old else parameter.get("style", "form"))
    explode = style == "multi" if old else parameter.get("explode", style == "form") is True
    if isinstance(value, dict) and style == "deepObject":
        for key, one in value.items():
            yield f"{name}[{_quoted(key)}]={_text(one)}"
    elif isinstance(value, dict) and explode:
        for key, one in value.items():
            yield f"{_quoted(key)}={_text(one)}"
    elif isinstance(value, list) and explode:
        for one in value:
            yield f"{name}={_text(one)}"
    else:
        yield f"{name}={_joined(value, _SEPARATORS.get(style, ','), explode=False)}"


def _joined(value: Any, separator: str, *, explode: bool) -> str:
    if isinstance(value, list):
        return separator.join(_text(one) for one in value)
    if isinstance(value, dict):
        if explode:
            return separator.join(f"{_quoted(key)}={_text(one)}" for key, one in value.items())
        return separator.join(f"{_quoted(key)}{separator}{_text(one)}" for key, one in value.items())
    return _text(value)


def _text(value: Any) -> str:
    return _quoted(scalar(value))


def _quoted(text: str) -> str:
    return quote(text, safe="")
