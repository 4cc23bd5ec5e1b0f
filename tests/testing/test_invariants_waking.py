"""The rules about waking each see what breaks them."""

from __future__ import annotations

from tests.testing.planting import Planted, append, change_run, each, never_seen, seen_by

from holdfast.testing import invariants_waking

PLANTED: Planted = [
    (append("asleep", "SignalReceived", '{"name":"x","input":[]}'), "has not seen SignalReceived (event 4)"),
    (append("asleep", "TimerFired", '{"command_id":1,"fire_at":1}'), "has not seen TimerFired (event 4)"),
    (change_run("queued", "wake_at = NULL"), "is asleep, and its code has not seen WorkflowStarted"),
    (change_run("cart elsewhere", "wake_at = NULL"), "is asleep, and update not seen waits to be considered"),
]


@each(PLANTED)
def test_what_is_planted_is_seen_by_its_rule(saved: bytes, statement: str, said: str) -> None:
    seen = seen_by(saved, statement, said, invariants_waking)
    assert len(seen) == 1, seen


def test_each_rule_has_been_seen_to_see(saved: bytes) -> None:
    assert never_seen(saved, PLANTED, invariants_waking) == set()
