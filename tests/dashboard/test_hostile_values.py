"""Values that are made to break a server: deeply nested, huge, with every odd character. All get an answer."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx2
import orjson
import pytest
from tests.dashboard.conftest import Served

from outlast.errors import WorkflowFailedError
from outlast_workflow.data.writing import MOST_LEVELS

LEVELS = (MOST_LEVELS + 1, 254, 900, 1_024, 50_000)


@pytest.fixture
def database_url() -> str:
    """Nothing here depends on the database."""
    return "sqlite://"


def deep(levels: int, kind: str = "list") -> str:
    """JSON text of a nested value."""
    return "[" * levels + "]" * levels if kind == "list" else '{"a":' * levels + "1" + "}" * levels


def bodies(kind: str, levels: int) -> list[tuple[str, str]]:
    """Every place of a body that takes any value."""
    value = deep(levels, kind)
    args = f'{{"args": [{value}]}}'
    return [
        ("/api/workflows", f'{{"workflow_type": "Waiting", "args": [{value}]}}'),
        ("/api/workflows", f'{{"workflow_type": "Waiting", "memo": {{"a": {value}}}}}'),
        ("/api/workflows", f'{{"workflow_type": "Waiting", "search_attributes": {{"a": {value}}}}}'),
        ("/api/workflows", f'{{"workflow_type": {value}}}'),
        ("/api/workflows", value),
        ("/api/workflows/w-1/signals/say", args),
        ("/api/workflows/w-1/queries/heard", args),
        ("/api/workflows/w-1/updates/correct", args),
        ("/api/workflows/w-1/cancel", f'{{"reason": {value}}}'),
        ("/api/bulk/signal?id_prefix=w", f'{{"name": "say", "args": [{value}]}}'),
    ]


@pytest.mark.parametrize("kind", ["list", "object"])
async def test_a_body_that_is_nested_too_deeply_is_a_422(served: Served, kind: str) -> None:
    await served.client.start("Waiting", id="w-1")
    for levels in LEVELS:
        for path, body in bodies(kind, levels):
            answer = await served.web.post(path, content=body, headers={"content-type": "application/json"})
            if path.startswith("/api/bulk") and answer.status_code == 200:
                (refused,) = answer.json()["refused"]
                assert refused["problem"]["status"] == 422
            else:
                assert answer.status_code == 422, (path, levels, answer.text[:300])
            assert answer.headers["content-type"] in ("application/problem+json", "application/json")
    assert (await served.client.describe("w-1")).run.history_length < 5
    assert await served.client.count() == 1


async def test_a_query_that_is_nested_too_deeply_gets_an_answer(served: Served) -> None:
    for levels in LEVELS[:-1]:
        for value in (deep(levels), deep(levels, "object"), "(" * levels):
            for path in (f"/api/workflows?where={quote('a=' + value)}", f"/?where={quote('a>' + value)}"):
                answer = await served.web.get(path)
                assert answer.status_code in (200, 422), (path[:60], answer.status_code)


async def test_forms_with_values_that_are_nested_too_deeply_get_an_answer(served: Served) -> None:
    await served.client.start("Waiting", id="w-1")
    for levels in LEVELS:
        args = f"[{deep(levels)}]"
        memo = deep(levels, "object")
        for path, form in (
            ("/start", {"workflow_type": "Waiting", "args": args}),
            ("/start", {"workflow_type": "Waiting", "memo": memo}),
            ("/start", {"workflow_type": "Waiting", "search_attributes": memo}),
            ("/workflows/w-1/signal", {"name": "say", "args": args}),
            ("/workflows/w-1/update", {"name": "correct", "args": args}),
        ):
            answer = await served.web.post(path, data=form)
            assert answer.status_code == 422, (path, levels, answer.status_code)
        if levels < 5_000:
            answer = await served.web.get("/workflows/w-1/query", params={"name": "heard", "args": args})
            assert answer.status_code == 422, levels


@pytest.mark.parametrize("kind", ["list", "object"])
async def test_what_is_as_deep_as_it_may_be_is_shown_everywhere(served: Served, kind: str) -> None:
    """In a failure's details it is deeper still: they are in a failure, in an event, in a page of events."""
    value: Any = orjson.loads(deep(MOST_LEVELS - 2, kind))
    echoing = await served.client.start("Echoing", value, id="w-1")
    failing = await served.client.start("Failing", value, id="f-1")
    with pytest.raises(WorkflowFailedError):
        await failing.result()
    await echoing.result()
    for id in ("w-1", "f-1"):
        for path in ("", "/history", "/history/live", "/result"):
            for name in ("all", "reader"):
                answer = await served.web.get(f"/api/workflows/{id}{path}", headers=served.bearing(name))
                assert answer.status_code == 200, (path, answer.text[:300])
        for name in ("all", "reader"):
            assert (await served.web.get(f"/workflows/{id}", headers=served.bearing(name))).status_code == 200
    assert (await served.web.get("/api/workflows/w-1/result")).json()["result"] == value
    assert deep(3, kind)[:3] in (await served.web.get("/api/workflows/f-1/history")).text


# --- addresses --------------------------------------------------------------------------------------------------------

ODD = (
    "\x00",
    "\x1b[2J",
    "\r\nX-Evil: 1",
    "\x85",
    "\u2028",
    "\u202e",
    "\ufeff",
    "\U0010ffff",
    "%",
    "%%",
    "%zz",
)


async def test_addresses_with_odd_characters_get_an_answer(served: Served) -> None:
    await served.client.start("Waiting", id="w-1")
    paths = [route.format(id="ID") for route in ("/workflows/{id}", "/workflows/{id}/query?name=x")]
    paths += ["/api/workflows/ID", "/api/workflows/ID/history", "/api/workflows/ID/result?wait_seconds=0"]
    parameters = ["cursor", "id_prefix", "status", "workflow_type", "where", "task_queue", "run_id", "after"]
    for odd in (*ODD, "x" * 5_000, "🦄" * 300):
        sent = quote(odd, safe="%") if "%" not in odd else odd
        for path in paths:
            answer = await served.web.get(path.replace("ID", f"w{sent}"))
            assert answer.status_code < 500, (path, odd)
            assert "x-evil" not in answer.headers
        for name in parameters:
            for root in ("/", "/api/workflows", "/workflows/w-1", "/bulk", "/login"):
                answer = await served.web.get(f"{root}?{name}={sent}&action=cancel")
                assert answer.status_code < 500, (root, name, odd)


async def test_raw_bytes_that_are_no_text_get_an_answer(served: Served) -> None:
    for path in (
        b"/workflows/%ff",
        b"/api/workflows/%ff%fe",
        b"/?id_prefix=%ff",
        b"/api/workflows?where=%ff%3D1",
    ):
        url = httpx2.URL("http://localhost").copy_with(raw_path=path)
        assert (await served.web.get(url)).status_code < 500, path
    for kind in (
        "application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "x",
    ):
        for body in (
            b"\xff\xfe",
            b"",
            b"null",
            b"\x00",
            b"--x\r\n\r\n",
            b"a=%ff&workflow_type=%ff",
            b"1e999",
        ):
            for form in ("/api/workflows", "/start", "/login", "/workflows/w/signal", "/bulk"):
                answer = await served.web.post(form, content=body, headers={"content-type": kind})
                assert answer.status_code < 500, (form, kind, body)
