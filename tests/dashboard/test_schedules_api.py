"""Schedules over HTTP: what programs may create, change, fire by hand and see."""

from __future__ import annotations

from typing import Any

import pytest
from tests.dashboard.conftest import Served

from outlast_dashboard.api.contract.schedule_bodies import CreateScheduleBody
from outlast_dashboard.api.contract.start_bodies import StartBody, StartOptionsBody

ID = "nightly/eu"
PATH = "/api/schedules/nightly%2Feu"
NIGHTLY: dict[str, Any] = {
    "schedule_id": ID,
    "workflow_type": "Report",
    "args": ["secret-argument"],
    "memo": {"a": "secret-memo"},
    "spec": [{"cron": "0 2 * * *", "time_zone": "Europe/Zurich"}],
    "exclude": [{"cron": "* * 25 12 *"}],
    "jitter_seconds": 60,
}


async def test_a_schedule_is_created_changed_paused_and_deleted(served: Served) -> None:
    web = served.web
    made = await web.post("/api/schedules", json=NIGHTLY)
    assert made.status_code == 201, made.text
    assert made.json()["specs"] == NIGHTLY["spec"]
    assert len(made.json()["next_slots"]) == 10
    assert "secret" not in made.text, "arguments and memo are no part of a description"
    assert (await web.get(PATH)).json() == made.json()
    [listed] = (await web.get("/api/schedules", params={"paused": False})).json()
    assert len(listed["next_slots"]) == 1
    changed = await web.patch(PATH, json={"spec": [{"every": 60}], "overlap": "buffer_one", "max_runs": 5})
    assert changed.status_code == 200, changed.text
    assert (changed.json()["specs"], changed.json()["remaining_runs"]) == ([{"every": 60}], 5)
    assert changed.json()["jitter"] == 60
    paused = await web.post(f"{PATH}/pause", json={"note": "maintenance"})
    assert (paused.json()["paused"], paused.json()["note"]) == (True, "maintenance")
    assert (await web.post(f"{PATH}/resume", json={})).json()["paused"] is False
    assert (await web.delete(PATH)).status_code == 204
    assert (await web.get("/api/schedules")).json() == []


OPTIONS: dict[str, Any] = {
    "execution_timeout_seconds": 7200,
    "run_timeout_seconds": 3600,
    "start_delay_seconds": 5,
    "priority": 2,
    "memo": {"a": "secret-memo"},
    "search_attributes": {"region": "eu"},
    "retry_policy": {"max_attempts": 3},
    "summary": "a report",
    "queue": "reports",
    "partition_key": "eu",
    "schedule_to_start_timeout_seconds": 600,
    "alerts": {"at": [0.8], "after_seconds": [60], "signal": "late"},
}


async def test_it_takes_every_option_of_a_start(served: Served) -> None:
    """The options are those of `POST /workflows`, and each can be changed alone."""
    assert OPTIONS.keys() == StartOptionsBody.model_fields.keys()
    assert CreateScheduleBody.model_fields.keys() >= StartBody.model_fields.keys() - {
        *("workflow_id", "duplicate_policy"),
        # Of one workflow that is started now.
        *("execution_deadline", "debounce"),
    }
    web = served.web
    await served.client.queues.define("reports")
    made = await web.post("/api/schedules", json={**NIGHTLY, **OPTIONS})
    assert made.status_code == 201, made.text
    options = made.json()["options"]
    assert "secret" not in made.text
    assert (options["execution_timeout"], options["queue"], options["partition_key"]) == (
        7200,
        "reports",
        "eu",
    )
    first = (await web.post(f"{PATH}/trigger", json={})).json()["workflow_id"]
    described = (await served.client.describe(first)).run
    assert described.queue is not None
    assert (described.queue.name, described.queue.partition_key, described.priority) == ("reports", "eu", 2)
    assert (described.summary, described.memo) == ("a report", {"a": "secret-memo"})
    changed = await web.patch(
        PATH, json={"workflow_type": "Other", "args": [1], "task_queue": "reports", "run_timeout_seconds": 60}
    )
    assert changed.status_code == 200, changed.text
    assert (changed.json()["workflow_type"], changed.json()["task_queue"]) == ("Other", "reports")
    assert changed.json()["options"] == {**options, "run_timeout": 60}
    lifted = await web.patch(PATH, json={"queue": None, "retry_policy": None, "max_runs": None})
    assert lifted.status_code == 200, lifted.text
    assert (lifted.json()["options"]["queue"], lifted.json()["options"]["retry_policy"]) == (None, None)
    assert lifted.json()["options"]["run_timeout"] == 60


