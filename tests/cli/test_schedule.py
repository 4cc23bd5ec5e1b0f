"""``outlast schedule``: schedules created, changed, shown, triggered and deleted, for people and for programs."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from tests.cli.conftest import Command

from outlast import RetryPolicy
from outlast.cli.common.start_options import OPTIONS as START_OPTIONS

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


def test_another_cron_text_is_in_the_time_zone_of_the_one_before(outlast: Command) -> None:
    outlast("schedule", "create", *NIGHTLY)

    def changed(*options: str) -> list[dict[str, object]]:
        found = outlast("schedule", "update", "nightly", *options, "--json").json
        return [*found["specs"], *found["exclude"]]

    zurich: dict[str, object] = {"cron": "0 3 * * *", "time_zone": "Europe/Zurich"}
    assert changed("--cron", "0 3 * * *") == [zurich]
    assert changed("--exclude", "* * 25 12 *") == [zurich, {**zurich, "cron": "* * 25 12 *"}]
    assert changed("--exclude", "", "--cron", "0 4 * * *", "--time-zone", "UTC") == [
        {"cron": "0 4 * * *", "time_zone": "UTC"}
    ]
    changed("--exclude", "* * 25 12 *", "--time-zone", "Asia/Tokyo")
    refused = outlast("schedule", "update", "nightly", "--cron", "0 5 * * *")
    assert refused.code == 2
    assert "in several time zones (Asia/Tokyo, UTC): give --time-zone" in refused.err
    assert changed("--every", "1h", "--exclude", "") == [{"every": 3600}]
    assert changed("--cron", "0 6 * * *") == [{"cron": "0 6 * * *", "time_zone": "UTC"}]


def test_people_see_when_it_fires_and_why_it_is_paused(outlast: Command) -> None:
    outlast("schedule", "create", *NIGHTLY)
    assert outlast("schedule", "pause", "nightly", "--note", "the warehouse moves").out == "paused\n"
    [heading, row] = outlast("schedule", "list").out.splitlines()
    assert heading.split() == ["SCHEDULE", "STATE", "TYPE", "WHEN", "NEXT", "STARTED", "SKIPPED", "MISSED"]
    assert row.split()[:2] == ["nightly", "paused"]
    assert "0 2 * * * (Europe/Zurich)" in row
    described = outlast("schedule", "describe", "nightly").out
    assert re.search(r"^state: +paused .*: the warehouse moves$", described, re.M)
    assert "overlap:    skip: a slot that comes while the workflow before is open is left out" in described
    assert "catch up:   latest: starts the newest of the missed slots, within " in described
    assert outlast("schedule", "next", "nightly").out == "it has no slot to come: it is paused\n"
    assert outlast("schedule", "list", "--active", "--json").lines == []
    assert outlast("schedule", "resume", "nightly", "--note", "ask Ada").out == "resumed\n"
    resumed = outlast("schedule", "describe", "nightly").out
    assert re.search(r"^note: +ask Ada$", resumed, re.M)
    lack = "no live worker polls task queue 'default' of workflow 'report' (there is no live worker at all): start one"
    assert f"no worker:  {lack}" in resumed
    assert f"nightly: {lack}" in outlast("schedule", "list").out
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
    few = outlast("schedule", "backfill", "nightly", *week, "--limit", "6")
    assert (few.code, "has 7 slots in that time: give a higher limit" in few.err) == (2, True)
    assert outlast("schedule", "backfill", "nightly", *week, "--limit", "none").code == 0


OPTIONS = (
    *("--execution-timeout", "2h", "--run-timeout", "1h", "--start-delay", "5s", "--priority", "2"),
    *("--queue", "reports", "--partition-key", "eu", "--schedule-to-start-timeout", "10m"),
    *("--memo", '{"team": "blue"}', "--summary", "a report", "--retry-policy", '{"max_attempts": 3}'),
    *("--attribute", "region=eu", "--alerts", '{"at": [0.8], "before": ["10m", 5]}'),
)


def test_it_takes_every_option_of_a_start(outlast: Command) -> None:
    given = {option.removeprefix("--").replace("-", "_") for option in OPTIONS if option.startswith("--")}
    assert given == START_OPTIONS.keys()
    outlast("queue", "define", "reports")
    made = outlast("schedule", "create", *NIGHTLY, *OPTIONS, "--json")
    assert made.code == 0, made.err
    assert made.json["options"] == {
        "execution_timeout": 7200,
        "run_timeout": 3600,
        "start_delay": 5,
        "schedule_to_start_timeout": 600,
        "priority": 2,
        "queue": "reports",
        "partition_key": "eu",
        "summary": "a report",
        "retry_policy": RetryPolicy(max_attempts=3).to_document(),
        "search_attributes": {"region": "eu"},
        "alerts": {"at": [0.8], "before": [600, 5]},
    }
    update = ("schedule", "update", "nightly", "--type", "other", "--task-queue", "west", "--priority", "1")
    changed = outlast(*update, "--retry-policy", "", "--run-timeout", "", "--max-runs", "none", "--json")
    assert changed.code == 0, changed.err
    assert (changed.json["workflow_type"], changed.json["task_queue"]) == ("other", "west")
    assert changed.json["options"] == {
        **made.json["options"],
        "priority": 1,
        "retry_policy": None,
        "run_timeout": None,
    }
    assert "execution timeout 2 h" in outlast("schedule", "describe", "nightly").out


def test_the_slots_of_a_calendar_are_shown_without_a_database(bare: Command) -> None:
    zurich = ("--cron", "30 2 * * 1-5", "--time-zone", "Europe/Zurich", "--exclude", "* * 25 12 *")
    slots = bare("schedule", "next", *zurich, "--next", "3", "--json").json
    assert [slot[13:] for slot in slots] == [":30:00+00:00"] * 3
    said = bare("schedule", "next", *zurich).out
    assert said.count(" 02:30 in Europe/Zurich\n") == 10
    assert bare("schedule", "next", "--every", "1h").out.count("Z (in ") == 10
    assert bare("schedule", "next", "--cron", "0 0 30 2 *").out == "it has no slot to come\n"


DECLARED = """
from outlast import Every, Schedule
SCHEDULES = [Schedule("a", "report", spec=Every(60)), Schedule("b", "report", spec=Every({period}))]
extra = Schedule("c", "report", spec=Every(60))
"""


def test_a_set_that_a_module_declares_is_applied(
    outlast: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for number, period in enumerate((60, 61)):
        (tmp_path / f"declared_{number}.py").write_text(DECLARED.format(period=period))
    (tmp_path / "declared_none.py").write_text("x = 1")
    first = outlast("schedule", "apply", "declared_0")
    assert (first.code, first.out) == (0, "created a\ncreated b\ncreated c\n")
    assert outlast("schedule", "apply", "declared_0").out == "nothing to change: 3 schedules as declared\n"
    pruned = outlast("schedule", "apply", "declared_1:SCHEDULES", "--prune", "--json")
    assert pruned.json == {"created": [], "updated": ["b"], "deleted": ["c"]}
    for target, words in (
        ("declared_none", "declares no schedule"),
        ("declared_none:x", "is neither a Schedule nor a list of them"),
        ("declared_0:y", "has no 'y'"),
    ):
        refused = outlast("schedule", "apply", target)
        assert (refused.code, words in refused.err) == (2, True), refused.err


REFUSED: tuple[tuple[list[str], int, str], ...] = (
    (["create", *NIGHTLY], 1, "there is a schedule 'nightly' already"),
    (["create", "a", "report"], 2, "give --cron, --every or --at"),
    (["create", "a", "report", "--cron", "61 * * * *"], 2, "field minute, column 1"),
    (["create", "a", "report", "--cron", "0 0 30 2 *"], 2, "never fires"),
    (["create", "a", "report", "--every", "soon"], 2, "every"),
    (["create", "a", "report", "--every", "1h", "--overlap", "maybe"], 2, "overlap must be one of skip"),
    (["update", "a", "--every", "1h"], 3, "there is no schedule 'a'"),
    (["describe", "a"], 3, "there is no schedule 'a'"),
    (["update", "nightly"], 2, "there is nothing to change"),
    (["update", "nightly", "--time-zone", "Europe/Paris"], 2, "give --cron as well"),
    (["update", "nightly", "--partition-key", "eu"], 2, "needs a queue"),
    (["update", "nightly", "--queue", "none"], 3, "none"),
    (["next"], 2, "give the id of a schedule, or say when it would fire"),
    (["next", "nightly", "--every", "1h"], 2, "give the id of a schedule, or say when it would fire"),
    (["apply", "no_such_module"], 2, "there is no module"),
    (["backfill", "nightly", "2026-01-01", "2026-01-02"], 2, "has no offset"),
)


def test_what_cannot_be_done_is_refused(outlast: Command) -> None:
    outlast("schedule", "create", *NIGHTLY)
    for arguments, code, words in REFUSED:
        refused = outlast("schedule", *arguments)
        assert (refused.code, words in refused.err) == (code, True), (arguments, refused.err)
