"""The page of a run, asked for as a browser asks: outcome, history, failures, menus, answers in place."""

from __future__ import annotations

import html
import re
from urllib.parse import quote

import orjson
import pytest
from tests.dashboard.conftest import Served

from outlast import StartOptions
from outlast.errors import WorkflowFailedError
from outlast_dashboard.notifications import ChangeSignal
from outlast_dashboard.pages.run.handler_menus import arguments_of
from outlast_dashboard.pages.runs.choice import RunChoice
from outlast_workflow.errors import InvalidOptionError

IN_PLACE = {"hx-request": "true"}


async def text_of(served: Served, path: str, name: str = "all") -> str:
    answer = await served.web.get(f"/workflows/{path}", headers=served.bearing(name))
    assert answer.status_code == 200, answer.text
    return answer.text


def section(text: str, heading: str) -> str:
    """The section of a page whose heading has an id, as plain text."""
    found = re.search(rf'<section[^>]*aria-labelledby="{heading}".*?</section>', text, re.S)
    assert found is not None, f"no section {heading}"
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", found[0]).split()))


def events(text: str) -> list[int]:
    return [int(seq) for seq in re.findall(r'id="event-(\d+)"', text)]


# --- what came of it --------------------------------------------------------------------------------------------------


async def test_input_and_result_are_in_the_head_of_the_page(served: Served) -> None:
    await served.client.execute("Greeting", "ada", id="g-1")
    text = await text_of(served, "g-1")
    assert section(text, "input") == 'Input "ada"'
    assert section(text, "outcome") == 'Result "hello ada"'
    run = (await served.client.describe("g-1")).run
    assert f'data-copy="{run.run_id}"' in text


async def test_an_error_has_its_type_its_message_and_its_stack(served: Served) -> None:
    handle = await served.client.start("Failing", "s3cret", id="f-1")
    with pytest.raises(WorkflowFailedError):
        await handle.result()
    text = await text_of(served, "f-1")
    assert section(text, "outcome").startswith("Error Declined no funds")
    assert "in Failing.run" in section(text, "outcome") or "in run" in section(text, "outcome")


async def test_who_may_not_see_payloads_sees_that_they_are_hidden(served: Served) -> None:
    await served.client.execute("Greeting", "s3cret", id="g-1")
    text = await text_of(served, "g-1", "reader")
    assert "s3cret" not in text
    assert "hidden" in section(text, "input")
    assert "hidden" in section(text, "outcome")


async def test_a_large_input_is_a_link_and_not_in_the_page(served: Served) -> None:
    await served.client.execute("Greeting", "x" * 20_000, id="g-1")
    text = await text_of(served, "g-1")
    assert "x" * 1000 not in text
    (link,) = set(re.findall(r'href="(/workflows/g-1/events/1\.json[^"]*)"', text))
    answer = await served.web.get(html.unescape(link))
    assert answer.json()["payload"]["input"] == ["x" * 20_000]
    assert (await served.web.get("/workflows/g-1/events/99.json")).status_code == 404


async def test_deadlines_are_bars_beside_their_timeouts_and_what_is_empty_is_left_out(served: Served) -> None:
    await served.client.start("Waiting", id="w-1", options=StartOptions(run_timeout=50))
    text = await text_of(served, "w-1")
    assert re.search(r'Run timeout <span class="soft">50 s</span>', text)
    assert re.search(r'<progress class="meter [a-z]+"[^>]*aria-label="Run timeout: ', text)
    assert "<dt>Execution timeout" not in text
    assert "Memo" not in text


async def test_an_open_run_says_what_it_waits_for(served: Served) -> None:
    await served.client.start("Waiting", id="w-1")
    await served.client.handle("w-1").query("heard")
    assert section(await text_of(served, "w-1"), "outcome") == "Waits for a signal or an update"
    await served.client.start("Nobody", id="n-1", task_queue="nowhere")
    assert section(await text_of(served, "n-1"), "outcome") == "Waits for a worker of task queue nowhere"


