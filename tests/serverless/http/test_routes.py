"""Documents, runs, schedules and events over HTTP, of a control plane that has tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from tests.serverless.cases import whole
from tests.serverless.events.cases import LISTENS, listens

from outlast import Client, Worker
from outlast.errors import FaultedError
from outlast_dashboard import Scope, Token, WebSettings, control_plane
from outlast_serverless import Document, DocumentState, Runtime, TaskStep, TracePage
from outlast_serverless.events.http_binding import BATCH, STRUCTURED
from outlast_serverless.http.routes import told_state, told_trace

SETS = whole("input: {schema: {document: {type: object}}}\ndo: [{s: {set: {got: '${ . }'}}}]")
RAISES = whole("do: [{r: {raise: {error: {type: 'https://e.x/e', status: 500, title: t, detail: why}}}}]")
SCOPES = {"reader": [Scope.READ], "sender": [Scope.EVENTS], "writer": [Scope.WRITE], "all": list(Scope)}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Served:
    client: Client
    runtime: Runtime
    web: httpx2.AsyncClient
    secrets: dict[str, str]

    def bearing(self, name: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.secrets[name]}"}


@pytest.fixture
async def served(database_url: str) -> AsyncIterator[Served]:
    made = {name: Token.make(name, scopes) for name, scopes in SCOPES.items()}
    secrets = {name: secret for name, (_, secret) in made.items()}
    async with (
        Client.connect(database_url) as client,
        Runtime(client) as runtime,
        Worker(
            client,
            workflows=runtime.workflows,
            activities=runtime.activities,
            graceful_shutdown_timeout=0.01,
        ),
    ):
        app = control_plane(client, WebSettings(tokens=[token for token, _ in made.values()]))
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app),
            base_url="http://localhost",
            headers={"authorization": f"Bearer {secrets['all']}"},
        ) as web:
            yield Served(client, runtime, web, secrets)


async def test_a_document_is_registered_shown_and_started(served: Served) -> None:
    web, path = served.web, "/api/serverless/documents/n/a"
    made = await web.post("/api/serverless/documents", content=SETS)
    assert (made.status_code, made.json()["new"]) == (201, True), made.text
    again = await web.post("/api/serverless/documents", content=SETS)
    assert (again.status_code, again.json()["new"]) == (200, False)
    [listed] = (await web.get("/api/serverless/documents")).json()
    assert (listed["name"], listed["digest"]) == ("a", made.json()["digest"])
    assert (await web.get("/api/serverless/documents", params={"after": "n/a:0.1.0"})).json() == []
    shown = await web.get(f"{path}/latest")
    assert shown.json()["document"]["name"] == "a"
    written = await web.get(f"{path}/0.1.0", headers={"accept": "application/yaml"})
    assert written.text == SETS
    started = await web.post(f"{path}/latest/runs", json={"input": {"x": 1}, "id": "w-1"})
    assert (started.status_code, started.json()) == (201, {"workflow_id": "w-1"})
    assert await served.runtime.run("w-1").result(timeout=10) == {"got": {"x": 1}}
    state = (await web.get("/api/serverless/runs/w-1")).json()
    assert (state["phase"], state["document"], state["open"]) == ("completed", "n/a", [])


async def test_expressions_that_do_not_compile_are_all_told_and_nothing_is_written(served: Served) -> None:
    text = whole(
        "do: [{s: {sett: {}}}, {t: {set: '${ .a | nope }'}}, {u: {if: 'map(', set: {v: '${ lengthh }'}}}]"
    )
    bad = await served.web.post("/api/serverless/documents", content=text)
    assert bad.status_code == 422
    assert [one["pointer"] for one in bad.json()["facts"]["problems"]] == [
        "/do/0/s/sett",
        "/do/1/t/set",
        "/do/2/u/if",
        "/do/2/u/set/v",
    ]
    assert (await served.web.get("/api/serverless/documents")).json() == []


async def test_what_is_wrong_is_told_as_a_problem(served: Served) -> None:
    web, documents = served.web, "/api/serverless/documents"
    bad = await web.post(documents, content=SETS.replace("set:", "sett:"))
    assert bad.status_code == 422
    assert bad.json()["type"] == "urn:outlast:problem:invalid-document"
    [problem] = bad.json()["facts"]["problems"]
    assert (problem["pointer"], problem["line"]) == ("/do/0/s/sett", 3)
    assert (await web.post(documents, content=b"\xff")).status_code == 422
    await web.post(documents, content=SETS)
    other = await web.post(documents, content=SETS.replace("got", "had"))
    assert (other.status_code, other.json()["type"]) == (409, "urn:outlast:problem:document-conflict")
    missing = await web.get(f"{documents}/n/b/latest")
    assert missing.status_code == 404
    assert (await web.get(f"{documents}/n%2Fx/b/latest")).status_code == 404
    refused = await web.post(f"{documents}/n/a/latest/runs", json={"input": 3})
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:outlast:problem:faulted")
    assert refused.json()["facts"]["error"]["instance"] == "/"
    assert await served.client.count(workflow_type="serverless:n/a") == 0
    taken = whole("do: [{c: {call: '${ .name }'}}]")
    assert (await web.post(documents, content=taken.replace("name: a", "name: c"))).status_code == 201
    unsupported = await web.post(f"{documents}/n/c/latest/runs", json={})
    assert unsupported.json()["facts"]["problems"][0][0] == "/do/0/c"
    assert (await web.get("/api/serverless/runs/nothing")).status_code == 404


async def test_a_faulted_run_tells_its_error(served: Served) -> None:
    await served.web.post("/api/serverless/documents", content=RAISES)
    await served.web.post("/api/serverless/documents/n/a/latest/runs", json={"id": "w"})
    with pytest.raises(Exception, match="why"):
        await served.runtime.run("w").result(timeout=10)
    state = (await served.web.get("/api/serverless/runs/w")).json()
    assert (state["phase"], state["error"]["detail"]) == ("faulted", "why")


def test_what_was_added_to_an_error_is_a_payload() -> None:
    error = {"type": "t", "status": 500, "instance": "/", "secret": "canary"}
    state = DocumentState("w", "n/a", "1", "faulted", None, error, ())
    assert told_state(state, payloads=True).error == error
    assert told_state(state, payloads=False).error == {"type": "t", "status": 500, "instance": "/"}


async def test_a_trace_is_told_in_pages_and_its_data_to_who_may_see_them(served: Served) -> None:
    text = "do: [{a: {set: {secret: canary}}}, {b: {set: {n: 1}}}, {r: {raise: {error: ERROR}}}]"
    error = "{type: 'https://e.x/e', status: 500}"
    run = await served.runtime.start(_document(text.replace("ERROR", error)), id="w")
    with pytest.raises(FaultedError):
        await run.result(timeout=10)
    path, web = "/api/serverless/runs/w/trace", served.web
    whole = (await web.get(path, params={"data": True})).json()
    assert [(one["pointer"], one["outcome"]) for one in whole["steps"]] == [
        ("/do/0/a", "completed"),
        ("/do/1/b", "completed"),
        ("/do/2/r", "faulted"),
    ]
    assert (whole["cursor"], whole["steps"][0]["output"]) == (None, {"secret": "canary"})
    assert (await web.get(path)).json()["steps"][0]["output"] is None
    unseen = await web.get(path, params={"data": True}, headers=served.bearing("reader"))
    assert unseen.status_code == 200
    assert "canary" not in unseen.text
    first = (await web.get(path, params={"limit": 2})).json()
    rest = (await web.get(path, params={"cursor": first["cursor"]})).json()
    assert [one["number"] for one in (*first["steps"], *rest["steps"])] == [1, 2, 3]
    assert (await web.get(path, params={"cursor": "x:1"})).status_code == 422
    assert (await web.get("/api/serverless/runs/nobody/trace")).status_code == 404
    assert (await web.get(path, headers=served.bearing("sender"))).status_code == 403


def test_a_page_with_data_ends_where_it_is_large_enough() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    steps = tuple(
        TaskStep("r", number, "/do/0/a", "set", "", "completed", at, at, None, "x" * 3_000_000)
        for number in range(1, 5)
    )
    told = told_trace(TracePage(steps, None), payloads=True, data=True)
    assert ([one.number for one in told.steps], told.cursor) == ([1, 2], "r:2")


async def test_events_come_in(served: Served) -> None:
    web, run = served.web, await served.runtime.start(_document(LISTENS), id="w")
    await listens(run)
    sent: dict[str, Any] = {"id": "1", "source": "/s", "type": "t", "data": 1}
    headers = {**served.bearing("sender"), "content-type": STRUCTURED}
    answer = await web.post("/api/events", json=sent, headers=headers)
    assert (answer.status_code, answer.json()) == (202, {"accepted": 1, "new": 1})
    assert (await web.post("/api/events", json=sent, headers=headers)).json() == {"accepted": 1, "new": 0}
    both = [{**sent, "id": "2", "data": 2}, sent]
    headers["content-type"] = BATCH
    assert (await web.post("/api/events", json=both, headers=headers)).json() == {"accepted": 2, "new": 1}
    binary = {"ce-specversion": "1.0", "ce-id": "3", "ce-source": "/s", "ce-type": "t"}
    answer = await web.post("/api/events", json=3, headers={**served.bearing("sender"), **binary})
    assert answer.status_code == 202
    assert await run.result(timeout=10) == [1, 2, 3]


async def test_events_go_to_one_run(served: Served) -> None:
    run = await served.runtime.start(_document(LISTENS), id="w")
    events = [{"id": str(id), "source": "/s", "type": "t", "data": id} for id in range(3)]
    headers = {"content-type": BATCH}
    answer = await served.web.post("/api/events", params={"to": "w"}, json=events, headers=headers)
    assert answer.json() == {"accepted": 3, "new": None}
    assert await run.result(timeout=10) == [0, 1, 2]
    ended = await served.web.post("/api/events", params={"to": "w"}, json=events[:1], headers=headers)
    assert ended.status_code == 202, "the run has had it"
    events[0]["id"] = "new"
    ended = await served.web.post("/api/events", params={"to": "w"}, json=events, headers=headers)
    assert ended.status_code == 409


async def test_a_batch_is_checked_before_anything_is_kept(served: Served) -> None:
    events = [{"id": "1", "source": "/s", "type": "t"}, {"id": "2"}]
    answer = await served.web.post("/api/events", json=events, headers={"content-type": BATCH})
    assert answer.status_code == 422
    assert await served.runtime.publish(events[0])


async def test_a_document_is_scheduled(served: Served) -> None:
    web, path = served.web, "/api/serverless/schedules/n/a"
    await web.post("/api/serverless/documents", content=f"{SETS}\nschedule: {{every: PT1H}}")
    assert (await web.put(path, json={})).json() == {"id": "serverless:n/a"}
    assert (await web.delete(path)).status_code == 204
    assert (await web.delete(path)).status_code == 404
    other = SETS.replace("0.1.0", "0.2.0") + "\nschedule: {on: {one: {with: {type: t}}}}\n"
    await web.post("/api/serverless/documents", content=other)
    assert (await web.put(path, json={"version": "0.2.0"})).json() == {"id": "serverless-schedule:n/a"}
    assert (await web.delete(path)).status_code == 204


async def test_a_run_is_suspended_and_resumed(served: Served) -> None:
    run = await served.runtime.start(_document(LISTENS), id="w")
    assert (await served.web.post("/api/serverless/runs/w/suspend")).status_code == 200
    while (await run.describe()).phase != "suspended":  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    assert (await served.web.post("/api/serverless/runs/w/resume")).status_code == 200
    while (await run.describe()).phase == "suspended":  # noqa: ASYNC110
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("who", "allowed"),
    [("reader", {"GET"}), ("sender", {"events"}), ("writer", {"GET", "POST", "PUT", "DELETE", "events"})],
)
async def test_each_token_may_do_what_its_scopes_say(served: Served, who: str, allowed: set[str]) -> None:
    headers, documents = served.bearing(who), "/api/serverless/documents"
    asked = [
        ("GET", documents),
        ("GET", "/api/serverless/runs/x"),
        ("POST", documents),
        ("POST", f"{documents}/n/a/latest/runs"),
        ("POST", "/api/serverless/runs/x/suspend"),
        ("POST", "/api/serverless/runs/x/resume"),
        ("PUT", "/api/serverless/schedules/n/a"),
        ("DELETE", "/api/serverless/schedules/n/a"),
        ("POST", "/api/events"),
        ("GET", "/api/workflows"),
    ]
    for method, path in asked:
        answer = await served.web.request(method, path, headers=headers)
        needed = "events" if path == "/api/events" else method
        assert (answer.status_code != 403) == (needed in allowed), (method, path, answer.text)
        assert answer.status_code != 401


def _document(text: str) -> Document:
    return Document.parse(whole(text))
