"""Rows that something else has damaged: every reader names the run and the event, and none makes something of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.recorded import Recorder

from outlast import Client, StartOptions, Worker, activity, workflow
from outlast.errors import DamagedHistoryError, InvalidHistoryError
from outlast.testing import Replayer
from outlast_dashboard import WebSettings, control_plane

DAMAGE = ("{", "", "\x01", '{"a": ', "nonsense", "[1, 2]", "3")


@activity.defn(start_to_close_timeout=60)
async def greet(name: str) -> str:
    return f"hello {name}"


@workflow.defn
class Greeting:
    @workflow.run
    async def run(self, name: str) -> str:
        return await greet(name)


@pytest.fixture(autouse=True)
def damaged_on_purpose(invariants: list[str], recorder: Recorder) -> Iterator[None]:
    """Nobody is to complain of it at the end, or to replay it."""
    recorder.listening = False
    yield
    recorder.listening = True
    invariants.clear()


async def ran(url: str) -> str:
    """Run a workflow to its end; return its run id."""
    async with Client.connect(url) as client, Worker(client, workflows=[Greeting], activities=[greet]):
        options = StartOptions(memo={"a": 1}, search_attributes={"customer": "c-7"})
        handle = await client.start(Greeting.run, "ada", id="g-1", options=options)
        await handle.result()
        assert handle.run_id is not None
        return handle.run_id


def change(url: str, statement: str, *values: Any) -> None:
    connection = sqlite3.connect(Path(url.removeprefix("sqlite:///")))
    assert connection.execute(statement, values).rowcount == 1
    connection.commit()
    connection.close()


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_event_is_named_by_whoever_reads_it(sqlite_url: str, damage: str) -> None:
    run_id = await ran(sqlite_url)
    change(sqlite_url, "UPDATE history_events SET payload = ? WHERE seq = 3 AND run_id = ?", damage, run_id)
    async with Client.connect(sqlite_url) as client:
        handle = client.handle("g-1")

        async def read_history() -> None:
            async for _ in handle.history():
                pass

        readings: list[Any] = [read_history(), client.export_history("g-1")]
        for reading in readings:
            with pytest.raises(DamagedHistoryError) as caught:
                await reading
            assert (caught.value.run_id, caught.value.seq) == (run_id, 3)
            assert f"event 3 of run {run_id} is damaged" in str(caught.value)
            assert "restore the database from a backup" in str(caught.value)
        report = await Replayer([Greeting]).replay_all(client)
        assert report.failures == 1, "a replay reports it"
        if damage not in ("[1, 2]", "3"):
            assert f"event 3 of run {run_id} is damaged" in str(report.failed[0].error)
        assert (await client.describe("g-1")).run.run_id == run_id, "what is not damaged is shown"
        assert await handle.result() == "hello ada"
        transport = httpx2.ASGITransport(control_plane(client, WebSettings()))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as web:
            for path in ("/api/workflows/g-1/history", "/workflows/g-1"):
                answer = await web.get(path)
                assert answer.status_code == 500
                assert f"vent 3 of run {run_id}" in answer.text, path
            problem = (await web.get("/api/workflows/g-1/history")).json()
            assert problem["type"] == "urn:outlast:problem:damaged-history"
            assert problem["facts"] == {"run_id": run_id, "seq": 3, "what": "payload"}


@pytest.mark.parametrize("column", ["memo", "search_attributes"])
async def test_a_damaged_row_is_named_by_whoever_reads_it(sqlite_url: str, column: str) -> None:
    run_id = await ran(sqlite_url)
    change(sqlite_url, f"UPDATE workflow_runs SET {column} = '{{' WHERE run_id = ?", run_id)
    async with Client.connect(sqlite_url) as client:
        readings: list[Any] = [client.describe("g-1"), client.export_history("g-1")]
        if column == "search_attributes":
            readings.append(client.list().page())
        for reading in readings:
            with pytest.raises(DamagedHistoryError, match=f"run {run_id} is damaged") as caught:
                await reading
            assert caught.value.seq is None


async def test_a_damaged_end_is_named_by_whoever_waits_for_it(sqlite_url: str) -> None:
    run_id = await ran(sqlite_url)
    change(
        sqlite_url,
        "UPDATE history_events SET payload = '{' WHERE run_id = ? "
        "AND seq = (SELECT last_seq FROM workflow_runs WHERE run_id = history_events.run_id)",
        run_id,
    )
    async with Client.connect(sqlite_url) as client:
        with pytest.raises(DamagedHistoryError, match=f"run {run_id} is damaged: its last event"):
            await client.handle("g-1").result()


async def test_an_event_of_an_unknown_type_is_shown_and_not_replayed(sqlite_url: str) -> None:
    run_id = await ran(sqlite_url)
    change(sqlite_url, "UPDATE history_events SET type = 'Invented' WHERE seq = 3 AND run_id = ?", run_id)
    async with Client.connect(sqlite_url) as client:
        assert [event.type async for event in client.handle("g-1").history()][2] == "Invented"
        with pytest.raises(InvalidHistoryError, match=f"{run_id}: it has events that .*Invented"):
            await Replayer([Greeting]).replay_all(client)


async def test_the_list_survives_a_damaged_end(sqlite_url: str) -> None:
    async with Client.connect(sqlite_url) as client:
        await (await client.start("Nobody", id="n-1")).terminate("seen enough")
        change(sqlite_url, "UPDATE history_events SET payload = '{' WHERE type = ?", "WorkflowTerminated")
        transport = httpx2.ASGITransport(control_plane(client, WebSettings()))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as web:
            answer = await web.get("/")
            assert (answer.status_code, "n-1" in answer.text, "seen enough" in answer.text) == (
                200,
                True,
                False,
            )
