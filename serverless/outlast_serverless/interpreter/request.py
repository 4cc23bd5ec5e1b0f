"""What a run of a document is started with. It stands in the run's history, so a run keeps its definition for ever."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

import jsonschema_rs

from outlast_serverless.documents.digest import digest
from outlast_serverless.plan.compiler import compile_plan
from outlast_serverless.plan.model import Plan

TYPE_PREFIX: Final = "serverless:"
"""The type of a run is this and ``namespace/name``."""
RULES: Final = 1
"""The version of the rulings that new runs begin with. A run keeps those that it began with."""
_MOST_LOADED: Final = 256


@dataclass(frozen=True, slots=True)
class StartRequest:
    """The one argument of a run.

    Attributes:
        definition: The definition of the document.
        input: The raw input.
        rules: The version of the rulings.
        timeout_us: The timeout of the workflow in microseconds, where it is too short for the engine's own.
    """

    definition: dict[str, Any]
    input: Any
    rules: int = RULES
    timeout_us: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the request as it is recorded."""
        found: dict[str, Any] = {"definition": self.definition, "input": self.input, "rules": self.rules}
        if self.timeout_us is not None:
            found["timeout_us"] = self.timeout_us
        return found

    @classmethod
    def of(cls, value: dict[str, Any]) -> StartRequest:
        """Return the request that was recorded."""
        return cls(value["definition"], value["input"], value["rules"], value.get("timeout_us"))


def type_of(definition: dict[str, Any]) -> str:
    """Return the workflow type of a definition."""
    head = definition["document"]
    return f"{TYPE_PREFIX}{head['namespace']}/{head['name']}"


class Loaded:
    """A definition that is ready to run in this process.

    Attributes:
        definition: The definition.
        plan: Its plan.
    """

    __slots__ = ("_validators", "definition", "plan")

    def __init__(self, definition: dict[str, Any]) -> None:
        self.definition = definition
        self.plan: Plan = compile_plan(definition)
        self._validators: dict[str, Any] = {}

    def validator(self, pointer: str, schema: Any) -> Any:
        """Return the validator of a schema of the document, which is made once.

        Args:
            pointer: Where the schema stands.
            schema: The schema.

        Raises:
            ValueError: It is no JSON schema, or refers to another document.
        """
        found = self._validators.get(pointer)
        if found is None:
            found = self._validators[pointer] = jsonschema_rs.validator_for(schema, retriever=_refuse)
        return found


def load(definition: dict[str, Any]) -> Loaded:
    """Return a definition that is ready to run; the same one for the same definition, while it is remembered."""
    key = digest(definition)
    found = _loaded.get(key)
    if found is None:
        found = _loaded[key] = Loaded(definition)
        if len(_loaded) > _MOST_LOADED:
            _loaded.popitem(last=False)
    return found


_loaded: OrderedDict[str, Loaded] = OrderedDict()


def _refuse(uri: str) -> Any:
    raise ValueError(f"the schema refers to {uri}, which is not fetched: put its definitions under $defs")
