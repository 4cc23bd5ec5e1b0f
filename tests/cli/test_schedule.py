"""``outlast schedule``: schedules created, changed, shown, triggered and deleted, for people and for programs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.cli.conftest import Command

NIGHTLY = ("nightly", "report", "--cron", "0 2 * * *", "--time-zone", "Europe/Zurich", "--input", '"eu"')


def test_a_schedule_is_created_changed_and_deleted(outlast: Command) -> None:
    made = outlast("schedule", "create", *NIGHTLY, "--exclude", "* * 25 12 *", "--max-runs", "9", "--json")
    assert made.code == 0
    assert made.json["specs"] == [{"cron": "0 2 * * *", "time_zone": "Europe/Zurich"}]
    assert (made.json["remaining_runs"], made.json["started"]) == (9, 0)
    changed = outlast(
        "schedule",
        "update",
        "nightly",
        "--every",
        "1h",
        "--jitter",
        "5m",
        "--overlap",
        "buffer-one",
        "--json",
    ).json
    assert (changed["specs"], changed["jitter"], changed["overlap"]) == ([{"every": 3600}], 300, "buffer_one")
    assert changed["exclude"] == made.json["exclude"], "what is not given stays"
    slots = outlast("schedule", "next", "nightly", "--next", "3", "--json").json
    assert len(slots) == 3
    assert all(one < other for one, other in pairwise(slots))
    kept = outlast("schedule", "create", *NIGHTLY, "--if-exists", "keep", "--json").json
    assert kept["specs"] == changed["specs"]
    deleted = outlast("schedule", "delete", "nightly", "--json").json
    assert deleted == {"schedule_id": "nightly", "deleted": True}
    assert outlast("schedule", "list").out.startswith("there are no schedules: `outlast schedule create")


def test_people_see_when_it_fires_and_why_it_is_paused(outlast: Command) -> None:
    outlast("schedule", "create", *NIGHTLY)
    assert outlast("schedule", "pause", "nightly", "--note", "the warehouse moves").out == "paused\n"
    [heading, row] = outlast("schedule", "list").out.splitlines()
    assert heading.split() == ["SCHEDULE", "STATE", "TYPE", "WHEN", "NEXT", "STARTED", "SKIPPED", "MISSED"]
    assert row.split()[:2] == ["nightly", "paused"]
    assert "0 2 * * * (Europe/Zurich)" in row
    assert "paused: the warehouse moves" in outlast("schedule", "describe", "nightly").out
    assert outlast("schedule", "next", "nightly").out == "it has no slot to come: it is paused\n"
    assert outlast("schedule", "list", "--active", "--json").lines == []
    assert outlast("schedule", "resume", "nightly").out == "resumed\n"
    assert [one["paused"] for one in outlast("schedule", "list", "--json").lines] == [False]


def test_it_is_fired_by_hand(outlast: Command) -> None:
    outlast("schedule", "create", *NIGHTLY)
    first = outlast("schedule", "trigger", "nightly", "--request-id", "k", "--json").json
    assert (first["workflow_id"], first["existed"]) == ("nightly-trigger-k", False)
    assert outlast("schedule", "trigger", "nightly", "--request-id", "k", "--json").json["existed"] is True
    week = ("2026-01-01T00:00Z", "2026-01-08T00:00Z")
    assert outlast("schedule", "backfill", "nightly", *week).out.startswith("started 7 workflows, 0 were")
    again = outlast("schedule", "backfill", "nightly", *week, "--json").json
    assert again == {"started": 0, "existing": 7}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["create", *NIGHTLY], 1, "there is a schedule 'nightly' already"),
        (["create", "a", "report"], 2, "spec is missing"),
        (["create", "a", "report", "--cron", "61 * * * *"], 2, "field minute, column 1"),
        (["create", "a", "report", "--cron", "0 0 30 2 *"], 2, "never fires"),
        (["create", "a", "report", "--every", "soon"], 2, "every"),
        (["create", "a", "report", "--every", "1h", "--overlap", "maybe"], 2, "overlap must be one of skip"),
        (["update", "a", "--every", "1h"], 3, "there is no schedule 'a'"),
        (["describe", "a"], 3, "there is no schedule 'a'"),
        (["backfill", "nightly", "2026-01-01", "2026-01-02"], 2, "has no offset"),
    ],
)
def test_what_cannot_be_done_is_refused(
    outlast: Command, arguments: list[str], code: int, words: str
) -> None:
    outlast("schedule", "create", *NIGHTLY)
    refused = outlast("schedule", *arguments)
    assert refused.code == code
    assert words in refused.err
