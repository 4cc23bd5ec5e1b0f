"""What a run has fetched: functions and schemas, each once. History has them, so that a replay fetches nothing.

Where a resource is cannot depend on the data of a task: expressions see the input of the workflow. So all tasks that
name the same resource share one.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import orjson

from outlast_serverless.documents.functions import definition_of
from outlast_serverless.interpreter.faults import fault
from outlast_serverless.interpreter.request import Loaded, load
from outlast_serverless.interpreter.scope import Execution, Interpreting
from outlast_serverless.plan.data import template
from outlast_serverless.plan.json_schemas import validator_of
from outlast_serverless.plan.kinds import is_url
from outlast_serverless.plan.model import Constant, Expression, Schema, Value
from outlast_serverless.plan.pointers import child

FETCH: Final = "serverless.fetch"
"""The activity that fetches."""
_MOST_NESTED: Final = 32


def is_fetched(schema: Schema | None) -> bool:
    """Return whether a schema is not in the document."""
    return schema is not None and schema.resource is not None


class Fetched:
    """What one run has fetched.

    Args:
        interpreter: Runs the activity.
        kept: What the run before handed over, if this one continues it.

    Attributes:
        kept: What was fetched, as JSON, by what tells it from all else.
    """

    def __init__(self, interpreter: Interpreting, kept: dict[str, Any] | None = None) -> None:
        self._interpreter = interpreter
        self.kept: dict[str, Any] = dict(kept or {})
        self._fetching: dict[str, asyncio.Lock] = {}
        self._functions: dict[str, Loaded] = {}
        self._validators: dict[str, Any] = {}

    async def function(self, called: str, unit: Loaded, run: Execution) -> tuple[str, Loaded]:
        """Return a function that is not in the document, and what tells it from all others.

        Args:
            called: Its URL, or its name and version and a catalog.
            unit: What it is called from.
            run: The execution that calls it.

        Raises:
            Fault: It cannot be fetched or used, or is being called already.
        """
        value, catalog = _source(called, unit)
        key = _key("function", "" if catalog is None else called.rpartition("@")[0], value)
        if key in run.scope.functions:
            raise fault(
                "configuration",
                f"the function {called} calls itself: use a loop, or a workflow",
                run.task.pointer,
            )
        if len(run.scope.functions) >= _MOST_NESTED:
            raise fault(
                "configuration", f"more than {_MOST_NESTED} functions call each other", run.task.pointer
            )
        found = self._functions.get(key)
        if found is None:
            head = unit.definition["document"]
            more = {"fetch": "function", "name": called, "catalog": catalog is not None, "dsl": head["dsl"]}
            kept = await self._get(key, value, unit, run, more)
            found = self._functions[key] = load(definition_of(kept["function"], called, head))
        return key, found

    async def schemas(self, unit: Loaded, run: Execution | None, *schemas: Schema | None) -> None:
        """Fetch the schemas that are not in the document.

        Args:
            unit: What they stand in.
            run: The execution whose data they are of; ``None`` for those of the workflow.
            *schemas: The schemas.

        Raises:
            Fault: One cannot be fetched or used.
        """
        for schema in schemas:
            if schema is not None and schema.resource is not None:
                more = {"fetch": "schema", "format": schema.format}
                await self._get(_schema_key(schema), schema.resource, unit, run, more)

    def mentions(self, text: str) -> bool:
        """Return whether a text stands in anything that was fetched."""
        return bool(self.kept) and text.encode() in orjson.dumps(self.kept)

    def validator(self, schema: Schema) -> Any:
        """Return the validator of a schema that was fetched.

        Args:
            schema: The schema.
        """
        key = _schema_key(schema)
        found = self._validators.get(key)
        if found is None:
            found = self._validators[key] = validator_of(self.kept[key]["schema"], schema.format)
        return found

    async def _get(
        self, key: str, value: Value, unit: Loaded, run: Execution | None, more: dict[str, Any]
    ) -> Any:
        # Branches that need the same wait for the one that fetches it. If that fails, the next one tries itself.
        async with self._fetching.setdefault(key, asyncio.Lock()):
            if key not in self.kept:
                self.kept[key] = await self._interpreter.fetch(unit, run, value, more)
        return self.kept[key]


def _source(called: str, unit: Loaded) -> tuple[Value, str | None]:
    """Return the resource of a function or of its catalog, and the name of that; none for the default one."""
    if is_url(called):
        return Constant({"endpoint": called}), None
    name = called.rpartition("@")[2]
    catalog: dict[str, Any] | None = ((unit.definition.get("use") or {}).get("catalogs") or {}).get(name)
    if catalog is None:
        return Constant(None), name
    return template(catalog, child("/use/catalogs", name), not unit.plan.strict), name


def _schema_key(schema: Schema) -> str:
    assert schema.resource is not None
    return _key("schema", schema.format, schema.resource)


def _key(kind: str, name: str, value: Value) -> str:
    written = value.text if isinstance(value, Expression) else value.value
    return orjson.dumps([kind, name, written], option=orjson.OPT_SORT_KEYS).decode()
