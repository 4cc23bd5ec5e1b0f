"""The rules about memos and search attributes each see what breaks them."""

from __future__ import annotations

from tests.testing.planting import Planted, change_run, each, never_seen, remove, run_of, say_in, seen_by

from holdfast.testing import invariants_attributes

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


@each(PLANTED)
def test_what_is_planted_is_seen_by_its_rule(saved: bytes, statement: str, said: str) -> None:
    seen = seen_by(saved, statement, said, invariants_attributes)
    assert len(seen) == 1, seen


def test_each_rule_has_been_seen_to_see(saved: bytes) -> None:
    assert never_seen(saved, PLANTED, invariants_attributes) == set()
