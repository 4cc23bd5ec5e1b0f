"""The form of a schedule: what is typed into it, what it says of mistakes, and that it shows what is there."""

from __future__ import annotations

from typing import Any

from tests.dashboard.conftest import Served
from tests.dashboard.test_queue_pages import text_of

from outlast import AlertPolicy, At, Cron, Every, RetryPolicy, StartOptions
from outlast_dashboard.pages.schedules.calendar_text import lines_of, specs_of
from outlast_dashboard.pages.schedules.form import _DEFAULTS, _FIELDS

TYPED = {
    **dict.fromkeys(_FIELDS, ""),
    **_DEFAULTS,
    "id": "a/b<c",
    "workflow_type": "Report",
    "args": '["secret-argument"]',
    "when": "0 2 * * 1-5\nevery 6h offset 10m",
    "time_zone": "Europe/Zurich",
    "note": "<i>ask Ada</i>",
}


async def test_a_schedule_is_created_and_changed_by_its_form(served: Served) -> None:
    await served.client.queues.define("reports")
    typed = {
        **TYPED,
        "queue": "reports",
        "partition_key": "eu",
        "memo": '{"a": "secret-memo"}',
        "max_runs": "9",
    }
    made = await served.web.post("/new-schedule", data=typed)
    assert (made.status_code, made.headers["location"]) == (303, "/schedules/a%2Fb%3Cc"), text_of(made.text)
    handle = served.client.schedules.handle("a/b<c")
    described = await handle.describe()
    assert described.when == "0 2 * * 1-5 (Europe/Zurich); every 6 h, 10 min later"
    assert (described.options.queue, described.max_runs, described.note) == ("reports", 9, "<i>ask Ada</i>")
    page = (await served.web.get("/schedules/a%2Fb%3Cc/edit")).text
    assert "0 2 * * 1-5\nevery 6h offset 10m</textarea>" in page
    assert "secret" not in page, "the arguments and the memo are not shown"
    changed = await served.web.post(
        "/schedules/a%2Fb%3Cc/edit", data={**typed, "args": "", "memo": "", "priority": "1"}
    )
    assert changed.status_code == 303, text_of(changed.text)
    after = await handle.describe()
    assert after.options == described.options.model_copy(update={"priority": 1})
    run = await handle.trigger()
    assert (await served.client.describe(run.workflow_id)).run.memo == {"a": "secret-memo"}
    history = [event async for event in run.history()]
    assert "secret-argument" in str(history[0]), "what is empty stays"


async def test_the_form_of_a_schedule_that_is_sent_as_it_is_changes_nothing(served: Served) -> None:
    await served.client.queues.define("reports")
    options = StartOptions(
        execution_timeout=7200,
        run_timeout=90,
        start_delay=0.5,
        queue="reports",
        partition_key="eu",
        schedule_to_start_timeout=600,
        retry_policy=RetryPolicy(max_attempts=3, initial_interval=7),
        search_attributes={"region": "eu", "size": 5},
        summary="a report",
        alerts=AlertPolicy(at=[0.8, 1], before=[60], signal="late"),
    )
    handle = await served.client.schedules.create(
        "s",
        "Report",
        spec=[Cron("@daily"), Cron("0 3 * * *", time_zone="Asia/Tokyo"), Every(90)],
        exclude=Cron("* * 25 12 *"),
        jitter=1.5,
        catch_up="all",
        catch_up_window=3600,
        pause_on_failure=True,
        max_runs=4,
        note="ask Ada",
        options=options,
    )
    before = await handle.describe()
    form = _filled((await served.web.get("/schedules/s/edit")).text)
    sent = await served.web.post("/schedules/s/edit", data=form)
    assert sent.status_code == 303, text_of(sent.text)
    assert await handle.describe() == before


async def test_the_form_shows_when_it_would_fire(served: Served) -> None:
    shown = await served.web.post("/new-schedule", data={**TYPED, "preview": "yes"})
    assert shown.status_code == 200
    said = text_of(shown.text)
    assert "It would fire at" in said
    assert shown.text.count("<li><time") == 10
    never = await served.web.post("/new-schedule", data={**TYPED, "when": "0 0 30 2 *", "preview": "yes"})
    assert "It would never fire" in text_of(never.text)
    assert [one async for one in served.client.schedules.list()] == []


