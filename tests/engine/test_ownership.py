"""Who owns a run: a live owner that leaves it waiting loses it, and what that owner still sends is refused."""

import pytest

from holdfast import Client
from holdfast.activation import Activate, Activation
from holdfast.hub import Hub
from holdfast.ownership import STEAL_AFTER, ClaimRuns, RegisterWorker, StealRuns
from holdfast.starting import StartRun, first_run
from holdfast_store import queries
from holdfast_store.rows import RunRow, WorkerRow
from holdfast_store.runs import started_event
from holdfast_store.urls import DatabaseUrl
from holdfast_workflow.environment import Environment
from holdfast_workflow.errors import JournalClosedError, RefusedError
from holdfast_workflow.kinds import DuplicatePolicy
from holdfast_workflow.options import StartOptions
from holdfast_workflow.payloads import Payload


class SteppedClock:
    def __init__(self) -> None:
        self.us = 1_767_225_600_000_000

    def now(self) -> int:
        return self.us

    def monotonic(self) -> float:
        return self.us / 1e6


def neglected(hub: Hub, before: int) -> list[str]:
    return hub.read_now(queries.look, "other", ["q"], ["W"], [], 0, before).neglected


async def started(hub: Hub, owner: str) -> RunRow:
    """A run that wants to be activated, owned by a registered worker."""
    environment = hub.environment
    for worker_id in (owner, "other"):
        row = WorkerRow(worker_id, "host", 1, "[]", "{}", None, 0, 0)
        await hub.journal.apply(RegisterWorker(row, 3600 * 1_000_000))
    run = first_run(
        run_id=environment.ids.next(),
        workflow_id="w",
        workflow_type="W",
        task_queue="q",
        options=StartOptions(),
        memo=None,
        now=environment.clock.now(),
        owner_id=None,
    )
    event = started_event(run, input=Payload.of([]), seed=1)
    await hub.journal.apply(StartRun(run, event, DuplicatePolicy.ALLOW_DUPLICATE))
    (claimed,) = await hub.journal.apply(ClaimRuns(owner, ["q"], frozenset({"W"}), 10))
    return claimed


async def test_a_run_that_its_owner_leaves_waiting_is_stolen_and_the_owner_is_refused(
    database_url: str,
) -> None:
    clock = SteppedClock()
    hub = await Hub.open(DatabaseUrl.parse(database_url), Environment(clock, threads=False))
    try:
        run = await started(hub, "owner")
        assert neglected(hub, clock.us - STEAL_AFTER) == []
        assert await hub.journal.apply(StealRuns("other", [run.run_id])) == []

        clock.us += STEAL_AFTER
        assert neglected(hub, clock.us - STEAL_AFTER) == [run.run_id]
        (stolen,) = await hub.journal.apply(StealRuns("other", [run.run_id]))
        assert (stolen.owner_id, stolen.fence, stolen.owner_losses) == ("other", run.fence + 1, 1)

        late = Activation("owner", run.fence, 1, 0, record=None, commands=[])
        with pytest.raises(RefusedError, match="owned by another"):
            await hub.journal.apply(Activate(run, late))

        clock.us += STEAL_AFTER - 1
        assert await hub.journal.apply(StealRuns("owner", [run.run_id])) == []  # each loss doubles the wait
        clock.us += 1
        assert await hub.journal.apply(StealRuns("owner", [run.run_id]))
    finally:
        await hub.leave()


async def test_a_closed_client_says_so(sqlite_url: str) -> None:
    async with Client.connect(sqlite_url) as client:
        handle = client.handle("w")
    with pytest.raises(JournalClosedError, match="connect again"):
        await handle.result()
    with pytest.raises(JournalClosedError, match="connect again"):
        await handle.cancel()
