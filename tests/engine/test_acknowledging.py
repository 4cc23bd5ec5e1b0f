"""Acknowledging alerts: the first one who says so stands, and the list is bounded whatever filters leave out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.engine.run_rows import NOW, run_id_at, run_row

from outlast import AlertPolicy, Client, StartOptions, blocking
from outlast.errors import AlertAcknowledgedError, AlertNotFoundError, InvalidOptionError
from outlast.watchdog import TaskWatchdog
from outlast_store.alerts.reads import AlertFilter, count_unacknowledged, read_page
from outlast_store.database import bounded_pages
from outlast_store.database.database import Database
from outlast_store.database.statements import statements_for
from outlast_store.schema import tables
from outlast_store.schema.rows import AlertRow
from outlast_store.transitions.alerts.acknowledgements import AcknowledgeAlert


@pytest.fixture
def anyio_backend() -> str:
    """Real time: nothing here waits."""
    return "asyncio"


async def fire(client: Client, *ids: str) -> None:
    for workflow_id in ids:
        options = StartOptions(alerts=AlertPolicy(after=[0.001]))
        await client.start("Nobody", id=workflow_id, options=options, task_queue="nowhere")
    watchdog = TaskWatchdog(client)
    while len((await client.alerts.list()).alerts) < len(ids):
        await watchdog.run_pass()


async def test_the_first_acknowledgement_stands_and_others_are_told_who(database_url: str) -> None:
    async with Client.connect(database_url) as client:
        await fire(client, "w-1", "w-2")
        assert await client.alerts.unacknowledged() == 2
        alert = (await client.alerts.list(workflow_id="w-1")).alerts[0]
        assert (alert.acknowledged_at, alert.acknowledged_by) == (None, None)
        done = await client.alerts.acknowledge(alert.alert_id, by="ada")
        assert done.acknowledged_by == "ada"
        assert done.acknowledged_at is not None
        assert done.acknowledged_at >= done.fired_at
        assert done == alert.model_copy(
            update={"acknowledged_at": done.acknowledged_at, "acknowledged_by": "ada"}
        )
        # What was said before may be said again, as after a crash.
        assert await client.alerts.acknowledge(alert.alert_id, by="ada") == done
        with pytest.raises(AlertAcknowledgedError, match="acknowledged by 'ada' at 20") as refused:
            await client.alerts.acknowledge(alert.alert_id, by="bob")
        assert refused.value.acknowledged_by == "ada"
        assert refused.value.acknowledged_at == done.acknowledged_at.isoformat()
        assert (await client.alerts.list(acknowledged=True)).alerts == (done,)
        assert (await client.describe("w-1")).alerts.fired == (done,)
        rest = (await client.alerts.list(acknowledged=False)).alerts
        assert [one.workflow_id for one in rest] == ["w-2"]
        assert await client.alerts.unacknowledged() == 1


async def test_of_many_at_once_exactly_one_is_the_first(database_url: str) -> None:
    async with Client.connect(database_url) as client:
        await fire(client, "w-1")
        alert_id = (await client.alerts.list()).alerts[0].alert_id
        names = [f"name-{number}" for number in range(20)]
        asked = (client.alerts.acknowledge(alert_id, by=name) for name in names)
        told = await asyncio.gather(*asked, return_exceptions=True)
        [first] = [one for one in told if not isinstance(one, BaseException)]
        others = [one for one in told if isinstance(one, AlertAcknowledgedError)]
        assert len(others) == len(names) - 1
        assert {one.acknowledged_by for one in others} == {first.acknowledged_by}
        assert (await client.alerts.list()).alerts == (first,)


async def test_what_is_no_alert_is_refused_and_nothing_is_written(database_url: str) -> None:
    async with Client.connect(database_url) as client:
        with pytest.raises(AlertNotFoundError, match="there is no alert 'nope'"):
            await client.alerts.acknowledge("nope", by="ada")
        for alert_id, by in (("", "ada"), ("a\0b", "ada"), ("a", ""), ("a", "x" * 300), ("a", "\ud800")):
            with pytest.raises(InvalidOptionError):
                await client.alerts.acknowledge(alert_id, by=by)
        wrong: Any = "no"
        with pytest.raises(InvalidOptionError, match="acknowledged must be"):
            await client.alerts.list(acknowledged=wrong)
        done = await client.runtime.journal.apply(AcknowledgeAlert("nope", "ada"))
        assert done == (None, False)


def test_the_blocking_client_acknowledges(tmp_path: Path) -> None:
    with blocking.Client.connect(f"sqlite:///{tmp_path}/x.db") as client:
        with pytest.raises(AlertNotFoundError):
            client.alerts.acknowledge("nope", by="ada")
        assert client.alerts.unacknowledged() == 0
        page = client.alerts.list(acknowledged=False)
        assert (page.alerts, page.cursor, page.stopped) == ((), None, False)


# --- the list -------------------------------------------------------------------------------------------------------


def an_alert(number: int, *, seen: bool = False, of_type: str = "Order") -> AlertRow:
    run_id = run_id_at(NOW, number)
    return AlertRow(
        alert_id=f"a-{number:06}",
        scope=run_id,
        activity_id=0,
        attempt=0,
        kind="run" if number % 2 else "execution",
        mark="80%",
        workflow_id=f"w-{number % 7}",
        run_id=run_id,
        workflow_type=of_type,
        activity_type=None,
        task_queue="default",
        deadline_at=NOW,
        due_at=NOW,
        fired_at=NOW,
        acknowledged_at=NOW if seen else None,
        acknowledged_by="ada" if seen else None,
    )


def test_joined_pages_are_all_that_match_and_each_looks_at_so_many_at_most(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_pages, "CHUNK", 7)
    monkeypatch.setattr(bounded_pages, "MOST_LOOKED_AT", 20)
    rows = [
        an_alert(number, seen=number % 3 == 0, of_type="Order" if number % 50 else "Rare")
        for number in range(200)
    ]
    with database.writer() as connection:
        values = [tuple(vars(row).values()) for row in rows]
        statements_for(database.backend).insert(connection, tables.alerts, values)
    kinds, types = (None, "run"), (None, "Rare", "Nobody")
    with database.reader() as connection:
        for kind in kinds:
            for of_type in types:
                for seen in (None, True, False):
                    for workflow_id in (None, "w-3"):
                        wanted = AlertFilter(workflow_id, of_type, kind, seen)
                        expected = [
                            row.alert_id
                            for row in reversed(rows)
                            if kind in (None, row.kind)
                            and of_type in (None, row.workflow_type)
                            and seen in (None, row.acknowledged_at is not None)
                            and workflow_id in (None, row.workflow_id)
                        ]
                        found: list[str] = []
                        before, pages, stopped = None, 0, 0
                        while True:
                            page = read_page(connection, wanted, before, 6)
                            pages += 1
                            stopped += page.stopped
                            found += [row.alert_id for row in page.found]
                            if page.last is None:
                                break
                            assert len(page.found) == 6 or page.stopped
                            before = page.last.alert_id
                        assert found == expected
                        if of_type == "Nobody" and workflow_id is None and seen is not False:
                            assert stopped == 10 - 1


def test_what_nobody_has_acknowledged_is_found_behind_any_number_that_somebody_has(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_pages, "MOST_LOOKED_AT", 20)
    rows = [an_alert(number, seen=number > 0) for number in range(500)]
    with database.writer() as connection:
        statements = statements_for(database.backend)
        statements.insert(
            connection, tables.workflow_runs, [tuple(vars(run_row(0, created_at=NOW)).values())]
        )
        statements.insert(connection, tables.alerts, [tuple(vars(row).values()) for row in rows])
    with database.reader() as connection:
        page = read_page(connection, AlertFilter(acknowledged=False), None, 10)
        assert ([row.alert_id for row in page.found], page.last) == (["a-000000"], None)
        assert count_unacknowledged(connection) == 1
