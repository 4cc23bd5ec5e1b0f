"""The judge of the campaigns: each wrong that it is there to see is planted in what a time of peace has left."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.chaos import programs
from tests.chaos.judge import Effect, Entry, judge, weigh
from tests.chaos.ledger import Ledger
from tests.chaos.load import PROGRAMS, Load
from tests.chaos.record import Event, Record, read

from outlast.client.client import Client
from outlast.worker.worker import Worker
from outlast_store.database.database import Database
from outlast_store.schema.rows import ActivityRow, AttemptRow, RunRow
from outlast_workflow.primitives.times import iso


@dataclass
class Remains:
    """What is left when all is over: the database, the ledger, the effects."""

    record: Record
    entries: list[Entry]
    effects: list[Effect]

    def run(self, workflow_id: str) -> RunRow:
        """The last run of a workflow."""
        (found,) = [
            run
            for run in self.record.runs.values()
            if run.workflow_id == workflow_id and run.next_run_id is None
        ]
        return found

    def history(self, workflow_id: str) -> list[Event]:
        """The history of its last run."""
        return self.record.histories[self.run(workflow_id).run_id]

    def event(self, kind: str, workflow_id: str) -> Event:
        """An event of a chain."""
        for run, event in self.record.events(kind):
            if run.workflow_id == workflow_id:
                return event
        raise LookupError(kind)

    def history_with(self, event: Event) -> list[Event]:
        """The history that an event stands in."""
        return next(history for history in self.record.histories.values() if event in history)

    def twice(self, kind: str, workflow_id: str) -> None:
        """Write an event a second time."""
        event = self.event(kind, workflow_id)
        self.history_with(event).append(event)

    def activity(self, activity_type: str) -> ActivityRow:
        """Some activity."""
        return next(row for row in self.record.activities if row.activity_type == activity_type)

    def attempt(self) -> AttemptRow:
        """Some attempt that took too long."""
        return next(row for row in self.record.attempts if row.timeout_kind == "start_to_close")

    def note(self, what: str, workflow_id: str, value: Any = None) -> None:
        """One more entry of the ledger."""
        self.entries.append((what, workflow_id, value))


Planted = Callable[[Remains], None]
PLANTED: dict[str, Planted] = {}
"""How each wrong is done, by what the judge says of it."""


def says(sentence: str) -> Callable[[Planted], Planted]:
    def keep(plant: Planted) -> Planted:
        PLANTED[sentence] = plant
        return plant

    return keep


@says("laps-9 was acknowledged and is not there")
def lose_a_start(remains: Remains) -> None:
    remains.note("started", "laps-9")


@says("laps-1 has two chains: it was started twice")
def start_twice(remains: Remains) -> None:
    run = remains.run("laps-1").copy()
    remains.record.histories["another"] = remains.history("laps-1")
    run.run_id = "another"
    remains.record.runs["another"] = run


@says("laps-1 ended as ['completed', 7], not [['completed', 0]]")
def end_with_another_result(remains: Remains) -> None:
    remains.history("laps-1")[-1].payload["result"] = 7


@says("patience-1 ended as ['completed', 'it came back']")
def come_back_from_what_hangs(remains: Remains) -> None:
    remains.history("patience-1")[-1].payload["result"] = "it came back"


@says("overdue-1 ended as ['completed', 'run_timeout'], not [['timed_out', 'run_timeout']]")
def complete_what_is_overdue(remains: Remains) -> None:
    remains.run("overdue-1").status = "completed"


@says("cancelled-1 ended as ['failed', 'enough']")
def fail_what_was_cancelled(remains: Remains) -> None:
    remains.run("cancelled-1").status = "failed"


@says("of laps-1 has never ended")
def leave_open(remains: Remains) -> None:
    remains.run("laps-1").closed_at = None


@says("laps-1 was said to have ended as ['completed', 5], and it ended as ['completed', 0]")
def tell_another_result(remains: Remains) -> None:
    remains.note("result", "laps-1", ["completed", 5])


@says("the end of laps-1 was acknowledged, and it ended as ['completed', 0]")
def lose_a_termination(remains: Remains) -> None:
    remains.note("terminated", "laps-1")


@says("a cancel request of laps-1 was acknowledged and is there 0 times")
def lose_a_cancel_request(remains: Remains) -> None:
    remains.note("cancelled", "laps-1")


@says("a cancel request of cancelled-1 was acknowledged and is there 2 times")
def cancel_twice(remains: Remains) -> None:
    remains.twice("WorkflowCancelRequested", "cancelled-1")


@says("signal 7 of tally-1 was acknowledged and is there 0 times")
def lose_a_signal(remains: Remains) -> None:
    remains.note("signalled", "tally-1", 7)


@says("signal 0 of tally-1 was acknowledged and is there 2 times")
def signal_twice(remains: Remains) -> None:
    remains.twice("SignalReceived", "tally-1")


@says("update u-7 of till-1 was answered, and is accepted 0 times and completed 0 times")
def lose_an_update(remains: Remains) -> None:
    remains.note("answered", "till-1", ["u-7", [7]])


@says("of till-1 was answered, and is accepted 2 times and completed 1 times")
def accept_twice(remains: Remains) -> None:
    remains.twice("UpdateAccepted", "till-1")


@says("of till-1 was answered, and is accepted 1 times and completed 2 times")
def carry_out_twice(remains: Remains) -> None:
    remains.twice("UpdateCompleted", "till-1")


@says("of till-1 was answered with [5], its history says")
def answer_otherwise(remains: Remains) -> None:
    key = remains.event("UpdateCompleted", "till-1").payload["update_id"]
    remains.note("answered", "till-1", [key, [5]])


@says("a query of till-1 answered [0, 1] after update 2 had been answered")
def forget_an_update(remains: Remains) -> None:
    remains.note("queried", "till-1", [2, [0, 1]])


@says("a query of till-1 answered [0, 0], but accepted were")
def tell_an_update_twice(remains: Remains) -> None:
    remains.note("queried", "till-1", [0, [0, 0]])


@says("µs, its timeout is 1 s")
def end_a_run_too_soon(remains: Remains) -> None:
    remains.event("WorkflowTimedOut", "overdue-1").at = remains.run("overdue-1").created_at + 999_999


@says("µs, its timeout is inf s")
def time_out_what_has_no_timeout(remains: Remains) -> None:
    remains.history("laps-1")[-1].kind = "WorkflowTimedOut"


@says("timed out before ")
def end_an_activity_before_its_deadline(remains: Remains) -> None:
    event = remains.event("ActivityTimedOut", "patience-1")
    event.payload["deadline_at"] = iso(event.at + 1)


@says("timed out after 399999 µs, its timeout is 0.4 s")
def end_an_attempt_too_soon(remains: Remains) -> None:
    attempt = remains.attempt()
    assert attempt.started_at is not None
    attempt.ended_at = attempt.started_at + 399_999


@says("is completed, though it hangs")
def complete_what_hangs(remains: Remains) -> None:
    remains.activity("hang").status = "completed"


@says("which nobody ran: []")
def lose_an_effect(remains: Remains) -> None:
    row = remains.activity("step")
    remains.effects.remove((row.run_id, row.activity_id, row.attempt))


@says("is completed by attempt 1, with the result of attempt 2")
def take_the_result_of_another_attempt(remains: Remains) -> None:
    remains.event("ActivityCompleted", "laps-1").payload["result"][1] = 2


@says("is completed by attempt 1, with the result of attempt None")
def take_no_result(remains: Remains) -> None:
    event = remains.event("ActivityCompleted", "laps-1")
    remains.history_with(event).remove(event)


@says("was completed from outside, and its result is not there")
def forget_an_answer_from_outside(remains: Remains) -> None:
    event = remains.event("ActivityCompleted", "errand-1")
    event.payload["result"] = ["no", event.payload["result"][1]]


@says("was failed from outside, and that is not there")
def forget_a_failure_from_outside(remains: Remains) -> None:
    remains.note("failed", remains.run("errand-1").run_id, [1, 77])


@says("was ended from outside more than once")
def take_an_answer_twice(remains: Remains) -> None:
    (*_, entry) = [entry for entry in remains.entries if entry[0] == "completed"]
    remains.entries.append(entry)


@says("was run by attempt 2 after it had ended with 1")
def run_it_after_its_end(remains: Remains) -> None:
    row = remains.activity("step")
    remains.effects.append((row.run_id, row.activity_id, 2))


@says("one claim was run twice: [1, 1]")
def run_a_claim_twice(remains: Remains) -> None:
    row = remains.activity("step")
    remains.effects.append((row.run_id, row.activity_id, 1))


@says("which no transaction ever asked for")
def do_what_nobody_asked_for(remains: Remains) -> None:
    remains.effects.append((remains.run("laps-1").run_id, 99, 1))


@says("of laps-1 does not replay: NonDeterminismError")
def ask_for_another_activity(remains: Remains) -> None:
    remains.event("ActivityScheduled", "laps-1").payload["activity_type"] = "another"


@says("of laps-1: after a replay of")
def return_something_else(remains: Remains) -> None:
    remains.history("laps-1")[-1].payload["result"] = "something else"


# --- the trial ------------------------------------------------------------------------------------------------------


@pytest.fixture
async def peace(on_disk: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Ledger, Path]:
    """One workflow of each kind, and nobody has harmed anything: the ledger and the effects."""
    effects = tmp_path / "effects"
    monkeypatch.setenv(programs.EFFECTS, str(effects))
    monkeypatch.setenv(programs.QUESTIONS, str(tmp_path / "questions"))
    monkeypatch.setattr("random.random", lambda: 0.5)
    ledger = Ledger(tmp_path / "ledger")
    async with Client.connect(str(on_disk.url)) as client:
        async with Worker(client, workflows=programs.WORKFLOWS, activities=programs.ACTIVITIES):
            load = Load(client, ledger, random.Random(1), 1, tmp_path / "questions")
            for kind in PROGRAMS:
                await load.one(f"{kind}-1")
            await load.until_all_have_ended()
    ledger.close()
    return ledger, effects


async def test_the_judge_sees_what_is_wrong(on_disk: Database, peace: tuple[Ledger, Path]) -> None:
    ledger, effects = peace
    with on_disk.reader() as connection:
        verdict = judge(connection, ledger, effects)
        found = read(connection)
    assert verdict.wrong == []
    assert verdict.replayed == verdict.runs
    assert {kind for kind, count in verdict.acknowledged.items() if count} >= {
        *("started", "signalled", "answered", "queried", "cancelled", "result", "completed")
    }
    unseen = []
    for sentence, plant in PLANTED.items():
        remains = Remains(*copy.deepcopy((found, ledger.entries(), programs.trace(effects))))
        plant(remains)
        wrong = weigh(remains.record, remains.entries, remains.effects).wrong
        if not any(sentence in what for what in wrong):
            unseen.append((sentence, wrong))
    assert not unseen

    with on_disk.writer() as connection:
        connection.exec_driver_sql("UPDATE workflow_runs SET attempt = 7 WHERE workflow_id = 'laps-1'")
        assert "attempt=1, the row 7" in "\n".join(judge(connection, ledger, effects).wrong)
