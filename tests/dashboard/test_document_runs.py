"""The page of a run of a document: the text and the picture with what is open lit, deadlines to scale, the error."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, expect
from tests.dashboard.browsing import ask, first_line, process
from tests.dashboard.browsing import served as serving
from tests.dashboard.conftest import Served
from tests.dashboard.test_graph import Backwards

from outlast import Client, DataConverter, StartOptions, Worker
from outlast_dashboard import control_plane
from outlast_dashboard.notifications import ChangeSignal
from outlast_dashboard.pages.streaming import without_counting
from outlast_serverless import Document, DocumentState, OpenTask, Runtime
from outlast_serverless.pages import past
from outlast_serverless.pages.past import looks_of, setbacks_of
from outlast_serverless.pages.run_section import _words
from outlast_serverless.pages.scale import scale_of
from outlast_serverless.picture.svg import Look
from outlast_serverless.tracing.steps import TaskStep

HEAD = "document: {dsl: '1.0.3', namespace: shop, name: order, version: '1.2.0', title: '<b>Orders</b>'}\n"
WAITS = f"""{HEAD}
timeout: {{after: PT30M}}
do:
  - first: {{set: {{secret: '${{ $input.card }}'}}}}
  - each:
      for: {{each: page, in: '[1, 2]'}}
      do:
        - pause: {{wait: PT10M, timeout: {{after: PT15M}}}}
  - last: {{listen: {{to: {{one: {{with: {{type: parcel.packed}}}}}}}}}}
"""
RAISES = f"""{HEAD}
do:
  - fine: {{set: {{v: 1}}}}
  - check:
      raise:
        error: {{type: 'https://e.x/<i>', status: 404, title: No such order, detail: it was never paid}}
"""
ID = "order/<1>"
PAGE = "/workflows/order%2F%3C1%3E"
SUSPEND = "/document-runs/order%2F%3C1%3E"


@pytest.fixture
def database_url() -> str:
    """Nothing here depends on the database."""
    return "sqlite://"


@asynccontextmanager
async def documents(client: Client) -> AsyncGenerator[Runtime]:
    """A worker that runs documents of the task queue ``documents``."""
    async with (
        Runtime(client) as runtime,
        Worker(client, task_queue="documents", workflows=runtime.workflows, activities=runtime.activities),
    ):
        yield runtime


async def until(client: Client, holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a change after which something holds."""
    async with ChangeSignal(client) as changed:
        while not await holds():
            await changed.wait()


def section_of(text: str) -> str:
    """Return the section of the document, which stands above what the engine tells of waits and errors."""
    return text[text.index('aria-labelledby="document"') : text.index('aria-labelledby="outcome"')]


async def waits(runtime: Runtime, text: str = WAITS) -> None:
    """Start a run and wait until its timers are there."""
    run = await runtime.start(Document.parse(text), {"card": "4711"}, id=ID, task_queue="documents")

    async def open_() -> bool:
        return len((await run.describe()).open) == 2

    await until(runtime.client, open_)


async def test_it_shows_where_a_run_is(served: Served) -> None:
    async with documents(served.client) as runtime:
        await runtime.register(Document.parse(WAITS))
        await waits(runtime)
    # Nobody is alive that knows documents.
    text = (await served.web.get(PAGE)).text
    section = section_of(text)
    assert "<b>Orders" not in section
    assert "&lt;b&gt;Orders" in section
    assert '<span class="badge waiting">waiting</span>' in section
    assert '<a href="/documents/shop/order/1.2.0">shop/order 1.2.0</a>' in section
    assert re.findall(r'class="line lit running begins" id="line-(\d+)"', section) == ["18"]
    assert re.findall(r'<g class="node (\w+)(?: outer)?"><title>(\w+)', section) == [
        ("completed", "first"),
        ("around", "each"),
        ("running", "pause"),
    ]
    said = " ".join(re.sub(r"<[^>]*>", " ", section).split())
    assert "The workflow timeout" in said
    assert "pause waits, index 0" in said
    assert "pause timeout, index 0" in said
    bars = re.findall(r'<rect class="(bound|timer)" x="([\d.]+)%" y="4" width="([\d.]+)%"', section)
    assert [(look, round(float(width))) for look, _, width in bars] == [
        ("bound", 100),
        ("bound", 50),
        ("timer", 33),
    ]
    assert "4711" not in section, "what stands in the document is an expression"
    given = text[text.index('aria-labelledby="input"') : text.index('aria-labelledby="timeline"')]
    assert json.loads(unescape(re.findall(r"<pre[^>]*>(.*?)</pre>", given, re.S)[0])) == {"card": "4711"}
    seen = (await served.web.get(PAGE, headers=served.bearing("reader"))).text
    assert "4711" not in seen


