"""Starting, finding, looking at and asking workflows over HTTP."""

from __future__ import annotations

import asyncio
from datetime import datetime

import httpx2
import orjson
import pytest
from tests.dashboard.conftest import Served
from tests.rows import latest_row

from outlast import StartOptions, WorkflowCancelledError, WorkflowTerminatedError
from outlast_dashboard import control_plane
from outlast_workflow.environment import SystemClock


async def started(served: Served, **body: object) -> str:
    answer = await served.web.post("/api/workflows", json={"workflow_type": "Waiting", **body})
    assert answer.status_code == 201, answer.text
    found: str = answer.json()["workflow_id"]
    return found


async def test_a_workflow_is_started_runs_and_is_described(served: Served) -> None:
    id = await started(served, workflow_type="Greeting", args=["ada"], workflow_id="greet-1")
    assert await served.client.handle(id).result() == "hello ada"
    found = (await served.web.get(f"/api/workflows/{id}")).json()
    assert found["workflow_type"] == "Greeting"
    assert found["run"]["status"] == "completed"


async def test_both_deadlines_are_shown_as_iso_8601(served: Served) -> None:
    id = await started(served, execution_timeout_seconds=7200, run_timeout_seconds=3600)
    found = (await served.web.get(f"/api/workflows/{id}")).json()
    described = await served.client.describe(id)
    assert found["execution_timeout_seconds"] == 7200
    assert found["run"]["run_timeout_seconds"] == 3600
    assert found["run"]["execution_deadline_at"].endswith("+00:00")
    assert (
        datetime.fromisoformat(found["run"]["execution_deadline_at"]) == described.run.execution_deadline_at
    )
    assert datetime.fromisoformat(found["run"]["run_deadline_at"]) == described.run.run_deadline_at


async def test_a_deadline_may_be_an_instant(served: Served) -> None:
    id = await started(served, execution_deadline="2990-01-01T00:00:00+00:00")
    found = (await served.web.get(f"/api/workflows/{id}")).json()
    assert found["run"]["execution_deadline_at"] == "2990-01-01T00:00:00+00:00"


async def test_starts_of_a_key_are_debounced(served: Served) -> None:
    burst = {"key": "user-7", "period_seconds": 60, "timeout_seconds": 100}
    answers = [
        await served.web.post(
            "/api/workflows",
            json={"workflow_type": "Greeting", "args": [name], "debounce": burst, "memo": {"by": name}},
        )
        for name in ("ada", "bob")
    ]
    assert [answer.status_code for answer in answers] == [201, 201]
    [first, second] = [answer.json() for answer in answers]
    assert first == second
    page = await served.web.get(f"/workflows/{first['workflow_id']}")
    assert ("bob" in page.text, "begins" in page.text) == (True, True)
    body = {"workflow_type": "Greeting", "args": ["x"], "debounce": burst, "workflow_id": "w"}
    refused = await served.web.post("/api/workflows", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, "workflow_id")


async def test_every_start_option_arrives(served: Served) -> None:
    id = await started(
        served,
        workflow_id="with options",
        task_queue="elsewhere",
        execution_timeout_seconds=100.5,
        run_timeout_seconds=50,
        start_delay_seconds=20,
        priority=2,
        memo={"customer": "c-7"},
        summary="the order of Ada",
        search_attributes={"amount": 7, "tags": ["new", "big"]},
        retry_policy={
            "initial_interval_seconds": 2,
            "max_attempts": 3,
            "non_retryable_error_types": ["ValueError"],
        },
        duplicate_policy="reject_duplicate",
    )
    run = (await served.client.describe(id)).run
    assert (run.task_queue, run.priority, run.memo) == ("elsewhere", 2, {"customer": "c-7"})
    assert run.start_delayed
    assert run.summary == "the order of Ada"
    found = (await served.web.get("/api/workflows")).json()["runs"]
    assert [one["summary"] for one in found] == ["the order of Ada"]
    assert run.search_attributes == {"amount": 7, "tags": ["new", "big"]}
    row = await latest_row(served.client.handle(id))
    assert row.retry_policy is not None
    assert orjson.loads(row.retry_policy)["max_attempts"] == 3


