"""Every page, as axe-core judges it, in light and dark, on a desk and on a phone; and by keyboard alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.base import AxeResults
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from tests.dashboard.browsing import ask, served, working

from outlast import Client, Cron, Every, Rate, StartOptions
from outlast_dashboard.notifications import ChangeSignal

LONG = "kundenkonto-4711-" + "abcdef0123456789" * 8
LONG_TYPE = "com.example.handel.bestellwesen.abrechnung.KontoauszugsVersandbestaetigungsWorkflow"
PAGES = [
    *("/workflows/importing/streams/rows", "/bulk?action=resume&status=terminated"),
    *("/bulk?action=delete&status=terminated", "/?was_forked_from=no", "/?forked_from=importing"),
    *("/", "/?id_prefix=nothing", "/?where=wrong", "/start", "/login", "/bulk?action=cancel&status=open"),
    *(
        "/watchdog",
        "/upcoming",
        "/upcoming?kind=tumor",
        "/alerts",
        "/workers",
        "/types",
        "/queues",
        "/queues/emails",
        "/queues/imports",
        "/nothing",
        "/schedules",
        "/schedules/nightly",
        "/schedules/nightly/edit",
        "/new-schedule",
        "/?schedule=nightly",
    ),
    *("/workflows/book", "/workflows/importing", "/workflows/again", "/workflows/late", "/workflows/stopped"),
    *("/workflows/importing?view=groups", "/workflows/importing?zoom=0-500&order=oldest"),
    *(f"/workflows/{LONG}", "/?status=terminated"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A dashboard over runs of every kind: one that imports and has failed before, one that continues as new, one that
    was late, one of a DAG, one that was stopped, one that nobody serves, one whose id and type are long.
    """
    folder: Path = tmp_path_factory.mktemp("pages")
    url = f"sqlite:///{folder}/outlast.db"
    control = folder / "control"
    control.write_text("fail 1")

    async def begin(client: Client) -> None:
        await client.queues.define("emails", concurrency=10, rate=Rate(20, per=1))
        await client.queues.pause("emails", "the provider is down")
        await client.schedules.create("nightly", "Report", spec=Cron("0 */6 * * *"), note="every six hours")
        await client.schedules.create("often", "Report", spec=Every(60), paused=True)
        await client.schedules.handle("nightly").trigger(request_id="a")
        await client.queues.define("imports", concurrency=20, worker_concurrency=5, partition_concurrency=2)
        bounded = StartOptions(execution_timeout=6000, run_timeout=550, search_attributes={"customer": "c-7"})
        await client.start("Journey", 0, id="importing", options=bounded)
        await client.start("Book", {"pages": 4}, id="book")
        again = await client.start("Journey", 1, id="again")
        await again.signal("say", "again")
        await client.start("Nobody", id="late", task_queue="nowhere", options=StartOptions(run_timeout=1))
        watched = StartOptions(run_timeout=55).with_alerts(0.9, after=[0.001, 0.002])
        await client.start("Nobody", id="unserved", task_queue="nowhere", options=watched)
        summary = "Kontoauszüge für Frau Müller-Lüdenscheidt, Straße 12, drei Monate rückwirkend " * 2
        long = StartOptions(run_timeout=90_000, summary=summary)
        await client.start(LONG_TYPE, id=LONG, task_queue=LONG[:100], options=long)
        await (await client.start("Journey", 1, id="stopped")).terminate("seen enough")

    ask(url, begin)

    async def happened(client: Client) -> None:
        async with ChangeSignal(client) as changed:
            while not (await client.describe("importing")).failures:
                await changed.wait()
            control.write_text("2")
            while not (await client.describe("book")).failures:
                await changed.wait()
            while (await client.describe("late")).run.closed_at is None:
                await changed.wait()
            while (await client.describe("again")).run.run_number < 2:
                await changed.wait()
            while len((await client.alerts.list(workflow_id="unserved")).alerts) < 2:
                await changed.wait()
        seen = (await client.alerts.list(workflow_id="unserved")).alerts[0]
        await client.alerts.acknowledge(seen.alert_id, by="ada")

    with working(url, control), served(url, folder, tokens=False) as (made, _):
        ask(url, happened)
        yield made, control


@pytest.fixture
def address(world: tuple[str, Path]) -> str:
    return world[0]


@pytest.fixture
def control(world: tuple[str, Path]) -> Path:
    return world[1]


