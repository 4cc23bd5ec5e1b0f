"""The handlers of a workflow as a document for those who lack its code."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from outlast import workflow
from outlast_workflow.declare.definitions import definition_of
from outlast_workflow.declare.handler_listing import handler_listing


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Line:
    name: str
    count: int = 1


@workflow.defn
class Shop:
    """Sells things.

    In no particular order.
    """

    @workflow.run
    async def run(self) -> None: ...

    @workflow.signal
    def approve(self, by: str, colour: Colour = Colour.RED) -> None:
        """Let the order
        go on.

        And more.
        """

    @workflow.signal(name="go")
    def gone(self, *args: int) -> None: ...

    @workflow.query(dynamic=True)
    def anything(self, name: str, args: list[Any]) -> None: ...

    @workflow.update
    def put(self, line: Line, how: Literal["a", "b"], back: Callable[[], int], rest: Any = object) -> int:
        return 0


@workflow.defn
async def plain() -> None: ...


def test_each_kind_is_listed_with_what_its_parameters_take() -> None:
    found = handler_listing(definition_of(Shop))
    assert (found["workflow_type"], found["description"]) == ("Shop", "Sells things.")
    approve, go = found["signals"]
    assert (approve["name"], approve["description"]) == ("approve", "Let the order go on.")
    by, colour = approve["parameters"]
    assert by == {"name": "by", "type": "str", "schema": {"type": "string"}, "required": True}
    assert (colour["required"], colour["default"]) == (False, "red")
    assert (go["name"], go["description"], go["parameters"], go["more"]) == ("go", None, [], True)


def test_a_dynamic_handler_has_no_name_and_takes_whatever_is_sent() -> None:
    (anything,) = handler_listing(definition_of(Shop))["queries"]
    assert (anything["name"], anything["parameters"], anything["more"]) == (None, [], True)


def test_schemas_are_those_of_json_and_missing_where_there_is_none() -> None:
    (put,) = handler_listing(definition_of(Shop))["updates"]
    line, how, back, rest = put["parameters"]
    assert line["schema"]["$defs"]["Line"]["properties"]["count"]["type"] == "integer"
    assert how["schema"]["enum"] == ["a", "b"]
    assert (back["schema"], rest["schema"], rest["type"]) == (None, None, None)
    assert rest["default"] == "<class 'object'>"


def test_a_function_has_no_handlers() -> None:
    found = handler_listing(definition_of(plain))
    assert (found["signals"], found["queries"], found["updates"]) == ([], [], [])
