"""Each command that asks something of a workflow, for people and for programs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.conftest import Command

pytestmark = pytest.mark.usefixtures("worker")


def test_start_and_wait_prints_the_result(holdfast: Command) -> None:
    done = holdfast("start", "Doubling", "--id", "d", "--input", "4", "--input", '{"a": [1, null]}', "--wait")
    assert (done.code, done.err) == (0, "")
    assert done.out.replace(" ", "").replace("\n", "") == '{"doubled":8,"more":{"a":[1,null]}}'
    again = holdfast("result", "d", "--json")
    assert again.json["result"] == {"doubled": 8, "more": {"a": [1, None]}}
    assert (again.json["workflow_id"], again.json["status"]) == ("d", "completed")
    assert set(again.json) == {"workflow_id", "run_id", "status", "result"}


def test_start_says_what_it_started(holdfast: Command) -> None:
    options = ("--execution-timeout", "2h", "--run-timeout", "90m", "--priority", "3", "--task-queue", "q")
    done = holdfast("start", "sleep_long", "--json", "--memo", '{"customer": "c-7"}', *options)
    assert done.code == 0
    assert set(done.json) == {"workflow_id", "run_id", "workflow_type"}
    found = holdfast("describe", done.json["workflow_id"], "--json").json
    assert found["execution_timeout_seconds"] == 7200
    assert found["run"]["run_timeout_seconds"] == 5400
    assert (found["run"]["priority"], found["run"]["task_queue"]) == (3, "q")
    assert found["run"]["memo"] == {"customer": "c-7"}
    delayed = holdfast("start", "sleep_long", "--id", "later", "--start-delay", "1d")
    assert delayed.out.startswith("started later, run ")
    assert "begins" in holdfast("describe", "later").out


def test_a_workflow_that_fails_exits_with_1_and_says_why(holdfast: Command) -> None:
    done = holdfast("start", "fail", "--id", "f", "--wait")
    assert done.code == 1
    assert done.out == ""
    assert done.err == "holdfast: workflow 'f' failed: ValueError: card declined for good\n"
    programs = holdfast("result", "f", "--json")
    assert programs.code == 1
    assert programs.json["status"] == "failed"
    assert programs.json["error"]["type"] == "WorkflowFailedError"
    assert programs.json["error"]["cause"] == {"type": "ValueError", "message": "card declined\nfor good"}


def test_a_workflow_that_times_out_says_which_deadline_it_was(holdfast: Command) -> None:
    done = holdfast("start", "sleep_long", "--id", "t", "--run-timeout", "1", "--wait", "--json")
    assert done.code == 1
    assert done.json["status"] == "timed_out"
    assert done.json["error"]["timeout_kind"] == "run_timeout"
    assert done.json["error"]["deadline_at"].endswith("+00:00")
    assert "its run timeout passed" in done.err


def test_waiting_may_end_first(holdfast: Command) -> None:
    assert holdfast("start", "sleep_long", "--id", "s").code == 0
    done = holdfast("result", "s", "--timeout", "50ms")
    assert done.code == 5
    assert done.err == "holdfast: workflow 's' did not end within 0.05 s: it goes on, ask again later\n"
    assert holdfast("start", "sleep_long", "--wait", "--timeout", "0.05").code == 5


def test_cancel_and_terminate(holdfast: Command) -> None:
    for workflow_id in ("c", "t"):
        holdfast("start", "sleep_long", "--id", workflow_id)
    assert holdfast("cancel", "c", "--reason", "bored", "--json").json == {
        "workflow_id": "c",
        "cancel_requested": True,
    }
    ended = holdfast("result", "c")
    assert (ended.code, ended.err) == (1, "holdfast: workflow 'c' was cancelled: bored\n")
    assert holdfast("terminate", "t", "--reason", "now").out == "terminated t\n"
    ended = holdfast("result", "t", "--json")
    assert ended.json["error"]["reason"] == "now"
    too_late = holdfast("terminate", "t", "--json")
    assert (too_late.code, too_late.out) == (1, "")
    assert "has ended already" in too_late.err


def test_signal(holdfast: Command) -> None:
    holdfast("start", "sleep_long", "--id", "s")
    sent = holdfast("signal", "s", "note", "--input", '"a"', "--input", "2", "--request-id", "k")
    assert sent.out == "sent note to s\n"
    again = holdfast("signal", "s", "note", "--request-id", "k", "--json")
    assert again.json == {"workflow_id": "s", "signal": "note", "delivered": True}
    signals = [line for line in holdfast("history", "s", "--json").lines if line["type"] == "SignalReceived"]
    assert [line["payload"] for line in signals] == [{"name": "note", "input": ["a", 2], "request_id": "k"}]
    assert holdfast("signal", "nope", "note").code == 3
    holdfast("terminate", "s")
    assert "has ended already" in holdfast("signal", "s", "note").err


@pytest.mark.parametrize("command", ["describe", "history", "result", "cancel", "terminate"])
def test_what_is_not_there_exits_with_3(holdfast: Command, command: str) -> None:
    done = holdfast(command, "nope")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("holdfast: there is no workflow 'nope': check the id")
    assert done.err.count("\n") == 1
    holdfast("start", "fail", "--id", "there", "--wait")
    if command != "result":
        assert holdfast(command, "there", "--run-id", "nonsense").code == 3


def test_an_id_that_is_taken_follows_the_policy(holdfast: Command) -> None:
    first = holdfast("start", "sleep_long", "--id", "i", "--json").json["run_id"]
    taken = holdfast("start", "sleep_long", "--id", "i")
    assert taken.code == 1
    assert "--policy return_existing" in taken.err
    same = holdfast("start", "sleep_long", "--id", "i", "--policy", "return-existing", "--json")
    assert same.json["run_id"] == first
    other = holdfast("start", "sleep_long", "--id", "i", "--policy", "terminate_existing", "--json")
    assert other.json["run_id"] != first
    assert holdfast("start", "sleep_long", "--id", "i", "--policy", "reject_duplicate").code == 1


def test_describe_shows_people_what_is_open(holdfast: Command) -> None:
    holdfast("start", "hanging", "--id", "h", "--execution-timeout", "2h", "--memo", '{"a": 1}')
    found: dict[str, Any] = {}
    while not found.get("pending_activities") or not found["pending_activities"][0]["heartbeat_details"]:
        found = holdfast("describe", "h", "--json").json
    (pending,) = found["pending_activities"]
    assert (pending["activity_type"], pending["heartbeat_details"]) == ("hang", ["hanging"])
    done = holdfast("describe", "h")
    assert done.code == 0
    for words in ("h (hanging)", "running", "2 h in all", "1 pending activity", "hang", "start-to-close in 59 min",
                  '["hanging"]', "1 pending timer", '{"a":1}', "1 of 1"):  # fmt: skip
        assert words in done.out, words
    workers = holdfast("workers", "--json").lines
    assert [(one["alive"], one["runs_held"], one["activities_held"]) for one in workers] == [(True, 1, 1)]
    assert workers[0]["workflows"] == ["Doubling", "fail", "hanging", "sleep_long"]
    assert "Doubling, fail, hanging, sleep_long, double, hang" in holdfast("workers").out


def test_history_is_every_event_in_order(holdfast: Command) -> None:
    holdfast("start", "Doubling", "--id", "d", "--input", "4", "--wait")
    events = holdfast("history", "d", "--json").lines
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert set(events[0]) == {"seq", "type", "recorded_at", "payload"}
    assert events[0]["payload"]["input"] == [4]
    assert events[-1]["type"] == "WorkflowCompleted"
    assert holdfast("history", "d", "--json", "--after", str(len(events) - 1)).lines == events[-1:]
    table = holdfast("history", "d").out
    assert table.splitlines()[0].split() == ["SEQ", "RECORDED", "EVENT", "PAYLOAD"]
    assert "WorkflowStarted" in table
    assert '"doubled": 8' in holdfast("history", "d", "--full").out


def test_list_and_count_take_the_same_filters(holdfast: Command) -> None:
    for number in range(3):
        holdfast("start", "Doubling", "--id", f"d-{number}", "--input", "1", "--wait")
    holdfast("start", "sleep_long", "--id", "s", "--run-timeout", "30")
    holdfast("start", "fail", "--id", "f", "--wait")
    wanted: list[tuple[list[str], list[str]]] = [
        ([], ["f", "s", "d-2", "d-1", "d-0"]),
        (["--status", "completed"], ["d-2", "d-1", "d-0"]),
        (["--status", "failed", "--status", "running"], ["f", "s"]),
        (["--type", "fail"], ["f"]),
        (["--task-queue", "none"], []),
        (["--id", "d-1"], ["d-1"]),
        (["--created-after", "1h", "--created-before", "0"], ["f", "s", "d-2", "d-1", "d-0"]),
        (["--created-before", "1h"], []),
        (["--closed-after", "2020-01-01T00:00:00+00:00", "--type", "Doubling"], ["d-2", "d-1", "d-0"]),
        (["--closed-before", "2020-01-01T00:00:00Z"], []),
        (["--deadline-before", "1m"], ["s"]),
        (["--deadline-before", "1"], []),
        (["--open"], ["s"]),
        (["--closed", "--type", "fail"], ["f"]),
        (["--attention"], []),
        (["--overdue"], []),
    ]
    for filters, ids in wanted:
        assert [run["workflow_id"] for run in holdfast("list", "--json", *filters).lines] == ids, filters
        assert holdfast("count", "--json", *filters).json == {"count": len(ids)}, filters
    assert holdfast("count").out == "5\n"
    shown = holdfast("list", "--limit", "2").out
    assert shown.splitlines()[0].startswith("WORKFLOW ID")
    assert "… and more" in shown
    assert len(holdfast("list", "--json", "--limit", "2").lines) == 2
    assert len(holdfast("list", "--json", "--limit", "0").lines) == 5
    assert holdfast("list", "--type", "none").out == "no runs\n"
    assert "in 2" in holdfast("list", "--id", "s").out
