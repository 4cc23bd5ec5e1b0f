"""The pages of schedules: what they show, and what can be done there."""

from __future__ import annotations

import html
from datetime import UTC, datetime, timedelta

from tests.dashboard.conftest import Served
from tests.dashboard.test_queue_pages import text_of

from outlast import At, Cron, Every
from outlast_dashboard.pages.schedules.calendar import DAYS, calendar_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def test_without_a_schedule_the_page_says_how_to_create_one(served: Served) -> None:
    said = text_of((await served.web.get("/schedules")).text)
    assert "There is no schedule" in said
    assert "outlast schedule create ID TYPE" in said


async def test_all_schedules_are_shown_with_their_times(served: Served) -> None:
    await served.client.schedules.create("a/b<c", "Report", spec=Cron("0 2 * * *", time_zone="Europe/Zurich"))
    await served.client.schedules.create("often", "Report", spec=Every(60), paused=True)
    page = (await served.web.get("/schedules")).text
    assert 'href="/schedules/a%2Fb%3Cc">a/b&lt;c</a>' in page
    assert "0 2 * * * (Europe/Zurich)" in page
    assert "often paused" in text_of(page)
    assert "1 paused" in text_of(page)


async def test_a_schedule_is_paused_with_a_note_resumed_and_triggered(served: Served) -> None:
    await served.client.schedules.create("a/b", "Report", spec=Cron("0 2 * * *"))
    path = "/schedules/a%2Fb"
    assert text_of((await served.web.get(path)).text).count("02:00") >= DAYS - 1
    done = await served.web.post(f"{path}/pause", data={"note": "<b>maintenance</b>"})
    assert (done.status_code, done.headers["location"]) == (303, path)
    paused = (await served.web.get(path)).text
    assert "&lt;b&gt;maintenance&lt;/b&gt;" in paused
    assert "02:00" not in text_of(paused)
    assert "It fires when it is resumed." in text_of(paused)
    await served.web.post(f"{path}/resume")
    assert not (await served.client.schedules.handle("a/b").describe()).paused
    started = await served.web.post(f"{path}/trigger")
    assert started.status_code == 303
    assert started.headers["location"].startswith("/workflows/a%2Fb-trigger-")
    assert "triggered" in text_of((await served.web.get(path)).text)


async def test_who_only_reads_is_shown_no_actions(served: Served) -> None:
    await served.client.schedules.create("s", "Report", spec=Every(60))
    page = await served.web.get("/schedules/s", headers=served.bearing("reader"))
    assert page.status_code == 200
    assert "/pause" not in page.text
    for verb in ("pause", "resume", "trigger"):
        refused = await served.web.post(f"/schedules/s/{verb}", headers=served.bearing("reader"))
        assert refused.status_code == 403


async def test_the_page_says_when_a_schedule_fires_next_in_its_own_zone(served: Served) -> None:
    await served.client.schedules.create("leap", "Report", spec=Cron("0 2 29 2 *", time_zone="Europe/Zurich"))
    said = text_of((await served.web.get("/schedules/leap")).text)
    (next_slot,) = (await served.client.schedules.handle("leap").describe(next=1)).next_slots
    assert f"at Tue 29 Feb {next_slot.year}, 02:00:00 (Europe/Zurich)" in said
    await served.client.schedules.create("often", "Report", spec=Every(5))
    said = text_of((await served.web.get("/schedules/often")).text)
    assert "It fires so often that only its next 500 slots are shown." in said
    assert "not shown" not in said, "days of which nothing is known are left out"
    await served.client.schedules.create("launch", "Report", spec=At(datetime(2190, 1, 1, 9, 30, tzinfo=UTC)))
    said = text_of((await served.web.get("/schedules/launch")).text)
    assert "at 2190-01-01 09:30 UTC; days and times in UTC" in said
    assert "No slot in the next two weeks." in said


async def test_a_schedule_that_nobody_can_serve_and_its_overlap_are_told_on_its_page(served: Served) -> None:
    handle = await served.client.schedules.create(
        "s", "com.example." + "X" * 80, spec=Every(60), overlap="buffer_one", note="ask Ada"
    )
    page = html.unescape(text_of((await served.web.get("/schedules/s")).text))
    assert "What it starts waits: workers poll task queue 'default', but none of them knows workflow" in page
    assert "one slot waits until the workflow before has ended, further ones are left out" in page
    assert "Note: ask Ada" in page
    assert "no worker" in text_of((await served.web.get("/schedules")).text)
    await handle.pause("the warehouse moves")
    assert "no worker" not in text_of((await served.web.get("/schedules")).text)
    [listed] = (await served.web.get("/api/schedules")).json()
    assert "give workflow 'com.example.XX" in listed["unserved"]


async def test_a_schedule_and_its_runs_lead_to_each_other(served: Served) -> None:
    handle = await served.client.schedules.create("a/b<c", "Report", spec=Cron("0 2 * * *"))
    run = await handle.trigger(request_id="k")
    await served.client.start("Report", id="another")
    page = (await served.web.get("/schedules/a%2Fb%3Cc")).text
    assert 'href="/?schedule=a/b%3Cc"' in page
    listed = (await served.web.get("/", params={"schedule": "a/b<c"})).text
    assert run.workflow_id.replace("<", "&lt;") in listed
    assert "another" not in listed
    assert 'href="/schedules/a%2Fb%3Cc">a/b&lt;c</a>' in listed
    assert "schedule=a%2Fb%3Cc" in listed.partition("/bulk?")[2].partition('"')[0]
    asked = await served.web.get("/bulk", params={"schedule": "a/b<c", "action": "cancel"})
    assert "Cancel 1 workflow" in text_of(asked.text)
    shown = (await served.web.get("/workflows/a%2Fb%3Cc-trigger-k")).text
    assert 'href="/schedules/a%2Fb%3Cc">a/b&lt;c</a>' in shown
    assert "<dt>outlast_schedule" not in shown


async def test_an_unknown_schedule_is_a_page_that_says_so(served: Served) -> None:
    page = await served.web.get("/schedules/unknown")
    assert page.status_code == 404
    assert "There is no schedule" in text_of(page.text)


def test_the_strip_says_what_it_does_not_know() -> None:
    slots = [NOW + timedelta(hours=number) for number in range(1, 31)]
    days = calendar_of(slots, NOW, most=30)
    assert [len(day.slots) for day in days[:3]] == [11, 19, 0]
    assert [day.known for day in days[:3]] == [True, False, False]
    assert (len(days[0].shown), days[0].more) == (3, 8)
    assert all(day.known for day in calendar_of(slots, NOW, most=31))
    assert sum(len(day.slots) for day in calendar_of([NOW + timedelta(days=DAYS)], NOW)) == 0
