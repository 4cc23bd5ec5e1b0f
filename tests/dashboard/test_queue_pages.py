"""The pages of queues: what they show, and what can be done there."""

from __future__ import annotations

import html
import re

from tests.dashboard.conftest import Served
from tests.engine.test_queues import DefineMany
from tests.store.activity_rows import activity_row

from outlast import Rate, StartOptions
from outlast_dashboard.pages.queues import MOST_PARTITIONS
from outlast_store.schema import tables
from outlast_workflow.options.queues import LIMITS


def text_of(page: str) -> str:
    """What a page says, without its markup."""
    body = page.partition('<main id="main">')[2].partition("</main>")[0]
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


async def test_without_a_queue_the_page_says_how_to_define_one(served: Served) -> None:
    said = text_of((await served.web.get("/queues")).text)
    assert "No queue is defined" in said
    assert "outlast queue define NAME" in said


async def test_all_queues_are_shown_with_their_limits(served: Served) -> None:
    await served.client.queues.define("a/b<c", concurrency=10, rate=Rate(20, per=1), partition_concurrency=2)
    await served.client.queues.define("gpu")
    await served.client.queues.pause("gpu")
    page = (await served.web.get("/queues")).text
    assert 'href="/queues/a%2Fb%3Cc">a/b&lt;c</a>' in page
    assert "10 at a time, 20 per second; a partition: 2 at a time" in page
    assert "gpu paused" in text_of(page)
    assert "1 paused" in text_of(page)


async def test_a_queue_is_paused_with_a_note_and_resumed(served: Served) -> None:
    await served.client.queues.define("a/b", worker_concurrency=5)
    path = "/queues/a%2Fb"
    assert "5 a worker" in text_of((await served.web.get(path)).text)
    done = await served.web.post(f"{path}/pause", data={"note": "<b>maintenance</b>"})
    assert (done.status_code, done.headers["location"]) == (303, path)
    paused = (await served.web.get(path)).text
    assert "&lt;b&gt;maintenance&lt;/b&gt;" in paused
    assert "when it is resumed" in text_of(paused)
    assert f'action="{path}/resume"' in paused
    await served.web.post(f"{path}/resume")
    assert not (await served.client.queues.describe("a/b")).paused
    assert "as soon as a worker takes it" in text_of((await served.web.get(path)).text)


async def test_who_only_reads_is_shown_no_actions(served: Served) -> None:
    await served.client.queues.define("gpu")
    page = await served.web.get("/queues/gpu", headers=served.bearing("reader"))
    assert page.status_code == 200
    assert "/pause" not in page.text
    refused = await served.web.post("/queues/gpu/pause", headers=served.bearing("reader"))
    assert refused.status_code == 403
    assert not (await served.client.queues.describe("gpu")).paused


async def test_an_unknown_queue_is_a_page_that_says_so(served: Served) -> None:
    await served.client.queues.define("emails")
    page = await served.web.get("/queues/emials")
    assert page.status_code == 404
    assert "did you mean &#39;emails&#39;?" in page.text


async def queue_of_three(served: Served) -> None:
    """Two partitions of a paused queue: two runs wait in one, one in the other."""
    await served.client.queues.define("mails")
    await served.client.queues.pause("mails")
    for number, partition in enumerate(("t/1", "t/1", "t-2")):
        options = StartOptions(queue="mails", partition_key=partition)
        await served.client.start("Waiting", id=f"m-{number}", options=options)
    await served.client.start("Waiting", id="elsewhere")


def shown_runs(page: str) -> list[str]:
    return re.findall(r'<td class="id"><a href="/workflows/([^?"]+)', page)


async def test_runs_are_filtered_by_queue_and_partition(served: Served) -> None:
    await queue_of_three(served)
    assert "Partition" not in text_of((await served.web.get("/")).text)
    of_queue = (await served.web.get("/", params={"queue": "mails"})).text
    assert shown_runs(of_queue) == ["m-2", "m-1", "m-0"]
    assert '<option value="mails">' in of_queue
    assert 'name="partition_key"' in of_queue
    of_one = (await served.web.get("/", params={"queue": "mails", "partition_key": "t/1"})).text
    assert shown_runs(of_one) == ["m-1", "m-0"]
    # Chips and bulk actions keep to what is shown.
    assert 'href="/?status=queued&amp;queue=mails&amp;partition_key=t%2F1"' in of_one
    assert 'href="/bulk?queue=mails&amp;partition_key=t%2F1&amp;action=cancel"' in of_one