@pytest.mark.parametrize(
    "id", ["a/b", "50% off", "100%2F", "ünï cøde", "?x=1&y", "#", "a b", "...", "%", "count"]
)
async def test_any_id_can_be_asked_for(served: Served, id: str) -> None:
    assert await started(served, workflow_id=id) == id
    path = httpx2.URL("http://localhost").copy_with(raw_path=b"/api/workflows/" + quoted(id))
    found = await served.web.get(path)
    assert found.status_code == 200, found.text
    assert found.json()["workflow_id"] == id


def quoted(id: str) -> bytes:
    return "".join(f"%{byte:02X}" for byte in id.encode()).encode()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body.workflow_type"),
        ({"workflow_type": ""}, "workflow"),
        ({"workflow_type": "Waiting", "execution_timeout_seconds": 0.5}, "execution_timeout"),
        ({"workflow_type": "Waiting", "execution_timeout_seconds": True}, "body.execution_timeout_seconds"),
        ({"workflow_type": "Waiting", "run_timeout_seconds": "60"}, "body.run_timeout_seconds"),
        ({"workflow_type": "Waiting", "execution_deadline": "2990-01-01"}, "body.execution_deadline"),
        ({"workflow_type": "Waiting", "execution_deadline": "2001-01-01T00:00:00Z"}, "execution_deadline"),
        ({"workflow_type": "Waiting", "priority": 10}, "priority"),
        ({"workflow_type": "Waiting", "summary": "x" * 201}, "body.summary"),
        ({"workflow_type": "Waiting", "summary": "\0"}, "summary"),
        ({"workflow_type": "Waiting", "workflow_id": " "}, "workflow_id"),
        ({"workflow_type": "outlast_cleanup"}, "workflow"),
        ({"workflow_type": "Waiting", "task_queue": "outlast.x"}, "task_queue"),
        ({"workflow_type": "Waiting", "search_attributes": {"outlast_x": 1}}, "search_attributes"),
        ({"workflow_type": "Waiting", "timeout": 5}, "body.timeout"),
        ({"workflow_type": "Waiting", "args": "ada"}, "body.args"),
    ],
)
async def test_what_can_not_be_is_told_with_its_field_and_nothing_is_written(
    served: Served, body: dict[str, object], field: str
) -> None:
    answer = await served.web.post("/api/workflows", json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["field"].replace(" ", "_") == field
    assert await served.client.count() == 0


async def test_a_taken_id_is_a_conflict_that_says_whose(served: Served) -> None:
    id = await started(served, workflow_id="taken")
    answer = await served.web.post("/api/workflows", json={"workflow_type": "Waiting", "workflow_id": id})
    assert answer.status_code == 409
    problem = answer.json()
    assert problem["type"] == "urn:outlast:problem:workflow-already-started"
    assert problem["facts"]["workflow_id"] == id
    again = await served.web.post(
        "/api/workflows",
        json={"workflow_type": "Waiting", "workflow_id": id, "duplicate_policy": "return_existing"},
    )
    assert again.json()["run_id"] == problem["facts"]["run_id"]


async def test_a_start_with_a_key_counts_once(served: Served) -> None:
    answers = [
        await served.web.post(
            "/api/workflows",
            json={"workflow_type": "Greeting", "args": ["x"]},
            headers={"idempotency-key": "k-1"},
        )
        for _ in range(3)
    ]
    assert [answer.status_code for answer in answers] == [201] * 3
    assert len({answer.json()["run_id"] for answer in answers}) == 1
    assert answers[0].json()["workflow_id"] == "k-1"
    both = await served.web.post(
        "/api/workflows",
        json={"workflow_type": "Greeting", "workflow_id": "w-1"},
        headers={"idempotency-key": "k-2"},
    )
    assert (both.status_code, both.json()["field"]) == (422, "workflow_id")


async def test_runs_are_listed_page_by_page_and_counted(served: Served) -> None:
    ids = [await started(served, workflow_id=f"w-{number}") for number in range(5)]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        query: dict[str, str] = {"page_size": "2", "workflow_type": "Waiting"}
        if cursor is not None:
            query["cursor"] = cursor
        page = (await served.web.get("/api/workflows", params=query)).json()
        seen += [run["workflow_id"] for run in page["runs"]]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert seen == ids[::-1]
    assert (await served.web.get("/api/count", params={"open": "true"})).json() == {"count": 5}
    wrong = await served.web.get("/api/workflows", params={"cursor": "nonsense"})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "cursor")