async def test_it_is_suspended_and_resumed_by_those_who_may(served: Served) -> None:
    async with documents(served.client) as runtime:
        await waits(runtime)
        run = runtime.run(ID)
        reader = served.bearing("reader")
        assert "/suspend" not in (await served.web.get(PAGE, headers=reader)).text
        for verb in ("suspend", "resume"):
            refused = await served.web.post(f"{SUSPEND}/{verb}", headers=reader)
            assert refused.status_code == 403
        assert f'action="{SUSPEND}/suspend"' in (await served.web.get(PAGE)).text
        done = await served.web.post(f"{SUSPEND}/suspend")
        assert (done.status_code, done.headers["location"]) == (303, PAGE)
        await until(served.client, lambda: phase(run, "suspended"))
        text = (await served.web.get(PAGE)).text
        assert "it begins no further task" in text
        assert f'action="{SUSPEND}/resume"' in text
        assert (await served.web.post(f"{SUSPEND}/resume")).status_code == 303
        await until(served.client, lambda: phase(run, "waiting"))
    assert (await served.web.post("/document-runs/nobody/suspend")).status_code == 404


async def phase(run: Any, wanted: str) -> bool:
    return bool((await run.describe()).phase == wanted)


async def test_the_api_finds_runs_whose_ids_have_slashes(served: Served) -> None:
    async with documents(served.client) as runtime:
        await waits(runtime)
        path = "/api/serverless/runs/order%2F%3C1%3E"
        assert (await served.web.get(path)).json()["workflow_id"] == ID
        assert (await served.web.post(f"{path}/suspend")).status_code == 200


async def test_the_error_is_told_and_its_place_is_lit(served: Served) -> None:
    async with documents(served.client) as runtime:
        run = await runtime.start(Document.parse(RAISES), id=ID, task_queue="documents")
        with pytest.raises(Exception, match="never paid"):
            await run.result(timeout=20)
    text = (await served.web.get(PAGE)).text
    section = section_of(text)
    assert '<span class="badge faulted">faulted</span>' in section
    assert "No such order" in section
    assert "it was never paid" in section
    assert "<i>" not in section
    assert "/do/1/check" in section
    assert re.findall(r'class="line lit failed begins" id="line-(\d+)"', section) == ["11"]
    assert '<g class="node failed"><title>check\nraise\nraise: faulted</title>' in section
    assert "suspend" not in section
    assert 'class="scale"' not in section


RAN = f"""{HEAD}
do:
  - loop: {{for: {{each: n, in: '[1, 2, 3]'}}, do: [{{inner: {{set: {{v: 1}}}}}}]}}
  - never: {{if: 'false', set: {{v: 1}}}}
  - careful:
      try: [{{odd: {{raise: {{error: {{type: 'https://e.x/e', status: 500, title: t}}}}}}}}]
      catch: {{do: [{{mend: {{set: {{v: 2}}}}}}]}}
  - pause: {{wait: PT10M, timeout: {{after: PT15M}}}}
"""


