"""What an attempt has written to streams is there before its result, or there is no result."""

from __future__ import annotations

import pytest
from tests.activities.conftest import Bench

from outlast import activity
from outlast_activities.attempt_outcome import HandlerOutcome
from outlast_activities.attempts import HANDED_BACK, RESCUED
from outlast_activities.heartbeats import Lost
from outlast_activities.stop_reason import TIMED_OUT
from outlast_activities.task import ActivityTask
from outlast_workflow.primitives.payloads import Payload


@activity.defn
def write() -> None:
    """Never run here."""


RESULT = Payload.of(None)


@pytest.mark.parametrize(
    ("refused", "ended", "told"),
    [(False, RESULT, RESULT), (True, RESULT, HANDED_BACK), (True, RESCUED, RESCUED)],
)
async def test_an_attempt_that_may_not_write_has_no_result(
    bench: Bench, refused: bool, ended: HandlerOutcome, told: HandlerOutcome
) -> None:
    task = bench.task(write)
    ends: list[HandlerOutcome] = []

    def end(task: ActivityTask, outcome: HandlerOutcome) -> None:
        ends.append(outcome)

    bench.streams.record(task, "lines", 1)
    bench.streams.end(task, ended, end)
    assert not ends
    bench.journal.settle(Lost(*task.key, TIMED_OUT) if refused else None)
    assert ends == [told]
    assert not bench.streams.buffers
