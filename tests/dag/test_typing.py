"""What type checkers see of a DAG: each line marked `# error` must be refused by both, and no other line."""

from __future__ import annotations

from pathlib import Path

from tests.type_checkers import assert_mypy_finds, assert_pyright_finds

SNIPPET = """\
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, assert_type

from outlast import Client, RetryPolicy, Worker, WorkflowHandle, activity, workflow
from outlast_dag import DagBuilder, DagDefinition, Decision, DetachedChild, NodeFailure
from outlast_dag import approval, approve, child, last, repeat, sleep, wait_for
from outlast_dag import all_of, dag, each, exists, group, is_in, none_of, or_else, step


@dataclass
class Page:
    url: str
    rows: list[int]
    ok: bool


@activity.defn
async def fetch(url: str) -> Page:
    return Page(url, [], True)


@activity.defn
def parse(row: int) -> str:
    return str(row)


@activity.defn
async def report(rows: list[str], title: str = "") -> float:
    return 1.0


@dag
def bare() -> None:
    step(fetch, timeout=1)("u")


@dag(version="3", timeout=1800, retry=5, failure="finish", strict=True)
def nightly(url: str, limit: int = 10) -> float:
    page = step(fetch, timeout=30, id="page")(url)
    assert_type(page, Page)
    with group("load"):
        rows = each(parse, timeout=5, concurrency=20)(page.rows)
    assert_type(rows, list[str])
    named = step("other", result=int, timeout=1)(page, rows)
    assert_type(named, int)
    assert_type(step("other", timeout=1)(1, 2), Any)
    assert_type(each("other", result=bytes, timeout=1)(rows), list[bytes])
    assert_type(or_else(page.url, "none"), str)
    late = all_of(page.ok == False, named > limit, none_of(exists(page.url), is_in(page.url, ["x"])))  # noqa: E712
    step(fetch, timeout=1, skip_when=late, run_when=page.ok, trigger="all_done", after=[page, rows])(page.url)
    return step(report, timeout=10, retry=RetryPolicy(max_attempts=2), heartbeat_timeout=3)(rows, title=page.url)


@activity.defn
async def refund(cents: float) -> None: ...


@activity.defn
async def apologise(failure: NodeFailure) -> float:
    return 0.0


@dag(timeout=60, reserve=10, cancel_on="abort", compensate_on_cancel=False)
def paying(url: str) -> float:
    page = step(fetch, timeout=5, compensate=lambda page: step(parse, timeout=5)(page.rows[0]))(url)
    rows = each(parse, timeout=5, compensate=lambda rows: step(report, timeout=1)(rows), compensate_when="started")(
        page.rows
    )
    return step(
        report,
        timeout=5,
        compensate=lambda cost: step(refund, timeout=5)(cost),
        on_failure=lambda failure: step(apologise, timeout=5)(failure),
    )(rows, title="x")


@dag
def misused(url: str) -> float:
    step(fetch, timeout=5, compensate=lambda page: step(refund, timeout=5)(page.url))(url)  # error
    step(fetch, timeout=5, compensate=lambda page: step(refund, timeout=5)(page.cost))(url)  # error
    page: Page = step(fetch, timeout=5, on_failure=lambda failure: step(apologise, timeout=5)(failure))(url)  # error
    step(fetch, timeout=5, on_failure=lambda failure: step(fetch, timeout=5)(failure.item))(url)  # error
    step(fetch, timeout=5, compensate_when="ever")(url)  # error
    return 1.0


@dataclass
class Paid:
    order: int
    at: datetime


@workflow.defn
async def ship(order: int) -> str:
    return str(order)


@dag(timeout=60)
def selling(order: int) -> str | None:
    paid = wait_for("paid", result=Paid, timeout=5, match=lambda paid: paid.order == order)
    assert_type(paid, Paid)
    assert_type(wait_for("paid", result=Paid, timeout=5, on_timeout=None), Paid | None)
    assert_type(wait_for("any", timeout=timedelta(hours=1)), Any)
    pause = sleep(until=paid.at, timeout=60, after=[sleep(5), paid])
    page = repeat(fetch, timeout=5, until=lambda page: page.ok, max_iterations=3, delay=1)(last("u"))
    assert_type(page, Page)
    assert_type(repeat("poll", result=int, until=lambda found: found > 3, max_duration=9, timeout=1)(), int)
    review = approval("review", timeout=60, on_timeout="fail", after=[pause, page])
    assert_type(review, Decision)
    assert_type(child(ship, timeout=9, parent_close_policy="abandon")(order), DetachedChild)
    assert_type(child("ship", result=bytes, timeout=9)(1, 2), bytes)
    assert_type(child(nightly, timeout=9, compensate=lambda cost: step(refund, timeout=5)(cost))("u", 5), float)
    return child(ship, timeout=9, run_when=review.approved)(paid.order)


@dag(timeout=60)
def missold(order: int) -> str:
    wait_for("paid", result=Paid, timeout=5, match=lambda paid: paid.amount == order)  # error
    wait_for("paid", result=Paid, timeout=5).amount  # error
    paid: Paid = wait_for("paid", result=Paid, timeout=5, on_timeout=None)  # error
    wait_for("paid")  # error
    sleep("5")  # error
    sleep(until=paid.at)  # error
    repeat(fetch, until=lambda page: page.done)("u")  # error
    repeat(fetch, until=lambda page: page.ok)(last(5))  # error
    repeat(fetch, max_iterations=5)("u")  # error
    approval("review")  # error
    approval("review", timeout=5, on_timeout="later")  # error
    approval("review", timeout=5).by.upper()  # error
    child(ship, timeout=5)("1")  # error
    child(ship, timeout=5, parent_close_policy="adopt")(1)  # error
    child(fetch, retries=5)("u")  # error
    return child(ship, timeout=5, parent_close_policy="abandon")(1)  # error


async def decide(handle: WorkflowHandle[str]) -> None:
    assert_type(await approve(handle, "review", decision="reject", comment="no", by="ada"), Decision)
    await approve(handle, "review", decision="maybe")  # error


assert_type(bare, DagDefinition[[], None])

flow = DagBuilder("data-pipeline", timeout=1800)
first = flow.task("fetch", "http-fetch").with_timeout(30)
second = flow.each("parse", parse, first.rows, concurrency=3).after(first).with_timeout(5)
flow.output({"rows": second, "count": first["count"]})
pipeline = flow.build()


async def use(client: Client) -> None:
    assert_type(await client.execute(nightly, "https://example.com", 5), float)
    assert_type(await workflow.execute_child(nightly, "https://example.com", 5), float)
    Worker(client, workflows=[nightly, pipeline])
    await client.start(pipeline, {"url": "u"})
    await client.start(nightly, 5, 5)  # error


@dag
def wrong(url: str) -> float:
    page = step(fetch, timeout=30)(5)  # error
    step(fetch, timeout=30)()  # error
    step(report, timeout=30)(page.rows)  # error
    print(page.uri)  # error
    each(parse, timeout=5)(page)  # error
    each(report, timeout=5)(page.rows)  # error
    step(fetch, timeuot=30)(url)  # error
    step(fetch, timeout="30")(url)  # error
    step(fetch, timeout=30, trigger="some")(url)  # error
    step(fetch, timeout=30)(url).count()  # error
    step(print, timeout=30)(url)  # error
    return step(fetch, timeout=30)(url)  # error


@dag(failure="sometimes")  # error
def never() -> None: ...


first.with_timeout("30")  # error
first.trigger("some")  # error
first.compensate(5)  # error
first.on_failure(second).compensate("undo", when="ever")  # error
flow.task("fetch", 5)  # error
"""


def test_mypy_sees_what_is_wrong_with_an_edge(tmp_path: Path):
    assert_mypy_finds(SNIPPET, tmp_path)


def test_pyright_sees_what_is_wrong_with_an_edge(tmp_path: Path):
    assert_pyright_finds(SNIPPET, tmp_path)