async def test_what_has_run_is_told_in_the_picture(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async with documents(served.client) as runtime:
        await waits(runtime, RAN)
    text = (await served.web.get(PAGE)).text
    told = re.findall(r'<g class="node (\w+)(?: outer)?"><title>(\w+)\n\w+\n([^\n<]*)', text)
    assert told == [
        ("completed", "loop", "for: completed"),
        ("completed", "inner", "set: completed, 3 times"),
        ("skipped", "never", "set: skipped"),
        ("completed", "careful", "try: completed"),
        ("cancelled", "odd", "raise: faulted"),
        ("completed", "mend", "set: completed"),
        ("running", "pause", "waits"),
    ]
    assert text.count("line lit") == 4, "only what is open is lit in the text"
    monkeypatch.setattr(past, "MOST_REPLAYED", 1)
    assert "node completed" not in (await served.web.get(PAGE)).text


RETRIES = f"""{HEAD}
do:
  - careful:
      try:
        - group:
            do:
              - odd: {{raise: {{error: {{type: 'https://e.x/e', status: 503, title: t, detail: '<b>busy'}}}}}}
      catch: {{retry: {{delay: {{minutes: 10}}, limit: {{duration: PT3H}}}}}}
"""


async def test_why_the_last_attempt_failed_is_told_while_it_waits_for_the_next(served: Served) -> None:
    async with documents(served.client) as runtime:
        document = Document.parse(RETRIES)
        document.definition["do"][0]["careful"]["try"][0]["group"]["do"][0]["odd"]["raise"]["error"][
            "card"
        ] = "canary"
        run = await runtime.start(document, {}, id=ID, task_queue="documents")
        await until(runtime.client, lambda: phase(run, "waiting"))
    text = (await served.web.get(PAGE)).text
    told = text[text.index('class="fault backing_off"') : text.index('class="scale"')]
    said = " ".join(re.sub(r"<[^>]*>", " ", told).split())
    assert re.search(r"careful: attempt 1 failed .* ago 503 &lt;b&gt;busy https://e.x/e at", said), said
    assert "/do/0/careful/try/0/group/do/0/odd" in said
    assert "canary" not in told


def test_a_task_that_ended_in_several_ways_tells_the_last() -> None:
    steps = [
        TaskStep("r", number, "/do/0/a", "wait", f"it={number}", outcome, after(number), after(number), None)
        for number, outcome in enumerate(("completed", "completed", "timed_out"))
    ]
    assert looks_of(steps[:2]) == {"/do/0/a": Look("completed", "wait: completed, 2 times")}
    assert looks_of(steps) == {"/do/0/a": Look("cancelled", "wait: 3 times, timed out at last")}


def test_the_attempt_that_failed_last_is_found_among_others() -> None:
    def step(number: int, execution: str, error: str | None) -> TaskStep:
        told = None if error is None else {"type": error}
        at = after(number)
        outcome = "completed" if error is None else "faulted"
        return TaskStep("r", number, "/do/0/a/try/0/b", "call", execution, outcome, at, at, told)

    steps = [
        step(1, "it=3", "first"),
        step(2, "it=3,att=2", "second"),
        step(3, "it=3,att=3,visit=2", "third"),
        step(4, "it=31", "other"),
        step(5, "it=3,att=3,visit=3", None),
    ]
    task = OpenTask("/do/0/a", "backoff", "it=3", after(3), after(9))
    [found] = setbacks_of([task, OpenTask("/do/0/a", "retry", "it=3", None, None)], steps)
    assert (found.name, found.attempt, found.error["type"]) == ("a", 3, "third")
    assert setbacks_of([task], []) == []


def test_marks_are_told_in_words() -> None:
    marks = "it=137,att=2,catch,event=0,visit=3,call=/do/0/x~1y,of=/do/1/z"
    told = _words(OpenTask("/do/0/a", "wait", marks, None, None))
    assert told == "waits, index 137, attempt 2, index 0, visit 3, called by x/y, around z"


async def test_the_result_of_what_has_completed_stands_first(served: Served) -> None:
    async with documents(served.client) as runtime:
        run = await runtime.start(
            Document.parse(f"{HEAD}do: [{{a: {{set: {{v: 1}}}}}}]"), {}, id=ID, task_queue="documents"
        )
        await run.result(timeout=20)
    text = (await served.web.get(PAGE)).text
    assert text.index('aria-labelledby="outcome"') < text.index('aria-labelledby="document"')


async def test_a_workflows_timeout_is_lit_in_the_text(served: Served) -> None:
    document = Document.parse(WAITS.replace("PT30M", "PT1S"))
    async with documents(served.client) as runtime:
        run = await runtime.start(document, {}, id=ID, task_queue="documents")
        with pytest.raises(Exception, match="timeout"):
            await run.result(timeout=20)
    text = (await served.web.get(PAGE)).text
    assert re.findall(r'class="line lit timed_out begins" id="line-(\d+)"', text) == ["7"]


async def test_payloads_in_errors_are_for_those_who_may_see_them(served: Served) -> None:
    async with documents(served.client) as runtime:
        document = Document(Document.parse(RAISES).definition, "", ())
        document.definition["do"][1]["check"]["raise"]["error"]["card"] = "${ $workflow.input.card }"
        run = await runtime.start(document, {"card": "canary"}, id=ID, task_queue="documents")
        with pytest.raises(Exception, match="never paid"):
            await run.result(timeout=20)
    shown = (await served.web.get(PAGE)).text
    assert "<dt>card</dt>" in shown
    assert "canary" in shown.partition("<dt>card</dt>")[2].partition("</dd>")[0]
    seen = (await served.web.get(PAGE, headers=served.bearing("reader"))).text
    assert "canary" not in seen
    assert "it was never paid" in seen


async def test_what_is_no_document_is_not_shown_as_one(served: Served) -> None:
    await served.client.start("Waiting", id="other")
    assert 'aria-labelledby="document"' not in (await served.web.get("/workflows/other")).text
    odd: list[list[Any]] = [["x"], [{}], [{"definition": 3}], [{"definition": {"do": 3}}], [1, 2], []]
    for number, given in enumerate(odd):
        id = f"odd-{number}"
        await served.client.start("serverless:n/a", *given, id=id, options=StartOptions(memo={"name": 3}))
        answer = await served.web.get(f"/workflows/{id}")
        assert answer.status_code == 200
        assert "The document of this run cannot be read" in answer.text


async def test_who_has_no_key_sees_no_document(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/outlast.db"
    async with (
        Client.connect(url, converter=DataConverter(Backwards())) as client,
        Runtime(client) as runtime,
        Client.connect(url) as blind,
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(control_plane(blind)), base_url="http://localhost"
        ) as web,
    ):
        await runtime.start(Document.parse(WAITS), id=ID)
        assert "cannot be read" in (await web.get(PAGE)).text


NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


def after(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def state_of(deadline: datetime | None, *tasks: OpenTask) -> DocumentState:
    return DocumentState("w", "n/a", "1", "running", deadline, None, tasks)


def test_bars_are_to_scale() -> None:
    late = OpenTask("/do/0/a", "timeout", "", after(5), after(20))
    listens = OpenTask("/do/0/a", "listen", "", after(10), None)
    short = OpenTask("/do/0/a", "wait", "", after(30), after(30.01))
    found = scale_of(state_of(after(30), late, listens, short), after(10), after(15), 1_800)
    assert found is not None
    assert (found.start, found.end) == (NOON, after(30.01))
    assert [(round(bar.x), round(bar.width)) for bar in found.bars[:3]] == [(0, 100), (17, 50), (33, 67)]
    assert (found.bars[3].x, found.bars[3].width) == (99.5, 0.5)
    assert [seconds for _, seconds in found.ticks] == [600, 1_200, 1_800]
    assert round(found.x(after(15))) == 50


def test_what_has_no_end_has_a_scale_too() -> None:
    listens = OpenTask("/do/0/a", "listen", "", after(0), None)
    found = scale_of(state_of(None, listens), NOON, after(40), None)
    assert found is not None
    assert (found.start, found.end, found.bars[0].width) == (NOON, after(50), 100)
    assert scale_of(state_of(None), NOON, NOON, None) is None


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A dashboard over a run that waits, with a worker in a process of its own; and the database."""
    folder: Path = tmp_path_factory.mktemp("documents")
    url = f"sqlite:///{folder}/outlast.db"

    async def begin(client: Client) -> None:
        async with Runtime(client) as runtime:
            await waits(runtime)

    worker = ("-m", "outlast", "serverless", "worker", "--url", url, "--task-queue", "documents")
    with process(*worker) as made, serving(url, folder, tokens=False) as (address, _):
        first_line(made, "worker")
        ask(url, begin)
        yield address, url


def test_the_page_follows_the_run(browser: Browser, world: tuple[str, str]) -> None:
    address, url = world
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(address + PAGE)
    page.locator("#live[data-state=live]").wait_for()
    section = page.locator("section.document")
    expect(section.locator(".line.begins")).to_have_text("- pause:")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    before = float((section.locator("rect.now").first.get_attribute("x") or "").rstrip("%"))
    assert before < 50
    section.get_by_role("button", name="Suspend").click()
    expect(section.locator(".badge")).to_have_text("suspended")
    section.get_by_role("button", name="Resume").click()
    expect(section.locator(".badge")).to_have_text("waiting")

    async def end(client: Client) -> None:
        await client.handle(ID).cancel("enough")

    page.locator("#live[data-state=live]").wait_for()
    ask(url, end)
    expect(section.locator(".badge")).to_have_text("cancelled")
    expect(section.locator(".line.lit")).to_have_count(0)
    expect(section.locator("g.running")).to_have_count(0)
    page.goto("about:blank")
    context.close()


def test_that_the_present_moves_on_sends_nothing() -> None:
    def bar(x: str) -> str:
        return f'<rect class="now" x="{x}" data-from="2026" data-to="2027"></rect>'

    assert without_counting(bar("1.5%")) == without_counting(bar("99%"))
    assert without_counting(f'<rect class="bound" x="1%"></rect>{bar("1%")}') != without_counting(
        f'<rect class="bound" x="2%"></rect>{bar("1%")}'
    )
