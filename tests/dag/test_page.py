"""What the page on timeouts of DAG engines promises of building, sentence by sentence."""

from __future__ import annotations

from datetime import timedelta

import pytest

from outlast import activity
from outlast_dag import DagBuilder, DagValidationError
from outlast_workflow.declare.definitions import definition_of


@activity.defn(start_to_close_timeout=10)
async def tick() -> None: ...


def data_pipeline() -> DagBuilder:
    flow = DagBuilder("data-pipeline")
    fetch = flow.task("fetch", "http-fetch").with_timeout(timedelta(seconds=30))
    flow.task("transform", "process").after(fetch).with_timeout(timedelta(minutes=5))
    return flow


def test_every_step_requires_a_timeout_and_there_are_no_unbounded_executions():
    """Build on a workflow with a missing timeout returns an error: one, for all steps that lack it."""
    flow = DagBuilder("data-pipeline")
    fetch = flow.task("fetch", "http-fetch")
    flow.task("transform", "process").after(fetch)
    with pytest.raises(DagValidationError) as refused:
        flow.build()
    assert [(problem.kind, problem.node) for problem in refused.value.problems] == [
        ("missing_timeout", "fetch"),
        ("missing_timeout", "transform"),
    ]


@pytest.mark.parametrize("timeout", [0, -1, timedelta(0), float("nan"), float("inf")])
def test_every_step_has_a_timeout_that_is_not_zero(timeout: float):
    flow = DagBuilder("data-pipeline")
    flow.task("fetch", "http-fetch").with_timeout(timeout)
    with pytest.raises(DagValidationError) as refused:
        flow.build()
    assert [problem.kind for problem in refused.value.problems] == ["timeout_out_of_range"]


def test_the_example_of_steps_builds():
    flow = data_pipeline().build()
    assert flow.name == "data-pipeline"
    assert flow.critical_path.nodes == ("fetch", "transform")
    assert flow.critical_path.seconds == 330
    assert flow.warnings == ()
    assert definition_of(flow).timeouts == {}


def test_the_data_flows_along_the_steps():
    """The first step is given the run's input, the next one what the first returns, and that is the result."""
    nodes = data_pipeline().build().spec.document["nodes"]
    assert [node["args"] for node in nodes] == [[{"param": "input"}], [{"of": "fetch"}]]
    assert data_pipeline().build().spec.document["output"] == {"of": "transform"}


def test_the_example_of_the_whole_builds_and_its_timeout_is_that_of_each_run():
    flow = DagBuilder("bounded-pipeline").with_timeout(timedelta(minutes=30))
    flow.task("fetch", "http-fetch").with_timeout(30)
    assert definition_of(flow.build()).timeouts == {"run_timeout": 1800}


def test_workers_can_extend_the_deadline_of_a_step():
    flow = DagBuilder("long", timeout=1800)
    flow.task("crunch", "long-task").with_timeout(30, extended_by_heartbeat=True)
    flow.task("tick", tick).with_timeout(3, extended_by_heartbeat=True)
    assert [node["options"] for node in flow.build().spec.document["nodes"]] == [
        {"heartbeat_timeout": 30},
        {"heartbeat_timeout": 3},
    ]


def test_a_step_that_heartbeats_extend_needs_a_bound_all_the_same():
    flow = DagBuilder("long")
    step = flow.task("crunch", "long-task").with_timeout(30, extended_by_heartbeat=True)
    with pytest.raises(DagValidationError, match="heartbeats extend it without end"):
        flow.build()
    step.with_schedule_to_close_timeout(600)
    assert flow.build().critical_path.seconds == 600


def test_the_workflows_timeout_should_exceed_the_sum_of_the_critical_paths_step_timeouts():
    flow = data_pipeline().with_timeout(329)
    (warning,) = flow.build().warnings
    assert warning.kind == "deadline_below_critical_path"
    assert "5 min 29 s are there, and the critical path takes 5 min 30 s at one attempt" in warning.message
    assert "fetch -> transform" in warning.message
    with pytest.raises(DagValidationError, match="deadline_below_critical_path"):
        flow.build(strict=True)
    assert flow.with_timeout(1800).build(strict=True).warnings == ()


def test_the_safety_net_catches_cascading_retries():
    """A timeout that covers one attempt of each step, but not all of them, names the attempt that does not fit."""
    (warning,) = data_pipeline().with_timeout(700).build().warnings
    assert warning.kind == "deadline_below_worst_case"
    assert "from 'transform' on, attempt 3 of 3 no longer fits" in warning.message


def test_the_worst_case_is_computed_with_headroom_for_retries():
    # Three attempts of 30 s and of 300 s, with waits of 1 s and 2 s in each.
    assert data_pipeline().build().critical_path.worst_seconds == 3 * 30 + 3 + 3 * 300 + 3
