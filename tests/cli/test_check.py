"""`outlast check`: what it prints, and what it exits with."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.checking import offenders, test_checking
from tests.cli.conftest import Command

from outlast.checking.rules import WHY


def test_what_was_found_is_one_line_each_and_the_exit_code_says_so(bare: Command) -> None:
    done = bare("check", "tests.checking.offenders:plain")
    assert done.code == 1
    *found, summary = done.out.splitlines()
    assert summary == "1 workflow checked: 6 found"
    assert len(found) == 6
    path = Path(offenders.__file__).relative_to(Path.cwd())
    assert found[0].startswith(f"{path}:")
    assert found[0].endswith(
        "[sleep] time.sleep() blocks the worker, and is not recorded: use blocking.sleep(…)"
    )


def test_what_two_workflows_share_is_told_once(bare: Command) -> None:
    done = bare("check", "tests.checking.offenders")
    assert done.out.splitlines()[-1] == f"5 workflows checked: {len(test_checking.expected())} found"


def test_programs_read_json(bare: Command) -> None:
    done = bare("check", "tests.checking.offenders", "--json")
    assert done.code == 1
    assert done.json["workflows"] == ["Order", "not_waiting", "ordering", "plain", "swallowing"]
    assert {one["rule"] for one in done.json["found"]} == set(WHY)
    one = done.json["found"][0]
    assert set(one) == {"workflow", "file", "line", "column", "rule", "code", "why", "instead"}
    assert one["file"] == offenders.__file__


@pytest.mark.parametrize("target", ["tests.engine.plain", "tests.engine.programs:Sum"])
def test_nothing_found_exits_with_nothing_wrong(bare: Command, target: str) -> None:
    done = bare("check", target)
    assert done.code == 0
    assert done.out.endswith("checked: nothing found\n")
    assert bare("check", target, "--json").json["found"] == []


def test_what_is_no_workflow_is_bad_usage(bare: Command) -> None:
    assert bare("check", "tests.nowhere").code == 2
    assert bare("check").code == 2