async def test_a_signal_arrives_and_its_key_counts_once(served: Served) -> None:
    id = await started(served)
    for _ in range(2):
        answer = await served.web.post(
            f"/api/workflows/{id}/signals/say", json={"args": ["yes"]}, headers={"idempotency-key": "k-1"}
        )
        assert answer.status_code == 202, answer.text
    assert await served.client.handle(id).result() == "yes"
    events = [event.type async for event in served.client.handle(id).history()]
    assert events.count("SignalReceived") == 1


async def test_signals_are_sent_together_or_not_at_all(served: Served) -> None:
    ids = [await started(served), await started(served)]
    signals = [{"workflow_id": id, "name": "say", "args": ["yes"], "request_id": "k"} for id in ids]
    bad = await served.web.post(
        "/api/signals", json={"signals": [*signals, {"workflow_id": "nobody", "name": "say"}]}
    )
    assert (bad.status_code, bad.json()["facts"]["workflow_id"]) == (404, "nobody"), bad.text
    for _ in range(2):
        sent = await served.web.post("/api/signals", json={"signals": signals})
        assert (sent.status_code, sorted(sent.json()["workflow_ids"])) == (202, sorted(ids)), sent.text
        assert [await served.client.handle(id).result() for id in ids] == ["yes", "yes"]


async def test_a_field_of_a_memo_is_read_or_waited_for(served: Served) -> None:
    handle = await served.client.start(
        "Unserved", id="with a memo", task_queue="elsewhere", options=StartOptions(memo={"who": "ada"})
    )
    path = "/api/workflows/with%20a%20memo/memo"
    assert (await served.web.get(f"{path}/who")).json() == {"value": "ada"}
    assert (await served.web.get(f"{path}/what")).status_code == 408
    assert (await served.web.get(f"{path}/who", headers=served.bearing("reader"))).status_code == 403
    assert (await served.web.get(f"{path}/who", params={"timeout_seconds": 61})).status_code == 422
    await handle.terminate()
    waited = await served.web.get(f"{path}/what", params={"timeout_seconds": 5})
    assert (waited.status_code, waited.json()["facts"]["workflow_id"]) == (409, "with a memo")


@pytest.mark.parametrize("path", ["", "/{id}/signals/say", "/{id}/updates/rename"])
async def test_an_empty_key_is_none_and_is_refused(served: Served, path: str) -> None:
    """A fuzzer found that an update with one was taken, as if no key had been sent."""
    id = await started(served)
    answer = await served.web.post(
        f"/api/workflows{path.format(id=id)}",
        json={"workflow_type": "Greeting", "args": ["x"]} if not path else {"args": ["x"]},
        headers={"idempotency-key": ""},
    )
    assert (answer.status_code, answer.json()["field"]) == (422, "header.idempotency-key"), answer.text


