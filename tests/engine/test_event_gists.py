"""The gist of every event: in few words, never of what is hidden, never an error."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.text.event_gists import MOST_PREVIEW, gist, kind_of, types_of
from outlast_workflow.history.events import REGISTRY

NOW = datetime(2026, 1, 31, tzinfo=UTC)
HISTORIES = Path(__file__).parent.parent / "histories"
VALUES = [
    *(None, True, 0, 5, -(2**53), 1.5, "", "two\nlines", "x" * 500, [], ["a", 1, None], {}, {"a": {"b": 1}}),
    *({"hidden": True}, {"type": "KeyError", "message": "'a'"}, {"type": 5, "message": None}),
]


def test_every_event_belongs_to_a_kind() -> None:
    kinds = {kind_of(event_type) for event_type in REGISTRY}
    assert kinds == {"run", "activities", "timers", "children", "messages", "streams", "markers", "tasks"}
    assert sorted(name for kind in kinds for name in types_of(kind)) == sorted(REGISTRY)


@pytest.mark.parametrize("event_type", sorted(REGISTRY))
@settings(max_examples=10)
@given(chosen=st.randoms(use_true_random=True))
def test_every_event_has_a_gist_whatever_may_be_seen_of_it(event_type: str, chosen: random.Random) -> None:
    """Hypothesis draws where a random choice begins, and not each field of it: that takes forty times as long."""
    names = REGISTRY[event_type].names
    for _ in range(50):
        seen = chosen.sample(names, chosen.randint(0, len(names)))
        payload: dict[str, Any] = {name: chosen.choice(VALUES) for name in seen}
        found = gist(event_type, payload, NOW, {1: "charge"})
        assert "hidden" not in found.words + found.value, payload
        assert "\n" not in found.words + found.value, payload
        assert len(found.value) <= MOST_PREVIEW, payload


def test_recorded_events_say_something() -> None:
    silent = {
        *("WorkflowCompleted", "WorkflowCancelRequested", "WorkflowCancelled", "WorkflowTerminated"),
        "MemoUpserted",
    }
    seen: set[str] = set()
    for file in HISTORIES.glob("*.jsonl"):
        for line in file.read_bytes().splitlines():
            for event in orjson.loads(line).get("events", []):
                seen.add(event["type"])
                found = gist(event["type"], event["payload"], NOW, {})
                assert found.words or found.value or event["type"] in silent, event
    assert len(seen) > 25


@pytest.mark.parametrize(
    ("event_type", "payload", "words", "value"),
    [
        ("ActivityScheduled", {"command_id": 1, "activity_type": "charge", "task_queue": "default",
                               "input": ["o-1", 5]}, "charge #1", '"o-1", 5'),
        ("ActivityCompleted", {"command_id": 1, "result": None, "attempt": 3}, "charge #1, attempt 3", "null"),
        ("ActivityFailed", {"command_id": 1, "attempt": 1, "retry_state": "maximum_attempts_reached",
                            "failure": {"type": "KeyError", "message": "'a'"}},
         "charge #1: KeyError: 'a', maximum attempts reached", ""),
        ("WorkflowFailed", {"failure": {"category": "activity", "type": "ActivityError", "message": "charge failed",
                                        "cause": {"type": "KeyError", "message": "'a'"}}},
         "charge failed: KeyError: 'a'", ""),
        ("OfALaterVersion", {"command_id": 1}, "", ""),
        ("TimerScheduled", {"command_id": 2, "fire_at": 1769817600_000000 + 90_000_000}, "#2, for 1 min 30 s", ""),
        ("SignalReceived", {"name": "approve", "input": {"hidden": True}}, "approve", ""),
        ("SearchAttributesUpserted", {"attributes": {"a": 1, "b": None}}, "a = 1, b removed", ""),
        ("WorkflowTaskCompleted", {"through": 7, "commands": 2}, "events up to 7 were applied, 2 commands", ""),
    ],
)  # fmt: skip
def test_a_gist_says_what_happened_to_what(
    event_type: str, payload: dict[str, Any], words: str, value: str
) -> None:
    found = gist(event_type, payload, NOW, {1: "charge"})
    assert (found.words, found.value) == (words, value)
