"""Alerts over HTTP and on the page of a run: who may see them, and that they hold no payloads."""

from __future__ import annotations

import html
import re
from typing import Any

from tests.dashboard.conftest import Served

from outlast import AlertPolicy, Every, StartOptions
from outlast.watchdog import TaskWatchdog
from outlast_dashboard.encoded_paths import quoted

SECRET = "s3cret"
POLICY = AlertPolicy(at=[0.5], after=[0.001])
OPTIONS = StartOptions(execution_timeout=7200, alerts=POLICY)


async def fire(served: Served, *ids: str) -> None:
    """Start workflows that wait, and have the alert of each fired."""
    for workflow_id in ids:
        await served.client.start("Waiting", SECRET, id=workflow_id, options=OPTIONS)
    watchdog = TaskWatchdog(served.client)
    while len((await served.client.alerts.list()).alerts) < len(ids):
        await watchdog.run_pass()


async def alerts(served: Served, name: str = "all", **given: Any) -> Any:
    answer = await served.web.get("/api/alerts", params=given, headers=served.bearing(name))
    assert answer.status_code == 200, answer.text
    return answer.json()["alerts"]


async def test_alerts_are_listed_filtered_and_paged(served: Served) -> None:
    await fire(served, "w-1", "w-2", "w-3")
    found = await alerts(served)
    assert {one["workflow_id"] for one in found} == {"w-1", "w-2", "w-3"}
    assert {(one["kind"], one["mark"], one["workflow_type"]) for one in found} == {
        ("after", "+0.001s", "Waiting")
    }
    assert await alerts(served, workflow_id="w-2") == [one for one in found if one["workflow_id"] == "w-2"]
    assert await alerts(served, workflow_type="Other") == []
    assert await alerts(served, kind="run") == []
    paged = await alerts(served, limit=2)
    assert [*paged, *await alerts(served, cursor=paged[-1]["alert_id"])] == found


async def test_whoever_may_read_sees_alerts_and_no_payload_with_them(served: Served) -> None:
    await fire(served, "w-1")
    seen = await alerts(served, "reader")
    assert seen == await alerts(served, "seer") == await alerts(served)
    assert SECRET not in str(seen)
    assert (await served.web.get("/api/alerts", headers={"authorization": ""})).status_code == 401
    told = await served.web.get("/api/workflows/w-1", headers=served.bearing("reader"))
    assert [one["mark"] for one in told.json()["alerts"]["fired"]] == ["+0.001s"]
    assert [one["mark"] for one in told.json()["alerts"]["armed"]] == ["50%"]
    assert SECRET not in told.text


async def test_what_cannot_be_listed_is_refused(served: Served) -> None:
    for given in ({"kind": "heartbeat"}, {"limit": 0}, {"limit": 1001}, {"workflow_id": ""}):
        assert (await served.web.get("/api/alerts", params=given)).status_code == 422, given


async def test_the_page_of_a_run_shows_what_was_fired_and_what_comes_next(served: Served) -> None:
    await fire(served, "w-1")
    await served.client.start("Waiting", SECRET, id="plain")
    for name in ("all", "reader"):
        answer = await served.web.get("/workflows/w-1", headers=served.bearing(name))
        found = re.search(r'<dl class="facts" id="alerts">.*?</dl>', answer.text, re.S)
        assert found is not None
        text = html.unescape(" ".join(re.sub(r"<[^>]+>", " ", found[0]).split()))
        assert text.startswith("Alert it has taken 0.001 s")
        assert "Next alert at 50% of the execution timeout at " in text
        told = re.search(r'aria-label="alerts: ([^"]*)"', answer.text)
        assert told is not None
        assert re.fullmatch(
            r"it has taken 0.001 s, fired at \S+ \S+ UTC; "
            r"alert at 50% of the execution timeout, at \S+ \S+ UTC; ",
            told[1],
        )
    assert 'id="alerts"' not in (await served.web.get("/workflows/plain")).text