async def test_a_query_is_answered_and_one_that_is_not_there_says_what_is(served: Served) -> None:
    id = await started(served)
    answer = await served.web.post(f"/api/workflows/{id}/queries/heard", json={"args": ["!"]})
    assert answer.json() == {"answer": "!"}
    unknown = await served.web.post(f"/api/workflows/{id}/queries/nothing", json={})
    assert (unknown.status_code, "heard" in unknown.json()["detail"]) == (404, True)
    assert "heard" in unknown.json()["facts"]["known"]
    blind = await served.web.post(
        f"/api/workflows/{id}/queries/heard", json={}, headers=served.bearing("reader")
    )
    assert (blind.status_code, blind.json()["type"]) == (403, "urn:outlast:problem:missing-scope")


async def test_a_query_that_nobody_can_answer_says_so_at_once(served: Served) -> None:
    await served.client.start("Nobody", id="n-1", task_queue="nowhere")
    answer = await served.web.post("/api/workflows/n-1/queries/heard", json={})
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:outlast:problem:no-worker")


async def test_an_update_happens_once_for_its_id_and_a_rejected_one_is_a_conflict(served: Served) -> None:
    id = await started(served)
    await served.client.handle(id).query("heard")  # its first workflow task is over
    rejected = await served.web.post(f"/api/workflows/{id}/updates/correct", json={"args": [""]})
    assert (rejected.status_code, rejected.json()["type"]) == (409, "urn:outlast:problem:update-rejected")
    assert (
        "was rejected (to ask again, give another id): ValueError: a word must not be empty"
        in rejected.json()["detail"]
    )
    short = await served.web.post(f"/api/workflows/{id}/updates/correct", json={})
    assert "parameter 'word' is missing: send it" in short.json()["detail"]
    for _ in range(2):
        answer = await served.web.post(
            f"/api/workflows/{id}/updates/correct", json={"args": ["yes"], "update_id": "u-1"}
        )
        assert answer.json() == {"update_id": "u-1", "state": "completed", "answer": ""}
    assert await served.client.handle(id).result() == "yes"


async def test_a_request_waits_for_acceptance_and_answer_together_as_long_as_it_may(served: Served) -> None:
    class Leaping(SystemClock):
        """A minute has passed whenever somebody looks."""

        at = 0.0

        def monotonic(self) -> float:
            self.at += 60
            return self.at

    id = await started(served)
    app = control_plane(served.client, clock=Leaping())
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as web:
        async with asyncio.timeout(30):
            answer = await web.post(f"/api/workflows/{id}/updates/hold", json={"timeout_seconds": 60})
    assert (answer.status_code, answer.json()["state"]) == (202, "accepted")


async def test_an_update_that_nobody_takes_is_told_to_go_on(served: Served) -> None:
    await served.client.start("Nobody", id="n-1", task_queue="nowhere")
    answer = await served.web.post("/api/workflows/n-1/updates/correct", json={"timeout_seconds": 0.01})
    assert (answer.status_code, answer.json()["state"]) == (202, "sent")


async def test_a_request_waits_no_longer_than_it_may(served: Served) -> None:
    id = await started(served)
    for seconds in (0, 61):
        answer = await served.web.post(
            f"/api/workflows/{id}/queries/heard", json={"timeout_seconds": seconds}
        )
        assert (answer.status_code, answer.json()["field"]) == (422, "timeout_seconds")


async def test_runs_are_found_by_prefix_and_attribute(served: Served) -> None:
    for number in range(3):
        await started(served, workflow_id=f"s-{number}", search_attributes={"amount": number})
    found = await served.web.get("/api/workflows", params={"where": "amount>=1", "id_prefix": "s-"})
    assert [run["workflow_id"] for run in found.json()["runs"]] == ["s-2", "s-1"]
    wrong = await served.web.get("/api/workflows", params={"where": "amount"})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "where")


