"""What a person sees: real workers, `outlast ui`, and Chromium.

The longest journey is made on both databases: a page is live because the database tells of changes, each in its own
way. What the other pages read, and what their forms do, `test_*_api.py` and `test_*_pages.py` try on each database.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect
from tests.dashboard.browsing import ask, served, working

from outlast import Client, Every, StartOptions
from outlast.visibility.views import WorkflowDescription

SCREENSHOTS = os.environ.get("OUTLAST_SCREENSHOTS")


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page; a script error or a blocked resource fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert wrong == []


def described(url: str, id: str) -> WorkflowDescription:
    return ask(url, lambda client: client.describe(id))


def shot(page: Page, name: str) -> None:
    """Keep a picture where somebody wants to look at it."""
    if SCREENSHOTS:
        page.screenshot(path=str(Path(SCREENSHOTS) / f"{name}.png"), full_page=True)


def test_a_run_is_watched_live_through_heartbeat_retry_timeout_and_continue_as_new(
    shared_url: str, page: Page, tmp_path: Path
) -> None:
    control = tmp_path / "control"
    control.write_text("0")
    with working(shared_url, control), served(shared_url, tmp_path, tokens=False) as (address, _):
        options = StartOptions(execution_timeout=600, run_timeout=300)
        ask(shared_url, lambda client: client.start("Journey", 0, id="journey/1", options=options))
        page.goto(address)
        expect(page.get_by_role("row").filter(has_text="journey/1")).to_contain_text("running")
        shot(page, "runs")
        page.get_by_role("link", name="journey/1").click()
        expect(page.locator("#live")).to_have_text("live")
        page.evaluate("window.sameDocument = true")

        # Both deadlines are those of the database.
        found = described(shared_url, "journey/1")
        for place, deadline in (
            ("#execution-deadline", found.run.execution_deadline_at),
            ("#run-deadline", found.run.run_deadline_at),
        ):
            assert deadline is not None
            expect(page.locator(place).locator("time").first).to_have_attribute(
                "datetime", deadline.isoformat()
            )

        # A heartbeat moves the bar.
        bar = page.locator(".progress progress")
        expect(bar).to_have_attribute("value", "0.0")
        control.write_text("3")
        expect(bar).to_have_attribute("value", "3.0")
        expect(bar).to_have_attribute("max", "10.0")

        # A failed attempt is followed by another.
        control.write_text("fail 1")
        activity = page.locator("#activity-1")
        expect(activity).to_contain_text("2 of 5")
        expect(activity).to_contain_text("the source hung up")
        control.write_text("6")
        expect(bar).to_have_attribute("value", "6.0")

        # One that falls silent times out, and the page says of what.
        control.write_text("hang 2")
        failures = page.get_by_role("region", name="Failures")
        expect(failures.locator(".badge.timed_out").first).to_have_text("heartbeat", timeout=60_000)
        expect(activity).to_contain_text("3 of 5")
        (failure,) = [one for one in described(shared_url, "journey/1").failures if one.timeout_kind]
        expect(failures).to_contain_text(failure.message)
        control.write_text("7")
        expect(bar).to_have_attribute("value", "7.0")
        shot(page, "run")

        # It ends; the run goes on by a signal that the page sends.
        control.write_text("done")
        expect(page.locator(".lane.activity")).to_contain_text("completed")
        expect(bar).to_have_count(0)
        say(page, "again")
        expect(page.locator("#action-signal .handler .answer")).to_have_text("Signal say was accepted.")
        expect(page.locator(".title")).to_contain_text("continued as new")
        assert page.evaluate("window.sameDocument") is True
        page.get_by_role("link", name="Show the latest").click()
        expect(page.locator(".title")).to_contain_text("run 2 of 2")
        expect(page.get_by_role("navigation", name="Runs of this workflow")).to_contain_text(
            "continued as new"
        )
        assert described(shared_url, "journey/1").run.run_number == 2

        # And it is cancelled by the page.
        page.locator("#action-cancel > summary").click()
        page.locator("#action-cancel").get_by_label("Reason").fill("seen enough")
        page.get_by_role("button", name="Request cancellation").click()
        expect(page.locator(".lead .badge")).to_have_text("cancelled")
        assert described(shared_url, "journey/1").run.status == "cancelled"
        page.goto("about:blank")  # before the server goes


def test_a_queue_is_led_from_its_definition_to_its_deletion(
    sqlite_url: str, page: Page, tmp_path: Path
) -> None:
    name, tenant = "mails/eu-central-1", "tenant-with-a-long-name-" + "x" * 80
    control = tmp_path / "control"
    control.write_text("0")

    async def begin(client: Client) -> None:
        for number in range(3):
            options = StartOptions(queue=name, partition_key=tenant)
            await client.start("Journey", 1, id=f"q-{number}", options=options)

    def cell(label: str) -> Locator:
        return page.get_by_role("region", name="Now").locator(f"td[data-label='{label}']")

    with working(sqlite_url, control), served(sqlite_url, tmp_path, tokens=False) as (address, _):
        page.goto(f"{address}/queues")
        expect(page.get_by_text("No queue is defined")).to_be_visible()
        page.get_by_role("link", name="Define a queue").click()
        page.get_by_label("Name").fill(name)
        page.get_by_label("Under way, over all workers").first.fill("1")
        page.get_by_label("Admitted in any window").first.fill("100/s")
        page.get_by_role("button", name="Define it").click()
        expect(page.get_by_role("heading", name=name)).to_be_visible()
        ask(sqlite_url, begin)
        expect(cell("Waiting")).to_have_text("2")
        expect(cell("Running")).to_have_text("1")
        shot(page, "queue")
        page.get_by_role("region", name="Partitions").get_by_role("link", name=tenant).click()
        expect(page.get_by_label("Partition")).to_have_value(tenant)
        expect(page.get_by_role("link", name="q-2")).to_be_visible()
        page.go_back()
        page.locator("#action-pause > summary").click()
        page.get_by_label("Note").fill("the provider is down")
        page.get_by_role("button", name="Pause it").click()
        expect(page.get_by_text("the provider is down")).to_be_visible()
        ask(sqlite_url, lambda client: client.handle("q-0").signal("say", "done"))
        expect(cell("Running")).to_have_text("0")
        expect(cell("Waiting")).to_have_text("2")
        page.get_by_role("link", name="Change limits").click()
        page.get_by_label("Under way, over all workers").first.fill("2")
        page.get_by_role("button", name="Change the limits").click()
        expect(page.get_by_role("region", name="Limits")).to_contain_text("2 at a time")
        page.get_by_role("button", name="Resume").click()
        expect(cell("Running")).to_have_text("2")
        expect(cell("Waiting")).to_have_text("0")
        for number in (1, 2):
            ask(sqlite_url, lambda client, id=f"q-{number}": client.handle(id).signal("say", "done"))  # type: ignore[misc]
        page.goto(f"{address}/queues")
        page.get_by_role("link", name=name).click()
        expect(cell("Running")).to_have_text("0")
        page.locator("#action-delete > summary").click()
        page.get_by_role("button", name="Delete it now").click()
        expect(page.get_by_text("No queue is defined")).to_be_visible()
        page.goto("about:blank")


def say(page: Page, word: str) -> None:
    """Send a signal by the menu of those that the workflow handles."""
    page.locator("#action-signal > summary").click()
    page.locator("#action-signal .handler summary").filter(has_text="say").click()
    page.locator("#action-signal").get_by_label("word").fill(word)
    page.get_by_role("button", name="Send say").click()


def test_the_other_pages_show_what_the_engine_knows(sqlite_url: str, page: Page, tmp_path: Path) -> None:
    control = tmp_path / "control"
    control.write_text("1")
    with working(sqlite_url, control), served(sqlite_url, tmp_path, tokens=True) as (address, secret):
        options = StartOptions(execution_timeout=600)
        ask(sqlite_url, lambda client: client.start("Journey", 0, id="journey/1", options=options))
        page.goto(f"{address}/workers")
        page.get_by_label("Token").fill(secret)
        page.get_by_role("button", name="Sign in").click()
        (worker,) = ask(sqlite_url, lambda client: client.workers())
        row = page.locator(f"#worker-{worker.worker_id}")
        expect(row).to_contain_text(f"pid {worker.pid}")
        expect(row).to_contain_text("Journey")
        expect(page.get_by_role("row").filter(has_text="default").first).to_contain_text("1")
        shot(page, "workers")
        page.get_by_role("link", name="Watchdog").click()
        expect(page.get_by_role("row").filter(has_text="Execution timeout").first).to_contain_text("1")
        expect(page.get_by_role("region", name="Due next")).to_contain_text("execution timeout")
        expect(page.get_by_role("region", name="Heartbeats")).to_contain_text("import_rows")
        shot(page, "watchdog")
        page.get_by_role("link", name="Types").click()
        expect(page.get_by_role("row").filter(has_text="Journey")).to_contain_text("1")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.goto("about:blank")
        ask(sqlite_url, lambda client: client.handle("journey/1").terminate())


def test_what_is_selected_stays_selected_while_the_page_is_live(
    sqlite_url: str, page: Page, tmp_path: Path
) -> None:
    def begin(ids: Iterable[str]) -> None:
        async def starting(client: Client) -> None:
            for id in ids:
                await client.start("Nobody", id=id)

        ask(sqlite_url, starting)

    begin(f"n-{number:02}" for number in range(3))
    with served(sqlite_url, tmp_path, tokens=False) as (address, _):
        page.goto(address)
        bar = page.get_by_role("form", name="Selected runs")
        expect(bar).to_be_hidden()
        page.get_by_label("Select n-00").check()
        page.get_by_label("Select n-02").click(modifiers=["Shift"])
        expect(bar).to_contain_text("3 selected")
        page.get_by_label("Select n-01").uncheck()
        page.locator("#filters [name=where]").fill("typed by hand")
        page.locator("#order summary").click()
        begin(f"later-{number:02}" for number in range(49))
        expect(page.get_by_role("link", name="later-48")).to_be_visible()
        # Two pages by now: one selected run is on the other, and is counted all the same.
        expect(page.get_by_role("link", name="n-00")).to_have_count(0)
        expect(page.get_by_label("Select n-02")).to_be_checked()
        expect(bar).to_contain_text("2 selected 1 of them no longer on this page")
        expect(page.locator("#filters [name=where]")).to_have_value("typed by hand")
        expect(page.get_by_role("link", name="Oldest first")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("link", name="Oldest first")).to_be_hidden()
        bar.get_by_role("button", name="Terminate").click()
        page.get_by_role("button", name="Terminate 2 workflows now").click()
        expect(page.get_by_role("status")).to_have_text("Done for 2 workflows.")
        assert ask(sqlite_url, lambda client: client.count(status="terminated")) == 2
        page.goto("about:blank")


def test_the_pages_of_queues_and_schedules_keep_their_place_while_they_are_live(
    sqlite_url: str, page: Page, tmp_path: Path
) -> None:
    """An update moves neither what is read nor what is focused, also where it puts a row before it."""

    async def fill(client: Client) -> None:
        for number in range(40):
            await client.queues.define(f"q-{number:02}", concurrency=1)
            await client.schedules.create(f"s-{number:02}", "Nobody", spec=Every(3600))
        for number in range(40):
            options = StartOptions(queue="q-30", partition_key=f"tenant-{number:02}")
            await client.start("Nobody", id=f"n-{number:02}", options=options)

    def place(page: Page) -> tuple[int, str | None]:
        return page.evaluate("Math.round(scrollY)"), page.evaluate("document.activeElement.textContent")

    ask(sqlite_url, fill)
    with served(sqlite_url, tmp_path, tokens=False) as (address, _):
        page.set_viewport_size({"width": 1280, "height": 400})
        cases: list[tuple[str, str, Callable[[Client], Coroutine[Any, Any, Any]], str]] = [
            ("/queues", "q-30", lambda client: client.queues.define("a-new-one"), "a-new-one"),
            (
                "/schedules",
                "s-30",
                lambda client: client.schedules.create("a-new-one", "Nobody", spec=Every(60)),
                "a-new-one",
            ),
            ("/queues/q-30", "tenant-05", lambda client: client.queues.pause("q-30", "by hand"), "by hand"),
            (
                "/schedules/s-30",
                "",
                lambda client: client.schedules.handle("s-30").pause("by hand"),
                "by hand",
            ),
        ]
        for path, focused, change, shown in cases:
            page.goto(address + path)
            expect(page.locator("#live")).to_have_text("live")
            if focused:
                page.get_by_role("link", name=focused, exact=True).focus()
            else:
                page.locator("#action-more > summary").focus()
            page.evaluate("scrollBy(0, 60)")
            before = place(page)
            ask(sqlite_url, change)
            expect(page.get_by_text(shown, exact=False).first).to_be_attached()
            after = place(page)
            assert after[1] == before[1], path
            # A row that comes before what is read may move it by its own height.
            assert abs(after[0] - before[0]) <= 120, path
            assert before[0] > 0 or not focused
        page.goto("about:blank")


def test_the_time_zone_and_saved_filters_are_kept_by_the_browser(
    sqlite_url: str, browser: Browser, tmp_path: Path
) -> None:
    ask(sqlite_url, lambda client: client.start("Nobody", id="n-1"))
    created = described(sqlite_url, "n-1").run.created_at
    with served(sqlite_url, tmp_path, tokens=False) as (address, _):
        context = browser.new_context(timezone_id="Asia/Kolkata")
        page = context.new_page()
        page.goto(f"{address}/?workflow_type=Nobody")
        at = page.locator(".created time")
        local = created.astimezone(timezone(timedelta(hours=5, minutes=30)))
        expect(at).to_have_attribute(
            "title", f"{local:%Y-%m-%d %H:%M:%S}.{local.microsecond // 1000:03} +05:30"
        )
        page.get_by_role("button", name="UTC").click()
        expect(at).to_have_attribute(
            "title", f"{created:%Y-%m-%d %H:%M:%S}.{created.microsecond // 1000:03}Z"
        )
        page.locator("#saved summary").click()
        page.get_by_label("Name").fill("mine")
        page.get_by_role("button", name="Save this filter").click()
        page.goto(address)
        expect(page.get_by_role("button", name="UTC")).to_have_attribute("aria-pressed", "true")
        page.locator("#saved summary").click()
        page.get_by_role("link", name="mine").click()
        expect(page).to_have_url(f"{address}/?workflow_type=Nobody")
        expect(page.locator(".database")).to_contain_text(".db")
        page.goto("about:blank")
        context.close()


def test_it_works_on_a_phone_in_the_dark_and_by_keyboard(
    sqlite_url: str, browser: Browser, tmp_path: Path
) -> None:
    async def begin(client: Client) -> None:
        for number in range(3):
            await client.start("Nobody", id=f"n-{number}", options=StartOptions(run_timeout=90))

    ask(sqlite_url, begin)
    with served(sqlite_url, tmp_path, tokens=False) as (address, _):
        context = browser.new_context(
            viewport={"width": 380, "height": 800}, color_scheme="dark", has_touch=True
        )
        page = context.new_page()
        page.goto(address)
        wide, seen = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= seen, "a phone would have to scroll sideways"
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(17, 24, 23)"
        shot(page, "phone")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        for field in page.locator("input:not([type=hidden]), select").all():
            assert field.evaluate("element => element.labels.length + !!element.ariaLabel") == 1
        page.get_by_role("link", name="n-1", exact=True).focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="n-1")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 380
        shot(page, "phone-run")
        actions = page.get_by_role("group", name="Actions")
        expect(actions).to_be_visible()
        page.emulate_media(media="print")
        expect(actions).to_be_hidden()
        expect(page.get_by_role("heading", name="n-1")).to_be_visible()
        context.close()


def test_a_page_is_live_though_its_scripts_come_late(
    sqlite_url: str, browser: Browser, tmp_path: Path
) -> None:
    def late(route: Route) -> None:
        time.sleep(0.3)
        route.continue_()

    ask(sqlite_url, lambda client: client.count())
    with served(sqlite_url, tmp_path, tokens=False) as (address, _):
        context = browser.new_context()
        page = context.new_page()
        page.route("**/hx-sse*", late)
        page.goto(address)
        expect(page.locator("#live")).to_have_text("live")
        page.goto("about:blank")
        context.close()


def test_a_schedule_lives_from_its_form_to_its_end(sqlite_url: str, page: Page, tmp_path: Path) -> None:
    """Created, watched, paused with a note, triggered, backfilled and deleted, on a desk and on a phone."""
    control = tmp_path / "control"
    control.write_text("10")
    hostile = "<script>alert(1)</script> the warehouse moves"
    with working(sqlite_url, control), served(sqlite_url, tmp_path, tokens=False) as (address, _):
        page.goto(f"{address}/schedules")
        page.get_by_role("link", name="Create a schedule").click()
        page.get_by_label("Schedule id").fill("nightly/<b>eu</b>")
        page.get_by_label("Workflow type").fill("Journey")
        page.get_by_label("Arguments").fill("[1]")
        page.get_by_label("When it fires").fill("0 2 * * *\nevery 12h")
        page.get_by_label("Time zone of the cron texts").fill("Europe/Zurich")
        page.get_by_role("button", name="Show when it fires").click()
        expect(page.locator(".preview li")).to_have_count(10)
        shot(page, "schedule-form")
        page.get_by_role("button", name="Create it").click()
        expect(page.get_by_role("heading", name="nightly/<b>eu</b>")).to_be_visible()
        expect(page.locator("#live")).to_have_text("live")
        # Two weeks: every night at two, and every twelve hours.
        expect(page.locator(".calendar li").nth(1)).to_contain_text("02:00")
        shot(page, "schedule")

        page.set_viewport_size({"width": 390, "height": 844})
        page.locator("#action-pause > summary").click()
        page.get_by_label("Note").fill(hostile)
        page.get_by_role("button", name="Pause it").click()
        expect(page.get_by_role("status").filter(has_text=hostile)).to_be_visible()
        expect(page.get_by_text("It fires when it is resumed.")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        shot(page, "schedule-paused-phone")

        # A schedule that is paused can be fired by hand.
        page.get_by_role("button", name="Start one now").click()
        expect(page.get_by_role("heading", name="nightly/<b>eu</b>-trigger-")).to_be_visible()
        page.locator(".facts").get_by_role("link", name="nightly/<b>eu</b>", exact=True).click()
        expect(page.get_by_text("triggered", exact=True)).to_be_visible()
        page.locator("#action-more > summary").click()
        page.get_by_text("Backfill …").click()
        page.get_by_label("From").fill("2026-11-01T00:00:00Z")
        page.get_by_label("Until, not included").fill("2026-11-03T00:00:00Z")
        page.get_by_role("button", name="Start these slots").click()
        expect(page.locator("#action-more .said")).to_have_text("Started 6 workflows, 0 were there already.")
        shot(page, "schedule-backfilled-phone")
        page.get_by_text("Delete …").click()
        page.get_by_role("button", name="Delete the schedule").click()
        expect(page.get_by_text("There is no schedule")).to_be_visible()

        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(f"{address}/?schedule=nightly%2F%3Cb%3Eeu%3C%2Fb%3E")
        expect(page.locator("tr[id^=row-]")).to_have_count(7)
        shot(page, "schedule-runs")
        page.goto("about:blank")
