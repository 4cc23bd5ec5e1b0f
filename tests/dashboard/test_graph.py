"""The graph of a run on its page and over HTTP: live, in words as well, for whom it is; approvals are decided there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, expect
from tests.dashboard.browsing import ask, working
from tests.dashboard.browsing import served as serving
from tests.dashboard.conftest import Served

from outlast import Client, DataConverter, Worker, WorkflowHandle, activity
from outlast.visibility.dags import DagDescription
from outlast_dag import DagBuilder, describe
from outlast_dashboard import control_plane
from outlast_dashboard.notifications import ChangeSignal


@activity.defn(start_to_close_timeout=30)
async def listed(secret: str) -> list[str]:
    return [secret, secret]


@activity.defn(start_to_close_timeout=30)
async def shipped(what: str) -> str:
    return what


flow = DagBuilder("<b>shop</b>", timeout=3600)
_items = flow.task("listed", listed, flow.input)
_release = flow.approval("release", timeout=600).after(_items)
flow.each("shipped", shipped, _items, max_items=5).after(_release)
shop = flow.build()


@asynccontextmanager
async def shopping(client: Client) -> AsyncGenerator[WorkflowHandle[Any]]:
    """A run that waits for its approval."""
    async with (
        Worker(client, task_queue="shop", workflows=[shop], activities=[listed, shipped]),
        ChangeSignal(client) as changed,
    ):
        handle: WorkflowHandle[Any] = await client.start(shop, "hush", id="shop/1", task_queue="shop")
        while not (await handle.describe()).pending_timers:
            await changed.wait()
        yield handle


PAGE = "/workflows/shop%2F1"


async def test_the_graph_is_described_over_http(served: Served) -> None:
    async with shopping(served.client) as handle:
        answer = await served.web.get("/api/workflows/shop%2F1/dag", headers=served.bearing("reader"))
        found = DagDescription.model_validate(answer.json())
        mine = await describe(handle)
        assert found.model_copy(update={"described_at": mine.described_at}).nodes == mine.nodes
        assert {node.id: node.state for node in found.nodes} == {
            "listed": "completed",
            "release": "running",
            "shipped": "waiting",
        }
        assert "hush" not in answer.text
        again = await served.web.get(f"/api/workflows/shop%2F1/dag?run_id={handle.run_id}")
        assert again.status_code == 200
    await served.client.start("Waiting", id="other")
    refused = await served.web.get("/api/workflows/other/dag")
    assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (404, "dag-not-found")
    assert (await served.web.get("/api/workflows/nobody/dag")).status_code == 404


async def test_the_page_shows_the_graph_and_hides_the_buttons_from_readers(served: Served) -> None:
    async with shopping(served.client):
        text = (await served.web.get(PAGE)).text
        assert '<svg class="dag"' in text
        assert "<b>shop</b>" not in text
        assert "Nodes as a table" in text
        assert f'action="{PAGE}/approve"' in text
        assert ">Approve</button>" in text
        read = (await served.web.get(PAGE, headers=served.bearing("reader"))).text
        assert '<svg class="dag"' in read
        assert ">Approve</button>" not in read
        assert "hush" not in read
        decision = {"node": "release", "decision": "approve"}
        refused = await served.web.post(f"{PAGE}/approve", data=decision, headers=served.bearing("reader"))
        assert refused.status_code == 403
    assert "Nodes as a table" not in (await served.web.get("/workflows/other")).text


async def test_an_approval_is_decided_once_under_the_name_of_the_token(served: Served) -> None:
    async with shopping(served.client) as handle:
        decision = {"node": "release", "decision": "approve", "comment": " fine "}
        done = await served.web.post(f"{PAGE}/approve", data=decision)
        assert (done.status_code, done.headers["location"]) == (303, PAGE)
        assert await handle.result() == ["hush", "hush"]
        events = [event async for event in handle.history() if event.type == "UpdateCompleted"]
        assert [event.payload["result"] for event in events] == [
            {"approved": True, "comment": "fine", "by": "all"}
        ]
        seen = await describe(handle)
        assert {node.state for node in seen.nodes} == {"completed"}
        assert ">Approve</button>" not in (await served.web.get(PAGE)).text
        late = await served.web.post(f"{PAGE}/approve", data={**decision, "decision": "reject"})
        assert late.status_code in (404, 409)
        wrong = await served.web.post(f"{PAGE}/approve", data={**decision, "decision": "perhaps"})
        assert wrong.status_code == 422


class Backwards:
    """A codec."""

    name = "backwards"

    def encode(self, data: bytes) -> bytes:
        return data[::-1]

    def decode(self, data: bytes) -> bytes:
        return data[::-1]


async def test_who_has_no_key_is_told_to_connect_with_the_codec(tmp_path: Path) -> None:
    database_url = f"sqlite:///{tmp_path}/outlast.db"
    async with (
        Client.connect(database_url, converter=DataConverter(Backwards())) as client,
        shopping(client),
        Client.connect(database_url) as blind,
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(control_plane(blind)), base_url="http://localhost"
        ) as web,
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(control_plane(client)), base_url="http://localhost"
        ) as knowing,
    ):
        assert '<svg class="dag"' in (await knowing.get(PAGE)).text
        text = (await web.get(PAGE)).text
        assert "connect the dashboard with that codec" in text
        assert '<svg class="dag"' not in text
        refused = await web.get("/api/workflows/shop%2F1/dag")
        assert refused.status_code != 200
        assert "connect with that codec" in refused.json()["detail"]


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A dashboard over a run of a DAG, and its database."""
    folder: Path = tmp_path_factory.mktemp("graph")
    url = f"sqlite:///{folder}/outlast.db"
    control = folder / "control"
    control.write_text("1")

    async def begin(client: Client) -> None:
        await client.start("Book", {"pages": 2}, id="book")
        async with ChangeSignal(client) as changed:
            while not (await client.describe("book")).pending_timers:
                await asyncio.wait_for(changed.wait(), 60)

    with working(url, control), serving(url, folder, tokens=False) as (address, _):
        ask(url, begin)
        yield address, url


def test_the_graph_is_live_and_an_approval_is_a_click(browser: Browser, book: tuple[str, str]) -> None:
    address, url = book
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{address}/workflows/book")
    page.locator("#live[data-state=live]").wait_for()
    graph = page.locator("section.graph")
    expect(graph.locator("svg.dag g.node")).to_have_count(4)
    expect(graph.locator("g.node.running title")).to_have_text("release: running\nwaits for an approval")
    page.get_by_label("Comment").fill("well done")

    async def disturb(client: Client) -> None:
        await client.handle("book").signal("nothing", 1)

    ask(url, disturb)
    # The page was rendered again, and what was typed is still there.
    expect(page.locator(".waits, .state").filter(has_text="nothing").first).to_be_visible()
    expect(page.get_by_label("Comment")).to_have_value("well done")
    expect(graph.get_by_text("takes longest of what is left")).to_be_visible()
    graph.get_by_role("button", name="Approve").click()
    expect(graph.locator("g.node.completed")).to_have_count(4)
    expect(page.locator("form.approval")).to_have_count(0)
    graph.get_by_text("Nodes as a table").click()
    expect(graph.get_by_role("rowheader", name="scanned")).to_be_visible()
    page.goto("about:blank")
    context.close()
