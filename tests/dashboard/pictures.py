"""The pictures of the documentation: ``python -m tests.dashboard.pictures docs/images``.

A worker, the dashboard and a browser look at a shop's workflows: orders with alerts, an import that reports its
progress, a DAG that fills the shelves, a document that returns a parcel, one that nobody serves.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Final

import uvicorn
from playwright.async_api import async_playwright
from tests.dashboard.browsing import chromium

from outlast import (
    AlertPolicy,
    ApplicationError,
    Client,
    Cron,
    RetryPolicy,
    StartOptions,
    Worker,
    activity,
    workflow,
)
from outlast.alerts import Alert
from outlast_dag import DagBuilder, describe
from outlast_dashboard import control_plane
from outlast_dashboard.notifications import ChangeSignal
from outlast_serverless import Document, Runtime

PORT: Final = 8421
PAGES: Final = (
    ("runs", "/", 1280, 900),
    ("run", "/workflows/import%2Fcatalogue-2026-11", 1280, 900),
    ("watchdog", "/watchdog", 1280, 900),
    ("graph", "/workflows/refill%2F2026-11-23", 1280, 900),
    ("alerts", "/alerts", 1280, 620),
    ("upcoming", "/upcoming?within=24h", 1280, 620),
    ("document", "/workflows/return-17", 1280, 900),
    ("documents", "/documents", 1280, 500),
    ("phone", "/", 390, 844),
)


@activity.defn(
    start_to_close_timeout=30,
    retry_policy=RetryPolicy(initial_interval=60, max_attempts=8, backoff_coefficient=1.5),
)
async def charge_card(order: str) -> str:
    if order.endswith("7"):
        raise ApplicationError("insufficient funds", type="CardDeclined", non_retryable=True)
    if order.endswith("9"):
        raise ConnectionError("payments.example.com: connection reset by peer")
    await asyncio.sleep(0.2)
    return f"charge-{order}"


@activity.defn(start_to_close_timeout=30)
async def reserve_stock(order: str) -> str:
    await asyncio.sleep(0.1)
    return f"reservation-{order}"


@activity.defn(start_to_close_timeout=1800, heartbeat_timeout=60)
async def load_rows(total: int) -> int:
    for done in range(total):
        activity.heartbeat(done, total)
        await asyncio.sleep(0.05)
    return total


@workflow.defn
class Order:
    """Charges and ships; an order of the future waits for its day."""

    def __init__(self) -> None:
        self.approved = False

    @workflow.run
    async def run(self, order: str, approval: bool = False) -> str:
        await reserve_stock(order)
        if approval:
            await workflow.wait_condition(lambda: self.approved)
        await charge_card(order)
        return f"{order} is on its way"

    @workflow.signal
    def approve(self, by: str) -> None:
        self.approved = True


@workflow.defn
class ImportCatalogue:
    """Loads files, one after the other."""

    @workflow.run
    async def run(self, files: int) -> int:
        rows = 0
        for number in range(files):
            workflow.set_progress(number, files, f"file {number + 1}")
            rows += await load_rows(100 if number < 3 else 40_000)
        return rows


@workflow.defn
class Reminder:
    """Sleeps, then reminds."""

    @workflow.run
    async def run(self, days: int) -> str:
        await workflow.sleep(days * 86_400)
        return "reminded"


@activity.defn(start_to_close_timeout=60)
async def count(what: object) -> dict[str, object]:
    return {"goods": list(range(48)), "sale": False}


@activity.defn(start_to_close_timeout=1800)
async def forecast(good: int) -> int:
    if good % 11 == 6:
        raise ApplicationError("nothing was sold", type="NoSales", non_retryable=True)
    if good >= 30:
        await asyncio.sleep(1500)
    return good


@activity.defn(start_to_close_timeout=60, retry_policy=RetryPolicy(initial_interval=900, max_attempts=5))
async def ask_supplier(stock: object) -> None:
    raise ConnectionError("supplier.example.com: 503 Service Unavailable")


@activity.defn(start_to_close_timeout=60)
async def fetch_prices(stock: object) -> str:
    raise ApplicationError("the price list is empty", type="NoPrices", non_retryable=True)


@activity.defn(start_to_close_timeout=60)
async def note(*what: object) -> str:
    return "noted"


def refill() -> DagBuilder:
    """A DAG that fills the shelves: it asks for an approval, tries again, skips, recovers and can undo."""
    flow = DagBuilder("Refill", version="3", timeout=86_400, reserve=600, failure="finish")
    sales = flow.task("count-sales", count, flow.input)
    stock = flow.task("count-stock", count, flow.input)
    wanted = flow.each(
        "forecast", forecast, sales.goods, max_items=100, concurrency=3, on_item_failure="collect"
    )
    offers = flow.task("ask-supplier", ask_supplier, stock)
    prices = flow.task("fetch-prices", fetch_prices, stock)
    prices.on_failure(flow.task("last-prices", note, flow.failure))
    budget = flow.task("reserve-budget", note, prices).compensate(flow.task("release-budget", note))
    flow.task("print-posters", note, sales).run_when(sales.sale == True)  # noqa: E712
    release = flow.approval("release", timeout=14_400).after(budget)
    flow.task("place-orders", note, wanted, offers, run_when=release.approved)
    return flow


REFILL = refill().build()


RETURN = """
document:
  dsl: '1.0.3'
  namespace: shop
  name: return
  version: '1.1.0'
  title: A parcel that comes back
