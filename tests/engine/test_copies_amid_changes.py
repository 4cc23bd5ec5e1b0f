"""Forks and resets while what they copy is deleted, or what they refer to changes: a typed refusal, nothing written."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import Client, WorkflowHandle, workflow
from outlast.errors import ResetRefusedError, WorkflowNotFoundError
from outlast_runs.copied_histories import CopiedHistory
from outlast_store.transitions.deletion import DeleteChainStep


@workflow.defn
async def child() -> str:
    await workflow.sleep(10)
    return "done"


@workflow.defn
async def parent() -> str:
    started = workflow.start_child(child, id="child")
    await workflow.sleep(1)
    await workflow.sleep(1)
    return await started


async def _delete_child(client: Client) -> None:
    await client.delete("child")


async def _reset_child(client: Client) -> None:
    await client.handle("child").reset("last-workflow-task")


async def _begin_to_delete_parent(client: Client) -> None:
    run_id = (await client.handle("parent").describe()).run.run_id
    # A few rows, as the first step of the deletion of a long history.
    journal = client._context.runtime.journal
    assert not await journal.apply(DeleteChainStep(run_id, run_id, "parent", most=3))


def _just_before_the_change(client: Client, monkeypatch: pytest.MonkeyPatch, happens: Any) -> None:
    journal = client._context.runtime.journal
    apply, waiting = journal.apply, [happens]

    async def late(change: Any) -> Any:
        copies = isinstance(change, CopiedHistory)
        if copies and waiting:
            await waiting.pop()(client)
        return await apply(change)

    monkeypatch.setattr(journal, "apply", late)


async def _copy(handle: WorkflowHandle[Any], verb: str, at: int) -> None:
    if verb == "fork":
        await handle.fork(at, id="fork")
    else:
        await handle.reset(at)


async def _ended_parent(client: Client) -> tuple[WorkflowHandle[Any], int]:
    """Return a parent that has ended, and the event before its second timer, at which its child was open."""
    handle = await client.start(parent, id="parent")
    assert await handle.result() == "done"
    fired = [event.seq async for event in handle.history() if event.type == "TimerFired"]
    return handle, fired[0]


@pytest.mark.parametrize(
    ("verb", "happens"), [("fork", _delete_child), ("reset", _delete_child), ("fork", _reset_child)]
)
async def test_a_child_that_changes_before_the_copy_refuses_it(
    engine: MakeEnvironment, monkeypatch: pytest.MonkeyPatch, verb: str, happens: Any
) -> None:
    async with engine(workflows=[parent, child]) as env:
        handle, at = await _ended_parent(env.client)
        _just_before_the_change(env.client, monkeypatch, happens)
        with pytest.raises(ResetRefusedError, match="child of command 1"):
            await _copy(handle, verb, at)
        assert (await handle.describe()).run.run_number == 1
        with pytest.raises(WorkflowNotFoundError):
            await env.client.handle("fork").describe()


@pytest.mark.parametrize("verb", ["fork", "reset"])
@pytest.mark.parametrize("when", ["before the plan", "before the change"])
async def test_nothing_continues_from_a_history_that_is_being_deleted(
    engine: MakeEnvironment, monkeypatch: pytest.MonkeyPatch, verb: str, when: str
) -> None:
    async with engine(workflows=[parent, child]) as env:
        handle, at = await _ended_parent(env.client)
        if when == "before the plan":
            await _begin_to_delete_parent(env.client)
        else:
            _just_before_the_change(env.client, monkeypatch, _begin_to_delete_parent)
        with pytest.raises(ResetRefusedError, match="deletion of parent"):
            await _copy(handle, verb, at)
        assert await env.client.delete("parent") == 1
        with pytest.raises(WorkflowNotFoundError):
            await env.client.handle("fork").describe()
