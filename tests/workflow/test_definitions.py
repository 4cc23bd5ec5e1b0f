from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outlast_workflow.declare.definitions import RunReference, WorkflowDefinition, definition_of, defn, run
from outlast_workflow.errors import InvalidOptionError


@defn
class Order:
    """A workflow."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @run
    async def run(self, order_id: str, count: int = 1) -> str:
        self.seen.append(order_id)
        return f"{order_id} x {count}"


@defn(name="Renamed")
class Child(Order): ...


@defn
async def function(n: int) -> int:
    return n + 1


def test_a_class_and_its_run_are_one_definition():
    definition = definition_of(Order)
    assert isinstance(definition, WorkflowDefinition)
    assert definition_of(Order.run) is definition
    assert definition_of(Order().run) is definition
    assert definition_of(definition) is definition
    assert (definition.name, definition.cls) == ("Order", Order)
    assert definition.signature.names == ("order_id", "count")
    assert definition.signature.result_hint is str
    assert definition.source.startswith(__file__)
    assert isinstance(Order.run, RunReference)
    assert "Order" in repr(Order.run)


def begin(definition: WorkflowDefinition, args: tuple[Any, ...]) -> Any:
    return asyncio.run(definition.enter(definition.instance(args), args))


def test_a_function_is_a_definition_and_stays_a_function():
    definition = definition_of(function)
    assert (definition.name, definition.cls, definition.signature.names) == ("function", None, ("n",))
    assert asyncio.run(function(1)) == 2


def test_each_run_gets_an_instance_of_its_own():
    definition = definition_of(Order)
    assert begin(definition, ("o", 2)) == "o x 2"
    assert asyncio.run(Order.run("o")) == "o x 1"
    order = Order()
    assert asyncio.run(order.run("o", 3)) == "o x 3"
    assert order.seen == ["o"]


def test_a_subclass_is_a_workflow_of_its_own_once_declared():
    assert definition_of(Child.run).name == "Renamed"
    assert definition_of(Child).cls is Child
    assert definition_of(Order.run).name == "Order"

    class Undeclared(Order): ...

    with pytest.raises(InvalidOptionError, match="is not a workflow"):
        definition_of(Undeclared)
    with pytest.raises(InvalidOptionError, match="is not a workflow"):
        _ = Undeclared.run


def test_a_subclass_may_override_run():
    @defn
    class Other(Order):
        @run
        async def run(self, order_id: str, count: int = 1) -> str:
            return "other"

    assert begin(definition_of(Other), ("o",)) == "other"


@pytest.mark.parametrize("thing", [1, "Order", None, print, object(), dict])
def test_what_is_no_workflow_is_refused(thing: Any):
    with pytest.raises(InvalidOptionError, match="is not a workflow"):
        definition_of(thing)


def test_a_class_without_run_is_refused():
    with pytest.raises(InvalidOptionError, match=r"Empty has no run method: mark one with @workflow\.run"):

        @defn
        class Empty: ...


def test_a_class_with_two_runs_is_refused():
    with pytest.raises(InvalidOptionError, match=r"2 run methods \(first, second\)"):

        @defn
        class Two:
            @run
            async def first(self) -> None: ...

            @run
            async def second(self) -> None: ...


def test_plain_code_is_a_definition_too():
    @defn
    class Sync:
        @run
        def run(self, n: int) -> int:
            return n + 1

    @defn(name="sync")
    def sync(n: int) -> int:
        """Says something."""
        return n + 2

    assert not definition_of(Sync).is_async
    assert not definition_of(sync).is_async
    assert definition_of(function).is_async
    assert definition_of(sync) is definition_of(definition_of(sync))
    assert (definition_of(sync).name, sync.fn(1), sync.fn.__name__, sync.__doc__) == (
        "sync",
        3,
        "sync",
        "Says something.",
    )
    assert sync.__module__ == __name__
    assert Sync().run(1) == 2
    assert asyncio.run(Sync.run(1)) == 2
    assert asyncio.run(sync(1)) == 3
    assert asyncio.run(sync(n=1)) == 3
    assert begin(definition_of(Sync), (1,)) == 2


def test_a_generator_is_refused():
    untyped: Any = defn
    with pytest.raises(InvalidOptionError, match="async generator"):

        @untyped
        async def stream() -> Any:
            yield 1

    with pytest.raises(InvalidOptionError, match="is a generator"):

        @untyped
        def plain_stream() -> Any:
            yield 1


def test_a_constructor_that_needs_arguments_is_refused():
    with pytest.raises(InvalidOptionError, match="constructible without arguments"):

        @defn
        class Needy:
            def __init__(self, thing: int) -> None: ...

            @run
            async def run(self) -> None: ...


@pytest.mark.parametrize("name", ["", " ", 5, "x" * 300, "a\nb"])
def test_a_bad_name_is_refused(name: Any):
    with pytest.raises(InvalidOptionError, match="workflow name"):
        defn(name=name)


@pytest.mark.parametrize("target", [5, print, "Order"])
def test_a_target_that_cannot_run_is_refused(target: Any):
    untyped: Any = defn
    with pytest.raises(InvalidOptionError):
        untyped(target)


def test_run_goes_on_functions_only():
    untyped: Any = run
    with pytest.raises(InvalidOptionError, match=r"@workflow\.run goes on a method"):
        untyped(5)


def test_a_method_is_not_declared_alone():
    with pytest.raises(InvalidOptionError, match=r"put @workflow\.defn on the class"):
        defn(_Holder.method)


class _Holder:
    async def method(self) -> None: ...