# What it finds right is not asked for: to describe that, and to bring it here, takes most of axe's time.
EVERYTHING = {"resultTypes": ["violations"]}
CONTRAST = {**EVERYTHING, "runOnly": ["color-contrast"]}
LOOKS: list[tuple[int, Literal["light", "dark"], dict[str, list[str]]]] = [
    (1280, "light", EVERYTHING),
    (1280, "dark", CONTRAST),
    (390, "light", CONTRAST),
    (390, "dark", EVERYTHING),
]
"""Of the colours' other half only the contrast differs."""


def violations(page: Page, options: dict[str, list[str]]) -> AxeResults:
    """Ask axe, which the page has loaded, for nothing but what it finds wrong."""
    ask_axe = "options => axe.run(options).then(({violations, url}) => ({violations, url}))"
    return AxeResults(page.evaluate(ask_axe, options))


def test_axe_finds_nothing_on_any_page(browser: Browser, address: str) -> None:
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    for path in PAGES:
        page.goto(address + path)
        page.evaluate(Axe().axe_script)
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        for width, scheme, options in LOOKS:
            page.set_viewport_size({"width": width, "height": 844})
            page.emulate_media(color_scheme=scheme)
            found = violations(page, options)
            assert found.response["violations"] == [], f"{path}, {width}, {scheme}: {found.generate_report()}"
            assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{path} scrolls sideways"
        page.set_viewport_size({"width": 768, "height": 1024})
        assert page.evaluate("document.documentElement.scrollWidth") <= 768, (
            f"{path} scrolls sideways on a tablet"
        )
    page.goto("about:blank")
    context.close()


def walk_to(page: Page, words: str) -> None:
    """Press Tab until what has these words has the focus; it is seen wherever it is."""
    for _ in range(200):
        page.keyboard.press("Tab")
        text, outline = page.evaluate(
            "[document.activeElement.textContent, getComputedStyle(document.activeElement).outlineStyle]"
        )
        text = " ".join(text.split())
        assert outline != "none", f"nobody sees that {text!r} has the focus"
        if text == words:
            return
    raise AssertionError(f"{words!r} is not reached by Tab")


def test_a_run_is_found_and_signalled_by_keyboard_alone(browser: Browser, address: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    walk_to(page, "Skip to the content")
    page.keyboard.press("Enter")
    walk_to(page, "again")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="again")).to_be_visible()
    expect(page.locator("#live")).to_have_text("live")

    walk_to(page, "Signal")
    page.keyboard.press("Enter")
    expect(page.locator("#action-signal .handler")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#action-signal")).not_to_have_attribute("open", "")
    expect(page.locator("#action-signal > summary")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#action-signal .handler")).to_be_visible()
    walk_to(page, "say word: str")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("over")
    page.keyboard.press("Enter")
    expect(page.locator("#action-signal .handler .answer")).to_have_text("Signal say was accepted.")
    expect(page.locator(".lead .badge")).to_have_text("completed")
    page.goto("about:blank")
    context.close()


def test_a_schedule_is_paused_and_deleted_by_keyboard_alone(browser: Browser, address: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{address}/new-schedule")
    for words, text in (
        ("Schedule id; its workflows' ids begin with it", "typed"),
        ("Workflow type", "Report"),
    ):
        page.get_by_label(words).focus()
        page.keyboard.type(text)
    page.get_by_label("When it fires, one spec a line").focus()
    page.keyboard.type("every 6h")
    walk_to(page, "Create it")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="typed")).to_be_visible()
    walk_to(page, "Pause")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("the warehouse moves")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="the warehouse moves")).to_be_visible()
    walk_to(page, "More")
    page.keyboard.press("Enter")
    walk_to(page, "Delete …")
    page.keyboard.press("Enter")
    walk_to(page, "Delete the schedule")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="All schedules")).to_be_visible()
    expect(page.get_by_role("link", name="typed")).to_have_count(0)
    context.close()


def test_what_changes_takes_neither_the_focus_nor_what_was_unfolded(
    browser: Browser, address: str, control: Path
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{address}/workflows/importing")
    bar = page.locator(".progress progress")
    expect(bar).to_have_attribute("value", "2.0")
    summary = page.locator("#event-1 summary")
    summary.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#event-1 pre")).to_be_visible()
    control.write_text("7")
    expect(bar).to_have_attribute("value", "7.0")
    expect(page.locator("#event-1 pre")).to_be_visible()
    expect(summary).to_be_focused()
    page.goto("about:blank")
    context.close()
