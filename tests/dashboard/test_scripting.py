"""Text that users control is never markup: hostile text in every place, on every page, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect
from tests.dashboard.browsing import ask, served, working
from tests.dashboard.hostile import EVIL, QUEUE, SCHEME

from outlast import Client, StartOptions
from outlast_dashboard.notifications import ChangeSignal

KINDS = ("open", "failed", "done", "stuck", "cancelled", "terminated", "unserved")
OPTIONS = StartOptions(
    memo={EVIL: EVIL, "link": SCHEME},
    search_attributes={"evil": EVIL, "link": SCHEME, "list": [EVIL]},
    summary=EVIL,
    execution_timeout=9_000,
)


def id_of(kind: str) -> str:
    return f"{kind}-{EVIL}"


async def plant(client: Client) -> None:
    """Put hostile text wherever the engine takes some."""
    for kind in ("open", "failed", "done", "stuck"):
        await client.start(f"{kind}{EVIL}", EVIL, id=id_of(kind), task_queue=QUEUE, options=OPTIONS)
    for kind in ("cancelled", "terminated", "unserved"):
        await client.start(EVIL, EVIL, id=id_of(kind), task_queue=EVIL, options=OPTIONS)
    await client.handle(id_of("cancelled")).cancel(EVIL)
    await client.handle(id_of("terminated")).terminate(EVIL)
    opened = client.handle(id_of("open"))
    await opened.signal(f"unheard{EVIL}", EVIL)
    await opened.signal(f"say{EVIL}", EVIL)


async def planted(client: Client) -> None:
    """Wait until all of it has happened."""
    async with ChangeSignal(client) as changed:
        while True:
            found, stuck = [await client.describe(id_of(kind)) for kind in ("open", "stuck")]
            begun = len(found.pending_activities) == 2 and found.pending_children and found.pending_timers
            if begun and found.failures and stuck.run.task_failures:
                return
            await changed.wait()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("hostile")
    url = f"sqlite:///{folder}/outlast{quote('<b planted>')}.db"
    ask(url, plant)
    options = ("--task-queue", QUEUE, "--build-id", EVIL)
    with (
        working(url, folder / "control", *options, module="tests.dashboard.hostile"),
        served(url, folder, tokens=False) as (made, _),
    ):
        ask(url, planted)
        yield made


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that notes scripts that ran, or that the policy of the page has stopped, and requests to elsewhere."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    wrong: list[str] = []

    def note_violation(said: ConsoleMessage) -> None:
        if "Content Security Policy" in said.text:
            wrong.append(said.text)

    def note_request(asked: Request) -> None:
        if "127.0.0.1" not in asked.url and not asked.url.startswith("data:"):
            wrong.append(asked.url)

    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
    page.on("console", note_violation)
    page.on("request", note_request)
    yield page
    context.close()
    assert wrong == []


def check(page: Page, where: str, *, holds: bool = True) -> None:
    """Nothing of what was planted became an element or an attribute."""
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.locator("[planted]").count() == 0, f"{where}: an element of the planted text"
    found = page.evaluate(
        "[...document.querySelectorAll('*')].flatMap(one => [...one.attributes].filter(attribute => "
        "attribute.name.startsWith('on') || attribute.name.startsWith('hx-on') || "
        "(['href', 'src', 'action', 'formaction', 'xlink:href'].includes(attribute.name) "
        "&& /^\\s*javascript:/i.test(attribute.value))).map(attribute => attribute.name + '=' + attribute.value))"
    )
    assert found == [], f"{where}: {found}"
    if holds:
        assert "planted" in page.content(), f"{where} shows nothing of it, so this test sees nothing"


def test_hostile_text_is_text_on_every_page(address: str, page: Page) -> None:
    evil = quote(EVIL, safe="")
    for path in (
        "/",
        f"/?id_prefix={evil}",
        f"/?workflow_type={evil}",
        f"/?task_queue={evil}",
        f"/?where={quote('evil=' + EVIL, safe='')}",
        f"/?where={evil}",
        f"/?cursor={evil}",
        f"/start?workflow_type={evil}",
        "/watchdog",
        "/workers",
        "/types",
        f"/bulk?action=cancel&id_prefix={quote('open', safe='')}",
        f"/bulk?action=signal&status=open&workflow_type={evil}",
    ):
        page.goto(address + path)
        check(page, path, holds=path not in ("/watchdog",))
    for path in (f"/login?next={evil}", f"/{evil}", f"/workflows/{evil}", f"/workflows/x?run_id={evil}"):
        page.goto(address + path)
        check(page, path, holds=False)


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_text_is_text_on_the_page_of_a_run(address: str, page: Page, kind: str) -> None:
    path = f"{address}/workflows/{quote(id_of(kind), safe='')}"
    for view in ("", "?view=groups", "?order=oldest", "?zoom=0-500", f"?find={quote(EVIL, safe='')}"):
        page.goto(path + view)
        check(page, f"{kind}{view}")
    page.goto("about:blank")


def test_hostile_answers_are_text_in_place(address: str, page: Page) -> None:
    """Menus of handlers, their fields, and what they answer."""
    page.goto(f"{address}/workflows/{quote(id_of('open'), safe='')}")
    for kind, name in (("query", "show"), ("update", "change"), ("signal", "say")):
        for path in (
            f"/handlers/{kind}",
            *([f"/query?name={quote(name + EVIL, safe='')}&args={quote('[]')}"] if kind == "query" else []),
            f"/query?name={quote(EVIL, safe='')}",
        ):
            page.goto(f"{address}/workflows/{quote(id_of('open'), safe='')}{path}")
            check(page, path, holds=False)
    page.goto("about:blank")


def test_what_arrives_while_the_page_is_live_is_text(address: str, page: Page) -> None:
    page.goto(f"{address}/workflows/{quote(id_of('open'), safe='')}")
    expect(page.locator("#live")).to_have_text("live")
    with page.expect_response(lambda answer: "signal" in answer.url):
        page.evaluate(
            "async ([path, name]) => fetch(path, {method: 'POST', body: new URLSearchParams({name, args: '[]'})})",
            [f"/workflows/{quote(id_of('open'), safe='')}/signal", f"live{EVIL}"],
        )
    expect(page.get_by_text(f"live{EVIL}").first).to_be_attached()
    check(page, "live")
    page.goto("about:blank")
