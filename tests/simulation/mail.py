"""Messages of a simulation: programs that receive, in races and under limits, and clients that send to several at once.

One seed in four has them, drawn from a source of its own, so that the other seeds are as they were.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.simulation.clients import DONE, REFUSED, Ledger
from tests.simulation.programs import ALERTED, UNHEARD
from tests.simulation.story import Story

Action = dict[str, Any]


def add_mail(seed: int, plan: list[Action]) -> None:
    """Let the programs of a plan receive messages, and its client send some to several workflows at once."""
    if seed % 4 != 3:
        return
    rng = random.Random(f"mail of {seed}: {len(plan)}")
    ids = [action["id"] for action in plan if action["do"] == "start"]
    for action in plan:
        if action["do"] == "start":
            for _ in range(rng.randint(1, 4)):
                action["steps"].insert(rng.randint(0, len(action["steps"])), _reading(rng))
    for _ in range(rng.randint(2, 8) if ids else 0):
        at = rng.randint(1, len(plan))
        known = [action["id"] for action in plan[:at] if action["do"] == "start"] or ids[:1]
        if rng.random() < 0.4:
            whom = [
                *rng.sample(known, rng.randint(1, len(known))),
                *(["nobody"] if rng.random() < 0.3 else []),
            ]
            rng.shuffle(whom)
            sent: Action = {"do": "signal_many", "id": whom[0], "whom": whom}
        else:
            sent = {"do": "signal", "id": rng.choice(known), "name": UNHEARD, "keyed": rng.random() < 0.7}
        plan.insert(at, {**sent, "after": rng.choice((0, 0, 0, 0.1, 0.5))})


def _reading(rng: random.Random) -> Action:
    read = {"do": "read", "for": rng.choice((0.0, 0.1, 0.5, 2))}
    pause = {"do": "sleep", "for": rng.choice((0.001, 0.1, 0.5))}
    kind = rng.choice(("read", "race", "limit", "pair", "pair"))
    if kind == "pair":
        return {"do": "pair", "for": rng.choice((0.5, 2, 4))}
    if kind == "race":
        return {"do": "race", "branches": [[read, read], [pause]]}
    if kind == "limit":
        return {"do": "limit", "for": pause["for"], "steps": [read, read]}
    return read


def check_mail(story: Story, ledger: Ledger) -> Iterator[str]:
    """A chain that returned has received its messages in order, each once; those sent at once reached all or nobody."""
    for first_run_id in story.chains:
        kind, _, payload = story.end(first_run_id)
        if kind != "WorkflowCompleted":
            continue
        got = [what for name, what in payload["result"]["log"] if name == "read" and what is not None]
        sent: list[str] = []
        if story.is_fork(first_run_id):
            # A fork of a later run begins with what the runs before that had received.
            log = story.events[first_run_id][0][2]["input"][2]
            sent = [what for name, what in log if name == "read" and what is not None]
        for run_id in story.effective(first_run_id):
            for name, _, event in story.events[run_id]:
                if name == "SignalReceived" and event["name"] == UNHEARD and event["input"][0] not in sent:
                    sent.append(event["input"][0])
        expected = [one for one in sent if one in got] if story.retried(first_run_id) else sent[: len(got)]
        if got != expected:
            yield f"chain {first_run_id} was sent the messages {sent} and received {got}"
    there = {
        (workflow_id, event["input"][0])
        for workflow_id, chains in story.chains_of.items()
        for first_run_id in chains
        for run_id in story.chains[first_run_id]
        for name, _, event in story.events[run_id]
        if name == "SignalReceived" and event["name"] != ALERTED and event["input"]
    }
    for request in ledger.of("signal_many"):
        reached = [whom for whom in request.whom if (whom, request.token) in there]
        what = f"message {request.token} to {request.whom} ({request.state}, {request.problem}) reached {reached}"
        if reached and set(reached) != set(request.whom):
            yield f"{what}: not all, and not nobody"
        if request.state == DONE and not reached:
            yield f"{what}, though it was acknowledged"
        if request.state == REFUSED and reached and request.tries == 1:
            yield f"{what}, though it was refused"
