"""Queues, types, deadlines and metrics, on every database."""

from __future__ import annotations

from typing import Any

import pytest
from tests.dashboard.conftest import Served

from outlast import Every, StartOptions
from outlast_dashboard.api.routes import metrics
from outlast_dashboard.notifications import ChangeSignal
from outlast_store.upcoming import outlook


async def told(served: Served, path: str) -> Any:
    answer = await served.web.get(f"/api/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def begin(served: Served) -> None:
    """A crawling run, one that nobody serves, and one that has ended."""
    await served.client.start("Crawling", "x", id="c-1", options=StartOptions(execution_timeout=7200))
    await served.client.start("Nobody", id="n-1", task_queue="nowhere", options=StartOptions(run_timeout=45))
    await served.client.execute("Greeting", "ada", id="g-1")
    async with ChangeSignal(served.client) as changed:
        while not (await served.client.describe("c-1")).pending_activities[0].heartbeat_details:
            await changed.wait()


async def test_task_queues_say_what_waits_and_who_serves(served: Served) -> None:
    await begin(served)
    queues = {queue["task_queue"]: queue for queue in await told(served, "task-queues")}
    assert set(queues) == {"default", "nowhere"}
    assert (queues["default"]["workers"], queues["default"]["running_activities"]) == (1, 1)
    assert (queues["nowhere"]["workers"], queues["nowhere"]["waiting_runs"]) == (0, 1)
    assert queues["nowhere"]["oldest_waiting_seconds"] >= 0


async def test_types_say_how_the_latest_runs_went(served: Served) -> None:
    await begin(served)
    types = {type["workflow_type"]: type for type in await told(served, "types")}
    assert types["Greeting"]["statuses"] == {"completed": 1}
    assert types["Greeting"]["median_seconds"] > 0
    assert types["Greeting"]["per_minute"] == 1, "so far, in its first minute"
    assert (types["Crawling"]["open"], types["Crawling"]["failed_share"]) == (1, None)


async def test_the_watchdog_page_counts_deadlines_by_kind_and_window(served: Served) -> None:
    await begin(served)
    found = await told(served, "watchdog")
    assert found["open"]["run_timeout"]["within_a_minute"] == 1
    assert found["open"]["heartbeat"]["within_a_minute"] == 1
    assert found["open"]["execution_timeout"]["within_a_day"] == 1
    assert [(due["workflow_id"], due["kind"], due["name"]) for due in found["heartbeats"]] == [
        ("c-1", "heartbeat", "crawl")
    ]
    assert [due["workflow_id"] for due in found["nearest"]] == ["n-1", "c-1"]
    assert not found["more"]


async def test_counting_deadlines_stops_at_a_bound_and_says_so(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlook, "MOST_COUNTED", 3)
    for number in range(5):
        options = StartOptions(run_timeout=1000 + number)
        await served.client.start("Nobody", id=f"n-{number}", task_queue="nowhere", options=options)
    found = await told(served, "watchdog")
    assert found["more"]
    assert found["open"]["run_timeout"] == {
        "overdue": 0,
        "within_a_minute": 0,
        "within_an_hour": 3,
        "within_a_day": 0,
        "later": 0,
    }
    assert [due["workflow_id"] for due in found["nearest"]] == ["n-0", "n-1", "n-2", "n-3", "n-4"]


async def test_what_was_enforced_is_told_with_its_lateness(served: Served) -> None:
    await served.client.start("Nobody", id="late", task_queue="nowhere", options=StartOptions(run_timeout=1))
    with_error = await served.client.handle("late").describe()
    async with ChangeSignal(served.client) as changed:
        while (await served.client.describe("late")).run.closed_at is None:
            await changed.wait()
    (one,) = (await told(served, "watchdog"))["enforced"]
    assert (one["kind"], one["workflow_id"]) == ("run_timeout", "late")
    assert one["lateness_seconds"] >= 0
    assert with_error.run.run_deadline_at is not None
    assert one["deadline_at"] == with_error.run.run_deadline_at.isoformat()


async def test_a_pass_can_be_asked_for(served: Served) -> None:
    answer = await served.web.post("/api/watchdog/pass")
    assert (answer.status_code, answer.json()["skipped"]) == (200, False)


async def test_prometheus_gets_the_same_numbers(served: Served) -> None:
    await begin(served)
    await served.client.queues.define("mails")
    await served.client.queues.pause("mails")
    text = (await served.web.get("/api/metrics")).text
    for name, number in (("waiting", 0.0), ("running", 0.0), ("delayed", 0.0), ("paused", 1.0)):
        assert f'outlast_queue_{name}{{queue="mails"}} {number}' in text
    assert 'outlast_queue_oldest_waiting_seconds{queue="mails"} 0.0' in text
    assert "outlast_open_runs 2.0" in text
    assert 'outlast_task_queue_waiting_runs{task_queue="nowhere"} 1.0' in text
    assert 'outlast_open_deadlines{due="within_a_minute",kind="heartbeat"} 1.0' in text


async def test_a_scrape_tells_of_so_many_queues_and_how_many_it_leaves_out(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "MOST_QUEUES", 2)
    for number, name in enumerate(("a", "b", "c", "d")):
        await served.client.queues.define(name)
        text = (await served.web.get("/api/metrics")).text
        assert text.count("\noutlast_queue_waiting{") == min(number + 1, 2)
        assert f"outlast_queues_left_out {max(number - 1, 0)}.0" in text


async def test_health_asks_the_database(served: Served) -> None:
    assert (await told(served, "health"))["status"] == "ok"


async def test_the_document_lets_a_client_send_each_cursor_that_it_is_given(served: Served) -> None:
    for number in range(2):
        await served.client.schedules.create(f"{'日' * 149}{number}", "Nobody", spec=Every(86_400))
    page = await told(served, "upcoming?kind=schedule&limit=1")
    assert len(page["cursor"]) > 200
    rest = await told(served, f"upcoming?kind=schedule&limit=1&cursor={page['cursor']}")
    assert [one["schedule_id"][-1] for one in (*page["due"], *rest["due"])] == ["0", "1"]
    operation = (await told(served, "openapi.json"))["paths"]["/upcoming"]["get"]
    (cursor,) = [one["schema"] for one in operation["parameters"] if one["name"] == "cursor"]
    assert cursor["anyOf"] == [{"type": "string"}, {"type": "null"}]
