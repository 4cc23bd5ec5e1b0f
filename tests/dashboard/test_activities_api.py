"""Ending activities from outside over HTTP, by token and by ids."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from tests.dashboard.conftest import Served
from tests.dashboard.programs import Asking

from outlast import ApplicationError, WorkflowFailedError

VERBS = ("complete", "fail", "cancel", "heartbeat")


async def post(served: Served, verb: str, token: Any = None, **body: Any) -> httpx2.Response:
    named = {"task_token": token} if token is not None else {}
    return await served.web.post(f"/api/activities/{verb}", json={**named, **body})


async def asked(served: Served, attempt: int = 1) -> str:
    """The token of the attempt that waits for the outside; the first one starts the workflow."""
    if attempt == 1:
        await served.client.start(Asking.run, id="a")
    while True:
        for one in (await served.client.describe("a")).pending_activities:
            if one.deferred and one.attempt == attempt and one.heartbeat_details:
                return str(one.heartbeat_details[0])
        await asyncio.sleep(0.01)


async def test_an_activity_is_completed_by_its_token(served: Served) -> None:
    token = await asked(served)
    found = (await served.web.get("/api/workflows/a")).json()["pending_activities"][0]
    assert (found["status"], found["deferred"], found["worker"]) == ("running", True, None)
    page = await served.web.get("/workflows/a")
    assert "deferred: ends by <code>outlast activity complete</code>" in page.text
    beaten = await post(served, "heartbeat", token, details=["row", 3])
    assert (beaten.status_code, beaten.content) == (204, b"")
    done = await post(served, "complete", token, result="yes")
    assert (done.status_code, done.content) == (204, b"")
    assert await served.client.handle("a").result() == "yes"
    for verb in VERBS:
        again = await post(served, verb, token)
        assert again.status_code == 409
        problem = again.json()
        assert problem["type"] == "urn:outlast:problem:attempt-not-running"
        assert problem["facts"]["outcome"] == "completed"


async def test_an_attempt_is_failed_by_ids(served: Served) -> None:
    await asked(served)
    ids: dict[str, Any] = {"workflow_id": "a", "activity_id": 1}
    assert (await post(served, "fail", **ids, message="later")).status_code == 204
    await asked(served, 2)
    run_id = (await served.client.describe("a")).run.run_id
    no: dict[str, Any] = {"message": "no", "type": "Denied", "details": [{"why": 1}], "non_retryable": True}
    assert (await post(served, "fail", **ids, run_id=run_id, **no)).status_code == 204
    with pytest.raises(WorkflowFailedError) as caught:
        await served.client.handle("a").result()
    assert caught.value.__cause__ is not None
    denied = caught.value.__cause__.__cause__
    assert isinstance(denied, ApplicationError)
    assert (denied.type, denied.message, denied.details) == ("Denied", "no", ({"why": 1},))


async def test_a_cancel_request_is_a_conflict_that_says_so(served: Served) -> None:
    token = await asked(served)
    refused = await post(served, "cancel", token)
    assert (refused.status_code, refused.json()["facts"]["reason"]) == (409, "no_cancel_request")
    # The workflow's code gives up as soon as it is asked to, so its attempt is told of with the run.
    await served.client.handle("a").terminate()
    told = await post(served, "heartbeat", token)
    assert (told.status_code, told.json()["facts"]["outcome"]) == (409, "cancelled")


@pytest.mark.parametrize("verb", VERBS)
async def test_what_can_not_be_is_told(served: Served, verb: str) -> None:
    await served.client.start("Waiting", id="w")
    ids = {"workflow_id": "w", "activity_id": 1}
    for body, status, field in (
        ({}, 422, "task_token"),
        ({"task_token": "nonsense"}, 422, "task_token"),
        ({"task_token": "x", **ids}, 422, "task_token"),
        ({"workflow_id": "w"}, 422, "task_token"),
        ({**ids, "activity_id": 0}, 422, "activity_id"),
        ({**ids, "activity_id": True}, 422, "body.activity_id"),
        ({**ids, "attempt": 1}, 422, "body.attempt"),
        (ids, 404, None),
        ({**ids, "workflow_id": "nobody"}, 404, None),
        ({**ids, "run_id": "nobody"}, 404, None),
    ):
        answer = await post(served, verb, **body)
        assert answer.status_code == status, answer.text
        found = answer.json().get("field")
        assert (found.replace(" ", "_") if found else None) == field
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("verb", VERBS)
async def test_it_takes_the_right_to_write(served: Served, verb: str) -> None:
    token = await asked(served)
    for name, status in (("reader", 403), ("seer", 403)):
        answer = await served.web.post(
            f"/api/activities/{verb}", json={"task_token": token}, headers=served.bearing(name)
        )
        assert answer.status_code == status
    nobody = await served.web.post(
        f"/api/activities/{verb}", json={"task_token": token}, headers={"authorization": ""}
    )
    assert nobody.status_code == 401
    allowed = await served.web.post(
        "/api/activities/complete", json={"task_token": token}, headers=served.bearing("writer")
    )
    assert allowed.status_code == 204


async def test_a_request_that_is_none_says_what_to_send(served: Served) -> None:
    path = "/api/activities/complete"
    no_json = await served.web.post(path, content='{"result": 1}')
    assert "send the header content-type: application/json" in no_json.json()["detail"]
    a_list = await served.web.post(path, json=[1])
    assert a_list.json()["detail"] == "body: the body must be a JSON object"
    other_name = await served.web.post(path, json={"token": "t"})
    assert other_name.json()["field"] == "body.token"
    assert "there is no such field: /api/openapi.json lists" in other_name.json()["detail"]
    nothing = await served.web.post("/api/activity/complete", json={})
    assert nothing.status_code == 404
    assert "/api/openapi.json lists what there is" in nothing.json()["detail"]