async def test_the_form_of_a_start_takes_alerts(served: Served) -> None:
    typed = {"workflow_type": "Waiting", "workflow_id": "w", "run_timeout": "2h", "alerts": '{"at": [0.8]}'}
    made = await served.web.post("/start", data=typed)
    assert made.status_code == 303, made.text
    armed = (await served.client.describe("w")).alerts.armed
    assert [(one.kind, one.mark) for one in armed] == [("run", "80%")]
    for wrong in ("0.8", '{"at": [2]}', '{"near": 1}', '{"at": [0.8], "kinds": ["execution"]}'):
        refused = await served.web.post("/start", data={**typed, "workflow_id": "x", "alerts": wrong})
        assert refused.status_code == 422, wrong
        assert html.escape(wrong, quote=True).replace("&quot;", "&#34;") in refused.text, (
            "it keeps what was typed"
        )
    assert await served.client.count() == 1


async def test_an_alert_is_acknowledged_by_whoever_may_write(served: Served) -> None:
    await fire(served, "w-1")
    [alert] = await alerts(served, acknowledged=False)
    address = f"/api/alerts/{alert['alert_id']}/acknowledge"
    assert (await served.web.post(address, headers=served.bearing("reader"))).status_code == 403
    done = await served.web.post(address, headers=served.bearing("writer"))
    assert done.status_code == 200, done.text
    assert done.json()["acknowledged_by"] == "writer"
    assert (await served.web.post(address, headers=served.bearing("writer"))).json() == done.json()
    refused = await served.web.post(address, headers=served.bearing("all"))
    assert refused.status_code == 409
    assert "was acknowledged by 'writer'" in refused.json()["detail"]
    assert (await served.web.post("/api/alerts/nope/acknowledge")).status_code == 404
    assert await alerts(served, acknowledged=True) == [done.json()]
    assert await alerts(served, acknowledged=False) == []
    gauges = (await served.web.get("/api/metrics")).text
    assert "outlast_unacknowledged_alerts 0.0" in gauges


async def test_the_gauges_say_how_deliveries_stand(served: Served) -> None:
    await served.client.alerts.test("oncall")
    other = await served.client.alerts.test("oncall")
    before = (await served.web.get("/api/metrics")).text
    await served.client.handle(other).terminate("not wanted")
    after = (await served.web.get("/api/metrics")).text
    for text, waiting, failed in ((before, 2, 0), (after, 1, 1)):
        assert f'outlast_alert_deliveries{{status="waiting"}} {waiting}.0' in text
        assert f'outlast_alert_deliveries{{status="failed"}} {failed}.0' in text
        assert 'outlast_alert_deliveries{status="delivered"} 0.0' in text


async def test_what_fires_when_is_told_over_http(served: Served) -> None:
    options = StartOptions(execution_timeout=7200, alerts=AlertPolicy(at=[0.5, 0.6]))
    await served.client.start("Waiting", SECRET, id="w-1", options=options)
    answer = await served.web.get("/api/upcoming", headers=served.bearing("reader"))
    assert answer.status_code == 200
    assert SECRET not in answer.text
    whole = answer.json()
    assert [one["kind"] for one in whole["due"]] == ["alert", "alert", "execution_timeout"]
    given: dict[str, Any] = {
        "limit": 1,
        "kind": ["alert", "timer"],
        "workflow_type": "Waiting",
        "within_seconds": 5000,
    }
    page = (await served.web.get("/api/upcoming", params=given)).json()
    assert page["due"] == whole["due"][:1]
    rest = (await served.web.get("/api/upcoming", params={**given, "cursor": page["cursor"]})).json()
    assert rest["due"] == whole["due"][1:2]
    wrong: tuple[dict[str, Any], ...] = (
        {"kind": "tumor"},
        {"limit": 0},
        {"within_seconds": 0},
        {"cursor": "x"},
        {"kinds": "timer"},
    )
    for one in wrong:
        assert (await served.web.get("/api/upcoming", params=one)).status_code == 422, one
    assert (await served.web.get("/api/upcoming", headers={"authorization": ""})).status_code == 401


# --- pages ----------------------------------------------------------------------------------------------------------


def words(page: str) -> str:
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", page).split()))