async def test_the_start_of_what_waits_in_a_queue_is_moved_by_a_page_that_asks_first(served: Served) -> None:
    await queue_of_three(served)
    chosen = {"queue": "mails", "partition_key": "t/1"}
    page = html.unescape((await served.web.get("/", params=chosen)).text)
    (link,) = re.findall(r'href="(/bulk\?[^"]*action=set-start-delay)"', page)
    asked = (await served.web.get(link)).text
    assert "Move the start of 2 workflows now" in text_of(asked)
    (address,) = re.findall(r'<form method="post" action="(/bulk[^"]*)"', asked)
    fields = {"action": "set-start-delay", "number": "2"}
    address = html.unescape(address)
    wrong = await served.web.post(address, data={**fields, "start": "tomorrow"})
    assert wrong.status_code == 422
    assert "start must be a time like" in wrong.text
    done = await served.web.post(address, data={**fields, "start": "2h"})
    assert "Moved the start of 2 workflows" in done.text
    load = await served.client.queues.describe("mails")
    assert (load.waiting, load.delayed) == (1, 2)
    # What has begun, or cannot be waiting, is not reached.
    other = await served.web.get("/bulk", params={"action": "set-start-delay", "status": "running"})
    assert "Move the start of 0 workflows" in text_of(other.text)


async def test_the_start_of_a_run_is_moved_on_its_page(served: Served) -> None:
    await queue_of_three(served)
    page = (await served.web.get("/workflows/m-0")).text
    assert 'action="/workflows/m-0/start-delay"' in page
    assert "data-begins" in page
    said = text_of(page)
    assert "Waits for its turn in queue mails : its queue &#39;mails&#39; is paused" in said
    assert "a worker of task queue" not in said
    done = await served.web.post("/workflows/m-0/start-delay", data={"start": "1h"})
    assert done.status_code == 303
    run = (await served.client.describe("m-0")).run
    assert run.queue is not None
    assert run.queue.start_at is not None
    await (await served.client.start("Greeting", "x", id="over")).result()
    late = await served.web.post("/workflows/over/start-delay", data={"start": "1h"})
    assert late.status_code == 409


async def test_a_queue_is_defined_changed_and_deleted_on_pages(served: Served) -> None:
    web = served.web
    assert 'href="/define-queue"' in (await web.get("/queues")).text
    limits = {"concurrency": "10", "rate": "20/s", "partition_rate": "3/1.5s", "partition_concurrency": ""}
    wrong = await web.post("/define-queue", data={"name": "a/b", **limits, "rate": "often"})
    assert wrong.status_code == 422
    assert "rate must be like 20/s" in html.unescape(wrong.text)
    assert 'value="3/1.5s"' in wrong.text, "nothing typed is lost"
    made = await web.post("/define-queue", data={"name": "a/b", **limits})
    assert (made.status_code, made.headers["location"]) == (303, "/queues/a%2Fb")
    again = await web.post("/define-queue", data={"name": "a/b", **limits})
    assert again.status_code == 409
    found = await served.client.queues.describe("a/b")
    assert found.limits_in_words == "10 at a time, 20 per second; a partition: 3 per 1.5 seconds"
    form = (await web.get("/queues/a%2Fb/limits")).text
    kept = dict(re.findall(r'<input name="(\w+)" value="([^"]*)"', form))
    assert kept == {
        **dict.fromkeys(LIMITS, ""),
        "concurrency": "10",
        "rate": "20/1s",
        "partition_rate": "3/1.5s",
    }
    too_much = await web.post("/queues/a%2Fb/limits", data={**kept, "partition_concurrency": "11"})
    assert too_much.status_code == 422
    assert (await served.client.queues.describe("a/b")).limits_in_words == found.limits_in_words
    changed = await web.post(
        "/queues/a%2Fb/limits", data={**kept, "concurrency": "", "worker_concurrency": "2"}
    )
    assert changed.headers["location"] == "/queues/a%2Fb"
    assert (await served.client.queues.describe("a/b")).limits_in_words.startswith(
        "2 a worker, 20 per second"
    )
    await served.client.start("Waiting", id="w", options=StartOptions(queue="a/b"))
    refused = await web.post("/queues/a%2Fb/delete")
    assert refused.status_code == 409
    await served.client.handle("w").terminate()
    gone = await web.post("/queues/a%2Fb/delete")
    assert (gone.status_code, gone.headers["location"]) == (303, "/queues")
    assert await served.client.queues.list() == []
    for path in ("/define-queue", "/queues/a%2Fb/limits", "/queues/a%2Fb/delete"):
        assert (await web.post(path, headers=served.bearing("reader"))).status_code == 403


