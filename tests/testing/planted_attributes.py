"""What breaks the rules about memos and search attributes, and what the checker must say of it."""

from __future__ import annotations

from tests.testing.planting import Planted, change_run, remove, run_of, say_in

PLANTED: Planted = [
    (change_run("noted", "memo = '{}'"), "the memo is not that of the history"),
    (change_run("noted", "memo = NULL"), "the memo is not that of the history"),
    (change_run("asleep", "memo = '{}'"), "the memo is not that of the history"),
    (say_in("noted", "MemoUpserted", "memo.step", "2"), "the memo is not that of the history"),
    (remove("history_events", "noted", "type = 'MemoUpserted'"), "the memo is not that of the history"),
    (change_run("noted", "search_attributes = NULL"), "the search attributes [] are not those"),
    (
        say_in("noted", "SearchAttributesUpserted", "attributes.amount", "6"),
        "the search attributes ['amount'",
    ),
    (say_in("noted", "WorkflowStarted", "search_attributes.step", "'x'"), "the search attributes ['amount'"),
    (remove("search_attributes", "noted", "name = 'step'"), "the index of search attributes is not"),
    (
        f"INSERT INTO search_attributes VALUES ({run_of('asleep')}, 'step', 'sx')",
        "the index of search attributes is not",
    ),
    ("INSERT INTO search_attributes VALUES ('nobody', 'step', 'sx')", "has search attributes but is not in"),
]
