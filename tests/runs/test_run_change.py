"""What a change of an open run finds: the run, the run that continued it, or its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.watchdog.stage import POLICY, Stage

from outlast_runs.run_change import RequestCancellation, TerminateRun
from outlast_runs.signals import SendSignal, SendSignals
from outlast_runs.updates import SendUpdate, UpdateRequest
from outlast_store.transitions.run_deadlines import PassedDeadline
from outlast_store.transitions.run_ends import Ended
from outlast_workflow.errors import RunNotFoundError, WorkflowClosedError
from outlast_workflow.history.events import SignalReceived
from outlast_workflow.options.limits import DEFAULT_LIMITS
from outlast_workflow.options.options import StartOptions
from outlast_workflow.primitives.enums import TimeoutKind
from outlast_workflow.primitives.payloads import Payload

CHANGES: dict[str, Callable[[str], Any]] = {
    "cancel": lambda run_id: RequestCancellation("workflow-1", run_id, None),
    "terminate": lambda run_id: TerminateRun("workflow-1", run_id, None),
    "signal": lambda run_id: SendSignal(
        "workflow-1", run_id, SignalReceived("approve", Payload.of([])), DEFAULT_LIMITS
    ),
    "update": lambda run_id: SendUpdate(
        "workflow-1", run_id, UpdateRequest("update-1", "set_price", Payload.of([]), DEFAULT_LIMITS)
    ),
}


@pytest.fixture(params=CHANGES)
def change(request: pytest.FixtureRequest) -> Callable[[str], Any]:
    return CHANGES[request.param]


async def test_a_change_that_finds_the_deadline_passed_ends_the_run_and_says_how(
    memory_stage: Stage, change: Callable[[str], Any]
) -> None:
    stage = memory_stage
    run_id = await stage.start(StartOptions(run_timeout=60))
    stage.clock.advance(60)
    ended = await stage.apply(change(run_id))
    assert ended == Ended(run_id, "timed_out", None, PassedDeadline(TimeoutKind.RUN_TIMEOUT, stage.clock.us))
    assert stage.types(run_id) == ["WorkflowStarted", "WorkflowTimedOut"]
    with pytest.raises(WorkflowClosedError):
        await stage.apply(change(run_id))


async def test_a_change_of_a_run_that_was_continued_names_the_next_run(
    memory_stage: Stage, change: Callable[[str], Any]
) -> None:
    stage = memory_stage
    run_id = await stage.start(StartOptions(run_timeout=60, retry_policy=POLICY))
    stage.clock.advance(60)
    found = await stage.apply(change(run_id))
    next_run_id = stage.run(run_id).next_run_id
    assert next_run_id is not None
    assert (found.status, found.next_run_id) == ("timed_out", next_run_id)
    again = await stage.apply(change(run_id))
    assert again == Ended(run_id, "timed_out", next_run_id, None), "this time it was closed before"
    assert stage.types(next_run_id) == ["WorkflowStarted"], "the caller asks it anew"


async def test_a_change_of_an_unknown_run_is_refused(
    memory_stage: Stage, change: Callable[[str], Any]
) -> None:
    with pytest.raises(RunNotFoundError):
        await memory_stage.apply(change("no-such-run"))


async def test_signals_that_find_a_deadline_passed_end_the_run_and_are_sent_to_nobody(
    memory_stage: Stage,
) -> None:
    stage = memory_stage
    one = await stage.start(StartOptions(run_timeout=60), workflow_id="workflow-1")
    two = await stage.start(workflow_id="workflow-2")
    stage.clock.advance(60)
    signals = [(f"workflow-{number}", SignalReceived("approve", Payload.of([]))) for number in (2, 1)]
    change = SendSignals(signals, {"workflow-1": one, "workflow-2": two}, DEFAULT_LIMITS)
    assert await stage.apply(change) is None
    assert stage.types(one) == ["WorkflowStarted", "WorkflowTimedOut"]
    assert stage.types(two) == ["WorkflowStarted"]
    with pytest.raises(WorkflowClosedError):
        await stage.apply(change)
    assert stage.types(two) == ["WorkflowStarted"]
