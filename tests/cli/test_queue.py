"""``outlast queue``: queues defined, changed, shown and deleted, for people and for programs."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Command

LIMITS = ("--concurrency", "10", "--worker-concurrency", "5", "--rate", "20/s")
PARTITIONS = (
    "--partition-concurrency",
    "2",
    "--partition-worker-concurrency",
    "1",
    "--partition-rate",
    "60/1m",
)


def test_a_queue_is_defined_updated_and_deleted(outlast: Command) -> None:
    made = outlast("queue", "define", "emails", *LIMITS, *PARTITIONS, "--json")
    assert made.code == 0
    assert made.json["rate"] == {"limit": 20, "per_seconds": 1}
    assert outlast("queue", "describe", "emails", "--json").json == made.json
    changed = outlast("queue", "update", "emails", "--rate", "none", "--concurrency", "8", "--json").json
    assert (changed["rate"], changed["concurrency"], changed["worker_concurrency"]) == (None, 8, 5)
    assert outlast("queue", "define", "emails", "--if-exists", "keep", "--json").json["concurrency"] == 8
    assert outlast("queue", "define", "emails", "--if-exists", "update", "--json").json["concurrency"] is None
    assert outlast("queue", "delete", "emails", "--json").json == {"name": "emails", "deleted": True}
    assert outlast("queue", "list").out == "no queues are defined: `outlast queue define NAME` defines one\n"


def test_people_see_limits_and_why_a_queue_is_paused(outlast: Command) -> None:
    outlast("queue", "define", "emails", *LIMITS, *PARTITIONS)
    outlast("queue", "define", "gpu")
    note = "the \x1b[31mprovider\nis down"
    assert outlast("queue", "pause", "emails", "--note", note).out == "paused\n"
    listed = outlast("queue", "list").out.splitlines()
    assert listed[0].split() == [
        "QUEUE", "STATE", "WAITING", "RUNNING", "DELAYED", "OLDEST", "PARTITIONS", "LIMITS",
    ]  # fmt: skip
    limits = "10 at a time, 5 a worker, 20 per second; a partition: 2 at a time, 1 a worker, 60 per minute"
    assert listed[1].split()[:2] == ["emails", "paused"]
    assert listed[1].endswith(limits)
    assert listed[2].split() == ["gpu", "open", "0", "0", "0", "0"]
    assert listed[3:] == ["emails is paused: the [31mprovider is down"]
    shown = outlast("queue", "describe", "emails").out
    assert "the [31mprovider is down\n" in shown
    assert limits in shown
    assert [one["name"] for one in outlast("queue", "list", "--json").lines] == ["emails", "gpu"]
    assert outlast("queue", "resume", "emails").out == "resumed\n"
    assert outlast("queue", "describe", "emails", "--json").json["paused"] is False


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["define", "emails"], 1, "queue 'emails' is defined already"),
        (["define", "outlast_x"], 2, "reserved for the engine"),
        (["define", "a", "--if-exists", "maybe"], 2, "if_exists must be one of error, keep, update"),
        (["define", "a", "--concurrency", "many"], 2, "concurrency must be a whole number, or none"),
        (["define", "a", "--concurrency", "0"], 2, "concurrency must be from 1 to 1000000"),
        (["define", "a", "--rate", "20"], 2, "rate must be like 20/s, 100/5m, 1000/day or none, not '20'"),
        (["define", "a", "--rate", "20/fortnight"], 2, "rate must be like 20/s"),
        (["define", "a", "--rate", "20/1ms"], 2, "per must be at least 10 milliseconds"),
        (["define", "a", "--partition-rate", "x/s"], 2, "partition_rate must be like 20/s"),
        (["update", "emails"], 2, "update needs a limit to change: give one, such as --concurrency"),
        (["update", "emials", "--concurrency", "1"], 3, "did you mean 'emails'?"),
        (["describe", "emials"], 3, "there is no queue 'emials'"),
        (["pause", "gpu"], 3, "there is no queue 'gpu'"),
        (["resume", "gpu"], 3, "there is no queue 'gpu'"),
        (["delete", "gpu"], 3, "there is no queue 'gpu'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_told(outlast: Command, arguments: list[str], code: int, words: str) -> None:
    outlast("queue", "define", "emails")
    done = outlast("queue", *arguments)
    assert (done.code, done.out) == (code, "")
    assert words in done.err


def test_a_workflow_is_started_in_a_queue_and_described_there(outlast: Command) -> None:
    unknown = outlast("start", "greet", "--queue", "mails")
    assert (unknown.code, "there is no queue 'mails'" in unknown.err) == (3, True)
    outlast("queue", "define", "mails")
    outlast("queue", "pause", "mails")
    place = ("--queue", "mails", "--partition-key", "t-7", "--schedule-to-start-timeout", "1h")
    for name in ("a", "b"):
        assert outlast("start", "greet", "--id", name, *place).code == 0
    assert outlast("list", "--queue", "mails", "--status", "queued", "--json").code == 0
    listed = outlast("list", "--queue", "mails", "--partition-key", "t-7", "--json").lines
    assert [(one["workflow_id"], one["queue"]) for one in listed] == [("b", "mails"), ("a", "mails")]
    assert outlast("count", "--queue", "other").out == "0\n"
    shown = " ".join(outlast("describe", "b").out.split())
    assert "mails, partition t-7: in line since" in shown
    assert "1 before it" in shown
    assert outlast("queue", "describe", "mails", "--json").json["waiting"] == 2
    assert "2 in 1 partition, the oldest for" in outlast("queue", "describe", "mails").out
    refused = outlast("queue", "delete", "mails")
    assert (refused.code, "2 in it wait and 0 hold a slot" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("2000/day", "2,000 per day"),
        ("2,000 per day", "2,000 per day"),
        ("100 per 5 minutes", "100 per 5 minutes"),
        ("100/5m", "100 per 5 minutes"),
        ("10 per 1.2 seconds", "10 per 1.2 seconds"),
        ("1/hour", "1 per hour"),
        ("20/s", "20 per second"),
    ],
)
def test_a_rate_can_be_typed_as_it_is_shown(outlast: Command, typed: str, shown: str) -> None:
    made = outlast("queue", "define", "mails", "--rate", typed)
    assert (made.code, made.err) == (0, "")
    assert shown in made.out


def test_what_is_wrong_is_said_in_the_words_of_the_command(outlast: Command) -> None:
    outlast("queue", "define", "mails")
    assert "give one, such as --concurrency (`outlast queue update" in outlast("queue", "update", "mails").err
    assert "if_exists is update (these limits" in outlast("queue", "define", "mails").err
    for wrong in ("day", "5", "per day", "5/month", "x/day"):
        assert (
            "must be like 20/s, 100/5m, 1000/day or none"
            in outlast("queue", "update", "mails", "--rate", wrong).err
        )


@pytest.mark.usefixtures("worker")
def test_an_activity_in_line_is_described_with_what_holds_it_up(outlast: Command) -> None:
    outlast("queue", "define", "mails")
    outlast("queue", "pause", "mails")
    outlast("start", "mailing", "--id", "a", "--input", "7")
    while not outlast("describe", "a", "--json").json["pending_activities"]:
        pass
    (waiting,) = outlast("describe", "a", "--json").json["pending_activities"]
    assert waiting["queue"]["name"] == "mails"
    assert waiting["queue"]["partition_key"] == "t-7"
    assert waiting["queue"]["held_up_by"] == "its queue 'mails' is paused"
    shown = " ".join(outlast("describe", "a").out.split())
    assert "mail in queue mails, partition t-7: in line since" in shown
    assert "; its queue 'mails' is paused" in shown
    described = outlast("queue", "describe", "mails")
    assert "1 (1 of them activities) in 1 partition," in " ".join(described.out.split())
    refused = outlast("queue", "delete", "mails")
    assert (refused.code, "1 in it wait and 0 hold a slot" in refused.err) == (1, True)
    outlast("queue", "resume", "mails")
    assert outlast("result", "a", "--json").json["result"] == 7