async def test_failures_are_gathered_and_have_their_stack_and_the_next_try(served: Served) -> None:
    handle = await served.client.start("Paying", "o-1", id="p-1")
    async with ChangeSignal(served.client) as changed:
        while len((await served.client.describe("p-1")).failures) < 2:
            await changed.wait()
    text = await text_of(served, "p-1")
    activities = section(text, "activities")
    assert "49.90 by card attempt 2 next try in" in activities
    assert "× 2 RuntimeError attempt 2 was declined" in activities
    assert "in charge" in activities
    assert 'id="failures"' not in text, "what the open activity tells is not told again"
    assert "49.90 by card after RuntimeError next try in" in section(text, "outcome"), "what it waits for"
    assert "49.90 by card" in section(text, "timeline")
    await handle.terminate("seen enough")
    failures = section(await text_of(served, "p-1"), "failures")
    assert failures.startswith("Failures RuntimeError × 2 attempt 2 was declined charge #1")
    assert "in charge" in failures


async def test_a_run_with_many_activities_is_one_line_and_its_progress_a_bar(served: Served) -> None:
    assert await served.client.execute("FanningOut", 60, id="many") == 60
    text = await text_of(served, "many")
    drawn = section(text, "timeline")
    assert "greet × 60 60 completed" in drawn
    assert drawn.count("slowest") == 3
    assert re.search(r'<progress class="meter done" value="1" max="4"', text)
    assert "1 of 4 · greeting everybody" in html.unescape(" ".join(re.sub(r"<[^>]+>", "", text).split()))


# --- the history ------------------------------------------------------------------------------------------------------


async def test_the_history_is_newest_first_and_each_event_has_its_gist(served: Served) -> None:
    await served.client.execute("Greeting", "ada", id="g-1")
    text = await text_of(served, "g-1")
    seqs = events(text)
    assert seqs == sorted(seqs, reverse=True)
    gists = [
        html.unescape(re.sub(r"<[^>]+>", "", one)).strip()
        for one in re.findall(r'class="gist">(.*?)</span>', text)
    ]
    assert 'greet #1 "ada"' in gists
    assert 'greet #1 "hello ada"' in gists
    assert events(await text_of(served, "g-1?order=oldest")) == seqs[::-1]


async def test_the_history_shows_one_kind_of_events(served: Served) -> None:
    await served.client.execute("Greeting", "ada", id="g-1")
    text = await text_of(served, "g-1?events=activities")
    assert re.findall(r'class="type">([A-Za-z]+)<', text) == ["ActivityCompleted", "ActivityScheduled"]
    assert "No events of this kind" in await text_of(served, "g-1?events=timers")
    assert (await served.web.get("/workflows/g-1?events=odd")).status_code == 422


async def test_the_events_of_an_activity_are_grouped(served: Served) -> None:
    await served.client.execute("Greeting", "ada", id="g-1")
    text = await text_of(served, "g-1?view=groups")
    group = re.search(r'<li id="group-1">.*?</li>', text, re.S)
    assert group is not None
    assert "greet #1" in group[0]
    assert 'class="badge completed"' in group[0]
    assert len(events(group[0])) == 2


@pytest.mark.parametrize("order", ["newest", "oldest"])
async def test_a_long_history_is_read_page_by_page_in_either_direction(served: Served, order: str) -> None:
    await served.client.start("Waiting", id="w-1")
    handle = served.client.handle("w-1")
    for number in range(130):
        await handle.signal("note", number)
    await handle.query("heard")
    length = (await served.client.describe("w-1")).run.history_length
    path, seen = f"w-1?order={order}&events=messages", []
    texts: list[str] = []
    while path:
        text = await text_of(served, path)
        texts.append(text)
        seen += events(text)
        onward = re.findall(r'href="/workflows/(w-1\?[^"#]+)#history">(Older →|Newer →)<', text)
        path = html.unescape(onward[0][0]) if onward else ""
    assert len(seen) == 130
    assert seen == sorted(seen, reverse=order == "newest")
    assert max(seen) <= length
    (back,) = re.findall(r'href="/workflows/(w-1\?[^"#]+)#history">← (?:Newer|Older)<', texts[-1])
    assert events(await text_of(served, html.unescape(back))) == seen[:100]