async def test_a_workflow_is_reset_and_what_can_not_be_is_a_conflict(served: Served) -> None:
    id = await started(served, workflow_type="Greeting", args=["ada"])
    await served.client.handle(id).result()
    answer = await served.web.post(f"/api/workflows/{id}/reset", json={"to": "first-workflow-task"})
    assert answer.status_code == 201, answer.text
    assert (await served.client.describe(id)).run.run_id == answer.json()["run_id"]
    assert await served.client.handle(id).result() == "hello ada"
    refused = await served.web.post(f"/api/workflows/{id}/reset", json={"to": 1000})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:outlast:problem:reset-refused")


async def test_a_workflow_is_resumed_and_forked(served: Served) -> None:
    id = await started(served)
    refused = await served.web.post(f"/api/workflows/{id}/resume", json={})
    assert (refused.status_code, refused.json()["type"]) == (
        409,
        "urn:outlast:problem:workflow-not-resumable",
    )
    await served.web.post(f"/api/workflows/{id}/terminate", json={})
    answer = await served.web.post(f"/api/workflows/{id}/resume", json={"reason": "again", "queue": None})
    assert answer.status_code == 201, answer.text
    assert (await served.client.describe(id)).run.run_id == answer.json()["run_id"]

    body = {"to": "first-workflow-task", "workflow_id": "trial", "reason": "try"}
    answer = await served.web.post(f"/api/workflows/{id}/fork", json=body)
    assert (answer.status_code, answer.json()["workflow_id"]) == (201, "trial"), answer.text
    taken = await served.web.post(f"/api/workflows/{id}/fork", json=body)
    assert taken.json()["type"] == "urn:outlast:problem:workflow-already-started"
    wrong = await served.web.post(f"/api/workflows/{id}/fork", json={"before": 0})
    assert wrong.status_code == 422
    described = (await served.web.get(f"/api/workflows/{id}")).json()
    assert described["forks"] == ["trial"]
    for params, found in (({"forked_from": id}, ["trial"]), ({"was_forked_from": "true"}, [id])):
        runs = (await served.web.get("/api/workflows", params={**params, "latest": "true"})).json()["runs"]
        assert [run["workflow_id"] for run in runs] == found

    await served.web.post("/api/workflows/trial/terminate", json={})
    many = await served.web.post("/api/bulk/resume", params={"forked_from": id}, json={"reason": "all"})
    assert (many.json()["done"], many.json()["forks"]) == (1, {})
    named = {"to": "first-workflow-task", "workflow_ids": [id]}
    many = await served.web.post("/api/bulk/fork", json=named)
    assert set(many.json()["forks"]) == {id}, many.text
    (refused,) = (await served.web.post("/api/bulk/fork", json={"workflow_ids": [id], "before": 99})).json()[
        "refused"
    ]
    assert refused["problem"]["type"] == "urn:outlast:problem:reset-refused"
    for one in (id, "trial", many.json()["forks"][id]):
        await served.client.handle(one).terminate()


async def test_a_closed_workflow_is_deleted_and_an_open_one_only_if_that_is_meant(served: Served) -> None:
    id = await started(served)
    refused = await served.web.delete(f"/api/workflows/{id}")
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:outlast:problem:delete-refused")
    assert (await served.web.delete(f"/api/workflows/{id}", params={"terminate": "true"})).status_code == 200
    assert (await served.web.get(f"/api/workflows/{id}")).status_code == 404
    assert (await served.web.delete(f"/api/workflows/{id}")).status_code == 404


async def test_one_thing_is_done_to_many_a_step_at_a_time(served: Served) -> None:
    for number in range(5):
        await started(served, workflow_id=f"b-{number}")
    nothing = await served.web.post("/api/bulk/terminate", json={})
    assert (nothing.status_code, nothing.json()["field"]) == (422, "filters")
    asked = {"id_prefix": "b-"}
    await served.web.post("/api/workflows/b-4/terminate", json={})
    first = (await served.web.post("/api/bulk/terminate", params=asked, json={"limit": 3})).json()
    assert first["done"] + len(first["refused"]) == 3
    assert [one["workflow_id"] for one in first["refused"]] == ["b-4"]
    assert first["refused"][0]["problem"]["type"] == "urn:outlast:problem:workflow-closed"
    rest = (
        await served.web.post("/api/bulk/terminate", params=asked, json={"cursor": first["cursor"]})
    ).json()
    assert rest["cursor"] is None
    assert await served.client.count(open=True) == 0
    gone = (await served.web.post("/api/bulk/delete", params=asked, json={})).json()
    assert gone["done"] == 5
    assert await served.client.count() == 0


