"""The pages of documents: their list, one of them, and the forms that register and start one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect
from tests.dashboard.browsing import ask
from tests.dashboard.browsing import served as serving
from tests.dashboard.conftest import Served
from tests.dashboard.test_accessibility import LOOKS, violations
from tests.dashboard.test_queue_pages import text_of

from outlast import Client, StartOptions
from outlast_serverless import Document, Runtime
from outlast_serverless.runtime.registry import page_of_names

ORDER = """# an order
document: {dsl: '1.0.3', namespace: shop, name: order, version: '1.2.0', title: '<b>Orders</b>'}
input: {schema: {document: {type: object, required: [card], properties: {card: {type: string}}}}}
timeout: {after: PT30M}
schedule: {every: PT6H}
do:
  - first: {set: {paid: '${ .card }'}}
  - then: {wait: PT10M}
"""
UNABLE = """document: {dsl: '1.0.3', namespace: shop, name: unable, version: '1.0.0'}
do:
  - fine: {set: {v: 1}}
  - odd: {call: '${ .function }'}
"""
PATH = "/documents/shop/order/1.2.0"
WRONG = ORDER.replace("set:", "sett:").replace("wait: PT10M", "wait: soon")


@pytest.fixture
def database_url() -> str:
    """Only the registry depends on the database, and a test of its own reads it on each."""
    return "sqlite://"


async def register(client: Client, *texts: str) -> Runtime:
    runtime = Runtime(client)
    for text in texts:
        await runtime.register(Document.parse(text))
    return runtime


async def test_without_a_document_the_page_says_how_to_register_one(served: Served) -> None:
    assert "outlast serverless register FILE" in text_of((await served.web.get("/documents")).text)
    reading = (await served.web.get("/documents", headers=served.bearing("reader"))).text
    assert "/new-document" not in reading
    assert '<a href="/documents" aria-current="page">Documents</a>' in reading


async def test_documents_are_listed_with_what_matters(served: Served) -> None:
    runtime = await register(served.client, ORDER, ORDER.replace("1.2.0", "1.10.0"), UNABLE)
    await runtime.schedule("shop/order")
    await runtime.start("shop/order", {"card": "4711"}, id="o-1")
    text = (await served.web.get("/documents")).text
    assert "<b>Orders" not in text
    said = text_of(text)
    assert "shop/order &lt;b&gt;Orders&lt;/b&gt; 1.10.0 2 1 every 6 h" in said
    assert 'href="/?workflow_type=serverless%3Ashop%2Forder&amp;status=open"' in text
    assert 'href="/schedules/serverless%3Ashop%2Forder"' in text
    assert "4711" not in text
    linked = re.findall(r'href="(/\?workflow_type[^"]*)"', text)[0]
    assert "o-1" in (await served.web.get(unescape(linked))).text


async def test_names_come_in_pages(served: Served, sqlite_url: str) -> None:
    async with Client.connect(sqlite_url) as client:
        await register(client, *(ORDER.replace("name: order", f"name: o-{n}") for n in range(3)))
        first = await client.runtime.read(page_of_names, (), 2)
        assert [one.name for one in first] == ["o-0", "o-1"]
        rest = await client.runtime.read(page_of_names, ("shop", "o-1"), 2)
        assert [(one.name, one.latest, one.title) for one in rest] == [("o-2", "1.2.0", "<b>Orders</b>")]
    assert "No further documents" in (await served.web.get("/documents?after=z/z")).text
    assert (await served.web.get("/documents?after=nonsense")).status_code == 422


async def test_a_document_is_shown_as_it_was_written(served: Served) -> None:
    runtime = await register(served.client, ORDER, ORDER.replace("1.2.0", "1.3.0"))
    await runtime.start("shop/order", {"card": "4711"}, id="o/1")
    text = (await served.web.get(PATH)).text
    assert "<b>Orders" not in text
    assert '<span class="line" id="line-1" data-line="1"># an order\n</span>' in text
    assert '<svg class="dag flow"' in text
    assert 'href="/documents/shop/order/1.3.0"' in text
    assert 'href="/workflows/o%2F1?run_id=' in text
    assert "4711" not in text
    assert "not scheduled" in text
    newest = (await served.web.get("/documents/shop/order")).text
    assert '<span class="version">1.3.0</span>' in newest
    reading = (await served.web.get(PATH, headers=served.bearing("reader"))).text
    assert "Start it" not in reading
    assert "Schedule it" not in reading
    for path, status in (("shop/nothing", 404), ("shop/order/9.9.9", 404), ("shop%2Forder/x", 422)):
        assert (await served.web.get(f"/documents/{path}")).status_code == status


async def test_what_cannot_run_is_told_with_its_line(served: Served) -> None:
    await register(served.client, UNABLE)
    text = (await served.web.get("/documents/shop/unable")).text
    assert "It cannot run here" in text
    assert '<a href="#line-4">line 4</a>' in text
    assert "Start it" not in text


async def test_a_document_is_scheduled_and_unscheduled(served: Served) -> None:
    await register(served.client, ORDER)
    for verb in ("schedule", "unschedule"):
        refused = await served.web.post(f"{PATH}/{verb}", headers=served.bearing("reader"))
        assert refused.status_code == 403
    done = await served.web.post(f"{PATH}/schedule")
    assert (done.status_code, done.headers["location"]) == (303, PATH)
    assert "every 6 h" in (await served.web.get(PATH)).text
    assert (await served.web.post(f"{PATH}/unschedule")).status_code == 303
    assert "not scheduled" in (await served.web.get(PATH)).text
    assert (await served.web.post(f"{PATH}/unschedule")).status_code == 404


async def test_a_schedule_by_events_is_shown(served: Served) -> None:
    events = ORDER.replace("every: PT6H", "on: {one: {with: {type: paid}}}").replace("input:", "metadata:")
    ends = ORDER.replace("every: PT6H", "after: PT1H").replace("name: order", "name: again")
    events = re.sub("metadata:.*\n", "", events)
    runtime = await register(served.client, events, ends)
    await runtime.schedule("shop/order")
    await runtime.schedule("shop/again")
    text = (await served.web.get("/documents")).text
    assert 'href="/workflows/serverless-schedule%3Ashop%2Forder"' in text
    assert text.count("serverless-schedule") == 2


async def test_a_document_is_registered_by_its_text(served: Served) -> None:
    form = await served.web.get("/new-document")
    assert form.status_code == 200
    checked = await served.web.post("/new-document", data={"text": ORDER, "check": "yes"})
    assert "shop/order 1.2.0 is in order: 2 tasks." in text_of(checked.text)
    assert "No document" in (await served.web.get("/documents")).text
    made = await served.web.post("/new-document", data={"text": ORDER.replace("\n", "\r\n")})
    assert (made.status_code, made.headers["location"]) == (303, PATH)
    assert (await Runtime(served.client).document("shop/order")).source == ORDER
    other = await served.web.post("/new-document", data={"text": ORDER.replace("PT30M", "PT31M")})
    assert other.status_code == 409
    assert "give the new content another version" in text_of(other.text)
    for headers in (served.bearing("reader"), served.bearing("seer")):
        assert (await served.web.get("/new-document", headers=headers)).status_code == 403
        refused = await served.web.post("/new-document", data={"text": UNABLE}, headers=headers)
        assert refused.status_code == 403


async def test_all_that_is_wrong_with_a_text_is_told_and_the_text_is_kept(served: Served) -> None:
    answer = await served.web.post("/new-document", data={"text": WRONG})
    assert answer.status_code == 422
    said = unescape(text_of(answer.text))
    assert "nothing was registered" in said
    assert "line 7, column 13" in said
    assert "did you mean" in said
    assert "line 8, column" in said
    assert unescape(answer.text.partition('autocomplete="off"')[2]).count(WRONG) == 1
    jq = await served.web.post("/new-document", data={"text": ORDER.replace(".card }", ".card | }")})
    assert jq.status_code == 422
    assert "jq" in text_of(jq.text)
    for text in ("", "\x00", "a: [", "x" * 300_000, "<script>planted</script>"):
        bad = await served.web.post("/new-document", data={"text": text})
        assert bad.status_code == 422, text[:20]
        assert "<script>planted" not in bad.text


async def test_a_document_is_started_with_an_input_that_fits(served: Served) -> None:
    await register(served.client, ORDER)
    form = (await served.web.get(f"{PATH}/start")).text
    assert unescape(form).count('{\n  "card": ""\n}') == 1
    assert "What the input must be" in form
    typed = {"input": '{"card": "4711"}', "workflow_id": "o/1", "task_queue": "default"}
    done = await served.web.post(f"{PATH}/start", data=typed)
    assert (done.status_code, done.headers["location"]) == (303, "/workflows/o%2F1")
    assert (await served.client.describe("o/1")).workflow_type == "serverless:shop/order"
    for change, status, said in (
        ({"input": "{}", "workflow_id": ""}, 422, '"card" is a required property'),
        ({"input": "{", "workflow_id": ""}, 422, "it is no JSON"),
        ({"workflow_id": ".."}, 422, "no URL could name it"),
        ({"workflow_id": "o/1"}, 409, "o/1"),
        ({"workflow_id": "", "task_queue": "x" * 300}, 422, "task queue"),
    ):
        answer = await served.web.post(f"{PATH}/start", data={**typed, **change})
        assert answer.status_code == status, change
        assert said in unescape(text_of(answer.text)), change
        assert 'role="alert"' in answer.text
        assert ('id="schema" open' in answer.text) is ("input" in change), "what the input must be is at hand"
    assert await served.client.count(workflow_type="serverless:shop/order") == 1
    refused = await served.web.post(f"{PATH}/start", data=typed, headers=served.bearing("reader"))
    assert refused.status_code == 403


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A dashboard over documents of every kind."""
    folder: Path = tmp_path_factory.mktemp("documents")
    url = f"sqlite:///{folder}/outlast.db"

    async def begin(client: Client) -> None:
        runtime = await register(client, ORDER, ORDER.replace("1.2.0", "1.3.0"), UNABLE)
        await runtime.schedule("shop/order")
        await runtime.start("shop/order", {"card": "4711"}, id="o-1", options=StartOptions(run_timeout=900))

    ask(url, begin)
    with serving(url, folder, tokens=False) as (address, _):
        yield address


