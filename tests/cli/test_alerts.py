"""``outlast alerts list``: what came near, for people and for programs."""

from __future__ import annotations

import asyncio

import pytest
from tests.cli.conftest import Command

from outlast import AlertPolicy, Client, StartOptions
from outlast.watchdog import TaskWatchdog

IDS = ("a-1", "a-2", "b-1")


@pytest.fixture
def fired(url: str) -> None:
    """One alert of each workflow; they have others ahead."""

    async def work() -> None:
        async with Client.connect(url) as client:
            for number, workflow_id in enumerate(IDS):
                policy = AlertPolicy(at=[0.5], after=[0.001], signal="late")
                options = StartOptions(execution_timeout=7200, alerts=policy)
                kind = "Order" if number else "Other"
                await client.start(kind, "secret", id=workflow_id, options=options)
            watchdog, count = TaskWatchdog(client), 0
            while count < len(IDS):
                count += (await watchdog.run_pass()).counts.get("alert_fired", 0)

    asyncio.run(work())


def test_alerts_are_listed_filtered_and_paged(outlast: Command, fired: None) -> None:
    listed = outlast("alerts", "list", "--json").lines
    assert sorted(one["workflow_id"] for one in listed) == sorted(IDS)
    assert [one["alert_id"] for one in listed] == sorted((one["alert_id"] for one in listed), reverse=True)
    assert {(one["kind"], one["mark"], one["activity_id"]) for one in listed} == {("after", "+0.001s", None)}
    assert all(one["due_at"] <= one["fired_at"] for one in listed)
    [only] = outlast("alerts", "list", "--workflow", "a-2", "--json").lines
    assert only["workflow_type"] == "Order"
    assert len(outlast("alerts", "list", "--type", "Order", "--json").lines) == 2
    assert outlast("alerts", "list", "--kind", "run", "--json").out == ""
    paged = outlast("alerts", "list", "--limit", "2", "--json").lines
    rest = outlast("alerts", "list", "--cursor", paged[-1]["alert_id"], "--json").lines
    assert [*paged, *rest] == listed


def test_people_see_a_table_without_payloads(outlast: Command, fired: None) -> None:
    shown = outlast("alerts", "list").out
    assert shown.splitlines()[0].split() == [
        "FIRED",
        "WORKFLOW",
        "TYPE",
        "ACTIVITY",
        "WHAT",
        "TOLD",
        "SEEN",
        "BY",
        "ALERT",
    ]
    assert shown.count("it has taken 0.001 s") == 3
    assert "secret" not in shown
    assert outlast("alerts", "list", "--kind", "run").out == "there are no such alerts\n"


def test_a_description_shows_what_was_fired_and_what_lies_ahead(outlast: Command, fired: None) -> None:
    shown = outlast("describe", "a-1").out
    assert "+0.001s" in shown
    assert "50%" in shown
    told = outlast("describe", "a-1", "--json").json["alerts"]
    assert [one["mark"] for one in told["fired"]] == ["+0.001s"]
    assert [(one["kind"], one["mark"]) for one in told["armed"]] == [("execution", "50%")]


def test_what_cannot_be_listed_is_refused(outlast: Command, fired: None) -> None:
    wrong = outlast("alerts", "list", "--kind", "heartbeat")
    assert (wrong.code, wrong.out) == (2, "")
    assert "execution" in wrong.err
    assert outlast("alerts", "list", "--limit", "0").code == 2
    assert outlast("alerts", "list", "--limit", "1001").code == 2
    assert outlast("alerts").code == 2


def test_an_alert_is_acknowledged_once(outlast: Command, fired: None) -> None:
    first, second, _ = (one["alert_id"] for one in outlast("alerts", "list", "--json").lines)
    done = outlast("alerts", "ack", first, second, "--by", "ada", "--json").lines
    assert [(one["alert_id"], one["acknowledged_by"]) for one in done] == [(first, "ada"), (second, "ada")]
    assert outlast("alerts", "ack", first, "--by", "ada").code == 0
    refused = outlast("alerts", "ack", first, "--by", "bob")
    assert (refused.code, refused.out) == (1, "")
    assert "was acknowledged by 'ada'" in refused.err
    assert outlast("alerts", "ack", "nope", "--by", "ada").code == 3
    assert outlast("alerts", "ack", first, "--by", "").code == 2
    seen = outlast("alerts", "list", "--acknowledged", "--json").lines
    assert {one["alert_id"] for one in seen} == {first, second}
    assert len(outlast("alerts", "list", "--unacknowledged", "--json").lines) == 1
    assert "ada" in outlast("alerts", "list").out


def test_whoever_acknowledges_has_a_name(
    outlast: Command, fired: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = (one["alert_id"] for one in outlast("alerts", "list", "--json").lines)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOGNAME", "ada")
    assert outlast("alerts", "ack", first, "--json").json["acknowledged_by"] == "ada"
    monkeypatch.delenv("LOGNAME")

    def nobody(number: int) -> None:
        raise KeyError(number)

    # A container may run under a number that no user has.
    monkeypatch.setattr("pwd.getpwuid", nobody)
    for command in (("alerts", "ack", second), ("dag", "approve", "w", "review")):
        refused = outlast(*command)
        assert (refused.code, refused.out) == (2, "")
        assert "give --by" in refused.err
    assert outlast("alerts", "ack", second, "--by", "bob").code == 0
