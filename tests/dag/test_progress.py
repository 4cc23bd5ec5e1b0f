"""The core decides as a naive oracle does, and each outcome costs what it must cost and no more."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.dag.random_dags import Key, draw_outcome, draw_spec, oracle_of

from outlast_dag.run.actions import Action, Cancel, Cancelled, Finish, Start
from outlast_dag.run.progress import Progress
from outlast_dag.spec.reading import read_spec


def plain(value: Any) -> Any:
    """A value in which nothing is said of why data were not there."""
    if isinstance(value, dict):
        if value.get("type") == "DagDataError":
            return {**value, "message": ""}
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    return value


def compare(seed: int) -> None:
    """Run a drawn DAG with the core and with the oracle, side by side, in a drawn order of outcomes."""
    rng = random.Random(seed)
    spec = draw_spec(rng)
    assert read_spec(spec.document).hash == spec.hash
    arguments = [rng.choice((1, {"x": 3}, [7]))][: rng.randint(1, 1)]
    core, oracle = Progress(spec, arguments), oracle_of(spec, arguments)
    running: dict[Key, tuple[Any, ...]] = {}
    stopped: set[Key] = set()
    finish: list[Finish] = []

    def do(actions: list[Action]) -> None:
        for action in actions:
            assert not finish, "nothing comes after the end"
            if isinstance(action, Start):
                running[action.node, action.index] = action.args
            elif isinstance(action, Cancel):
                assert (action.node, action.index) in running
                stopped.add((action.node, action.index))
            else:
                finish.append(action)

    do(core.begin())
    oracle.settle()
    cancel_after = rng.choice((None, None, None, None, rng.randint(0, 6)))
    steps = 0
    while True:
        assert plain(running) == {
            key: oracle.calls[key[0]][key[1] or 0] for key, how in oracle.asked.items() if how == "running"
        }, (seed, steps)
        assert stopped == set(oracle.stopped), (seed, steps)
        limit = spec.max_parallel
        assert not limit or len(running) <= limit
        if not running:
            break
        if steps == cancel_after:
            do(core.cancel())
            oracle.cancel()
        else:
            key = rng.choice(sorted(running, key=str))
            del running[key]
            outcome = Cancelled() if key in stopped and rng.random() < 0.7 else draw_outcome(seed, key)
            do(core.offer(*key, outcome))
            oracle.take(key, outcome)
        steps += 1
    assert len(finish) == 1, seed
    assert core.states == oracle.state, seed
    status, result = oracle.end()
    assert (finish[0].status, plain(finish[0].result)) == (status, result), seed
    if status == "failed" and oracle.failures:
        assert sorted(name for name, _ in finish[0].failures) == sorted(oracle.failures), seed


@pytest.mark.parametrize("part", range(4))
def test_the_core_decides_as_the_oracle_does(part: int) -> None:
    for seed in range(part * 500, part * 500 + 500):
        compare(seed)


@pytest.mark.nightly
def test_the_core_decides_as_the_oracle_does_on_ten_thousand_more() -> None:
    for seed in range(2_000, 12_000):
        compare(seed)
