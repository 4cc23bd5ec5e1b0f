"""The page of runs: what it says of each."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta

import pytest
from tests.dashboard.conftest import Served

from outlast.errors import WorkflowFailedError, WorkflowResultError
from outlast.visibility.views import AttentionReason
from outlast_dashboard.pages.rendering import environment, since_or_instant
from outlast_workflow.primitives.enums import Attention


async def test_the_list_says_why_a_run_ended_as_it_did(served: Served) -> None:
    with pytest.raises(WorkflowFailedError):
        await served.client.execute("Failing", "s3cret", id="f-1")
    await served.client.execute("Greeting", "x", id="g-1")
    for id, way in (("c-1", "cancel"), ("t-1", "terminate")):
        handle = await served.client.start("Waiting", id=id)
        await getattr(handle, way)(f"by {way}")
        with pytest.raises(WorkflowResultError):
            await handle.result()
    text = (await served.web.get("/")).text
    ends = re.findall(r'<span class="end ([a-z_]*)">([^<]*)</span>', text)
    assert sorted(ends) == [
        ("cancelled", "by cancel"),
        ("failed", "Declined: no funds"),
        ("terminated", "by terminate"),
    ]
    unseen = (await served.web.get("/", headers=served.bearing("reader"))).text
    assert "Declined: no funds" in unseen
    assert "s3cret" not in text + unseen


def test_an_instant_of_long_ago_is_shown_itself() -> None:
    now = datetime(2026, 1, 31, tzinfo=UTC)
    assert ">23 h ago<" in since_or_instant(now - timedelta(hours=23), now)
    assert ">2026-01-29 00:00:00<" in since_or_instant(now - timedelta(days=2), now)


def test_what_a_run_needs_is_told_once_for_each_kind() -> None:
    def reason(noun: str) -> AttentionReason:
        cause = f"no live worker polls task queue 'gpu' of {noun}"
        return AttentionReason(kind=Attention.NO_POLLER, cause=cause, remedy="start one: `outlast worker`")

    template = '{% import "_components.html" as ui %}{{ ui.needs(reasons, "why", told) }}'
    causes = "No live worker polls task queue 'gpu' of workflow. No live worker polls task queue 'gpu' of activity."
    for told, words in ((False, "no worker"), (True, f"no worker {causes} Start one: outlast worker.")):
        made = environment.from_string(template).render(
            reasons=(reason("workflow"), reason("activity")), told=told
        )
        assert " ".join(html.unescape(re.sub(r"<[^>]*>", " ", made)).split()).replace(" .", ".") == words


async def test_the_list_shows_what_was_forked_and_what_was_not(served: Served) -> None:
    original = await served.client.start("Greeting", "ada", id="g-1")
    await original.result()
    await (await original.fork(id="g-1-trial")).result()
    for choice, shown, left in (("yes", "g-1", "g-1-trial"), ("no", "g-1-trial", "g-1")):
        text = (await served.web.get("/", params={"was_forked_from": choice})).text
        assert f'href="/workflows/{shown}?' in text
        assert f'href="/workflows/{left}?' not in text
    wrong = await served.web.get("/", params={"was_forked_from": "perhaps"})
    assert wrong.status_code == 422
    assert "was forked from must be yes or no" in wrong.text
