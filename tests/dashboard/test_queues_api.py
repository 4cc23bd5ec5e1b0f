"""Queues over HTTP: what programs may define, change and see."""

from __future__ import annotations

from typing import Any

from tests.dashboard.conftest import Served

from outlast import StartOptions

NAME = "e-mails/b"
PATH = "/api/queues/e-mails%2Fb"
LIMITS = {
    "concurrency": 10,
    "worker_concurrency": 5,
    "rate": {"limit": 20, "per_seconds": 1.5},
    "partition_concurrency": 2,
    "partition_worker_concurrency": None,
    "partition_rate": {"limit": 5, "per_seconds": 60},
}


async def test_a_queue_is_defined_changed_paused_and_deleted(served: Served) -> None:
    web = served.web
    made = await web.post("/api/queues", json={"name": NAME, **LIMITS})
    assert made.status_code == 201, made.text
    assert {name: made.json()[name] for name in LIMITS} == LIMITS
    assert (await web.get(PATH)).json() == made.json()
    assert (await web.get("/api/queues")).json() == [made.json()]
    changed = await web.patch(PATH, json={"rate": None, "concurrency": 4})
    assert changed.status_code == 200, changed.text
    assert {name: changed.json()[name] for name in LIMITS} == {**LIMITS, "rate": None, "concurrency": 4}
    paused = await web.post(f"{PATH}/pause", json={"note": "maintenance"})
    assert (paused.json()["paused"], paused.json()["note"]) == (True, "maintenance")
    resumed = await web.post(f"{PATH}/resume", json={})
    assert (resumed.json()["paused"], resumed.json()["note"]) == (False, None)
    gone = await web.delete(PATH)
    assert (gone.status_code, gone.content) == (204, b"")
    assert (await web.get("/api/queues")).json() == []


async def test_what_is_there_already_is_refused_kept_or_updated(served: Served) -> None:
    web = served.web
    await web.post("/api/queues", json={"name": "gpu", "concurrency": 3})
    again = await web.post("/api/queues", json={"name": "gpu"})
    assert (again.status_code, again.json()["type"]) == (409, "urn:outlast:problem:queue-exists")
    kept = await web.post("/api/queues", json={"name": "gpu", "if_exists": "keep"})
    assert kept.json()["concurrency"] == 3
    updated = await web.post("/api/queues", json={"name": "gpu", "if_exists": "update"})
    assert updated.json()["concurrency"] is None


REQUESTS: tuple[tuple[str, str, Any], ...] = (
    ("get", "", None),
    ("patch", "", {"concurrency": 1}),
    ("post", "/pause", {}),
    ("post", "/resume", {}),
    ("delete", "", None),
)


async def test_an_unknown_queue_is_not_found_and_told_with_names_like_it(served: Served) -> None:
    await served.web.post("/api/queues", json={"name": "emails"})
    for method, path, body in REQUESTS:
        more = {} if body is None else {"json": body}
        answer = await served.web.request(method, f"/api/queues/emials{path}", **more)
        told = answer.status_code, answer.json()["type"]
        assert told == (404, "urn:outlast:problem:queue-not-found"), (method, path)
        assert answer.json()["facts"] == {"name": "emials", "similar": ["emails"]}


BAD_LIMITS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"name": "outlast_x"}, "queue"),
    ({"name": ".."}, "queue"),
    ({"name": "a", "concurrency": 0}, "concurrency"),
    ({"name": "a", "concurrency": 1.5}, "body.concurrency"),
    ({"name": "a", "rate": {"limit": 1, "per_seconds": 0}}, "per"),
    ({"name": "a", "rate": {"limit": 1}}, "body.rate.per_seconds"),
    ({"name": "a", "rate": "5/s"}, "body.rate"),
    ({"name": "a", "concurrency": 1, "partition_concurrency": 2}, "partition_concurrency"),
    ({"name": "a", "limit": 5}, "body.limit"),
    ({"concurrency": 5}, "body.name"),
    ({"name": "a", "if_exists": "maybe"}, "body.if_exists"),
)


async def test_bad_limits_are_refused_and_named(served: Served) -> None:
    for body, field in BAD_LIMITS:
        answer = await served.web.post("/api/queues", json=body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["field"] == field, body
    text = await served.web.post("/api/queues", json={"name": "a", "rate": "5/s"})
    assert 'rate: must be an object such as {"limit": 20, "per_seconds": 1}' in text.json()["detail"]
    assert (await served.web.get("/api/queues")).json() == []


async def test_an_empty_change_says_what_to_give(served: Served) -> None:
    await served.web.post("/api/queues", json={"name": "emails"})
    answer = await served.web.patch("/api/queues/emails", json={})
    assert (answer.status_code, answer.json()["field"]) == (422, "limits")


async def test_a_workflow_is_started_in_a_queue_and_found_by_it(served: Served) -> None:
    web = served.web
    start = {"workflow_type": "Waiting", "workflow_id": "w", "queue": "mails", "partition_key": "t-7"}
    unknown = await web.post("/api/workflows", json=start)
    assert (unknown.status_code, unknown.json()["type"]) == (404, "urn:outlast:problem:queue-not-found")
    await web.post("/api/queues", json={"name": "mails"})
    await web.post("/api/queues/mails/pause", json={})
    more = {**start, "schedule_to_start_timeout_seconds": 3600}
    assert (await web.post("/api/workflows", json=more)).status_code == 201
    found = (await web.get("/api/workflows/w")).json()["run"]["queue"]
    assert (found["name"], found["partition_key"], found["ahead"], found["holds_slot"]) == (
        "mails",
        "t-7",
        0,
        False,
    )
    listed = (await web.get("/api/workflows?queue=mails&status=queued&partition_key=t-7")).json()["runs"]
    assert [(one["workflow_id"], one["queue"]) for one in listed] == [("w", "mails")]
    for path in ("/workflows/w", "/?queue=mails&status=queued"):
        page = await web.get(path)
        assert page.status_code == 200, page.text
        assert "mails" in page.text
    typed = {"workflow_type": "Waiting", "workflow_id": "by-form", "args": "", "queue": "mails"}
    assert (await web.post("/start", data=typed)).status_code == 303
    assert (await web.get("/api/queues/mails")).json()["waiting"] == 2
    refused = await web.delete("/api/queues/mails")
    assert (refused.status_code, refused.json()["facts"]) == (
        409,
        {"name": "mails", "waiting": 2, "running": 0},
    )


async def test_the_start_of_many_is_moved_in_one_request(served: Served) -> None:
    await served.client.queues.define("mails")
    await served.client.queues.pause("mails")
    for number in range(3):
        options = StartOptions(queue="mails", partition_key=f"t-{number % 2}")
        await served.client.start("Waiting", id=f"m-{number}", options=options)
    path, asked = "/api/bulk/set-start-delay", {"queue": "mails", "partition_key": "t-0"}
    nothing = await served.web.post(path, params=asked, json={})
    assert (nothing.status_code, nothing.json()["field"]) == (422, "delay")
    done = await served.web.post(path, params=asked, json={"delay_seconds": 3600})
    assert done.json() == {"done": 2, "refused": [], "cursor": None, "forks": {}}
    moved = await served.web.post(path, params=asked, json={"until": "2030-01-01T00:00:00Z"})
    assert moved.json()["done"] == 2
    load = await served.client.queues.describe("mails")
    assert (load.waiting, load.delayed) == (1, 2)
