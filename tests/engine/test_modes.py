"""The modes find what they are for: bugs planted on purpose, which the normal mode does not notice."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from tests.engine import modes
from tests.engine.conftest import MakeEnvironment

from outlast import RetryPolicy, activity, workflow
from outlast.testing import check_database
from outlast.worker.runs.cached_run import CachedRun
from outlast_runs import signals
from outlast_runs.signals import deliver
from outlast_store.journal.batch import Batch
from outlast_workflow.history.events import Event, SignalReceived
from outlast_workflow.options.limits import StructuralLimits

attempts: list[int] = []


@activity.defn(start_to_close_timeout=60, retry_policy=RetryPolicy(initial_interval=5, max_attempts=4))
async def at_third_try() -> int:
    attempts.append(activity.info().attempt)
    if len(attempts) < 3:
        raise ConnectionError
    return len(attempts)


@workflow.defn
class Listening:
    """Returns which signals it received, and how often an activity was tried."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @workflow.run
    async def run(self) -> tuple[list[str], int]:
        tried = await at_third_try()
        await workflow.wait_condition(lambda: "over" in self.heard)
        return self.heard, tried

    @workflow.signal
    def say(self, word: str) -> None:
        self.heard.append(word)


async def seen(make: MakeEnvironment) -> list[str]:
    """Return what is wrong after one run of it; nothing if the engine works."""
    attempts.clear()
    found: list[str] = []
    async with make(workflows=[Listening], activities=[at_third_try]) as env:
        handle = await env.client.start(Listening.run, id="l")
        await env.sleep(1)
        await handle.signal("say", "once", request_id="k-1")
        await env.sleep(100)
        await handle.signal("say", "over", request_id="k-2")
        await env.sleep(100)
        described = await handle.describe()
        if described.run.status != "completed":
            found.append(f"it is {described.run.status}")
        elif (told := await handle.result()) != (["once", "over"], 3):
            found.append(f"it came to {told}")
        found += await env.client.runtime.read(check_database)
    return found


def an_event_is_taken_in_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cached run that does not check whether it knows an event already."""
    receive = CachedRun.receive

    def forgetful(
        cached_run: CachedRun, run: Any, events: Iterable[tuple[int, Event, object]], updates: Any
    ) -> bool:
        known = cached_run.seen_seq
        ours = receive(cached_run, run, events, updates)
        cached_run.pending += [
            event for seq, event, _ in events if seq <= known and event.type == "SignalReceived"
        ]
        return ours

    monkeypatch.setattr(CachedRun, "receive", forgetful)


def a_keyed_signal_is_written_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that does not check whether a key was used before."""

    def unkeyed(batch: Batch, run: Any, signal: SignalReceived, limits: StructuralLimits) -> bool:
        return deliver(batch, run, replace(signal, request_id=None), limits)

    monkeypatch.setattr(signals, "was_delivered", lambda *args: False)
    monkeypatch.setattr(signals, "deliver", unkeyed)


BUGS = (an_event_is_taken_in_twice, a_keyed_signal_is_written_twice)


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
async def test_double_delivery_catches(
    in_memory: MakeEnvironment,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    invariants: list[str],
) -> None:
    with monkeypatch.context() as planted:
        plant(planted)
        assert await seen(in_memory) == []  # The normal mode delivers nothing twice.
        modes.deliver_twice(planted)
        assert await seen(in_memory) != []
    invariants.clear()


async def test_double_delivery_finds_nothing_where_there_is_nothing(
    in_memory: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes.deliver_twice(monkeypatch)
    assert await seen(in_memory) == []
