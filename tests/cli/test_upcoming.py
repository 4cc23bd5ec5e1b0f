"""``outlast upcoming``: what fires when, for people and for programs."""

from __future__ import annotations

import asyncio

import pytest
from tests.cli.conftest import Command

from outlast import AlertPolicy, Client, Every, StartOptions


@pytest.fixture
def filled(url: str) -> None:
    async def work() -> None:
        async with Client.connect(url) as client:
            for number in range(3):
                options = StartOptions(run_timeout=3600 * (number + 1), alerts=AlertPolicy(at=[0.5]))
                await client.start("Order", "secret", id=f"order-{number}", options=options)
            await client.schedules.create("nightly", "Report", spec=Every(60), task_queue="slow")

    asyncio.run(work())


def test_people_see_what_fires_when(outlast: Command, filled: None) -> None:
    shown = outlast("upcoming").out
    assert shown.splitlines()[0].split()[:2] == ["WHEN", "WHAT"]
    assert shown.index("nightly") < shown.index("alert 50% run") < shown.index("run-timeout")
    assert "secret" not in shown
    assert outlast("upcoming", "--kind", "timer").out == "nothing is due\n"


def test_programs_page_through_it(outlast: Command, filled: None) -> None:
    whole = outlast("upcoming", "--json").json
    assert len(whole["due"]) == 7
    assert (whole["cursor"], whole["stopped"]) == (None, False)
    joined, cursor = [], None
    while True:
        page = outlast("upcoming", "--limit", "3", "--json", *(["--cursor", cursor] if cursor else [])).json
        joined += page["due"]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert joined == whole["due"]
    shown = outlast("upcoming", "--limit", "3").out
    assert outlast("upcoming", "--limit", "3", "--cursor", shown.split("--cursor ")[1].strip()).code == 0


def test_it_is_filtered(outlast: Command, filled: None) -> None:
    def kinds(*given: str) -> list[tuple[str, str]]:
        found = outlast("upcoming", "--json", *given).json["due"]
        return [(one["kind"], one["workflow_id"] or one["schedule_id"]) for one in found]

    assert kinds("--kind", "schedule", "--kind", "timer") == [("schedule", "nightly")]
    assert kinds("--type", "Report") == kinds("--task-queue", "slow") == [("schedule", "nightly")]
    assert kinds("--kind", "alert", "--within", "40m") == [("alert", "order-0")]


def test_what_cannot_be_asked_is_refused(outlast: Command, filled: None) -> None:
    wrong: tuple[tuple[str, ...], ...] = (
        ("--kind", "tumor"),
        ("--limit", "0"),
        ("--within", "0"),
        ("--within", "soon"),
        ("--cursor", "x"),
    )
    for given in wrong:
        refused = outlast("upcoming", *given)
        assert (refused.code, refused.out) == (2, ""), given
