"""Tracing: the spans of a workflow, how they hang together, and what they do not say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from tests.engine import programs
from tests.engine.conftest import MakeEnvironment

from outlast import ApplicationError, RetryPolicy, WorkflowFailedError, activity, workflow
from outlast.testing import TestEnvironment
from outlast.tracing import TracingInterceptor

SECRET = "4111-1111"


class Spans:
    """A provider of its own, and the spans that it was given."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = TracingInterceptor(self.provider)

    @property
    def all(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def one(self, name: str) -> ReadableSpan:
        (span,) = [span for span in self.all if span.name == name]
        return span

    def tree(self) -> list[str]:
        """Each span under its parent's name, sorted."""
        names = {span.context.span_id: span.name for span in self.all if span.context is not None}
        return sorted(
            f"{names[span.parent.span_id]} > {span.name}" if span.parent is not None else span.name
            for span in self.all
        )


@pytest.fixture
def spans() -> Iterator[Spans]:
    found = Spans()
    yield found
    found.provider.shutdown()


@activity.defn(start_to_close_timeout=60, retry_policy=RetryPolicy(max_attempts=2))
async def charge(card: str) -> str:
    if activity.info().attempt == 1:
        raise ConnectionError(f"no line for {card}")
    return "charged"


@activity.defn(start_to_close_timeout=60)
def current_span() -> bool:
    return trace.get_current_span().get_span_context().is_valid


@workflow.defn
class Shop:
    def __init__(self) -> None:
        self.approved = False

    @workflow.run
    async def run(self, card: str, again: bool = False) -> list[Any]:
        if again:
            workflow.continue_as_new(card)
        await workflow.wait_condition(lambda: self.approved)
        got = [await charge(card), await current_span()]
        return [*got, await workflow.execute_child(Ship.run, id="parcel")]

    @workflow.signal
    async def approve(self) -> None:
        await current_span()
        self.approved = True


@workflow.defn
class Ship:
    @workflow.run
    async def run(self) -> str:
        return "shipped"


SHOP: dict[str, Any] = {"workflows": [Shop, Ship], "activities": [charge, current_span]}


async def test_the_spans_of_a_workflow_hang_together_and_none_is_made_by_replay(
    engine: MakeEnvironment, spans: Spans
) -> None:
    async with engine(**SHOP, interceptors=[spans.tracing]) as env:
        handle = await env.client.start(Shop.run, SECRET, id="shop")
        await env.sleep(5)
        await handle.signal(Shop.approve)
        assert await handle.result() == ["charged", True, "shipped"]
        await env.settle()
    assert spans.tree() == [
        "SignalWorkflow:approve",
        "SignalWorkflow:approve > HandleSignal:approve",
        "StartActivity:charge > RunActivity:charge",
        "StartActivity:charge > RunActivity:charge",
        "StartActivity:current_span > RunActivity:current_span",
        "StartActivity:current_span > RunActivity:current_span",
        "StartChildWorkflow:Ship > CompleteWorkflow:Ship",
        "StartChildWorkflow:Ship > RunWorkflow:Ship",
        "StartWorkflow:Shop",
        "StartWorkflow:Shop > CompleteWorkflow:Shop",
        "StartWorkflow:Shop > RunWorkflow:Shop",
        "StartWorkflow:Shop > StartActivity:charge",
        "StartWorkflow:Shop > StartActivity:current_span",
        "StartWorkflow:Shop > StartActivity:current_span",
        "StartWorkflow:Shop > StartChildWorkflow:Ship",
    ]
    (link,) = spans.one("HandleSignal:approve").links
    start = spans.one("StartWorkflow:Shop").context
    assert start is not None
    assert link.context.span_id == start.span_id


async def test_spans_say_whose_they_are(engine: MakeEnvironment, spans: Spans) -> None:
    async with engine(**SHOP, interceptors=[spans.tracing]) as env:
        handle = await env.client.start(Shop.run, SECRET, id="shop")
        await handle.signal(Shop.approve)
        await handle.result()
    attempts = [span for span in spans.all if span.name == "RunActivity:charge"]
    assert [span.attributes["outlast.attempt"] for span in attempts if span.attributes] == [1, 2]
    for span in spans.all:
        assert span.attributes is not None
        if "Ship" not in span.name:
            assert span.attributes["outlast.workflow.id"] == "shop"
        if span.name.startswith(("Run", "Complete", "StartActivity")) and "Ship" not in span.name:
            assert span.attributes["outlast.run.id"] == handle.run_id


async def test_an_error_is_recorded_without_what_it_says(engine: MakeEnvironment, spans: Spans) -> None:
    async with engine(**SHOP, interceptors=[spans.tracing]) as env:
        handle = await env.client.start(Shop.run, SECRET, id="shop")
        await handle.signal(Shop.approve)
        await handle.result()
    failed, succeeded = [span for span in spans.all if span.name == "RunActivity:charge"]
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.status.description == "ConnectionError"
    assert [dict(event.attributes or {}) for event in failed.events] == [
        {"exception.type": "builtins.ConnectionError"}
    ]
    assert succeeded.status.status_code is StatusCode.UNSET
    assert not [span for span in spans.all if SECRET in span.to_json()]


@workflow.defn
async def hopeless() -> None:
    raise ApplicationError(SECRET, type="Hopeless")


@workflow.defn
async def endless() -> None:
    await workflow.sleep(1e6)


async def test_how_a_run_ended_is_seen(in_memory: Callable[..., TestEnvironment], spans: Spans) -> None:
    async with in_memory(workflows=[hopeless, endless], activities=(), interceptors=[spans.tracing]) as env:
        with pytest.raises(WorkflowFailedError):
            await env.client.execute(hopeless, id="hopeless")
        handle = await env.client.start(endless, id="endless")
        await env.settle()
        await handle.cancel()
        await env.settle()
        await env.client.start(endless, id="open")
        await env.settle()
    assert spans.one("CompleteWorkflow:hopeless").status.status_code is StatusCode.ERROR
    cancelled = spans.one("CompleteWorkflow:endless")  # the other one is still open: eviction is no end
    assert cancelled.status.status_code is StatusCode.UNSET
    assert dict(cancelled.attributes or {})["outlast.outcome"] == "cancelled"


@workflow.defn
class Priced:
    def __init__(self) -> None:
        self.price = 0

    @workflow.run
    async def run(self) -> int:
        await workflow.wait_condition(lambda: self.price)
        return self.price

    @workflow.update
    def set_price(self, price: int) -> None:
        self.price = price

    @workflow.query
    def current(self) -> int:
        return self.price


async def test_an_update_is_part_of_the_trace_of_who_sent_it(engine: MakeEnvironment, spans: Spans) -> None:
    async with engine(workflows=[Priced], activities=(), interceptors=[spans.tracing]) as env:
        handle = await env.client.start(Priced.run, id="priced")
        await handle.execute_update(Priced.set_price, 7)
        assert await handle.result() == 7
        assert await handle.query(Priced.current) == 7
    assert "QueryWorkflow:current > HandleQuery:current" in spans.tree()
    assert "UpdateWorkflow:set_price > HandleUpdate:set_price" in spans.tree()
    assert len(spans.one("HandleUpdate:set_price").links) == 1


async def test_the_next_run_of_a_chain_is_part_of_the_trace(engine: MakeEnvironment, spans: Spans) -> None:
    async with engine(**SHOP, interceptors=[spans.tracing]) as env:
        handle = await env.client.start(Shop.run, SECRET, True, id="shop")
        await handle.signal(Shop.approve)
        await handle.result()
        await env.settle()
    assert Counter(spans.tree())["StartWorkflow:Shop > RunWorkflow:Shop"] == 2
    ends = [span for span in spans.all if span.name == "CompleteWorkflow:Shop"]
    assert [dict(span.attributes or {}).get("outlast.outcome") for span in ends] == [
        "continued_as_new",
        None,
    ]


async def test_a_start_belongs_to_the_trace_that_its_caller_is_in(
    in_memory: Callable[..., TestEnvironment], spans: Spans
) -> None:
    async with in_memory(interceptors=[spans.tracing]) as env:
        with spans.provider.get_tracer("app").start_as_current_span("request"):
            await env.client.execute(programs.Sum.run, [3, 4], id="sum")
    assert "request > StartWorkflow:Sum" in spans.tree()
    assert len({span.context.trace_id for span in spans.all if span.context is not None}) == 1
