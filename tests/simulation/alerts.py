"""Alerts of a simulation: workflows, children, activities and schedules with policies, and what must hold of them.

One seed in nine has them, drawn from a source of its own, so that the other seeds are as they were. Many marks fall
upon the very instants at which attempts end and deadlines pass.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson
from sqlalchemy import Connection
from tests.simulation.operators import RULED
from tests.simulation.programs import ALERTED, draw_call
from tests.simulation.story import Story

from outlast.alerts import Alert
from outlast_activities.deadlines import options_of
from outlast_store.database.sql_text import columns_of, fetch
from outlast_store.journal.batch import Batch
from outlast_store.schema import tables
from outlast_store.schema.rows import AlertRow
from outlast_workflow.primitives.times import from_iso

Action = dict[str, Any]
Policy = dict[str, Any]

SHARES = (0.25, 0.5, 0.75, 1)
LEADS = (0.5, 1)
WAITS = (0.05, 0.5, 1.5, 3)
ENFORCED = "100%"
CHANNELS = ("oncall", "pager")
_RUN_KINDS = ("execution", "run", "schedule_to_start")
_TIMEOUTS = {"execution": "execution_timeout", "run": "run_timeout"}
_SECOND = 1_000_000


async def take(alerts: list[Alert]) -> None:
    """Be a channel that takes everything."""


def has_alerts(seed: int) -> bool:
    """Whether a seed has alerts."""
    return seed % 9 == 7


def add_alerts(seed: int, plan: list[Action]) -> None:
    """Give the workflows that a plan starts alerts, and their children and activities.

    Args:
        seed: The seed.
        plan: What a client is going to do.
    """
    if not has_alerts(seed):
        return
    rng = random.Random(f"alerts of {seed}: {len(plan)}")
    for action in plan:
        if "options" not in action:
            continue
        options = dict(action["options"])
        for name in ("execution_timeout", "run_timeout"):
            if name not in options and rng.random() < 0.3 and action["do"] == "start":
                options[name] = rng.choice((4, 12, 30))
        kinds = [kind for kind in _RUN_KINDS if f"{kind}_timeout" in options]
        if rng.random() < 0.8:
            options["alerts"] = _draw(rng, kinds)
        action["options"] = options
        for _ in range(rng.randint(0, 3) if action["do"] == "start" else 0):
            action["steps"].insert(rng.randint(0, len(action["steps"])), _calling(rng))
        _within(rng, action["steps"])


def _calling(rng: random.Random) -> Action:
    """A step that calls an activity whose attempts take as long as some mark is away, or longer than they may."""
    script = [
        {"end": rng.choice(("ok", "fail", "fail")), "for": rng.choice((0.5, 1, 1.5, 3))}
        for _ in range(rng.randint(1, 3))
    ]
    options = {
        "start_to_close_timeout": rng.choice((1, 2, 2, 4)),
        "schedule_to_start_timeout": rng.choice((0.5, 1, 4)),
        "schedule_to_close_timeout": 12,
        "retry": {"initial_interval": rng.choice((0.01, 0.25, 0.5)), "max_attempts": 4, "max_interval": 2},
    }
    return {**draw_call(rng), "activity": "work", "script": script, "options": options, "local": False}


def _within(rng: random.Random, steps: list[Action]) -> None:
    for step in steps:
        if step["do"] == "call" and rng.random() < 0.8:
            given = step["options"]
            of = ("schedule_to_start", "start_to_close", "schedule_to_close")
            policy = _draw(rng, [kind for kind in of if f"{kind}_timeout" in given])
            step["options"] = {**given, "alerts": policy}
        if step["do"] == "child" and rng.random() < 0.8:
            step["alerts"] = _draw(rng, ["execution"] if "execution_timeout" in step else [])
        cleanup = [step["cleanup"]] if "cleanup" in step else []
        for inner in (step.get("steps", []), cleanup, *step.get("branches", ())):
            _within(rng, inner)


def _draw(rng: random.Random, kinds: list[str]) -> Policy:
    policy: Policy = {}
    if kinds:
        policy["at"] = rng.sample(SHARES, rng.randint(1, 4))
        policy["before"] = rng.sample(LEADS, rng.randint(0, 2))
    if not kinds or rng.random() < 0.5:
        policy["after"] = rng.sample(WAITS, rng.randint(1, 2))
    if kinds and rng.random() < 0.2:
        policy["kinds"] = [rng.choice(kinds)]
    if rng.random() < 0.5:
        policy["signal"] = ALERTED
    # Without a draw, so that the rest of the plan stays as it was.
    if len(policy.get("at", ())) != 1:
        policy["channels"] = [*CHANNELS][: len(policy.get("before", ())) + 1]
    return policy


# --- at each write ----------------------------------------------------------------------------------------------------


def look_at_alert(batch: Batch, alert: AlertRow) -> Iterator[str]:
    """Judge an alert that is about to be fired, by what it is about and whatever was armed.

    Args:
        batch: The batch that fires it.
        alert: The alert.
    """
    what = f"alert {alert.kind} {alert.mark} of run {alert.run_id}, activity {alert.activity_id}"
    run = batch.run(alert.run_id)
    if run is None:
        yield f"{what} is fired, and the run is gone"
        return
    if alert.mark == ENFORCED:
        return
    if not run.is_open:
        yield f"{what} is fired, and the run is closed"
    if alert.activity_id == 0:
        deadline = {
            "execution": run.execution_deadline_at,
            "run": run.run_deadline_at,
            "schedule_to_start": run.start_deadline_at,
        }.get(alert.kind)
        if alert.kind != "after" and (deadline is None or not batch.now < deadline == alert.deadline_at):
            yield f"{what} is fired ahead of {alert.deadline_at}, and the deadline is {deadline}"
        return
    row = batch.activity(alert.run_id, alert.activity_id)
    if row is None or row.status not in ("pending", "running"):
        yield f"{what} is fired, and the activity is closed"
        return
    options = options_of(row)
    wanted, attempt, since, timeout = {
        "after": (row.status, 0, row.scheduled_at, None),
        "schedule_to_close": (row.status, 0, row.scheduled_at, options.schedule_to_close_us),
        "schedule_to_start": ("pending", row.attempt + 1, row.available_at, options.schedule_to_start_us),
        "start_to_close": ("running", row.attempt, row.started_at, options.start_to_close_us),
    }[alert.kind]
    if row.status != wanted or alert.attempt != attempt or since is None:
        yield f"{what} is fired for attempt {alert.attempt}, and attempt {row.attempt} is {row.status}"
        return
    used = batch.now - since
    if alert.kind == "after":
        over = used >= float(alert.mark[1:-1]) * _SECOND
    elif alert.mark.endswith("%"):
        over = used * 100 >= float(alert.mark[:-1]) * (timeout or 0)
    else:
        over = used >= (timeout or 0) + float(alert.mark[:-1]) * _SECOND
    if not over or (timeout is not None and used >= timeout):
        yield f"{what} is fired {used} µs after its begin, of {timeout}"


# --- at any moment ----------------------------------------------------------------------------------------------------


def check_waits(connection: Connection) -> Iterator[str]:
    """What a workflow or an activity is to tell after a while is armed until it is told, in whatever run it is."""
    fired = {
        tuple(row)
        for row in fetch(connection, "SELECT scope, activity_id, mark FROM alerts WHERE kind = 'after'")
    }
    armed = {
        tuple(row)
        for row in fetch(
            connection, "SELECT run_id, activity_id, mark FROM alert_timers WHERE kind = 'after'"
        )
    }
    text = "SELECT first_run_id, run_number, run_id, created_at, closed_at, alerts FROM workflow_runs"
    chains: dict[str, list[Any]] = {}
    for first_run_id, *run in sorted(tuple(row) for row in fetch(connection, text)):
        chains.setdefault(first_run_id, []).append(run)
    for first_run_id, runs in chains.items():
        _, run_id, _, closed_at, policy = runs[-1]
        # While a chain has no open run, nothing is armed, and what passes then is not told.
        ends = [run[3] for run in runs[:-1]]
        unbroken = runs[0][0] == 1 and ends == [run[2] for run in runs[1:]]
        if closed_at is not None or policy is None or not unbroken:
            continue
        for wait in orjson.loads(policy).get("after", ()):
            mark = f"+{wait:.15g}s"
            told = (first_run_id, 0, mark) in fired or (run_id, 0, mark) in armed
            if not told and not _was_revived(connection, [run[1] for run in runs]):
                yield f"run {run_id} has neither armed nor fired its alert after {mark}"
    text = (
        "SELECT run_id, activity_id, options FROM activity_executions WHERE status IN ('pending', 'running')"
    )
    for run_id, activity_id, options in fetch(connection, text):
        for wait in (orjson.loads(options).get("alerts") or {}).get("after", ()):
            key = run_id, activity_id, f"+{wait:.15g}s"
            if key not in fired and key not in armed and _is_open(chains, run_id):
                yield f"activity {activity_id} of run {run_id} has neither armed nor fired its alert {key[2]}"


def _was_revived(connection: Connection, runs: list[str]) -> bool:
    """Whether a run of a chain was begun after the one before it had ended, if only in the same microsecond."""
    text = "SELECT type FROM history_events WHERE run_id = ? ORDER BY seq DESC LIMIT 1"
    ends = [next(iter(fetch(connection, text, (run_id,))))[0] for run_id in runs[:-1]]
    text = "SELECT payload FROM history_events WHERE run_id = ? AND seq = 1"
    begins = [orjson.loads(next(iter(fetch(connection, text, (run_id,))))[0]) for run_id in runs[1:]]
    return any(begin.get("reset") and end != "WorkflowReset" for end, begin in zip(ends, begins, strict=True))


def _is_open(chains: dict[str, list[Any]], run_id: str) -> bool:
    return any(
        run[1] == run_id and run[3] is None and run[0] == 1 for runs in chains.values() for run in runs
    )


# --- when all is over -------------------------------------------------------------------------------------------------


def check_alerts(connection: Connection, story: Story) -> Iterator[str]:
    """Each alert was told once to the workflow that wanted it, and nothing else was; what was enforced was told."""
    alerts = read_alerts(connection)
    by_id = {alert.alert_id: alert for alert in alerts}
    policies = dict(_policies(connection))
    told: Counter[tuple[str, str]] = Counter()
    for run_id, events in story.events.items():
        for name, _, payload in events:
            if name == "SignalReceived" and payload["name"] == ALERTED:
                told[run_id, payload["input"][0]["alert_id"]] += 1
    for (run_id, alert_id), times in sorted(told.items()):
        if times > 1:
            yield f"run {run_id} was told of alert {alert_id} {times} times"
        chain = story.chain_of(run_id)
        if alert_id not in by_id and chain not in story.deleted and not _copied(story, chain):
            yield f"run {run_id} was told of alert {alert_id}, which is not there"
    for alert in alerts:
        policy = policies.get((alert.run_id, alert.activity_id)) if alert.mark not in RULED else None
        # The end of a run is not told to the run.
        wanted = policy is not None and "signal" in policy
        if alert.mark == ENFORCED and alert.activity_id == 0:
            wanted = False
        if wanted != ((alert.run_id, alert.alert_id) in told):
            yield f"run {alert.run_id} was to be told of alert {alert.alert_id}: {wanted}, and was not so"
    yield from _check_enforced(connection, story, alerts, policies)
    yield from _check_deliveries(connection, alerts, policies)


def _check_deliveries(
    connection: Connection, alerts: list[AlertRow], policies: dict[tuple[str, int], Policy]
) -> Iterator[str]:
    """Each alert has gone to each channel of its policy by one delivery."""
    text = (
        "SELECT r.workflow_id, r.status, h.payload FROM workflow_runs r JOIN history_events h USING (run_id) "
        "WHERE r.workflow_type = 'outlast.deliver' AND h.seq = 1 AND r.previous_run_id IS NULL"
    )
    sent: Counter[tuple[str, str]] = Counter()
    for workflow_id, status, payload in fetch(connection, text):
        channel, alert_ids = orjson.loads(payload)["input"]
        sent.update((alert_id, channel) for alert_id in alert_ids)
        if status != "completed":
            yield f"{workflow_id} is {status}"
    for alert in alerts:
        if alert.mark in RULED:
            # Operators have a verdict of their own.
            continue
        wanted = (policies.get((alert.run_id, alert.activity_id)) or {}).get("channels", ())
        named = orjson.loads(alert.deliveries or "{}")
        if named.keys() != set(wanted):
            yield f"alert {alert.alert_id} was to go to {wanted}, and goes to {named}"
        for channel in wanted:
            if named.get(channel) is None:
                # Retention has deleted the delivery.
                continue
            if sent[alert.alert_id, channel] != 1:
                times = sent[alert.alert_id, channel]
                yield f"alert {alert.alert_id} went to {channel} {times} times"


def _copied(story: Story, chain: str | None) -> bool:
    """Whether histories of another workflow came along."""
    return chain is None or story.is_fork(chain)


def _check_enforced(
    connection: Connection,
    story: Story,
    alerts: list[AlertRow],
    policies: dict[tuple[str, int], Policy],
) -> Iterator[str]:
    """What was enforced, and only that, is an alert where a policy asks for it."""
    ended: set[tuple[Any, ...]] = set()
    text = (
        "SELECT run_id, activity_id, timeout_kind, attempt FROM activity_attempts WHERE outcome = 'timed_out' "
        "AND timeout_kind != 'heartbeat'"
    )
    for run_id, activity_id, kind, attempt in fetch(connection, text):
        if run_id in story.events and len(story.own(run_id)) == len(story.events[run_id]):
            ended.add((run_id, activity_id, kind, 0 if kind == "schedule_to_close" else attempt))
    names = {timeout: kind for kind, timeout in _TIMEOUTS.items()}
    for run_id, events in story.events.items():
        name, _, payload = events[-1]
        if name == "WorkflowTimedOut":
            kind = names.get(payload["timeout_kind"], payload["timeout_kind"])
            ended.add((run_id, 0, kind, 0))
        # An activity that is over between two attempts has no row of an attempt that says so. One whose next attempt
        # would have come too late ends before its deadline, and nothing is enforced.
        ended.update(
            (run_id, payload["command_id"], payload["timeout_kind"], 0)
            for name, at, payload in story.own(run_id)
            if name == "ActivityTimedOut"
            and payload["timeout_kind"] == "schedule_to_close"
            and at >= from_iso(payload["deadline_at"])
        )
    wanted = {
        key
        for key in ended
        if (policy := policies.get(key[:2])) is not None
        and 1 in policy.get("at", ())
        and key[2] in policy.get("kinds", [key[2]])
    }
    told = {
        (alert.run_id, alert.activity_id, alert.kind, alert.attempt)
        for alert in alerts
        if alert.mark == ENFORCED
    }
    for key in sorted(wanted - told):
        yield f"the deadline {key} was enforced, and no alert says so"
    for key in sorted(told - ended):
        if key[:2] in policies and len(story.own(key[0])) == len(story.events[key[0]]):
            yield f"an alert says that the deadline {key} was enforced, and it was not"


def read_alerts(connection: Connection) -> list[AlertRow]:
    """All alerts, in the order in which they were fired."""
    text = f"SELECT {', '.join(columns_of(tables.alerts))} FROM alerts ORDER BY alert_id"
    return [AlertRow(*row) for row in fetch(connection, text)]


def _policies(connection: Connection) -> Iterator[tuple[tuple[str, int], Policy]]:
    for run_id, text in fetch(
        connection, "SELECT run_id, alerts FROM workflow_runs WHERE alerts IS NOT NULL"
    ):
        yield (run_id, 0), orjson.loads(text)
    for run_id, activity_id, text in fetch(
        connection, "SELECT run_id, activity_id, options FROM activity_executions"
    ):
        if policy := orjson.loads(text).get("alerts"):
            yield (run_id, activity_id), policy
