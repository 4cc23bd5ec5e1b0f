"""What a run of a document is started with. It stands in the run's history, so a run keeps its definition for ever."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

import orjson

from outlast_serverless.documents.digest import digest
from outlast_serverless.interpreter.state import State
from outlast_serverless.plan.compiler import compile_plan
from outlast_serverless.plan.json_schemas import validator_of
from outlast_serverless.plan.model import ListenTask, Plan, Schema
from outlast_serverless.plan.walking import tasks_of
from outlast_workflow.errors import MissingCodeError

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
        jq: The version of jq that its expressions began with.
        state: What the run before handed over, if this one continues it.
    """

    definition: dict[str, Any]
    input: Any
    rules: int = RULES
    timeout_us: int | None = None
    jq: str | None = None
    state: State | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the request as it is recorded."""
        found: dict[str, Any] = {"definition": self.definition, "input": self.input, "rules": self.rules}
        if self.timeout_us is not None:
            found["timeout_us"] = self.timeout_us
        if self.jq is not None:
            found["jq"] = self.jq
        if self.state is not None:
            found["state"] = self.state.to_json(self.input)
        return found

    @classmethod
    def of(cls, value: dict[str, Any]) -> StartRequest:
        """Return the request that was recorded.

        Raises:
            MissingCodeError: It follows rulings that this version does not know.
        """
        rules = value["rules"]
        check_rules(rules)
        given, state = value["input"], value.get("state")
        return cls(
            value["definition"],
            given,
            rules,
            value.get("timeout_us"),
            value.get("jq"),
            None if state is None else State.of(state, given),
        )


def check_rules(rules: int) -> None:
    """Refuse a history that follows other rulings than this version knows.

    Args:
        rules: The version of the rulings that it began with.

    Raises:
        MissingCodeError: They are not known here.
    """
    if rules != RULES:
        raise MissingCodeError(
            f"it follows version {rules!r} of the rulings, and this version of Outlast knows {RULES}",
            name=f"rules {rules!r}",
        )


def type_of(definition: dict[str, Any]) -> str:
    """Return the workflow type of a definition."""
    head = definition["document"]
    return f"{TYPE_PREFIX}{head['namespace']}/{head['name']}"


class Loaded:
    """A definition that is ready to run in this process.

    Attributes:
        definition: The definition.
        plan: Its plan.
        mentions_runtime: Whether it mentions ``$runtime``.
        name: ``namespace/name:version``.
    """

    __slots__ = ("_validators", "definition", "mentions_runtime", "name", "plan")

    def __init__(self, definition: dict[str, Any]) -> None:
        head = definition["document"]
        self.definition = definition
        self.name = f"{head['namespace']}/{head['name']}:{head['version']}"
        self.plan: Plan = compile_plan(definition)
        self.mentions_runtime = b"$runtime" in orjson.dumps(definition)
        self._validators: dict[str, Any] = {}

    @property
    def looks_back(self) -> bool:
        """Whether a task looks at events from before it began."""
        listens = (task for task in tasks_of(self.plan) if isinstance(task, ListenTask))
        return any(task.lookback_us is not None for task in listens)

    def validator(self, schema: Schema) -> Any:
        """Return the validator of a schema that is in the document, which is made once.

        Args:
            schema: The schema.

        Raises:
            ValueError: It is no JSON schema, or refers to another document.
        """
        found = self._validators.get(schema.pointer)
        if found is None:
            found = self._validators[schema.pointer] = validator_of(schema.document, schema.format)
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