async def test_the_page_of_alerts_shows_filters_and_acknowledges(served: Served) -> None:
    await fire(served, "w-1", "w-2")
    whole = words((await served.web.get("/alerts")).text)
    assert "2 not acknowledged" in whole
    assert whole.count("it has taken 0.001 s") == 2
    assert SECRET not in whole
    reader = (await served.web.get("/alerts", headers=served.bearing("reader"))).text
    assert '<button class="small"' not in reader.partition("<main")[2]
    assert "by nobody" in reader
    one = (await served.web.get("/alerts", params={"workflow_id": "w-1", "acknowledged": "no"})).text
    [address] = re.findall(r'action="(/alerts/[^"]+/acknowledge)"', one)
    [back] = re.findall(r'name="back" value="([^"]+)"', one)
    assert html.unescape(back) == "acknowledged=no&workflow_id=w-1"
    refused = await served.web.post(address, headers=served.bearing("reader"))
    assert refused.status_code == 403
    done = await served.web.post(
        address, data={"back": html.unescape(back)}, headers=served.bearing("writer")
    )
    assert (done.status_code, done.headers["location"]) == (303, f"/alerts?{html.unescape(back)}")
    assert "There are no such alerts" in (await served.web.get(done.headers["location"])).text
    assert "by writer" in words((await served.web.get("/alerts?acknowledged=yes")).text)
    assert "acknowledged by writer" in words((await served.web.get("/workflows/w-1")).text)
    twice = await served.web.post(address, headers=served.bearing("all"))
    assert twice.status_code == 409
    assert "was acknowledged by &#39;writer&#39;" in twice.text
    assert (await served.web.post("/alerts/nope/acknowledge")).status_code == 404


async def test_what_the_pages_cannot_filter_by_is_told_at_its_field(served: Served) -> None:
    for path, field in (
        ("/alerts?kind=tumor", "kind"),
        ("/alerts?acknowledged=perhaps", "acknowledged"),
        ("/upcoming?kind=tumor", "kind"),
        ("/upcoming?within=soon", "within"),
        ("/upcoming?within=0", "within"),
        ("/upcoming?task_queue=%01", "task_queue"),
    ):
        answer = await served.web.get(path)
        assert (answer.status_code, f'id="{field}-wrong"' in answer.text) == (422, True), path
    assert (await served.web.get("/upcoming?cursor=x")).status_code == 422


async def test_the_page_of_what_fires_when_leads_from_page_to_page(served: Served) -> None:
    for number in range(60):
        options = StartOptions(run_timeout=3600 + number)
        await served.client.start("Waiting", SECRET, id=f"p-{number:02}", options=options)
    await served.client.schedules.create("nightly", "Report", spec=Every(60))
    first = (await served.web.get("/upcoming", params={"kind": "run_timeout", "within": "2h"})).text
    assert "p-49" in first
    assert "p-50" not in first
    assert "nightly" not in first
    [onward] = re.findall(r'href="(/upcoming\?[^"]+)">Next page', first)
    second = (await served.web.get(html.unescape(onward))).text
    assert "p-50" in second
    assert "p-49" not in second
    assert "First page" in second
    assert SECRET not in first + second
    whole = (await served.web.get("/upcoming")).text
    assert '<a href="/schedules/nightly">nightly</a>' in whole
    watchdog = (await served.web.get("/watchdog")).text
    assert '<a href="/schedules/nightly">nightly</a>' in watchdog
    assert 'href="/upcoming"' in watchdog


async def test_the_pages_show_how_far_an_alert_is_on_its_way(served: Served) -> None:
    policy = AlertPolicy(after=[0.001], channels=["oncall"])
    await served.client.start("Waiting", SECRET, id="w-1", options=StartOptions(alerts=policy))
    watchdog = TaskWatchdog(served.client)
    while not (await served.client.alerts.list()).alerts:
        await watchdog.run_pass()
    [alert] = await alerts(served)
    [delivery] = alert["deliveries"]
    assert (delivery["channel"], delivery["delivered_at"]) == ("oncall", None)
    link = f'<a href="/workflows/{quoted(delivery["workflow_id"])}">under way</a>'
    for page in ("/workflows/w-1", "/alerts"):
        assert f"oncall: {link}" in (await served.web.get(page)).text, page


async def test_a_start_over_http_names_channels(served: Served) -> None:
    body = {
        "workflow_type": "Waiting",
        "workflow_id": "w-1",
        "args": ["x"],
        "alerts": {"after_seconds": [0.001], "channels": ["oncall"]},
    }
    answer = await served.web.post("/api/workflows", json=body, headers=served.bearing("all"))
    assert answer.status_code == 201, answer.text
    await TaskWatchdog(served.client).run_pass()
    (fired,) = await alerts(served)
    assert [one["channel"] for one in fired["deliveries"]] == ["oncall"]