async def test_the_whole_history_is_downloaded(served: Served) -> None:
    await served.client.start("Greeting", "s3cret", id="a/b c")
    await served.client.handle("a/b c").result()
    answer = await served.web.get(f"/workflows/{quote('a/b c', safe='')}/history.json")
    assert answer.headers["content-disposition"] == 'attachment; filename="a_b_c.json"'
    found = answer.json()
    assert [event["seq"] for event in found["events"]] == list(range(1, len(found["events"]) + 1))
    assert (found["workflow_id"], found["status"], "s3cret" in answer.text) == ("a/b c", "completed", True)
    hidden = await served.web.get("/workflows/a%2Fb%20c/history.json", headers=served.bearing("reader"))
    assert "s3cret" not in hidden.text


@pytest.mark.parametrize("zoom", ["5", "5-", "9-3", "a-b", "-1-5", "1-99999999999999999999"])
async def test_a_zoom_that_can_not_be_is_told(served: Served, zoom: str) -> None:
    await served.client.execute("Greeting", "ada", id="g-1")
    assert (await served.web.get("/workflows/g-1", params={"zoom": zoom})).status_code == 422


async def test_a_part_of_the_time_is_shown_alone(served: Served) -> None:
    await served.client.execute("Greeting", "ada", id="g-1")
    text = await text_of(served, "g-1?zoom=3600000-7200000")
    assert "greet #1" not in section(text, "timeline")
    assert "lies outside" in section(text, "timeline") or "lie outside" in section(text, "timeline")
    assert "Whole run" in section(text, "timeline")


def test_a_choice_is_kept_in_every_link() -> None:
    choice = RunChoice(run_id="r", events="timers", order="oldest")
    assert choice.query(zoom="1-5") == "run_id=r&events=timers&order=oldest&zoom=1-5"
    assert choice.query(order="newest") == "run_id=r&events=timers"
    assert RunChoice().query() == ""


# --- actions ----------------------------------------------------------------------------------------------------------


async def test_menus_have_the_handlers_of_the_workflow_with_their_parameters(served: Served) -> None:
    await served.client.start("Waiting", id="w-1")
    signals = await text_of(served, "w-1/handlers/signal")
    assert re.findall(r'class="name">(\w+)<', signals) == ["say"]
    assert re.search(r'<span>word <span class="type">str</span></span>\s*<input name="text-0"', signals)
    queries = await text_of(served, "w-1/handlers/query")
    assert re.findall(r'class="name">(\w+)<', queries) == ["heard", "__stack_trace"]
    assert "optional" in queries


async def test_without_a_worker_a_menu_says_so_and_the_form_takes_any_name(served: Served) -> None:
    await served.client.start("Nobody", id="n-1", task_queue="nowhere")
    text = await text_of(served, "n-1/handlers/update")
    assert "The updates are not known: " in text
    page = await text_of(served, "n-1")
    assert 'action="/workflows/n-1/update"' in page
    assert 'name="args"' in page


async def test_menus_are_for_those_who_may_use_them(served: Served) -> None:
    await served.client.start("Waiting", id="w-1")
    for kind, name, status in (
        ("signal", "reader", 403),
        ("signal", "writer", 200),
        ("query", "writer", 403),
        ("query", "seer", 200),
    ):
        answer = await served.web.get(f"/workflows/w-1/handlers/{kind}", headers=served.bearing(name))
        assert answer.status_code == status, (kind, name)


async def test_answers_come_in_place(served: Served) -> None:
    await served.client.start("Waiting", id="w-1")
    asked = await served.web.get("/workflows/w-1/query?name=heard&text-0=x", headers=IN_PLACE)
    assert "<html" not in asked.text
    assert 'aria-label="Answer">&#34;x&#34;</pre>' in asked.text
    refused = await served.web.post(
        "/workflows/w-1/update", data={"name": "correct", "text-0": ""}, headers=IN_PLACE
    )
    assert refused.status_code == 409
    assert "<html" not in refused.text
    assert "a word must not be empty" in refused.text
    signalled = await served.web.post(
        "/workflows/w-1/signal", data={"name": "say", "text-0": "yes"}, headers=IN_PLACE
    )
    assert "Signal say was accepted." in signalled.text
    assert await served.client.handle("w-1").result() == "yes"
    late = await served.web.post("/workflows/w-1/cancel", headers=IN_PLACE)
    assert (late.status_code, "has ended already" in late.text) == (409, True)


