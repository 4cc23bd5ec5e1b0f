"""``outlast activity``: ending activities from outside, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.cli.conftest import Command

pytestmark = pytest.mark.usefixtures("worker")


@pytest.fixture
def asked(outlast: Command) -> Callable[[str, int], str]:
    """Returns the token of an attempt that waits for the outside, once its handler has told it."""

    def wait(workflow_id: str, attempt: int) -> str:
        while True:
            found = outlast("describe", workflow_id, "--json").json
            for one in found["pending_activities"]:
                if one["deferred"] and one["attempt"] == attempt and one["heartbeat_details"]:
                    return str(one["heartbeat_details"][0])

    return wait


def test_an_activity_is_completed_by_its_token(outlast: Command, asked: Callable[[str, int], str]) -> None:
    outlast("start", "asking", "--id", "a")
    token = asked("a", 1)
    described = outlast("describe", "a").out
    assert "running, deferred" in " ".join(described.split())
    assert "ask waits for somebody outside" in described
    assert "`outlast activity complete --workflow-id a --activity-id 1 --result JSON`" in described
    assert outlast("activity", "heartbeat", token, "--detail", '"half-way"').out == "heartbeaten\n"
    assert outlast("activity", "complete", token, "--result", '{"ok": true}').out == "completed\n"
    assert outlast("result", "a", "--json").json["result"] == {"ok": True}
    again = outlast("activity", "complete", token)
    assert (again.code, again.out) == (1, "")
    assert "it has completed already" in again.err


def test_an_attempt_is_failed_by_ids(outlast: Command, asked: Callable[[str, int], str]) -> None:
    outlast("start", "asking", "--id", "a")
    asked("a", 1)
    named = ("--workflow-id", "a", "--activity-id", "1")
    failed = outlast("activity", "fail", *named, "--message", "later", "--next-retry-delay", "1ms", "--json")
    assert failed.json == {"failed": True}
    asked("a", 2)
    assert (
        outlast("describe", "a", "--json").json["pending_activities"][0]["last_failure"]["message"] == "later"
    )
    last = ("--message", "no", "--type", "Denied", "--detail", "[1]", "--non-retryable")
    assert outlast("activity", "fail", *named, *last).out == "failed\n"
    assert "Denied: no" in outlast("result", "a").err


def test_a_cancel_request_is_told_and_acknowledged(
    outlast: Command, asked: Callable[[str, int], str]
) -> None:
    outlast("start", "asking", "--id", "a")
    token = asked("a", 1)
    refused = outlast("activity", "cancel", token)
    assert (refused.code, "nobody has asked to cancel" in refused.err) == (1, True)
    outlast("cancel", "a")
    outlast("result", "a")
    told = outlast("activity", "heartbeat", token)
    assert (told.code, "has ended (cancelled)" in told.err) == (1, True)


@pytest.mark.parametrize("verb", ["complete", "fail", "cancel", "heartbeat"])
def test_what_names_no_activity_is_refused(outlast: Command, verb: str) -> None:
    outlast("start", "sleep_long", "--id", "s")
    for arguments, code, words in (
        ([], 2, "by its task token, or by --workflow-id and --activity-id"),
        (["x", "--workflow-id", "s"], 2, "by its task token, or by --workflow-id and --activity-id"),
        (["--activity-id", "1"], 2, "by its task token, or by --workflow-id and --activity-id"),
        (["nonsense"], 2, "this is no task token"),
        (["--workflow-id", "s", "--activity-id", "1"], 3, "has no activity 1"),
        (["--workflow-id", "nobody", "--activity-id", "1"], 3, "no workflow"),
    ):
        done = outlast("activity", verb, *arguments)
        assert (done.code, done.out) == (code, ""), done.err
        assert words in done.err
