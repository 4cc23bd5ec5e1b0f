"""What breaks the rules about waking, and what the checker must say of it."""

from __future__ import annotations

from tests.testing.planting import Planted, append, change_run

PLANTED: Planted = [
    (append("asleep", "SignalReceived", '{"name":"x","input":[]}'), "has not seen SignalReceived (event 4)"),
    (append("asleep", "TimerFired", '{"command_id":1,"fire_at":1}'), "has not seen TimerFired (event 4)"),
    (change_run("queued", "wake_at = NULL"), "is asleep, and its code has not seen WorkflowStarted"),
    (change_run("cart elsewhere", "wake_at = NULL"), "is asleep, and update not seen waits to be considered"),
]
