"""``client.upcoming``: what fires when, for callers; the pages themselves are proven in tests/store."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from outlast import AlertPolicy, Client, Every, StartOptions, blocking
from outlast.errors import InvalidOptionError
from outlast_workflow.primitives.enums import AlertKind


@pytest.fixture
def anyio_backend() -> str:
    """Real time: nothing here waits."""
    return "asyncio"


async def fill(client: Client) -> None:
    for number in range(3):
        options = StartOptions(run_timeout=3600 * (number + 1), alerts=AlertPolicy(at=[0.5]))
        await client.start("Order", id=f"order-{number}", task_queue="nowhere", options=options)
    options = StartOptions(execution_timeout=60)
    await client.start("Report", id="report", task_queue="elsewhere", options=options)
    await client.schedules.create("nightly", "Report", spec=Every(86_400), task_queue="elsewhere")


async def test_what_fires_when_is_told_in_order_with_what_it_is_about(database_url: str) -> None:
    async with Client.connect(database_url) as client:
        await fill(client)
        found = await client.upcoming()
        assert (found.cursor, found.stopped) == (None, False)
        assert [one.due_at for one in found.due] == sorted(one.due_at for one in found.due)
        # Where the day's schedule stands among them depends on the time of day.
        due = [one for one in found.due if one.kind != "schedule"]
        assert [(one.kind.value, one.workflow_id, one.mark) for one in due] == [
            ("execution_timeout", "report", None),
            ("alert", "order-0", "50%"),
            *[("run_timeout", "order-0", None), ("alert", "order-1", "50%")],
            ("alert", "order-2", "50%"),
            ("run_timeout", "order-1", None),
            ("run_timeout", "order-2", None),
        ]
        [schedule] = [one for one in found.due if one.kind == "schedule"]
        assert (schedule.schedule_id, schedule.workflow_type, schedule.run_id) == ("nightly", "Report", None)
        assert schedule.due_at == (await client.schedules.handle("nightly").describe()).next_look_at
        alert = (await client.describe("order-0")).alerts.armed[0]
        assert due[1].due_at == alert.due_at
        assert due[1].alert_kind is AlertKind.RUN
        assert due[0].due_at - found.now < timedelta(seconds=60)


async def test_it_is_filtered_and_paged(database_url: str) -> None:
    async with Client.connect(database_url) as client:
        await fill(client)
        everything = (await client.upcoming()).due
        reports = (await client.upcoming(workflow_type="Report")).due
        assert {one.kind.value for one in reports} == {"execution_timeout", "schedule"}
        assert (await client.upcoming(task_queue="elsewhere")).due == reports
        assert {one.kind.value for one in (await client.upcoming(kinds=["alert"])).due} == {"alert"}
        near = (await client.upcoming(kinds=["alert", "execution_timeout"], within=3000)).due
        assert [one.workflow_id for one in near] == ["report", "order-0"]
        joined: list[Any] = []
        page = await client.upcoming(2)
        while True:
            joined += page.due
            assert len(page.due) <= 2
            if page.cursor is None:
                break
            page = await client.upcoming(2, cursor=page.cursor)
        assert tuple(joined) == everything
        # The pages of one window have one end.
        ends = []
        page = await client.upcoming(1, within=timedelta(hours=2), kinds=["alert"])
        while page.cursor is not None:
            _, _, until, *_ = parts_of(page.cursor)
            ends.append(until)
            options: dict[str, Any] = {"within": timedelta(hours=2), "kinds": ["alert"]}
            page = await client.upcoming(1, **options, cursor=page.cursor)
        assert len(ends) == 2
        assert len(set(ends)) == 1


def parts_of(cursor: str) -> list[Any]:
    parts: list[Any] = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    return parts


def cursor_of(*parts: object) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(parts)).decode().rstrip("=")


async def test_what_cannot_be_asked_is_refused_before_anything_is_read(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client.connect(database_url) as client:
        await fill(client)
        page = await client.upcoming(1)
        assert page.cursor is not None
        version, digest, until, due_at, rank, *key = parts_of(page.cursor)
        # What the cursor has is one that a page gave.
        assert await client.upcoming(1, cursor=cursor_of(version, digest, until, due_at, rank, *key))

        async def never(*_: object, **__: object) -> None:
            raise AssertionError("it was read")

        monkeypatch.setattr(type(client.runtime), "read_aside", never)
        bad = "cursor is not one that a page gave: begin again without one"
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"limit": 0}, "limit must be"),
            ({"limit": 1001}, "limit must be"),
            ({"limit": "5"}, "limit must be"),
            ({"within": 0}, "within must be positive"),
            ({"within": float("nan")}, "within must be"),
            ({"kinds": []}, "kinds must name at least one"),
            ({"kinds": "timer"}, "kinds must be a list"),
            ({"kinds": ["tumor"]}, "kinds must be some of execution_timeout, .* not 'tumor'"),
            ({"kinds": [7]}, "not 7"),
            ({"kinds": [["timer"]]}, "not"),
            ({"workflow_type": ""}, "workflow type must not be empty"),
            ({"task_queue": "a\0b"}, "task queue must not hold control"),
            ({"cursor": "?"}, bad),
            ({"cursor": "7"}, bad),
            ({"cursor": 7}, bad),
            ({"cursor": cursor_of(2, digest, until, due_at, rank, *key)}, "is of another version"),
            ({"cursor": page.cursor, "kinds": ["timer"]}, "belongs to other filters"),
            ({"cursor": cursor_of(1, digest, until, due_at, 5, *key)}, bad),
            ({"cursor": cursor_of(1, digest, until, -1, rank, *key)}, bad),
            ({"cursor": cursor_of(1, digest, until, due_at, True, *key)}, bad),
            ({"cursor": cursor_of(1, digest, "x", due_at, rank, *key)}, bad),
            ({"cursor": cursor_of(1, digest, until, due_at, rank)}, bad),
            ({"cursor": cursor_of(1, digest, until, due_at, rank, *key, 1)}, bad),
            ({"cursor": cursor_of(1, digest, until, due_at, 0, "a\0b")}, bad),
            ({"cursor": cursor_of(1, digest, until, due_at, 2, "a", "b")}, bad),
            ({"cursor": cursor_of(1, digest, until, due_at, 2, "a", 2**63)}, bad),
        ]
        for options, why in wrong:
            with pytest.raises(InvalidOptionError, match=why):
                await client.upcoming(**options)


def test_the_blocking_client_has_it(tmp_path: Path) -> None:
    with blocking.Client.connect(f"sqlite:///{tmp_path}/x.db") as client:
        client.start("Order", id="o-1", options=StartOptions(run_timeout=60))
        assert [one.workflow_id for one in client.upcoming().due] == ["o-1"]
        assert client.upcoming(kinds=["timer"], within=10, task_queue="default").due == ()


async def test_pages_go_on_at_the_last_instant_that_there_is(database_url: str) -> None:
    last = datetime.max.replace(tzinfo=UTC)
    async with Client.connect(database_url) as client:
        for number in range(3):
            options = StartOptions(alerts=AlertPolicy(at_instant=last))
            await client.start("Order", id=f"order-{number}", task_queue="nowhere", options=options)
        seen: list[str | None] = []
        cursor: str | None = None
        while (page := await client.upcoming(1, cursor=cursor)).cursor is not None:
            assert [one.due_at for one in page.due] == [last]
            seen += [one.workflow_id for one in page.due]
            cursor = page.cursor
        seen += [one.workflow_id for one in page.due]
        assert sorted(map(str, seen)) == ["order-0", "order-1", "order-2"]
