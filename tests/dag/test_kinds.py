"""Nodes that wait, ask, repeat and start children: what is wrong with them, how long they take, and dry runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jsonschema_rs
import pytest

from outlast import ApplicationError, activity, workflow
from outlast_dag import (
    DagBuilder,
    DagValidationError,
    approval,
    child,
    dag,
    dry_run,
    last,
    repeat,
    sleep,
    step,
    wait_for,
)
from outlast_dag.check.report import report
from outlast_dag.spec.reading import read_spec
from outlast_dag.spec.schema import SCHEMA

PLANTED = """\
from datetime import datetime

from outlast import activity, workflow
from outlast_dag import DagBuilder


@activity.defn(start_to_close_timeout=5)
async def poll(job: int) -> dict[str, int]: ...


@workflow.defn
async def boundless(number: int) -> None: ...


@workflow.defn(run_timeout=60)
async def bounded(number: int) -> int: ...


flow = DagBuilder("kinds", timeout=600)
flow.sleep("neither")  # bad_option
flow.sleep("both", 5, until="2030-01-01T00:00:00Z", timeout=5)  # bad_option
flow.sleep("open", until="2030-01-01T00:00:00Z")  # missing_timeout
flow.sleep("negative", -5)  # timeout_out_of_range, bad_option
flow.sleep("number", until=5, timeout=5)  # type_mismatch
first = flow.repeat("first", poll, 1, until=lambda found: found["left"] == 0, max_iterations=3)
flow.wait_for("endless", "paid")  # missing_timeout
flow.wait_for("blank", "", timeout=5)  # bad_option
flow.wait_for("plain", "paid", timeout=5, match=lambda paid: True)  # bad_condition
flow.wait_for("known", "paid", timeout=5, match=first["left"] == 1)  # bad_condition
flow.wait_for("used", "paid", timeout=5, match=lambda paid: paid.order + 1 == 2)  # value_not_known
flow.wait_for("data", "paid", timeout=5, on_timeout=first)  # bad_option
flow.approval("nobody")  # missing_timeout
flow.approval("maybe", timeout=5, on_timeout="later")  # bad_option
flow.approval("retried", timeout=5).with_retry(3)  # bad_option
flow.repeat("ever", poll, 1, until=lambda found: found["left"] == 0)  # missing_timeout
flow.repeat("never", poll, 1, until=lambda found: found["left"] == 0, max_iterations=0)  # bad_repeat
flow.repeat("hasty", poll, 1, until=lambda found: found["left"] == 0, max_duration=60)  # history_too_long
flow.repeat("text", poll, "x", until=lambda found: found["left"] == 0, max_iterations=3)  # type_mismatch
flow.repeat("asks", poll, 1, until=5, max_iterations=3)  # bad_condition
flow.task("outside", poll, flow.last(1))  # unknown_dependency
flow.child("boundless", boundless, 1)  # missing_timeout
flow.child("short", bounded, 1).with_timeout(0.5)  # timeout_out_of_range
flow.child("many", bounded, 1, 2)  # wrong_arguments
flow.child("text", bounded, "x")  # duplicate_id, type_mismatch
flow.child("poll", poll, 1).with_timeout(5)  # bad_workflow
flow.child("engine", "outlast.deliver", timeout=5)  # bad_workflow
flow.child("orphan", "other", timeout=5, parent_close_policy="adopt")  # bad_option
flow.child("rank", "other", timeout=5, priority=10)  # bad_option
"""

EXPECTED = sorted(
    (number, kind)
    for number, line in enumerate(PLANTED.splitlines(), 1)
    if "  # " in line
    for kind in line.partition("  # ")[2].split(", ")
)


def test_one_build_tells_all_planted_problems_with_their_lines() -> None:
    names: dict[str, Any] = {"__name__": "planted"}
    exec(compile(PLANTED, "planted.py", "exec", dont_inherit=True), names)
    with pytest.raises(DagValidationError) as refused:
        names["flow"].build()
    found = [(int(problem.source.partition(":")[2]), problem.kind) for problem in refused.value.problems]
    assert sorted(found) == EXPECTED
    assert all(problem.message for problem in refused.value.problems)


@dataclass
class Job:
    count: int
    done: bool


@activity.defn(start_to_close_timeout=30)
async def grow(job: Job) -> Job:
    return job


@activity.defn(start_to_close_timeout=30)
async def note(words: Any) -> None: ...


@workflow.defn(execution_timeout=300)
async def other(number: int) -> int:
    return number


@dag(timeout=4000)
def whole(order: int) -> int | None:
    pause = sleep(100)
    paid = wait_for("paid", result=Job, timeout=200, match=lambda paid: paid.count == order, after=[pause])
    grown = repeat(grow, until=lambda job: job.done, max_iterations=3, delay=10)(last(paid))
    review = approval("review", timeout=400, after=[grown])
    done = child(other, run_when=review.approved)(grown.count)
    step(note, skip_when=review.approved)(review.comment)
    return done


def test_waits_and_children_count_on_the_critical_path() -> None:
    path = whole.critical_path
    assert path.nodes == ("sleep", "paid", "grow", "review", "other")
    assert path.seconds == 100 + 200 + 3 * 40 + 400 + 300
    assert whole.warnings == ()


def warnings_of(flow: DagBuilder) -> list[str]:
    return sorted(warning.kind for warning in flow.build().warnings)


def test_a_child_that_outlives_the_dag_and_a_decision_that_nobody_asks_for_are_told() -> None:
    flow = DagBuilder("short", timeout=100)
    flow.child("long", other, 5)
    assert "child_outlives_deadline" in warnings_of(flow)
    flow = DagBuilder("alone", timeout=100)
    flow.child("long", other, 5, parent_close_policy="abandon")
    assert warnings_of(flow) == []
    flow = DagBuilder("unasked", timeout=100)
    review = flow.approval("review", timeout=5)
    flow.task("deploy", note, "x").after(review)
    (warning,) = flow.build().warnings
    assert (warning.kind, warning.node) == ("unused_result", "review")
    assert "although it was rejected" in warning.message
    flow.task("told", note, review.comment)
    assert warnings_of(flow) == []


def test_a_dag_whose_sleeps_are_longer_than_its_timeout_is_refused() -> None:
    flow = DagBuilder("sleepy", timeout=100)
    flow.sleep("two", 60).after(flow.sleep("one", 60))
    with pytest.raises(DagValidationError, match="deadline_never_holds: its sleeps alone take 2 min"):
        flow.build()


def test_a_condition_may_be_an_output_that_is_a_boolean() -> None:
    asked = {"op": "==", "left": {"of": "review", "path": ["approved"]}, "right": {"is": True}}
    skipped = {node["id"]: node.get("skip_when") for node in whole.spec.document["nodes"]}
    assert skipped["note"] == asked
    assert skipped["other"] == {"op": "none_of", "of": [asked]}
    flow = DagBuilder("text")
    number: Any = flow.child("child", other, 5)
    flow.task("note", note, 1).skip_when(number)
    with pytest.raises(DagValidationError, match="bad_condition: skip_when is a value, not a condition"):
        flow.build()


def test_the_spec_is_what_the_schema_says_and_reads_back() -> None:
    jsonschema_rs.validator_for(SCHEMA).validate(whole.spec.document)
    assert read_spec(whole.spec.document).hash == whole.hash
    assert report(read_spec(whole.spec.document)).errors == ()


@pytest.mark.parametrize(
    ("node", "kind"),
    [
        ({"kind": "child", "type": "outlast.deliver", "timeout": 5}, "bad_option"),
        ({"kind": "child", "type": "x", "timeout": 0.5}, "timeout_out_of_range"),
        ({"kind": "child", "type": "x", "timeout": 5, "priority": 12}, "bad_option"),
        ({"kind": "child", "type": "x", "timeout": 5, "task_queue": "outlast.x"}, "bad_option"),
        ({"kind": "child", "type": "x"}, "missing_timeout"),
        ({"kind": "wait_for", "event": "stop", "timeout": 5}, "bad_option"),
        ({"kind": "wait_for", "event": "..", "timeout": 5}, "bad_option"),
        ({"kind": "sleep", "until": {"is": "x"}}, "missing_timeout"),
        ({"kind": "approval", "timeout": 0}, "missing_timeout"),
    ],
)
def test_a_document_that_the_engine_would_refuse_is_refused(node: dict[str, Any], kind: str) -> None:
    spec = read_spec({"name": "d", "timeout": 60, "cancel_on": "stop", "nodes": [{"id": "n", **node}]})
    assert [problem.kind for problem in report(spec).errors] == [kind]


def test_a_repeated_call_of_a_document_says_what_its_first_call_is_given() -> None:
    node = {
        "id": "n", "kind": "repeat", "type": "x", "max_iterations": 3, "args": [{"bound": "result"}],
        "until": {"op": "exists", "value": {"bound": "result", "path": ["x"]}},
        "options": {"start_to_close_timeout": 5},
    }  # fmt: skip
    spec = read_spec({"name": "d", "timeout": 600, "nodes": [node]})
    assert [problem.kind for problem in report(spec).errors] == ["data_may_be_missing"]


JOB = {"count": 3, "done": False}


def test_a_dry_run_follows_waits_and_repeats() -> None:
    def grown(job: dict[str, Any]) -> dict[str, Any]:
        return {"count": job["count"] + 1, "done": job["count"] == 4}

    outcomes: dict[str, Any] = {"paid": JOB, "grow": grown, "other": lambda number: number}
    found = dry_run(whole, 3, outcomes=outcomes)
    assert (found.status, found.result) == ("completed", 5)
    assert [name for name, _ in found.calls] == ["sleep", "paid", "grow[0]", "grow[1]", "review", "other"]
    outcomes["review"] = {"approved": False, "comment": "no", "by": "ada"}
    found = dry_run(whole, 3, outcomes=outcomes)
    assert (found.status, found.result, found.states["other"]) == ("completed", None, "skipped")
    assert found.calls[-1] == ("note", ("no",))
    outcomes["review"] = TimeoutError()
    assert dry_run(whole, 3, outcomes=outcomes).calls[-1] == ("note", (None,))
    found = dry_run(whole, 3, outcomes={"paid": TimeoutError()})
    assert (found.status, found.failures, found.states["paid"]) == ("failed", ["paid"], "timed_out")
    found = dry_run(whole, 3, outcomes={"paid": JOB, "grow": JOB})
    assert (found.status, found.failures) == ("failed", ["grow"])
    assert len(found.calls) == 5
    found = dry_run(whole, 3, outcomes={"paid": JOB, "grow[0]": JOB, "grow[1]": ApplicationError("x")})
    assert found.failures == ["grow"]


def test_a_drawing_names_what_is_waited_for() -> None:
    drawn = whole.mermaid()
    for words in ("paid", "review", "sleep", "grow", "other"):
        assert words in drawn
