"""How a workflow ended, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from tests.dashboard.conftest import Served

from outlast import StartOptions


async def result(served: Served, id: str, token: str = "all", **asked: Any) -> tuple[int, Any]:
    answer = await served.web.get(f"/api/workflows/{id}/result", params=asked, headers=served.bearing(token))
    return answer.status_code, answer.json()


async def test_the_result_is_waited_for(served: Served) -> None:
    handle = await served.client.start("Greeting", "ada", id="g-1")
    found = {"workflow_id": "g-1", "run_id": handle.run_id, "status": "completed", "error": None}
    assert await result(served, "g-1", wait_seconds=30) == (200, {**found, "result": "hello ada"})
    assert await result(served, "g-1", wait_seconds=0) == (200, {**found, "result": "hello ada"})
    assert await result(served, "g-1", "reader") == (200, {**found, "result": {"hidden": True}})


async def test_what_has_not_ended_is_told_to_go_on(served: Served) -> None:
    handle = await served.client.start("Nobody", id="n-1", task_queue="nowhere")
    for seconds in (0, 0.01):
        assert await result(served, "n-1", wait_seconds=seconds) == (
            202,
            {
                "workflow_id": "n-1",
                "run_id": handle.run_id,
                "status": "pending",
                "result": None,
                "error": None,
            },
        )
    for wrong in (-1, 61, "nan", "soon"):
        status, problem = await result(served, "n-1", wait_seconds=wrong)
        assert (status, problem["field"]) == (422, "query.wait_seconds")
    assert (await result(served, "nobody"))[0] == 404
    assert (await result(served, "n-1", run_id="nothing"))[1]["type"] == "urn:outlast:problem:run-not-found"


@pytest.mark.parametrize("how", ["failed", "timed_out", "cancelled", "terminated"])
async def test_an_end_without_a_result_says_why(served: Served, how: str) -> None:
    if how == "failed":
        await served.client.start("Failing", "s3cret", id="e-1")
    elif how == "timed_out":
        await served.client.start("Waiting", id="e-1", options=StartOptions(run_timeout=1))
    else:
        handle = await served.client.start("Waiting", id="e-1")
        await (handle.cancel("enough") if how == "cancelled" else handle.terminate("enough"))
    status, found = await result(served, "e-1", "reader", wait_seconds=30)
    assert (status, found["status"], found["result"]) == (200, how, None)
    error = found["error"]
    if how == "failed":
        assert error["type"] == "WorkflowFailedError"
        assert (error["cause"]["type"], error["cause"]["message"]) == ("Declined", "no funds")
        assert "s3cret" not in str(found)
    elif how == "timed_out":
        described = await served.client.describe("e-1")
        assert described.run.run_deadline_at is not None
        assert error["timeout_kind"] == "run_timeout"
        assert error["deadline_at"] == described.run.run_deadline_at.isoformat()
    else:
        assert error["reason"] == "enough"


async def test_an_unknown_query_parameter_is_refused_with_the_nearest_one(served: Served) -> None:
    """A misspelt filter would find everything, and a bulk action with it would end everything."""
    await served.client.start("Waiting", id="w-1")
    for method, path, field, words in (
        ("GET", "/api/workflows?task_que=x", "query.task_que", "did you mean 'task_queue'?"),
        ("GET", "/api/count?page_size=1", "query.page_size", "there are status, run_id, workflow_type"),
        ("POST", "/api/bulk/terminate?id_prefix=w&statuss=failed", "query.statuss", "did you mean 'status'?"),
        ("GET", "/api/workflows/w-1/history?after=1", "query.after", "did you mean 'after_seq'?"),
        ("GET", "/api/health?x=1", "query.x", "give none"),
    ):
        body: dict[str, Any] | None = {} if method == "POST" else None
        answer = await served.web.request(method, path, json=body)
        problem = answer.json()
        assert (answer.status_code, problem["field"]) == (422, field)
        assert words in problem["detail"]
        unknown = await served.web.request(method, path, json=body, headers={"authorization": "Bearer x"})
        assert unknown.status_code == 401, path
    assert (await served.client.describe("w-1")).run.closed_at is None


async def test_a_reset_after_the_end_is_followed_unless_the_caller_says_otherwise(served: Served) -> None:
    first = await served.client.start("Waiting", id="w-1")
    await first.terminate("enough")
    new = await first.reset("first-workflow-task")
    status, found = await result(served, "w-1", run_id=first.run_id, wait_seconds=0)
    assert (status, found["run_id"]) == (202, new.run_id)
    _, alone = await result(served, "w-1", run_id=first.run_id, follow_runs=False)
    assert (alone["run_id"], alone["status"]) == (first.run_id, "terminated")
    assert alone["error"]["type"] == "WorkflowContinuedAsNewError"
    assert alone["error"]["next_run_id"] == new.run_id
    assert alone["error"]["cause"]["reason"] == "enough"
    await new.terminate()
    _, latest = await result(served, "w-1", follow_runs=False)
    assert (latest["run_id"], latest["error"]["type"]) == (new.run_id, "WorkflowTerminatedError")