MISTAKES: tuple[tuple[dict[str, Any], str | None], ...] = (
    ({"when": ""}, "when"),
    ({"when": "61 * * * *"}, "when"),
    ({"when": "every soon"}, "when"),
    ({"when": "at yesterday"}, "when"),
    ({"when": "0 0 30 2 *"}, "when"),
    ({"time_zone": "Europe/Nowhere"}, "time_zone"),
    ({"exclude": "nonsense"}, "exclude"),
    ({"id": ".."}, "id"),
    ({"start_at": "soon"}, "start_at"),
    ({"jitter": "soon"}, "jitter"),
    ({"max_runs": "many"}, "max_runs"),
    ({"args": "{}"}, "args"),
    ({"memo": "[]"}, "memo"),
    ({"partition_key": "eu"}, "partition_key"),
    ({"queue": "nowhere"}, None),
    ({"overlap": "maybe"}, "overlap"),
)


async def test_a_mistake_is_told_at_its_field_and_keeps_what_was_typed(served: Served) -> None:
    for typed, field in MISTAKES:
        refused = await served.web.post("/new-schedule", data={**TYPED, **typed})
        assert refused.status_code in (404, 422), refused.text
        if field is not None:
            assert f'id="{field}-wrong"' in refused.text, (typed, text_of(refused.text))
        assert "&lt;i&gt;ask Ada&lt;/i&gt;" in refused.text, typed
    assert [one async for one in served.client.schedules.list()] == []


async def test_a_backfill_says_how_many_and_a_deletion_leads_back(served: Served) -> None:
    await served.client.schedules.create("s", "Report", spec=Every(86_400))
    asked = {"start_time": "3d", "end_time": "0"}
    done = await served.web.post("/schedules/s/backfill", data=asked, headers={"hx-request": "true"})
    assert "Started 3 workflows, 0 were there already." in done.text
    wrong = await served.web.post(
        "/schedules/s/backfill", data={**asked, "start_time": "soon"}, headers={"hx-request": "true"}
    )
    assert "start time must be a time like" in wrong.text
    few = await served.web.post(
        "/schedules/s/backfill", data={**asked, "limit": "2"}, headers={"hx-request": "true"}
    )
    assert "has 3 slots in that time: give a higher limit" in few.text
    without = await served.web.post("/schedules/s/backfill", data=asked)
    assert (without.status_code, without.headers["location"]) == (303, "/?schedule=s")
    for path in ("/new-schedule", "/schedules/s/edit", "/schedules/s/delete", "/schedules/s/backfill"):
        refused = await served.web.post(path, data={**TYPED, **asked}, headers=served.bearing("reader"))
        assert refused.status_code == 403
    gone = await served.web.post("/schedules/s/delete")
    assert (gone.status_code, gone.headers["location"]) == (303, "/schedules")
    assert await served.client.count(schedule="s") == 3


def test_specs_are_read_as_they_are_shown() -> None:
    for specs in (
        [Cron("0 2 * * *"), Cron("*/5 * * * * *", time_zone="Europe/Zurich")],
        [Every(1.5), Every(7200, offset=90)],
        list(specs_of("when", "at 2026-12-24T18:00:00Z, 2027-12-24T18:00:00+01:00", "UTC")),
    ):
        shown = lines_of([spec.to_document() for spec in specs], "Europe/Zurich")
        assert specs_of("when", shown, "Europe/Zurich") == specs
    assert isinstance(specs_of("when", "AT 2026-12-24T18:00:00Z", "UTC")[0], At)


def _filled(page: str) -> dict[str, str]:
    """What a browser would send of a form that nobody has touched."""
    from html import unescape
    from re import findall

    form = dict(findall(r'<input name="(\w+)" value="([^"]*)"', page))
    form |= dict(findall(r'(?s)<textarea name="(\w+)"[^>]*>\n(.*?)</textarea>', page))
    for name, options in findall(r'<select name="(\w+)".*?>(.*?)</select>', page.replace("\n", " ")):
        form[name] = findall(r'value="(\w+)" selected', options)[0]
    if "checked>" in page:
        form["pause_on_failure"] = "yes"
    return {name: unescape(value) for name, value in form.items()}
