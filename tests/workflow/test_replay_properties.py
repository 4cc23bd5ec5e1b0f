"""Whatever a workflow is made of: live equals replay, anywhere and everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.workflow.driver import Driver, new_machine
from tests.workflow.programs import program, trees

from outlast_workflow.history.transitions import check_history
from outlast_workflow.run.replay import replay

SETTINGS = settings(max_examples=150, suppress_health_check=[HealthCheck.data_too_large])
seeds = st.integers(0, 2**32)


def plain(tree: Any) -> Any:
    return json.loads(json.dumps(tree))


@SETTINGS
@given(trees, seeds, st.booleans())
def test_every_committed_prefix_replays(tree: Any, seed: int, cancel: bool):
    driver = Driver(program, plain(tree), seed=seed, cancel=cancel)
    driver.run()
    assert check_history(driver.events) == []
    for length in driver.boundaries:
        machine = new_machine(program)
        replayed = replay(machine, driver.rows[:length])
        assert replayed.last_seq == length
        assert replayed.closed == (length == len(driver.rows))
        machine.evict()


@SETTINGS
@given(trees, seeds, st.booleans(), st.sampled_from([0.3, 1]))
def test_a_run_that_is_evicted_and_replayed_goes_on_as_one_that_never_was(
    tree: Any, seed: int, cancel: bool, evict: float
):
    stayed = Driver(program, plain(tree), seed=seed, cancel=cancel)
    stayed.run()
    left = Driver(program, plain(tree), seed=seed, cancel=cancel, evict=evict)
    left.run()
    assert left.rows == stayed.rows


HARD = [
    "wait",
    True,
    *[
        ["wait_for", 400, ["cancel_after", 25, ["group", ["activity", name], ["sleep", 100]]]]
        for name in "abcabcab"
    ],
]


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_commands_are_the_same_under_any_hash_seed(hash_seed: str):
    tree = [
        "seq",
        ["as_completed", *[["tolerate", ["activity", name]] for name in "abcabcab"]],
        ["tolerate", HARD],
    ]
    here = [Driver(program, tree, seed=seed) for seed in range(10)]
    for driver in here:
        driver.run()
    code = (
        "import sys, json\n"
        "from tests.workflow.driver import Driver\n"
        "from tests.workflow.programs import program\n"
        "tree = json.load(sys.stdin)\n"
        "drivers = [Driver(program, tree, seed=seed) for seed in range(10)]\n"
        "[driver.run() for driver in drivers]\n"
        "json.dump([driver.rows for driver in drivers], sys.stdout)\n"
    )
    there = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(tree),
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)) + os.pathsep + os.getcwd(),
        },
    )
    assert there.returncode == 0, there.stderr
    assert json.loads(there.stdout) == plain([driver.rows for driver in here])
