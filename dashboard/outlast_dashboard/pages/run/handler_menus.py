"""Menus of what a workflow handles: a form for each signal, query and update, with a field for each parameter.

A worker that has the code lists its handlers (the query ``__handlers``). The list comes from another process,
perhaps of another version, so it is read with care: what is not understood becomes a field for JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from outlast import Client
from outlast_workflow.errors import InvalidOptionError, OutlastError

PATIENCE_S: Final = 5.0
MOST_ARGUMENTS: Final = 50
LISTED: Final = {"signal": "signals", "query": "queries", "update": "updates"}

MessageKind = Literal["signal", "query", "update"]

BUILT_IN: Final = "__stack_trace"
"""The query that every workflow answers, too: where its code waits."""

_FIELD: Final = re.compile(r"(text|json|loose)-([0-9]{1,2})")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form.

    Attributes:
        name: Its name in the form: how its text is read, and which argument it is.
        label: The parameter's name.
        type: The parameter's type, as the code has it; empty if it has none.
        required: Whether the parameter has no default.
        value: What it holds at first.
        choices: The values to choose from, as they are sent, if there are only some.
        numeric: Whether it takes a number.
        long: Whether it takes a document.
    """

    name: str
    label: str
    type: str
    required: bool
    value: str = ""
    choices: tuple[str, ...] = ()
    numeric: bool = False
    long: bool = False


@dataclass(frozen=True, slots=True)
class HandlerForm:
    """A handler that a message can be sent to. ``more`` says whether it takes arguments beyond its fields."""

    name: str
    description: str
    fields: tuple[Field, ...]
    more: bool = False

    @property
    def signature(self) -> str:
        """The handler's parameters in a few words: ``by: str, amount: int``."""
        parts = [f"{field.label}: {field.type}" if field.type else field.label for field in self.fields]
        return ", ".join([*parts, "…"] if self.more else parts)


@dataclass(frozen=True, slots=True)
class HandlerMenu:
    """The handlers of one kind. ``problem`` says why there is no list of them."""

    kind: MessageKind
    forms: tuple[HandlerForm, ...] = ()
    problem: str = ""
    any_name: bool = False


async def find_menu(client: Client, workflow_id: str, run_id: str | None, kind: MessageKind) -> HandlerMenu:
    """Return the menu of a run's handlers of one kind, as a worker that has its code lists them.

    Args:
        client: The database.
        workflow_id: The workflow.
        run_id: Its run; the current one if ``None``.
        kind: Which handlers.
    """
    own = (HandlerForm(BUILT_IN, "Return where the code waits.", ()),) if kind == "query" else ()
    try:
        listing = await client.handle(workflow_id, run_id=run_id).query("__handlers", timeout=PATIENCE_S)
    except OutlastError as error:
        return HandlerMenu(kind, own, problem=error.message)
    entries = listing.get(LISTED[kind]) if isinstance(listing, dict) else None
    if not isinstance(entries, list):
        return HandlerMenu(kind, own, problem="the worker that answered does not list its handlers")
    forms = tuple(_form(entry) for entry in entries if isinstance(entry, dict) and entry.get("name"))
    dynamic = any(isinstance(entry, dict) and entry.get("name") is None for entry in entries)
    return HandlerMenu(kind, forms + own, any_name=dynamic)


def _form(entry: Mapping[str, Any]) -> HandlerForm:
    parameters = entry.get("parameters")
    fields = [
        _field(number, parameter)
        for number, parameter in enumerate(parameters if isinstance(parameters, list) else [])
        if isinstance(parameter, dict)
    ]
    return HandlerForm(
        str(entry["name"]),
        str(entry.get("description") or ""),
        tuple(fields[:MOST_ARGUMENTS]),
        more=bool(entry.get("more")),
    )


def _field(number: int, parameter: Mapping[str, Any]) -> Field:
    schema = parameter.get("schema")
    schema = schema if isinstance(schema, dict) else {}
    schema = _referred(schema)
    required = bool(parameter.get("required", True))
    default = parameter.get("default")
    choices = _choices(schema)
    kind = _reading(schema, choices, default, required=required)
    value = ""
    if not required:
        value = default if kind != "json" and isinstance(default, str) else _json(default)
    return Field(
        f"{kind}-{number}",
        str(parameter.get("name", f"argument {number + 1}")),
        str(parameter.get("type") or ""),
        required,
        value,
        choices,
        numeric=schema.get("type") in ("integer", "number"),
        long=schema.get("type") in ("object", "array"),
    )


def _referred(schema: dict[str, Any]) -> dict[str, Any]:
    """Return what a schema that is only a reference refers to."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    found = schema.get("$defs", {}).get(name) if name else None
    return found if isinstance(found, dict) else schema


def _choices(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values that a parameter can have, as they are sent, if there are a few."""
    if schema.get("type") == "boolean":
        return ("true", "false")
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list):
        return ()
    return tuple(value if isinstance(value, str) else _json(value) for value in values)


def _reading(schema: Mapping[str, Any], choices: tuple[str, ...], default: Any, *, required: bool) -> str:
    """Return how a field's text is read: as text, as JSON, or as JSON where it is JSON and otherwise as text."""
    if schema.get("type") == "string" and (required or isinstance(default, str)):
        return "text"
    if schema.get("type") in ("integer", "number", "boolean", "object", "array", "null"):
        return "json"
    return "text" if choices and all(isinstance(value, str) for value in schema.get("enum", [0])) else "loose"


def _json(value: Any) -> str:
    return orjson.dumps(value, default=str).decode()


def arguments_of(form: Mapping[str, str]) -> list[Any]:
    """Return the arguments that were typed into the fields of a form, in order.

    Args:
        form: The values of the form by field.

    Raises:
        InvalidOptionError: A field that takes JSON holds something else.
    """
    found: dict[int, Any] = {}
    for name, text in form.items():
        matched = _FIELD.fullmatch(name)
        if matched is not None:
            kind, number = matched.groups()
            found[int(number)] = text if kind == "text" else _read(kind, int(number), text)
    return [found[number] for number in sorted(found)]


def _read(kind: str, number: int, text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        if kind == "loose":
            return text
        raise InvalidOptionError(
            f'argument {number + 1} must be JSON, such as 5, true or {{"a": 1}}', field=f"{kind}-{number}"
        ) from None