async def test_the_partitions_that_have_waited_longest_lead_to_their_runs(served: Served) -> None:
    await queue_of_three(served)
    options = StartOptions(queue="mails")
    await served.client.start("Waiting", id="without", options=options)
    page = html.unescape((await served.web.get("/queues/mails")).text)
    assert 'href="/?queue=mails&partition_key=t/1">t/1</a>' in page
    assert 'href="/?queue=mails&partition_key=t/1&status=queued">2</a>' in page
    assert "status=running" not in page, "there is nothing behind a zero"
    assert text_of(page).index("t/1") < text_of(page).index("t-2") < text_of(page).index("without a key")
    for number in range(MOST_PARTITIONS):
        more = StartOptions(queue="mails", partition_key=f"p-{number}")
        await served.client.start("Waiting", id=f"p-{number}", options=more)
    page = (await served.web.get("/queues/mails")).text
    assert f"those that have waited longest, of {MOST_PARTITIONS + 2}" in text_of(page)


async def test_a_line_that_nobody_can_serve_is_told_on_the_pages(served: Served) -> None:
    await served.client.queues.define("mails")
    assert "held up" not in text_of((await served.web.get("/queues")).text)
    await served.client.start("Nobody", id="w", options=StartOptions(queue="mails", partition_key="t"))
    assert "mails held up" in text_of((await served.web.get("/queues")).text)
    said = text_of((await served.web.get("/queues/mails")).text)
    assert "The first in line waits: " in said
    assert "workflow 'Nobody'" in html.unescape(said)
    assert "in line of mails, partition t" in text_of((await served.web.get("/?queue=mails")).text)
    await served.client.queues.pause("mails", "maintenance")
    said = text_of((await served.web.get("/queues/mails")).text)
    assert ("The first in line waits" in said, "maintenance" in said) == (False, True)


async def test_the_page_of_a_run_says_where_its_activities_stand(served: Served) -> None:
    """Nobody works here: the row is made as a workflow task makes it, but without its events."""
    await served.client.queues.define("stripe/x")
    await served.client.queues.pause("stripe/x")
    handle = await served.client.start("Waiting", id="w")
    assert handle.run_id is not None
    row = activity_row(
        handle.run_id,
        queue="stripe/x",
        partition_key="key<1>",
        available_at=served.client.runtime.environment.clock.now(),
    )
    with served.client.runtime.database.writer() as connection:
        connection.execute(tables.activity_executions.insert(), [row])
        connection.commit()
    page = (await served.web.get("/workflows/w")).text
    assert 'queue <a href="/queues/stripe%2Fx">stripe/x</a>, partition key&lt;1&gt;' in page
    assert "its queue &#39;stripe/x&#39; is paused" in page
    assert "in line of stripe/x for" in text_of(page)
    markup = (await served.web.get("/queues/stripe%2Fx")).text
    of_queue = text_of(markup)
    assert "1 activity" in of_queue
    assert "Activities in line" in of_queue
    assert f'<a href="/workflows/w?run_id={handle.run_id}">w</a>' in markup
    assert "partition_key=key" not in markup, "no run stands in that partition"
    described = (await served.web.get("/api/queues/stripe%2Fx")).json()
    assert (described["waiting"], described["waiting_activities"]) == (1, 1)
    (waiting,) = (await served.web.get("/api/workflows/w")).json()["pending_activities"]
    assert waiting["queue"]["held_up_by"] == "its queue 'stripe/x' is paused"
    with served.client.runtime.database.writer() as connection:
        connection.execute(tables.activity_executions.delete())
        connection.commit()


async def test_of_many_queues_the_first_are_shown(served: Served) -> None:
    await served.client.runtime.journal.apply(DefineMany(501))
    page = (await served.web.get("/queues")).text
    assert "the first 500 are shown" in text_of(page)
    assert page.count('href="/queues/q-') == 500
    listed = (await served.web.get("/api/queues", params={"after": "q-498"})).json()
    assert [queue["name"] for queue in listed] == ["q-499", "q-500"]
