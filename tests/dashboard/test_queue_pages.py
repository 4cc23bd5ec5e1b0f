"""The pages of queues: what they show, and what can be done there."""

from __future__ import annotations

import re

from tests.dashboard.conftest import Served

from outlast import Rate


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
    assert "10 at a time, 20 per 1 s; a partition: 2 at a time" in page
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
    assert "as soon as a slot is free" in text_of((await served.web.get(path)).text)


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