async def test_the_next_slots_of_a_calendar_are_told_without_a_schedule(served: Served) -> None:
    asked = {"spec": [{"cron": "0 2 * * *", "time_zone": "Europe/Zurich"}], "next": 2}
    found = await served.web.post("/api/schedules/preview", json=asked)
    assert (found.status_code, len(found.json())) == (200, 2)
    assert all(slot.endswith(("T01:00:00+00:00", "T00:00:00+00:00")) for slot in found.json())
    assert (await served.web.get("/api/schedules")).json() == []
    for wrong in ({}, {"spec": [{"cron": "61 * * * *"}]}, {**asked, "next": 1001}):
        refused = await served.web.post("/api/schedules/preview", json=wrong)
        assert (refused.status_code, refused.json()["type"]) == (422, "urn:outlast:problem:invalid-option")


async def test_a_schedule_is_fired_by_hand(served: Served) -> None:
    web = served.web
    await web.post("/api/schedules", json={**NIGHTLY, "paused": True})
    first = await web.post(f"{PATH}/trigger", json={"request_id": "k"})
    assert (first.status_code, first.json()["workflow_id"]) == (201, f"{ID}-trigger-k")
    assert (await web.post(f"{PATH}/trigger", json={"request_id": "k"})).json() == first.json()
    refused = await web.post(f"{PATH}/trigger", json={"overlap": "skip"})
    assert (refused.status_code, refused.json()["type"]) == (
        409,
        "urn:outlast:problem:workflow-already-started",
    )
    week = {"start_time": "2026-01-01T00:00:00Z", "end_time": "2026-01-08T00:00:00Z"}
    assert (await web.post(f"{PATH}/backfill", json=week)).json() == {"started": 7, "existing": 0}
    assert (await web.post(f"{PATH}/backfill", json=week)).json() == {"started": 0, "existing": 7}
    few = await web.post(f"{PATH}/backfill", json={**week, "limit": 6})
    assert (few.status_code, few.json()["field"]) == (422, "limit")
    assert (await web.post(f"{PATH}/backfill", json={**week, "limit": None})).json()["existing"] == 7
    assert (await web.get("/api/count", params={"schedule": ID})).json()["count"] == 8


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("POST", "/api/schedules", NIGHTLY, 409, "schedule-exists"),
        ("POST", "/api/schedules", {**NIGHTLY, "spec": [{"cron": "61 * * * *"}]}, 422, "invalid-option"),
        ("POST", "/api/schedules", {**NIGHTLY, "spec": [{"cron": "0 0 30 2 *"}]}, 422, "invalid-option"),
        ("POST", "/api/schedules", {"schedule_id": "a", "workflow_type": "b"}, 422, "invalid-option"),
        ("POST", "/api/schedules", {**NIGHTLY, "schedule_id": "q", "queue": "none"}, 404, "queue-not-found"),
        ("POST", "/api/schedules", {**NIGHTLY, "partition_key": "eu"}, 422, "invalid-option"),
        ("PATCH", PATH, {"specs": []}, 422, "invalid-request"),
        ("PATCH", PATH, {"queue": "none"}, 404, "queue-not-found"),
        ("PATCH", PATH, {"priority": None}, 422, "invalid-request"),
        ("GET", "/api/schedules/unknown", None, 404, "schedule-not-found"),
        ("POST", "/api/schedules/unknown/trigger", {}, 404, "schedule-not-found"),
        ("DELETE", "/api/schedules/unknown", None, 404, "schedule-not-found"),
    ],
)
async def test_what_cannot_be_done_is_a_problem(
    served: Served, method: str, path: str, body: Any, status: int, kind: str
) -> None:
    await served.web.post("/api/schedules", json=NIGHTLY)
    refused = await served.web.request(method, path, json=body)
    assert (refused.status_code, refused.json()["type"]) == (status, f"urn:outlast:problem:{kind}")
