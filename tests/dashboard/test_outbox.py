"""The outbox over HTTP and on the page of the watchdog: what was refused is seen, tried again and deleted."""

from __future__ import annotations

from tests.dashboard.conftest import Served

from outlast_runs.outbox import refuse
from outlast_store.journal.batch import BaseChange, Batch


class WriteRefused(BaseChange):
    """Write a row as a user's transaction does, and refuse it before anybody applies it."""

    def __init__(self, workflow_id: str) -> None:
        self.values = ("start", workflow_id, "Order", '["secret"]', "{}")

    def apply(self, batch: Batch) -> int:
        text = "INSERT INTO outlast_outbox (kind, workflow_id, name, args, options) VALUES (?, ?, ?, ?, ?)"
        batch.execute(text, self.values)
        [(number,)] = batch.scan("SELECT max(outbox_id) FROM outlast_outbox", ())
        refuse(batch, number, "there is no queue '<b>'")
        return int(number)


async def refused(served: Served, workflow_id: str) -> int:
    """A row that was refused."""
    return await served.client.runtime.journal.apply(WriteRefused(workflow_id))


async def test_programs_see_refusals_and_settle_them(served: Served) -> None:
    web = served.web
    first, second = await refused(served, "a/1"), await refused(served, "b")
    listed = await web.get("/api/outbox?state=refused")
    assert [row["workflow_id"] for row in listed.json()] == ["a/1", "b"]
    assert "secret" not in listed.text
    assert (await web.get("/api/outbox?state=waiting")).json() == []
    assert (await web.get(f"/api/outbox?after={first}&limit=1")).json()[0]["outbox_id"] == second
    assert (await web.post(f"/api/outbox/{first}/retry")).status_code == 204
    assert (await web.get("/api/workflows/a%2F1")).status_code == 200
    assert (await web.delete(f"/api/outbox/{second}")).status_code == 204
    for answer in (
        await web.post(f"/api/outbox/{second}/retry"),
        await web.delete(f"/api/outbox/{second}"),
    ):
        assert (answer.status_code, answer.json()["type"]) == (
            404,
            "urn:outlast:problem:outbox-row-not-found",
        )
    assert (await web.get("/api/outbox?state=lost")).status_code == 422


async def test_people_see_refusals_and_settle_them(served: Served) -> None:
    web = served.web
    assert "Outbox</h2>" not in (await web.get("/watchdog")).text
    first, second = await refused(served, "a/1"), await refused(served, "b")
    page = (await web.get("/watchdog")).text
    assert "0 waiting, 2 refused" in page
    assert "There is no queue &#39;&lt;b&gt;&#39;." in page
    assert "secret" not in page
    assert "2 things that committed transactions asked for were refused" in (await web.get("/")).text
    assert "refused" not in (await web.get("/?id_prefix=a")).text
    metrics = (await web.get("/api/metrics")).text
    assert "outlast_outbox_refused 2.0" in metrics
    assert (await web.post(f"/outbox/{first}/retry", follow_redirects=False)).status_code == 303
    assert (await web.post(f"/outbox/{second}/delete", follow_redirects=False)).status_code == 303
    assert "Outbox</h2>" not in (await web.get("/watchdog")).text
    assert "refused" not in (await web.get("/")).text
    assert await served.client.count() == 1
