"""A dry run says what would happen, by the rules of the engine."""

from __future__ import annotations

import pytest
from tests.engine.dag_flows import fails_fast, fails_late, pipeline, with_skips

from outlast import ApplicationError
from outlast.errors import InvalidOptionError
from outlast_dag import dry_run

PAGE = {"url": "https://a", "rows": [1, 2, 3]}


def test_outcomes_are_values_functions_or_errors() -> None:
    found = dry_run(
        pipeline,
        "https://a",
        outcomes={
            "fetch": PAGE,
            "parse": lambda row: row * 10,
            "parse[1]": 5,
            "total": lambda rows, url: sum(rows),
        },
    )
    assert (found.status, found.result) == ("completed", 45)
    assert found.calls == [
        ("fetch", ("https://a",)),
        ("parse[0]", (1,)),
        ("parse[1]", (2,)),
        ("parse[2]", (3,)),
        ("total", ([10, 5, 30], "https://a")),
    ]
    assert set(found.states.values()) == {"completed"}


def test_what_is_skipped_fails_and_is_stopped_is_told() -> None:
    assert dry_run(with_skips, "https://a", outcomes={"fetch": PAGE}).states["never"] == "skipped"
    down = {"failing": ApplicationError("down", type="Down")}
    fast = dry_run(fails_fast, outcomes=down)
    assert fast.status == "failed"
    assert fast.failures == ["failing"]
    assert fast.states["told"] == "completed"
    assert fast.states["behind"] == "upstream_failed"
    late = dry_run(fails_late, outcomes={"failing": TimeoutError()})
    assert late.states["failing"] == "timed_out"
    assert late.states["left"] == "completed"


def test_what_does_not_fit_is_told_before_anything_happens() -> None:
    with pytest.raises(InvalidOptionError, match="no node 'fetched'"):
        dry_run(pipeline, "https://a", outcomes={"fetched": PAGE})
    with pytest.raises(InvalidOptionError, match="takes url: 0 given"):
        dry_run(pipeline)