timeout: {after: PT4M}
do:
  - size:
      switch:
        - large: {when: .weight > 30, then: collect}
        - other: {then: label}
  - label: {set: {carrier: post}, then: receive}
  - collect: {set: {carrier: truck}}
  - receive:
      fork:
        branches:
          - parcel:
              do:
                - arrived:
                    listen: {to: {one: {with: {type: parcel.arrived}}}}
                    timeout: {after: PT2M}
                - checked: {set: {checked: true}}
          - reminders:
              for: {each: day, in: '[1, 2, 3]'}
              do:
                - pause: {wait: PT1M}
  - refund: {call: http, with: {method: post, endpoint: 'https://bank.example.com/refunds'}}
"""
NIGHTLY = """
document: {dsl: '1.0.3', namespace: reports, name: stock, version: '2.0.0', title: What is on the shelves}
schedule: {cron: '30 2 * * *'}
do:
  - read: {call: http, with: {method: get, endpoint: 'https://stock.example.com/'}}
"""


async def oncall(alerts: list[Alert]) -> None:
    """Take every alert."""


async def pager(alerts: list[Alert]) -> None:
    raise ApplicationError("nobody has this number", type="NoSuchPager", non_retryable=True)


async def warn(client: Client) -> None:
    """Start what has alerts, and see one of them."""
    late = AlertPolicy(at=[0.8], before=[600], after=[1], channels=["oncall"])
    paged = AlertPolicy(at=[0.5], after=[2], channels=["oncall", "pager"])
    for number, policy in ((3001, late), (3002, late), (3003, paged)):
        options = StartOptions(run_timeout=2400 * (number - 3000), alerts=policy)
        await client.start(Order.run, f"{number}", True, id=f"order-{number}", options=options)
    await client.start(REFILL, "autumn", id="refill/2026-11-23")
    await client.schedules.create(
        "nightly-refill", "Refill", spec=Cron("30 2 * * *"), note="before the shop opens"
    )
    async with ChangeSignal(client) as changed:
        while True:
            fired = (await client.alerts.list()).alerts
            told = [
                one for alert in fired for one in alert.deliveries if one.status not in ("pending", "running")
            ]
            states = {node.state for node in (await describe(client.handle("refill/2026-11-23"))).nodes}
            if len(fired) == 3 and len(told) == 4 and {"backing_off", "recovered", "skipped"} <= states:
                break
            await changed.wait()
    await client.alerts.acknowledge(fired[-1].alert_id, by="ada")


async def fill(client: Client) -> None:
    """Start what the pictures show."""
    for number in range(1047, 1068):
        options = StartOptions(run_timeout=3600, search_attributes={"customer": f"c-{number % 5}"})
        await client.start(Order.run, f"{number}", id=f"order-{number}", options=options)
    for number in (2001, 2002, 2003):
        options = StartOptions(execution_timeout=86_400, run_timeout=240 * (number - 2000))
        await client.start(Order.run, f"{number}", True, id=f"order-{number}", options=options)
    summary = "the catalogue of autumn, eight files"
    options = StartOptions(execution_timeout=7200, run_timeout=3600, summary=summary)
    await client.start(ImportCatalogue.run, 8, id="import/catalogue-2026-11", options=options)
    await client.start(
        Reminder.run, 3, id="reminder-ada", options=StartOptions(execution_timeout=14 * 86_400)
    )
    await client.start(
        "Render", "poster", id="poster-17", task_queue="gpu", options=StartOptions(run_timeout=5400)
    )
    await client.start("Render", "flyer", id="flyer-4", task_queue="gpu", options=StartOptions(run_timeout=2))
    await client.handle("order-2003").cancel("the customer called")


async def hand_back(runtime: Runtime) -> None:
    """Register documents, and start one."""
    for text in (RETURN.replace("1.1.0", "1.0.0"), RETURN, NIGHTLY):
        await runtime.register(Document.parse(text))
    await runtime.schedule("reports/stock")
    run = await runtime.start("shop/return", {"weight": 3}, id="return-17")
    async with ChangeSignal(runtime.client) as changed:
        while len((await run.describe()).open) < 3:
            await changed.wait()


async def take(folder: Path) -> None:
    """Take the pictures."""
    base = f"http://127.0.0.1:{PORT}"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for name, path, width, height in PAGES:
            context = await browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if name == "phone" else "light",
            )
            page = await context.new_page()
            await page.goto(base + path)
            await page.locator("#live[data-state=live]").wait_for()
            if name in ("graph", "document"):
                await page.locator("section.graph").screenshot(path=str(folder / f"{name}.png"))
            else:
                whole = name in ("run", "watchdog")
                await page.screenshot(path=str(folder / f"{name}.png"), full_page=whole)
            await page.goto("about:blank")
            await context.close()
        await browser.close()


async def main(folder: Path) -> None:
    """Show the shop at work, and take its pictures."""
    with tempfile.TemporaryDirectory() as place:
        async with Client.connect(f"sqlite:///{place}/shop.db") as client, Runtime(client) as runtime:
            server = uvicorn.Server(uvicorn.Config(control_plane(client), port=PORT, log_level="warning"))
            async with Worker(
                client,
                workflows=[Order, ImportCatalogue, Reminder, REFILL, *runtime.workflows],
                activities=[
                    *(charge_card, reserve_stock, load_rows),
                    *(count, forecast, ask_supplier, fetch_prices, note),
                    *runtime.activities,
                ],
                alert_channels={"oncall": oncall, "pager": pager},
            ):
                await fill(client)
                await warn(client)
                await hand_back(runtime)
                serving = asyncio.create_task(server.serve())
                async with ChangeSignal(client) as changed:
                    while not await client.count(attention=True):
                        await changed.wait()
                await take(folder)
                server.should_exit = True
                await serving


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
