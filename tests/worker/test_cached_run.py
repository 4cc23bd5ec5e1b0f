"""What a cached run knows: a gapless prefix of its history, and what no workflow task has applied."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.engine.run_rows import NOW
from tests.worker.cached import cached

from outlast.worker.runs.cached_run import CachedRun
from outlast_store.schema.rows import RunRow
from outlast_workflow.history.events import (
    ChildWorkflowStarted,
    Event,
    SignalReceived,
    TimerScheduled,
    UpdateAccepted,
    WorkflowTaskCompleted,
)
from outlast_workflow.primitives.payloads import Payload

RECORD = WorkflowTaskCompleted(
    through=1, own=0, at=0, commands=0, history_events=1, history_bytes=1, python=11
)


def signal(name: str) -> SignalReceived:
    return SignalReceived(name, Payload.of([]))


def row(run: Any, last_seq: int, **changed: Any) -> RunRow:
    columns: dict[str, Any] = {**vars(run.run), "last_seq": last_seq, **changed}
    return RunRow(**columns)


def names(run: CachedRun) -> list[str]:
    return [event.name for event in run.pending if isinstance(event, SignalReceived)]


def has_work(run: CachedRun) -> bool:
    return run.has_work


def events(*found: tuple[int, Event], author: object = "another change") -> list[tuple[int, Event, object]]:
    return [(seq, event, author) for seq, event in found]


def test_an_inbound_event_is_a_reason_for_a_workflow_task() -> None:
    run = cached()
    assert has_work(run) is False
    assert run.receive(row(run, 2), events((2, signal("a"))))
    assert has_work(run) is True
    assert names(run) == ["a"]
    assert (run.seen_seq, run.gap) == (2, False)


def asked(name: str) -> UpdateAccepted:
    return UpdateAccepted(name, "put", Payload.of([]))


def test_updates_that_this_process_has_added_are_taken_without_a_read() -> None:
    run = cached()
    assert run.receive(row(run, 1, inbox=2), (), [asked("a"), asked("b")])
    assert run.receive(row(run, 1, inbox=3), (), [asked("c")])
    assert [update.update_id for update in run.updates] == ["a", "b", "c"]
    assert (run.seen_inbox, has_work(run)) == (3, True)


@pytest.mark.parametrize(("seen", "inbox"), [(0, 2), (1, 1), (1, 3)])
def test_updates_are_read_where_the_inbox_counts_others_or_has_been_read_already(
    seen: int, inbox: int
) -> None:
    run = cached()
    run.seen_inbox = seen
    assert run.receive(row(run, 1, inbox=inbox), (), [asked("a")])
    assert (run.seen_inbox, list(run.updates)) == (seen, [])
    assert has_work(run) is (seen != inbox)


def test_an_event_beyond_the_next_leaves_a_gap_that_reading_closes() -> None:
    run = cached()
    run.receive(row(run, 3), events((3, signal("b"))))
    assert (run.seen_seq, run.gap, run.pending) == (1, True, [])
    assert run.fill_gap([(2, signal("a")), (3, signal("b"))])
    assert names(run) == ["a", "b"]
    assert (run.seen_seq, run.gap) == (3, False)


def test_an_event_that_comes_twice_is_taken_in_once() -> None:
    run = cached()
    for _ in range(2):
        run.receive(row(run, 2), events((2, signal("a"))))
    run.fill_gap([(2, signal("a"))])
    assert len(run.pending) == 1


def test_a_workflow_task_of_another_author_makes_it_invalid() -> None:
    run = cached()
    assert not run.receive(row(run, 2), events((2, RECORD), author=object()))
    again = cached()
    assert not again.fill_gap([(2, RECORD)])


def test_what_its_own_workflow_task_applied_is_not_pending_and_what_follows_the_record_is() -> None:
    run = cached()
    change: Any = object()
    run.change = change
    appended = events((2, signal("seen")), (3, RECORD), (4, signal("late")), author=change)
    assert run.receive(row(run, 4), appended)
    assert names(run) == ["late"]


def test_a_command_is_nothing_to_apply() -> None:
    run = cached()
    run.receive(row(run, 2), events((2, TimerScheduled(1, 10))))
    assert (run.pending, run.seen_seq, run.has_work) == ([], 2, False)


def test_the_start_of_a_child_that_no_code_waits_for_is_no_reason() -> None:
    run = cached()
    run.receive(row(run, 2), events((2, ChildWorkflowStarted(1, "r"))))
    assert run.pending
    assert has_work(run) is False
    run.receive(row(run, 3), events((3, signal("a"))))
    assert has_work(run) is True
    assert len(run.pending) == 2


def test_unread_requests_are_a_reason() -> None:
    run = cached(inbox=1)
    assert has_work(run) is True
    run.seen_inbox = 1
    assert has_work(run) is False


def test_it_is_idle_only_when_nothing_would_be_lost() -> None:
    quiet, queued, busy, awake = (cached() for _ in range(4))
    queued.queued = True
    change: Any = object()
    busy.change = change
    awake.receive(row(awake, 2), events((2, signal("a"))))
    assert [run.idle for run in (quiet, queued, busy, awake)] == [True, False, False, False]


async def test_abandoned_queries_are_told_to_look_elsewhere() -> None:
    run = cached()
    loop = asyncio.get_running_loop()
    waiting, cancelled = loop.create_future(), loop.create_future()
    cancelled.cancel()
    request: Any = object()
    run.queries = [(request, waiting, 1), (request, cancelled, 1)]
    run.abandon_queries()
    assert await waiting is None
    assert run.queries == []


def test_no_time_passes_before_the_run_begins_whatever_the_clock_says() -> None:
    run = cached()
    machine: Any = run.machine
    seen: list[int] = []

    def run_workflow_task(_events: object, now: int, **_known: object) -> list[Event]:
        seen.append(now)
        return []

    machine.run_workflow_task = run_workflow_task
    for clock in (NOW - 700_000, NOW + 700_000):
        run.run_workflow_task(clock)
    assert seen == [NOW, NOW + 700_000]
