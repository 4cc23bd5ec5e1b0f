"""The static check finds what may not replay, where it is, and what to use instead; and nothing else."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
from tests.checking import offenders
from tests.engine import family, plain, programs, talkers
from tests.workflow import twins

from outlast import Worker, workflow
from outlast.checking import checker
from outlast.checking.checker import check, line
from outlast.checking.rules import WHY
from outlast.client.client import Client
from outlast_workflow.declare.definitions import definition_of
from outlast_workflow.errors import InvalidOptionError

SOURCE = Path(offenders.__file__).read_text().splitlines()


@pytest.fixture
def anyio_backend() -> str:
    """Real time."""
    return "asyncio"


@pytest.fixture(autouse=True)
def nothing_is_known() -> None:
    checker._known.clear()


def expected() -> list[tuple[int, str]]:
    rules = "|".join(WHY)
    marked = []
    for number, text in enumerate(SOURCE, 1):
        mark = re.search(rf"  # ((?:(?:{rules}) ?)+)$", text)
        marked += [(number, rule) for rule in (mark[1].split() if mark else ())]
    return marked


def test_each_offence_is_found_at_its_line_and_nothing_else_is():
    found = {one for target in offenders.WORKFLOWS for one in check(definition_of(target))}
    assert sorted((one.line, one.rule) for one in found) == sorted(expected())
    assert {one.rule for one in found} == set(WHY), "each rule is tried"
    assert {one.path for one in found} == {offenders.__file__}


def test_what_is_found_says_why_and_what_to_use_instead():
    (*_, last) = check(definition_of(offenders.plain))
    assert line(last).endswith(
        "offenders.py:"
        f"{last.line}: [clock] time.localtime() reads a clock, which shows another time on each "
        "replay: use workflow.now()"
    )
    advice = {one.code: one.instead for one in check(definition_of(offenders.plain))}
    assert advice["time.sleep()"] == "blocking.sleep(…)"
    assert advice["workflow.sleep(…)"] == "blocking.sleep(…)"
    assert advice["charge(…)"] == "charge.call(…)"
    advice = {one.code: one.instead for one in check(definition_of(offenders.not_waiting))}
    assert advice["workflow.sleep(…)"] == "await workflow.sleep(…)"


@pytest.mark.parametrize(
    "target",
    [*programs.WORKFLOWS, *family.WORKFLOWS, *talkers.WORKFLOWS, *plain.PLAIN, *plain.COROUTINES],
    ids=lambda target: definition_of(target).name,
)
def test_workflows_that_replay_are_left_alone(target: Any):
    assert check(definition_of(target)) == []


def test_twins_are_left_alone():
    for pair in twins.TWINS:
        for target in pair:
            assert check(definition_of(target)) == []


def test_a_workflow_without_source_is_left_alone():
    names: dict[str, Any] = {"workflow": workflow}
    exec("@workflow.defn\nasync def made() -> None: ...", names)
    assert check(definition_of(names["made"])) == []


async def test_registering_warns_once(sqlite_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with Client.connect(sqlite_url) as client:
        with caplog.at_level(logging.WARNING, "outlast.worker"):
            for _ in range(2):
                Worker(client, workflows=[offenders.ordering, offenders.plain])
    assert [record.message.splitlines()[0] for record in caplog.records] == [
        "workflow ordering may not replay:",
        "workflow plain may not replay:",
    ]
    assert "# outlast: allow" in caplog.text


async def test_registering_may_be_refused_or_unchecked(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client.connect(sqlite_url) as client:
        for _ in range(2):
            with pytest.raises(InvalidOptionError, match=r"\[set-order\]"):
                Worker(client, workflows=[offenders.ordering], static_checks="error")
        Worker(client, workflows=[offenders.ordering], static_checks="off")
        wrong: Any = "no"
        with pytest.raises(InvalidOptionError, match="static checks must be"):
            Worker(client, workflows=[offenders.ordering], static_checks=wrong)
    assert caplog.records == []
