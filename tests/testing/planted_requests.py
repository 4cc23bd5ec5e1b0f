"""What breaks the rules about signals and updates, and what the checker must say of it."""

from __future__ import annotations

from tests.testing.planting import (
    Planted,
    append,
    change_run,
    remove,
    run_of,
    say_in,
)


def change_request(request_id: str, what: str) -> str:
    return f"UPDATE workflow_requests SET {what} WHERE request_id = '{request_id}'"


PLANTED: Planted = [
    # signals along a chain
    (
        say_in("collector", "WorkflowTaskCompleted", "through", "3"),
        "ended with signal 'stop' (event 13) unseen",
    ),
    (remove("history_events", "relay", "seq = 3"), "left 2 signals to the next run, which starts with 1"),
    (
        remove("history_events", "deaf", "seq IN (2, 3)"),
        "left 2 signals to the next run, which starts with 0",
    ),
    (remove("history_events", "retried", "seq = 2"), "left 1 signals to the next run, which starts with 0"),
    (
        say_in("relay", "SignalReceived", "input[0]", "seq"),
        "passed its signals on in another order, or others",
    ),
    (say_in("deaf", "SignalReceived", "name", "'x'"), "passed its signals on in another order, or others"),
    # messages to be received
    (
        say_in("deaf", "WorkflowTaskCompleted", "receiving", "json_array('first')"),
        "to receive 'first', of which 1 are there",
    ),
    (say_in("deaf", "WorkflowTaskCompleted", "buffered.first", "7"), "has 7 unread signals 'first'"),
    # rows of requests
    (change_request("keyed", "run_id = 'x'"), "is about run x, which is not of its chain"),
    (change_request("keyed", f"run_id = {run_of('asleep')}"), "which is not of its chain"),
    (change_request("keyed", "state = 'open'"), "is open, which no signal can be"),
    (change_request("keyed", "answer_seq = 2"), "is said to be event 2, which it is not"),
    (change_request("keyed", "answer_seq = 99"), "is said to be event 99, which it is not"),
    (change_request("keyed", "answer_seq = NULL"), "is said to be event None, which it is not"),
    (say_in("deaf", "SignalReceived", "request_id", "'keyed'"), "is 2 times in run"),
    (say_in("deaf", "SignalReceived", "request_id", "'x'"), "is 0 times in run"),
    (change_request("done 1", "state = 'open'"), "is open, with 1 acceptances and 1 completions"),
    (change_request("done 1", "state = 'rejected'"), "is rejected, with 1 acceptances and 1 completions"),
    (
        change_request("under way", "state = 'completed'"),
        "is completed, with 1 acceptances and 0 completions",
    ),
    (change_request("rejected", "state = 'completed'"), "is completed, with 0 acceptances and 0 completions"),
    (change_request("done 1", "state = 'x'"), "is x, with 1 acceptances"),
    (
        append("cart", "UpdateAccepted", '{"update_id":"under way","name":"x","input":[]}'),
        "with 2 acceptances",
    ),
    (change_run("cart", "closed_at = 5"), "is open, its run is running"),
    (change_request("under way", "answer_seq = NULL"), "says it was accepted by event None"),
    (change_request("not seen", "answer_seq = 1"), "says it was accepted by event 1"),
    (change_request("done 1", "answer_seq = 3"), "is said to be answered by event 3, which it is not"),
    (
        change_request(
            "done 1",
            "answer_seq = (SELECT MAX(seq) FROM history_events WHERE type = 'UpdateCompleted')",
        ),
        "is said to be answered by event",
    ),
    (change_request("rejected", "answer = NULL"), "is rejected and its answer is missing"),
    (change_request("done 1", "answer = '{}'"), "is completed and its answer is in its row"),
    (
        "DELETE FROM workflow_requests WHERE request_id = 'done 1'",
        "has taken update done 1, which has no row",
    ),
    ("DELETE FROM workflow_requests WHERE request_id = 'keyed'", "has taken signal keyed, which has no row"),
]
