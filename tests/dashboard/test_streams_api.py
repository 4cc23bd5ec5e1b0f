"""Streams over HTTP and on pages: items by pages and live, and what a browser does with them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.dashboard.conftest import Served
from tests.dashboard.programs import Speaking

from outlast.client.workflows import streams as client_streams
from outlast_dashboard.api.routes import streams
from outlast_dashboard.security.principals import ANYONE_HERE
from outlast_store.reads.streams import PageSize

PATH = "/api/workflows/spoken/streams/words"


async def spoken(served: Served, *, stop: bool = True) -> None:
    handle = await served.client.start(Speaking.run, ["one", "two"], id="spoken")
    await handle.signal(Speaking.say, "three")
    if stop:
        await handle.signal(Speaking.stop)
        await handle.result()


def events_of(text: str) -> list[dict[str, Any]]:
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append(fields)
    return found


async def test_items_are_read_by_pages(served: Served) -> None:
    await spoken(served)
    page = (await served.web.get(PATH)).json()
    assert (page["next_start"], page["ended"]) == (4, True), "the last page says so"
    assert sorted(str(item["value"]) for item in page["items"][:3]) == [
        "{'word': 'one'}",
        "{'word': 'three'}",
        "{'word': 'two'}",
    ]
    assert page["items"][3]["value"] is None
    assert [item["offset"] for item in page["items"]] == [0, 1, 2, 3]
    rest = (await served.web.get(PATH, params={"start": 4})).json()
    assert rest == {"items": [], "next_start": 4, "ended": True}
    assert (await served.web.get(PATH, params={"start": -1})).status_code == 422
    assert (await served.web.get("/api/workflows/nobody/streams/words")).status_code == 404


async def test_large_items_fill_a_page_and_the_page_of_a_stream_shows_its_newest(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    await spoken(served, stop=False)
    monkeypatch.setattr(client_streams, "PAGE", PageSize(items=500, bytes=20))
    found, start = [], 0
    for _ in range(2):
        page = (await served.web.get(PATH, params={"start": start})).json()
        assert page["items"]
        found += [item["offset"] for item in page["items"]]
        start = page["next_start"]
        assert not page["ended"], "the stream is open"
    assert found == [0, 1, 2]
    shown = await served.web.get("/workflows/spoken/streams/words")
    assert all(word in shown.text for word in ("one", "two", "three"))


async def test_a_live_stream_resumes_behind_the_last_event_and_ends(served: Served) -> None:
    await spoken(served)
    answer = await served.web.get(f"{PATH}/live")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = events_of(answer.text)
    assert [event.get("id") for event in events] == ["0", "1", "2", "3", None]
    assert orjson.loads(events[3]["data"])["value"] is None
    assert (events[4]["event"], orjson.loads(events[4]["data"])) == ("end", {"offset": 4})
    again = await served.web.get(f"{PATH}/live", headers={"last-event-id": "1"})
    assert [event.get("id") for event in events_of(again.text)] == ["2", "3", None]
    over = await served.web.get(f"{PATH}/live", headers={"last-event-id": "3"})
    assert (over.status_code, over.content) == (204, b""), "a browser does not connect again"


async def test_values_are_hidden_without_the_scope(served: Served) -> None:
    await spoken(served)
    for path, hidden in ((PATH, True), (f"{PATH}/live", True)):
        seen = await served.web.get(path, headers=served.bearing("reader"))
        assert ("three" not in seen.text) is hidden
        assert '"hidden":true' in seen.text.replace(" ", "")
        assert "three" in (await served.web.get(path, headers=served.bearing("seer"))).text
    page = await served.web.get("/workflows/spoken/streams/words", headers=served.bearing("reader"))
    assert "three" not in page.text


async def test_a_run_names_its_streams_and_leads_to_them(served: Served) -> None:
    await spoken(served, stop=False)
    items = served.client.handle("spoken").stream("words")
    for _ in range(3):
        await anext(items)
    (found,) = (await served.web.get("/api/workflows/spoken")).json()["streams"]
    assert (found["name"], found["items"], found["closed_at"]) == ("words", 3, None)
    run = await served.web.get("/workflows/spoken")
    assert "/workflows/spoken/streams/words?run_id=" in run.text
    page = await served.web.get("/workflows/spoken/streams/words")
    assert page.status_code == 200
    assert "more may come" in page.text
    assert "three" in page.text
    first = await served.web.get("/workflows/spoken/streams/words?start=1")
    assert "Newest items" in first.text


async def test_a_quiet_stream_sends_comments_and_goes_on(served: Served) -> None:
    await spoken(served, stop=False)
    handle = served.client.handle("spoken")
    words = handle.stream("words", timeout=60)
    assert len([await anext(words) for _ in range(3)]) == 3
    items = handle.stream("words", start=3, timeout=0.01)
    events = streams._events(items, (), ANYONE_HERE, lambda: True)
    assert [await anext(events) for _ in range(4)] == [streams.KEEP_ALIVE] * 4
    await handle.signal(Speaking.say, "late")
    await handle.signal(Speaking.stop)
    rest = [event async for event in events if event != streams.KEEP_ALIVE]
    assert b"late" in rest[0]
    assert rest[-1].startswith(b"event: end")


async def test_a_live_stream_ends_with_its_token(served: Served) -> None:
    await spoken(served, stop=False)
    items = served.client.handle("spoken").stream("words", start=100, timeout=0.01)
    stands = iter((True, False))
    events = streams._events(items, (), ANYONE_HERE, lambda: next(stands))
    assert [event async for event in events] == [streams.KEEP_ALIVE] * 2
