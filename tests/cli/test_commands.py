"""Each command that asks something of a workflow, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command

from outlast import WorkflowHandle
from outlast.errors import StoreUnreachableError

pytestmark = pytest.mark.usefixtures("worker")


def test_start_and_wait_prints_the_result(outlast: Command) -> None:
    done = outlast("start", "Doubling", "--id", "d", "--input", "4", "--input", '{"a": [1, null]}', "--wait")
    assert (done.code, done.err) == (0, "")
    assert done.out.replace(" ", "").replace("\n", "") == '{"doubled":8,"more":{"a":[1,null]}}'
    again = outlast("result", "d", "--json")
    assert again.json["result"] == {"doubled": 8, "more": {"a": [1, None]}}
    assert (again.json["workflow_id"], again.json["status"]) == ("d", "completed")
    assert set(again.json) == {"workflow_id", "run_id", "status", "result"}


def test_start_says_what_it_started(outlast: Command) -> None:
    options = ("--execution-timeout", "2h", "--run-timeout", "90m", "--priority", "3", "--task-queue", "q")
    retries = ("--retry-policy", '{"max_attempts": 3, "initial_interval": 5}')
    done = outlast("start", "sleep_long", "--json", "--memo", '{"customer": "c-7"}', *options, *retries)
    assert done.code == 0
    assert set(done.json) == {"workflow_id", "run_id", "workflow_type", "existed"}
    found = outlast("describe", done.json["workflow_id"], "--json").json
    assert found["execution_timeout_seconds"] == 7200
    assert found["run"]["run_timeout_seconds"] == 5400
    assert (found["run"]["priority"], found["run"]["task_queue"]) == (3, "q")
    assert found["run"]["memo"] == {"customer": "c-7"}
    started = json.loads(outlast("history", done.json["workflow_id"], "--json").out.splitlines()[0])
    policy = started["payload"]["retry_policy"]
    assert (policy["max_attempts"], policy["initial_interval"]) == (3, 5)
    delayed = outlast("start", "sleep_long", "--id", "later", "--start-delay", "1d")
    assert delayed.out.startswith("started later, run ")
    assert "starts" in outlast("describe", "later").out


def test_a_workflow_that_fails_exits_with_1_and_says_why(outlast: Command) -> None:
    done = outlast("start", "fail", "--id", "f", "--wait")
    assert done.code == 1
    assert done.out == ""
    assert (
        done.err
        == "outlast: workflow 'f' failed (see `outlast describe f`): ValueError: card declined for good\n"
    )
    programs = outlast("result", "f", "--json")
    assert programs.code == 1
    assert programs.json["status"] == "failed"
    assert programs.json["error"]["type"] == "WorkflowFailedError"
    assert programs.json["error"]["cause"] == {"type": "ValueError", "message": "card declined\nfor good"}


def test_a_workflow_that_times_out_says_which_deadline_it_was(outlast: Command) -> None:
    done = outlast("start", "sleep_long", "--id", "t", "--run-timeout", "1", "--wait", "--json")
    assert done.code == 1
    assert done.json["status"] == "timed_out"
    assert done.json["error"]["timeout_kind"] == "run_timeout"
    assert done.json["error"]["deadline_at"].endswith("+00:00")
    assert "its run timeout passed" in done.err


def test_waiting_may_end_first(outlast: Command) -> None:
    assert outlast("start", "sleep_long", "--id", "s").code == 0
    done = outlast("result", "s", "--timeout", "50ms")
    assert done.code == 5
    assert (
        done.err == "outlast: workflow 's' did not end within 0.05 s: it is still running, wait again later\n"
    )
    assert outlast("start", "sleep_long", "--wait", "--timeout", "0.05").code == 5


def test_a_start_has_a_deadline_that_is_an_instant(outlast: Command) -> None:
    outlast("start", "sleep_long", "--id", "bounded", "--execution-deadline", "2990-01-01T01:00:00+01:00")
    run = outlast("describe", "bounded", "--json").json["run"]
    assert run["execution_deadline_at"] == "2990-01-01T00:00:00+00:00"
    for text, why in (
        ("2h", "must be a time like"),
        ("2990-01-01", "no offset"),
        ("2001-01-01T00:00:00Z", "passed"),
    ):
        refused = outlast("start", "sleep_long", "--execution-deadline", text)
        assert (refused.code, why in refused.err) == (2, True), refused.err


def test_starts_of_a_key_are_debounced(outlast: Command) -> None:
    words = ("start", "sleep_long", "--debounce", "user-7", "--debounce-period", "1d")
    first = outlast(*words, "--json").json
    assert outlast(*words, "--json").json == {**first, "existed": True}
    assert f"{first['workflow_id']} has this input now" in outlast(*words, "--debounce-timeout", "2d").out
    for more, why in (
        (("start", "sleep_long", "--debounce", "k"), "belong together"),
        ((*words, "--id", "w"), "has no --id"),
        ((*words, "--policy", "reject_duplicate"), "has no duplicate_policy"),
        ((*words, "--start-delay", "5s"), "has no start_delay"),
    ):
        refused = outlast(*more)
        assert (refused.code, why in refused.err) == (2, True), refused.err


def test_a_start_is_moved(outlast: Command) -> None:
    outlast("start", "sleep_long", "--id", "later", "--start-delay", "1d")
    assert outlast("set-start-delay", "later", "2d").out.startswith("moved the start of later; ")
    moved = outlast("set-start-delay", "later", "--until", "2990-01-01T00:00:00+00:00", "--json")
    assert moved.json == {"workflow_id": "later", "start_moved": True}
    assert outlast("describe", "later", "--json").json["run"]["begins_at"].startswith("2990-01-01T00:00:00")
    neither = outlast("set-start-delay", "later")
    assert (neither.code, "delay or until is needed" in neither.err) == (2, True)
    outlast("terminate", "later")
    ended = outlast("set-start-delay", "later", "0")
    assert (ended.code, "can no longer be moved" in ended.err) == (1, True)


def test_cancel_and_terminate(outlast: Command) -> None:
    for workflow_id in ("c", "t"):
        outlast("start", "sleep_long", "--id", workflow_id)
    assert outlast("cancel", "c", "--reason", "bored", "--json").json == {
        "workflow_id": "c",
        "cancel_requested": True,
    }
    ended = outlast("result", "c")
    assert (ended.code, ended.err) == (1, "outlast: workflow 'c' was cancelled: bored\n")
    assert outlast("terminate", "t", "--reason", "now").out == "terminated t\n"
    ended = outlast("result", "t", "--json")
    assert ended.json["error"]["reason"] == "now"
    too_late = outlast("terminate", "t", "--json")
    assert (too_late.code, too_late.out) == (1, "")
    assert "has ended already" in too_late.err


def test_delete_and_retention(outlast: Command, tmp_path: Path) -> None:
    for number in range(3):
        outlast("start", "fail", "--id", f"f-{number}", "--wait")
    outlast("start", "sleep_long", "--id", "s")
    assert outlast("delete", "f-0").out == "deleted f-0: 1 run\n"
    assert outlast("delete", "f-0").code == 3
    assert "terminate it first" in outlast("delete", "s").err
    assert outlast("delete", "s", "--terminate", "--json").json == {"workflow_id": "s", "runs": 1}
    kept = outlast("retention", "--once", "--older-than", "1h", "--json").json
    assert kept == {"chains": 0, "runs": 0, "exported": 0, "kept": 0}
    gone = outlast("retention", "--once", "--keep-last", "1", "--export-to", str(tmp_path / "gone"))
    assert gone.out == "deleted 1 run of 1 workflow, exported 1, kept 0\n"
    assert outlast("count").out == "1\n"
    assert outlast("retention", "--older-than", "1h").code == 2
    assert "needs days or keep_last" in outlast("retention", "--once").err


def test_reset(outlast: Command) -> None:
    first = outlast("start", "fail", "--id", "f", "--wait", "--json").json["run_id"]
    done = outlast("reset", "f", "--to", "first-workflow-task", "--reason", "again")
    assert done.out.startswith("reset f: it continues as run ")
    assert outlast("result", "f").code == 1
    described = outlast("describe", "f", "--json").json["run"]
    assert described["run_number"] == 2
    alone = outlast("result", "f", "--run-id", first, "--no-follow", "--json")
    assert (alone.code, alone.json["run_id"], alone.json["status"]) == (1, first, "failed")
    assert alone.json["error"]["type"] == "WorkflowContinuedAsNewError"
    assert alone.json["error"]["next_run_id"] == described["run_id"]
    assert alone.json["error"]["cause"]["type"] == "WorkflowFailedError"
    assert f"is followed by run {described['run_id']}" in alone.err
    for arguments, code, words in (
        (["--run-id", first], 1, "no longer the current run of its workflow"),
        (["--to", "99"], 1, "can be reset to events 1 to"),
        (["--to", "noon"], 2, "to must be the number of an event, or one of"),
        (["--execution-timeout", "0"], 2, "execution timeout must be at least 1 second"),
    ):
        refused = outlast("reset", "f", *arguments)
        assert (refused.code, words in refused.err) == (code, True), refused.err
    again = outlast("reset", "f", "--to", "1", "--no-signals", "--execution-timeout", "1h", "--json").json
    assert (again["workflow_id"], again["run_id"] != first) == ("f", True)
    assert outlast("reset", "nobody").code == 3


def test_resume_and_fork(outlast: Command) -> None:
    outlast("start", "sleep_long", "--id", "s")
    refused = outlast("resume", "s")
    assert (refused.code, "only what has ended can be resumed" in refused.err) == (1, True)
    outlast("terminate", "s")
    done = outlast("resume", "s", "--reason", "again")
    assert done.out.startswith("resumed s: it continues as run ")
    assert outlast("resume", "s", "--queue", "q", "--no-queue").code == 2
    assert outlast("resume", "nobody").code == 3
    made = outlast("fork", "s", "--to", "first-workflow-task", "--id", "s-trial", "--json").json
    assert (made["workflow_id"], made["existed"]) == ("s-trial", False)
    assert outlast("fork", "s", "--id", "s-trial").code != 0
    again = outlast("fork", "s", "--id", "s-trial", "--duplicate-policy", "return_existing")
    assert "s-trial is open already" in again.out
    assert (outlast("fork", "s", "--before", "99").code, outlast("fork", "s", "--id", "s").code) == (1, 2)
    assert [line["workflow_id"] for line in outlast("list", "--forked-from", "s", "--json").lines] == [
        "s-trial"
    ]
    found = {line["workflow_id"] for line in outlast("list", "--was-forked-from", "--json").lines}
    assert found == {"s"}
    assert "s-trial" in outlast("describe", "s").out
    assert outlast("describe", "s-trial", "--json").json["forks"] == []
    outlast("terminate", "s-trial")
    assert outlast("bulk", "resume", "--forked-from", "s", "--yes").out == "resume: done for 1 of 1 run\n"
    assert outlast("bulk", "fork", "--id", "s", "--before", "99", "--yes").code == 1
    forked = outlast("bulk", "fork", "--id", "s", "--to", "first-workflow-task", "--yes", "--json").lines
    assert (forked[0]["workflow_id"], forked[-1]["done"]) == ("s", 1)
    told = outlast("bulk", "fork", "--id", "s", "--to", "first-workflow-task", "--yes").out
    assert told.startswith("s: forked as ")
    assert outlast("list", "--forked-from", "s", "--json").out.count(forked[0]["fork_id"]) > 0
    outlast("bulk", "terminate", "--forked-from", "s", "--yes")
    outlast("terminate", "s")


def test_signal(outlast: Command) -> None:
    outlast("start", "sleep_long", "--id", "s")
    sent = outlast("signal", "s", "note", "--input", '"a"', "--input", "2", "--request-id", "k")
    assert sent.out == "sent note to s\n"
    again = outlast("signal", "s", "note", "--request-id", "k", "--json")
    assert again.json == {"workflow_id": "s", "signal": "note", "delivered": True}
    signals = [line for line in outlast("history", "s", "--json").lines if line["type"] == "SignalReceived"]
    assert [line["payload"] for line in signals] == [{"name": "note", "input": ["a", 2], "request_id": "k"}]
    assert outlast("signal", "nope", "note").code == 3
    outlast("terminate", "s")
    assert "has ended already" in outlast("signal", "s", "note").err


def test_update_and_query(outlast: Command) -> None:
    outlast("start", "Ledger", "--id", "l")
    done = outlast("update", "l", "enter", "--input", "5", "--id", "five")
    assert (done.code, done.out) == (0, "5\n")
    again = outlast("update", "l", "enter", "--input", "7", "--id", "five", "--json")
    assert again.json == {"workflow_id": "l", "update": "enter", "update_id": "five", "result": 5}
    accepted = outlast("update", "l", "never", "--wait", "accepted", "--id", "n")
    assert accepted.out == "l accepted never; `outlast update l never --id n` waits for it\n"
    late = outlast("update", "l", "never", "--id", "n", "--timeout", "50ms")
    assert late.code == 5
    refused = outlast("update", "l", "enter", "--input", "-1", "--id", "debt")
    assert refused.code == 1
    assert (
        refused.err == "outlast: update 'enter' (debt) of workflow 'l' was rejected "
        "(to ask again, give another id): ValueError: no debts here\n"
    )
    assert outlast("query", "l", "entry", "--input", "0").out == "5\n"
    assert outlast("query", "l", "owner").out == '"ada"\n'
    answer = outlast("query", "l", "entry", "--input", "0", "--json").json
    assert answer == {"workflow_id": "l", "query": "entry", "result": 5}
    assert "known: entry" in outlast("query", "l", "none").err
    wrong = outlast("query", "l", "entry", "--input", "9")
    assert (wrong.code, "IndexError: list index out of range" in wrong.err) == (1, True)
    assert "in Ledger.run" in outlast("query", "l", "__stack_trace").out
    outlast("terminate", "l")
    assert outlast("query", "l", "entry", "--input", "0").out == "5\n"
    assert "has ended already" in outlast("update", "l", "enter", "--input", "1").err


def test_a_query_that_nobody_can_answer_says_so_at_once(outlast: Command) -> None:
    outlast("start", "Ledger", "--id", "l", "--task-queue", "nobody")
    done = outlast("query", "l", "entry", "--input", "0")
    assert done.code == 1
    assert "no worker serves task queue 'nobody' with workflow 'Ledger'" in done.err


@pytest.mark.parametrize("command", ["describe", "history", "result", "cancel", "terminate"])
def test_what_is_not_there_exits_with_3(outlast: Command, command: str) -> None:
    done = outlast(command, "nope")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("outlast: there is no workflow 'nope': check the id")
    assert done.err.count("\n") == 1
    outlast("start", "fail", "--id", "there", "--wait")
    if command != "result":
        assert outlast(command, "there", "--run-id", "nonsense").code == 3


def test_an_id_that_is_taken_follows_the_policy(outlast: Command) -> None:
    first = outlast("start", "sleep_long", "--id", "i", "--json").json["run_id"]
    taken = outlast("start", "sleep_long", "--id", "i")
    assert taken.code == 1
    assert "--policy return_existing" in taken.err
    same = outlast("start", "sleep_long", "--id", "i", "--policy", "return-existing", "--json")
    assert (same.json["run_id"], same.json["existed"]) == (first, True)
    there = outlast("start", "sleep_long", "--id", "i", "--policy", "return-existing")
    assert there.out == f"i is already open: run {first}\n"
    other = outlast("start", "sleep_long", "--id", "i", "--policy", "terminate_existing", "--json")
    assert other.json["run_id"] != first
    assert outlast("start", "sleep_long", "--id", "i", "--policy", "reject_duplicate").code == 1


def test_describe_shows_people_what_is_open(outlast: Command) -> None:
    labels = ("--memo", '{"a": 1}', "--summary", "calls [bold]\033[31mnobody")
    outlast("start", "hanging", "--id", "h", "--execution-timeout", "2h", *labels)
    found: dict[str, Any] = {}
    while not found.get("pending_activities") or not found["pending_activities"][0]["heartbeat_details"]:
        found = outlast("describe", "h", "--json").json
    (pending,) = found["pending_activities"]
    assert (pending["activity_type"], pending["heartbeat_details"]) == ("hang", ["hanging"])
    done = outlast("describe", "h")
    assert done.code == 0
    for words in ("h (hanging)", "running", "2 h in total", "1 pending activity", "hang", "start-to-close in 59 min",
                  '["hanging"]', "1 pending timer", '{"a":1}', "1 of 1", "calls [bold] [31mnobody", "two [red] hours",
                  "hang on the line", "1 of 4 (25 %): waiting for an answer"):  # fmt: skip
        assert words in done.out, words
    assert found["run"]["progress"] == {"done": 1, "total": 4, "message": "waiting\nfor an answer"}
    for seen in (outlast("list").out, outlast("top", "--once").out):
        assert "calls [bold] [31mnobody" in seen
        assert "1 of 4 (25 %): waiting for an answer" in seen
    history = outlast("history", "h").out
    for words in ("calls [bold] [31mnobody", "two [red] hours", "hang on the line"):
        assert words in history, words
    workers = outlast("workers", "--json").lines
    assert [(one["alive"], one["runs_held"], one["activities_held"]) for one in workers] == [(True, 1, 1)]
    assert workers[0]["activity_slots"] == 100
    assert workers[0]["workflows"] == [
        "Doubling",
        "Ledger",
        "asking",
        "broken",
        "fail",
        "hanging",
        "mailing",
        "sleep_long",
    ]
    serves = "Doubling, Ledger, asking, broken, fail, hanging, mailing, sleep_long, ask, double, hang,"
    assert serves in outlast("workers").out


def test_describe_lists_the_handlers_when_asked(outlast: Command) -> None:
    outlast("start", "Ledger", "--id", "l")
    assert "handlers" not in outlast("describe", "l", "--json").json
    listed = outlast("describe", "l", "--handlers", "--json").json["handlers"]
    assert [one["name"] for one in listed["updates"]] == ["enter", "never"]
    lines = [" ".join(line.split()) for line in outlast("describe", "l", "--handlers").out.splitlines()]
    for line in (
        "HANDLER NAME PARAMETERS DESCRIPTION",
        "query entry place: int",
        "update enter amount: int",
        "update never",
    ):
        assert line in lines, lines


def test_describe_tells_alike_failures_once(outlast: Command) -> None:
    outlast("start", "fail", "--id", "f", "--wait")
    said = outlast("describe", "f").out
    assert said.count("card declined") == 1
    assert "deadline" not in said


def test_describe_shows_people_who_waits_for_an_answer(outlast: Command) -> None:
    outlast("start", "Ledger", "--id", "l")
    outlast("signal", "l", "misspelt")
    found: dict[str, Any] = {"pending_signals": []}
    while not any(one["without_handler"] for one in found["pending_signals"]):
        found = outlast("describe", "l", "--json").json
    done = outlast("describe", "l").out
    assert "waiting signals" in done
    assert "misspelt" in done
    assert "no handler of this name" in done


def test_history_is_every_event_in_order(outlast: Command) -> None:
    outlast("start", "Doubling", "--id", "d", "--input", "4", "--wait")
    events = outlast("history", "d", "--json").lines
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert set(events[0]) == {"seq", "type", "recorded_at", "payload"}
    assert events[0]["payload"]["input"] == [4]
    assert events[-1]["type"] == "WorkflowCompleted"
    assert outlast("history", "d", "--json", "--after", str(len(events) - 1)).lines == events[-1:]
    table = outlast("history", "d").out
    assert table.splitlines()[0].rstrip().endswith("times in UTC")
    assert table.splitlines()[1].split() == ["SEQ", "RECORDED", "EVENT", "WHAT"]
    assert "Doubling, task queue default 4" in table
    assert "double #1 4" in table
    assert "double #1 8" in table
    # What happened before is known though only the rest is shown.
    assert "WorkflowStarted" not in outlast("history", "d", "--after", "1").out
    assert '"doubled": 8' in outlast("history", "d", "--full").out


def test_list_and_count_take_the_same_filters(outlast: Command) -> None:
    for number in range(3):
        given = (
            f"amount={number}",
            'tags=["eu","new"]',
            "due=2026-01-31T12:00:00+01:00",
            f"vip={'true' if not number else '1'}",
        )
        attributes = [part for text in given for part in ("--attribute", text)]
        outlast("start", "Doubling", "--id", f"d-{number}", "--input", "1", "--wait", *attributes)
    outlast("start", "sleep_long", "--id", "s", "--run-timeout", "3h")
    outlast("start", "fail", "--id", "f", "--wait")
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
        (["--deadline-before", "4h"], ["s"]),
        (["--deadline-before", "1h"], []),
        (["--open"], ["s"]),
        (["--closed", "--type", "fail"], ["f"]),
        (["--id-prefix", "d-"], ["d-2", "d-1", "d-0"]),
        (["--parent", "d-1"], []),
        (["--started-after", "1h"], ["f", "s", "d-2", "d-1", "d-0"]),
        (["--started-before", "1h"], []),
        (["--where", "amount>=1", "--where", "amount < 3"], ["d-2", "d-1"]),
        (["--where", "amount=[0, 2.0]", "--where", "tags=eu"], ["d-2", "d-0"]),
        (["--where", "due>2026-01-01T00:00:00+00:00"], ["d-2", "d-1", "d-0"]),
        (["--where", "due=2026-01-31"], []),
        (["--where", "vip=true"], ["d-0"]),
        (["--attention"], []),
        (["--overdue"], []),
    ]
    for filters, ids in wanted:
        assert [run["workflow_id"] for run in outlast("list", "--json", *filters).lines] == ids, filters
        assert outlast("count", "--json", *filters).json == {"count": len(ids)}, filters
    assert outlast("count").out == "5\n"
    shown = outlast("list", "--limit", "2").out
    assert shown.splitlines()[0].startswith("WORKFLOW ID")
    assert "… and more" in shown
    assert len(outlast("list", "--json", "--limit", "2").lines) == 2
    assert len(outlast("list", "--json", "--limit", "0").lines) == 5
    assert outlast("list", "--type", "none").out == "no runs\n"
    assert '"due":"2026-01-31T11:00:00+00:00"' in outlast("describe", "d-1").out
    assert outlast("history", "s", "--after", "999").out == "no events after 999: the history of s has 3\n"
    assert outlast("history", "s", "--after", "999", "--json").out == ""
    assert "in 2 h" in outlast("list", "--id", "s").out


def test_a_bulk_that_stopped_names_the_cursor_at_which_it_goes_on(
    outlast: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        outlast("start", "sleep_long", "--id", f"s-{number}")
    signal = ("bulk", "signal", "--id-prefix", "s-", "--name", "note", "--request-id", "k", "--yes")
    delivered = WorkflowHandle.signal

    async def fails_at_last(handle: Any, *args: Any, **options: Any) -> None:
        if handle.workflow_id == "s-0":
            raise StoreUnreachableError("gone")
        await delivered(handle, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(WorkflowHandle, "signal", fails_at_last)
        patch.setattr("outlast.client.visibility.RUNS_PER_PAGE", 2)
        stopped = outlast(*signal, "--json")
    assert stopped.code == 4
    cursor = stopped.lines[-1]["cursor"]
    assert f"the same command with --cursor {cursor} continues from here" in stopped.err
    more = outlast(*signal, "--cursor", cursor, "--json").lines
    assert [line.get("workflow_id") for line in more] == ["s-0", None]
    wrong = outlast("bulk", "cancel", "--id", "s-1", "--cursor", cursor, "--yes")
    assert (wrong.code, "cursor belongs to other filters" in wrong.err) == (2, True)


def test_bulk(outlast: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        outlast("start", "sleep_long", "--id", f"s-{number}")
    done = outlast("bulk", "signal", "--type", "sleep_long", "--name", "note", "--request-id", "k", "--yes")
    assert done.out == "signal: done for 3 of 3 runs\n"
    lines = outlast("bulk", "cancel", "--id-prefix", "s-", "--yes", "--json", "--reason", "over").lines
    assert [line.get("workflow_id") for line in lines] == ["s-2", "s-1", "s-0", None]
    assert lines[-1] == {"action": "cancel", "matched": 3, "done": 3, "refused": 0}
    for number in range(3):
        outlast("result", f"s-{number}")
    assert (
        outlast("bulk", "terminate", "--id-prefix", "s-", "--yes").out == "terminate: done for 0 of 0 runs\n"
    )
    asked: list[str] = []
    monkeypatch.setattr("typer.confirm", lambda question, **_: asked.append(question))
    assert "nothing was done" in outlast("bulk", "delete", "--id-prefix", "s-").err
    assert asked == ["delete 3 runs?"]
    refused = outlast("bulk", "reset", "--id", "s-1", "--to", "99", "--yes")
    assert (refused.code, "s-1: the history can be reset to" in refused.err) == (1, True)
    assert outlast("bulk", "delete", "--id-prefix", "s-", "--yes").out == "delete: done for 3 of 3 runs\n"
    for arguments, words in (
        (["explode", "--type", "x"], "action must be one of cancel, terminate"),
        (["cancel"], "bulk needs a filter"),
        (["signal", "--type", "x"], "a signal needs its --name"),
    ):
        bad = outlast("bulk", *arguments)
        assert (bad.code, words in bad.err) == (2, True), bad.err


def test_bulk_by_ids_tells_of_each(outlast: Command) -> None:
    for number in range(3):
        outlast("start", "sleep_long", "--id", f"s-{number}")
    outlast("terminate", "s-1")
    ids = ("--id", "s-0", "--id", "s-1", "--id", "nobody")
    told = outlast("bulk", "terminate", *ids, "--yes", "--json")
    assert (told.code, told.lines[-1]) == (
        1,
        {"action": "terminate", "matched": 3, "done": 1, "refused": 2},
    )
    errors = {line["workflow_id"]: line["error"] for line in told.lines[:-1]}
    assert errors["s-0"] is None
    assert "has ended already" in errors["s-1"]
    assert "nobody" in errors["nobody"]
    assert outlast("bulk", "delete", "--id", "s-2", "--terminate", "--children", "--yes").code == 0
    listed = outlast("list", "--id", "s-0", "--id", "s-2", "--no-child", "--json").lines
    assert [line["workflow_id"] for line in listed] == ["s-0"]
    assert outlast("delete", "s-0", "--children").out == "deleted s-0: 1 run\n"


def test_bulk_moves_the_start_of_what_has_not_begun(outlast: Command) -> None:
    outlast("queue", "define", "mails")
    outlast("queue", "pause", "mails")
    for number in range(2):
        outlast(
            "start", "sleep_long", "--id", f"s-{number}", "--queue", "mails", "--partition-key", f"t-{number}"
        )
    begun = outlast("start", "sleep_long", "--id", "s-begun")
    assert begun.code == 0
    done = outlast("bulk", "set-start-delay", "--queue", "mails", "--delay", "2h", "--yes")
    assert done.out == "set-start-delay: done for 2 of 2 runs\n", done.err
    assert [line["queue"]["queued_at"] for line in _described(outlast, "s-0", "s-1")] == [None, None]
    back = outlast("bulk", "set-start-delay", "--partition-key", "t-1", "--until", "0", "--yes")
    assert back.out == "set-start-delay: done for 1 of 1 run\n"
    first, second = _described(outlast, "s-0", "s-1")
    assert (first["queue"]["queued_at"], second["queue"]["queued_at"] is None) == (None, False)
    for given in ([], ["--delay", "1h", "--until", "1h"]):
        bad = outlast("bulk", "set-start-delay", "--queue", "mails", *given, "--yes")
        assert (bad.code, "--delay or --until" in bad.err) == (2, True), bad.err


def _described(outlast: Command, *ids: str) -> list[Any]:
    return [outlast("describe", one, "--json").json["run"] for one in ids]


def test_a_wait_for_a_workflow_that_cannot_continue_says_why(outlast: Command) -> None:
    outlast("start", "broken", "--id", "b")
    while not outlast("list", "--attention", "--json").out:
        pass
    waited = outlast("result", "b", "--timeout", "10ms")
    assert waited.code == 5
    assert "warning: its workflow task has failed" in waited.err
    assert "`outlast history b` says why" in waited.err
