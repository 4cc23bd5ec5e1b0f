"""That an activity is transactional is recorded with its call, and shown wherever the call is."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from tests.dashboard.conftest import make_tokens
from tests.engine.process import until_so

from outlast import Client, Worker, WorkflowHandle, activity, workflow
from outlast.cli.main import run
from outlast_dashboard import WebSettings, control_plane
from outlast_workflow.options.activity import is_transactional


@activity.defn(start_to_close_timeout=60, transactional=True, task_queue="elsewhere")
def book(entry: str) -> str:
    return entry


@activity.defn(start_to_close_timeout=60, task_queue="elsewhere")
def tell(entry: str) -> str:
    return entry


@workflow.defn
async def booked() -> None:
    """Call activities that nobody runs here."""
    await asyncio.gather(
        book("a"),
        tell("b"),
        workflow.execute_activity(book, "c", start_to_close_timeout=30),
        book.with_options(summary="once more")("d"),
        # Its name does not say how it is declared.
        workflow.execute_activity("book", "e", task_queue="elsewhere", start_to_close_timeout=60),
    )


SAID = [True, False, True, True, False]


async def all_called(handle: WorkflowHandle[None]) -> None:
    async def called() -> bool:
        found = (await handle.describe()).pending_activities
        assert [one.transactional for one in found] in ([], SAID)
        return bool(found)

    await until_so(called)


async def test_it_is_in_the_history_in_descriptions_in_the_command_line_over_http_and_on_pages(
    sqlite_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client.connect(sqlite_url) as client, Worker(client, workflows=[booked]):
        handle = await client.start(booked, id="w")
        await all_called(handle)
        called = [event.payload async for event in handle.history() if event.type == "ActivityScheduled"]
        assert [one["options"].get("transactional", False) for one in called] == SAID
        # A fork and a reset behind the calls have them of the history, not of the code.
        last = (await handle.describe()).run.history_length
        for made in (await handle.fork(last, id="f"), await handle.reset(last)):
            await all_called(made)

        tokens, secrets = make_tokens()
        app = control_plane(client, WebSettings(tokens=tokens))
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app), base_url="http://localhost"
        ) as web:

            async def get(path: str, name: str = "reader") -> httpx2.Response:
                return await web.get(path, headers={"authorization": f"Bearer {secrets[name]}"})

            described = (await get("/api/workflows/f")).json()["pending_activities"]
            assert [one["transactional"] for one in described] == SAID
            events = (await get("/api/workflows/f/history")).json()["events"]
            options = [one["payload"]["options"] for one in events if one["type"] == "ActivityScheduled"]
            assert [one.get("transactional", False) for one in options] == SAID
            page = (await get("/workflows/f", "all")).text
            assert page.count("<span>transactional</span>") == SAID.count(True)
            assert "task queue elsewhere, transactional" in page

    monkeypatch.setenv("COLUMNS", "200")
    shown: dict[str, Any] = {}
    for command in ("describe", "history"):
        capsys.readouterr()
        assert await asyncio.to_thread(run, (command, "f", "--url", sqlite_url)) == 0
        shown[command] = capsys.readouterr().out
    assert shown["describe"].count("pending, transactional") == SAID.count(True)
    assert "task queue elsewhere, transactional" in shown["history"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"transactional":false}', '{"transactional":1}'])
def test_a_snapshot_that_does_not_say_so_is_not_that_of_a_transactional_activity(text: str) -> None:
    assert not is_transactional(text)


def test_a_snapshot_is_what_it_was_where_an_activity_is_not_transactional() -> None:
    assert tell.options.snapshot.json == b'{"start_to_close_timeout":60}'