def test_fields_are_read_as_their_parameters_want_them() -> None:
    form = {"json-1": "5", "text-0": "5", "name": "x", "loose-2": "null", "loose-3": "free text"}
    assert arguments_of(form) == ["5", 5, None, "free text"]
    with pytest.raises(InvalidOptionError, match="argument 2 must be JSON"):
        arguments_of({"json-1": "five"})
    assert orjson.dumps(arguments_of({})) == b"[]"


@pytest.mark.parametrize(
    ("verb", "wrong", "right", "leads_to"),
    [
        ("fork", {"event": "1000"}, {"fork_id": "trial"}, "/workflows/trial"),
        ("reset", {"event": "1000"}, {"to": "first-workflow-task"}, "/workflows/g-1"),
        ("resume", {"execution_timeout": "soon"}, None, ""),
        ("delete", None, {}, "/"),
    ],
)
async def test_a_form_that_is_refused_keeps_what_was_typed_and_one_that_is_not_leads_on(
    served: Served, verb: str, wrong: dict[str, str] | None, right: dict[str, str] | None, leads_to: str
) -> None:
    await served.client.execute("Greeting", "ada", id="g-1")
    path, scripted = f"/workflows/g-1/{verb}", {"hx-request": "true"}
    shown = (await served.web.get("/workflows/g-1")).text
    assert f'hx-post="{path}" hx-target="find .answer"' in shown
    if wrong is not None:
        refused = await served.web.post(path, data=wrong, headers=scripted)
        assert refused.status_code in (409, 422)
        assert 'role="alert"' in refused.text
        assert "<html" not in refused.text, "it goes into the form, which stays"
        assert "<html" in (await served.web.post(path, data=wrong)).text
    if right is not None:
        led = await served.web.post(path, data=right, headers=scripted)
        assert (led.status_code, led.headers["hx-redirect"], led.text) == (200, leads_to, "")


async def test_a_fork_keeps_the_history_up_to_the_event_that_was_named(served: Served) -> None:
    await served.client.execute("Greeting", "ada", id="g-1")
    for number in range(4):
        data = {"to": "last-workflow-task", "event": "3", "fork_id": f"trial-{number}"}
        answer = await served.web.post("/workflows/g-1/fork", data=data)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/workflows/trial-{number}")
    wrong = await served.web.post("/workflows/g-1/fork", data={"event": "1000", "fork_id": "never"})
    assert wrong.status_code == 409
    assert await served.client.count(id_prefix="never") == 0
    text = await text_of(served, "g-1")
    assert text.count('<li><a href="/workflows/trial-') == 3
    assert 'href="/?forked_from=g-1">all 4</a>' in text
    assert "all 4" not in await text_of(served, "trial-0")


async def test_a_resumption_tells_what_is_repeated_by_how_the_run_ended(served: Served) -> None:
    handle = await served.client.start("Waiting", id="w-1")
    await handle.terminate()
    assert 'data-stopped="terminated"' in await text_of(served, "w-1")
    await served.client.start("Nobody", id="n-1", task_queue="nowhere")
    await served.client.handle("n-1").terminate()
    text = await text_of(served, "n-1")
    assert '<dt>Started</dt><dd><span class="none">never</span>' in text
    assert "waits for a worker" not in text


async def test_a_debounced_run_says_so(served: Served) -> None:
    await served.client.debounce("Greeting", "ada", key="user-7", period=60)
    handle = await served.client.debounce("Greeting", "bob", key="user-7", period=60)
    text = await text_of(served, handle.workflow_id)
    assert "<dt>Debounced</dt><dd>key user-7</dd>" in text
    assert "Each further call of its key puts that off" in text
    assert "begins after 1 min" in text
    assert "of the last call" in text