async def test_workflows_are_named_one_by_one_and_each_is_answered_for(served: Served) -> None:
    for number in range(3):
        await started(served, workflow_id=f"b-{number}")
    await served.client.handle("b-1").terminate()
    named = ["b-0", "b-1", "nobody"]
    in_body, in_query = {"workflow_ids": named}, {"workflow_ids": named}
    for body, query in ((in_body, {}), ({}, in_query)):
        answer = (await served.web.post("/api/bulk/terminate", json=body, params=query)).json()
        refused = {one["workflow_id"]: one["problem"]["type"].rpartition(":")[2] for one in answer["refused"]}
        assert refused.pop("nobody") == "workflow-not-found"
        assert refused.pop("b-1") == "workflow-closed"
        assert answer["done"] + len(refused) == 1
    listed = await served.web.get("/api/workflows", params={"workflow_ids": named, "has_parent": False})
    assert [run["workflow_id"] for run in listed.json()["runs"]] == ["b-1", "b-0"]
    gone = await served.web.post("/api/bulk/delete", json={"workflow_ids": ["b-2"], "terminate": True})
    assert gone.json()["done"] == 1
    too_many = {"workflow_ids": [f"w-{number}" for number in range(1001)]}
    refusal = await served.web.post("/api/bulk/cancel", json=too_many)
    assert (refusal.status_code, refusal.json()["field"]) == (422, "workflow_ids")


async def test_closed_alone_is_a_filter_and_a_switch_that_is_off_is_none(served: Served) -> None:
    for number in range(3):
        await started(served, workflow_id=f"c-{number}")
    await served.client.handle("c-0").terminate()
    for nothing in ({}, {"attention": False}, {"overdue": False}, {"latest": True}, {"latest": False}):
        refused = await served.web.post("/api/bulk/delete", params=nothing, json={})
        assert (refused.status_code, refused.json()["field"]) == (422, "filters"), nothing
    gone = (await served.web.post("/api/bulk/delete", params={"open": False}, json={})).json()
    assert gone == {"done": 1, "refused": [], "cursor": None, "forks": {}}
    assert await served.client.count(open=True) == 2
    ended = (await served.web.post("/api/bulk/terminate", params={"open": True}, json={})).json()
    assert ended["done"] == 2


async def test_cancel_and_terminate_end_a_workflow(served: Served) -> None:
    first, second = await started(served), await started(served)
    assert (await served.web.post(f"/api/workflows/{first}/cancel", json={"reason": "no"})).status_code == 202
    assert (await served.web.post(f"/api/workflows/{second}/terminate", json={})).status_code == 200
    with pytest.raises(WorkflowCancelledError):
        await served.client.handle(first).result()
    with pytest.raises(WorkflowTerminatedError):
        await served.client.handle(second).result()
    again = await served.web.post(f"/api/workflows/{second}/terminate", json={})
    assert (again.status_code, again.json()["facts"]["status"]) == (409, "terminated")