def test_a_document_is_registered_and_started_in_a_browser(browser: Browser, world: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(f"{world}/documents")
    page.locator("#live[data-state=live]").wait_for()
    page.get_by_role("link", name="Register a document").click()
    page.get_by_label("Text, as YAML or JSON").fill(WRONG)
    page.get_by_role("button", name="Register it").click()
    expect(page.get_by_role("alert")).to_contain_text("nothing was registered")
    expect(page.get_by_label("Text, as YAML or JSON")).to_have_value(WRONG)
    page.get_by_label("Text, as YAML or JSON").fill(ORDER.replace("name: order", "name: typed"))
    page.get_by_role("button", name="Register it").click()
    expect(page.get_by_role("heading", name="shop/typed 1.2.0")).to_be_visible()
    page.get_by_role("link", name="Start it").click()
    page.get_by_role("button", name="Start it").click()
    expect(page.get_by_role("heading", name="Document", exact=False).first).to_be_visible()
    expect(page.locator("section.document .badge")).to_have_text("pending")
    page.goto("about:blank")
    context.close()


def test_axe_finds_nothing_on_the_pages_of_documents(browser: Browser, world: str) -> None:
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    paths = (
        *("/documents", "/documents/shop/order", "/documents/shop/unable", "/new-document"),
        *(f"{PATH}/start", "/workflows/o-1"),
    )
    for path in paths:
        page.goto(world + path)
        page.evaluate(Axe().axe_script)
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        for width, scheme, options in LOOKS:
            page.set_viewport_size({"width": width, "height": 844})
            page.emulate_media(color_scheme=scheme)
            found = violations(page, options)
            assert found.response["violations"] == [], f"{path}, {width}, {scheme}: {found.generate_report()}"
            assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{path} scrolls sideways"
    page.goto("about:blank")
    context.close()