async def test_a_start_is_moved(served: Served) -> None:
    body = {"workflow_type": "sleep_long", "workflow_id": "later", "start_delay_seconds": 1000}
    assert (await served.web.post("/api/workflows", json=body)).status_code == 201
    path = "/api/workflows/later/start-delay"
    moved = await served.web.post(path, json={"until": "9999-01-01T00:00:00+01:00"})
    assert (moved.status_code, moved.json()) == (200, {"workflow_id": "later", "done": True})
    found = (await served.web.get("/api/workflows/later")).json()
    assert found["run"]["begins_at"] == "9998-12-31T23:00:00+00:00"
    for wrong, field in (({}, "delay"), ({"delay_seconds": -1}, "delay"), ({"until": "2030-01-01"}, "until")):
        refused = await served.web.post(path, json=wrong)
        assert refused.status_code == 422, wrong
        assert field in refused.text
    await served.client.handle("later").terminate()
    begun = await served.web.post(path, json={"delay_seconds": 0})
    assert (begun.status_code, begun.json()["type"]) == (
        409,
        "urn:outlast:problem:workflow-already-begun",
    )


async def test_what_is_not_there_is_not_found(served: Served) -> None:
    for path in ("", "/history", "/history/live"):
        answer = await served.web.get(f"/api/workflows/nobody{path}")
        assert answer.status_code == 404, path
        assert answer.json()["facts"] == {"workflow_id": "nobody"}
    id = await started(served)
    other = await served.web.get(f"/api/workflows/{id}", params={"run_id": "nothing"})
    assert other.json()["type"] == "urn:outlast:problem:run-not-found"


async def test_history_is_paged_and_says_where_it_ends(served: Served) -> None:
    id = await started(served, workflow_type="Greeting", args=["ada"])
    await served.client.handle(id).result()
    first = (await served.web.get(f"/api/workflows/{id}/history")).json()
    assert [event["seq"] for event in first["events"]] == list(range(1, len(first["events"]) + 1))
    assert first["next_after_seq"] is None
    rest = (await served.web.get(f"/api/workflows/{id}/history", params={"after_seq": 3})).json()
    assert rest["events"] == first["events"][3:]


async def test_history_is_followed_live_until_the_run_ends(served: Served) -> None:
    id = await started(served)
    await served.client.handle(id).signal("say", "over")
    await served.client.handle(id).result()
    answer = await served.web.get(f"/api/workflows/{id}/history/live", headers={"last-event-id": "1"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    kinds = [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]
    history = [event.type async for event in served.client.handle(id).history()]
    assert kinds == history[1:]


async def test_following_what_has_been_seen_to_its_end_ends_at_once(served: Served) -> None:
    id = await started(served, workflow_type="Greeting", args=["ada"])
    await served.client.handle(id).result()
    answer = await served.web.get(f"/api/workflows/{id}/history/live", params={"after_seq": 1000})
    assert (answer.status_code, answer.text.strip()) == (200, "")


async def test_long_texts_and_odd_actions_are_as_the_document_says(served: Served) -> None:
    document = (await served.web.get("/api/openapi.json")).json()
    attributes, _ = document["components"]["schemas"]["StartBody"]["properties"]["search_attributes"]["anyOf"]
    listed = next(one for one in attributes["additionalProperties"]["anyOf"] if one["type"] == "array")
    most = listed["items"]["maxLength"]
    for size, status in ((201, 201), (most, 201), (most + 1, 422)):
        body = {
            "workflow_type": "Nobody",
            "search_attributes": {"tags": ["0" * size]},
            "retry_policy": {"non_retryable_error_types": ["E" * 201]},
        }
        assert (await served.web.post("/api/workflows", json=body)).status_code == status, size
    odd = await served.web.post("/api/bulk/%0Acancel", params={"workflow_id": "w"}, json={})
    assert str(odd.status_code) in document["paths"]["/bulk/{action}"]["post"]["responses"]


async def test_what_is_no_run_id_is_refused_and_not_just_never_found(served: Served) -> None:
    for wrong in ("false", "w-1", "", "01a206d0"):
        answer = await served.web.get("/api/workflows", params={"run_id": wrong})
        assert answer.status_code == 422, answer.text
    known = (await served.client.describe(await started(served))).run.run_id
    found = await served.web.get("/api/workflows", params={"run_id": known})
    assert [run["run_id"] for run in found.json()["runs"]] == [known]
