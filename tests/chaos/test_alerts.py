"""Alerts while real processes that fire them are killed and stopped: each is fired exactly once, and none early."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from multiprocessing.context import ForkServerProcess

import pytest
from tests.chaos.control import process, watch
from tests.simulation.alerts import read_alerts

from outlast import AlertPolicy, Client, StartOptions, workflow
from outlast.testing import check_database
from outlast_store.database.sql_text import fetch

PATIENCE_S = 120
WATCHDOGS = 4
SECOND = 1_000_000
MARKS = 4
"""How many each workflow has."""


@workflow.defn
async def waiting() -> None:
    """Nobody runs it."""


def policies(count: int, spread_s: float) -> list[StartOptions]:
    """Options of so many workflows, whose marks come one after the other and several at a time."""
    found: list[StartOptions] = []
    for number in range(count):
        wait = 1 + round(spread_s * number / count, 2)
        # A share of 1,000 s, so that no deadline passes before somebody has seen its marks.
        policy = AlertPolicy(
            at=[0.002, 0.003], after=[wait, wait + 0.5], signal="near" if number % 2 else None
        )
        found.append(StartOptions(execution_timeout=1000, alerts=policy))
    return found


async def strike(watchdogs: list[ForkServerProcess], url: str, rng: random.Random) -> str:
    """Kill one of them, and start another; or stop one for a moment, while it may be about to commit."""
    place = rng.randrange(len(watchdogs))
    victim = watchdogs[place]
    if rng.random() < 0.5:
        victim.kill()
        await asyncio.to_thread(victim.join)
        watchdogs[place] = process(watch, url)
        return "killed"
    os.kill(victim.pid or 0, signal.SIGSTOP)
    await asyncio.sleep(rng.uniform(0.05, 0.3))
    os.kill(victim.pid or 0, signal.SIGCONT)
    return "stopped"


@pytest.mark.parametrize(
    ("count", "spread_s", "kills"),
    [(100, 2, 3), pytest.param(2_500, 240, 500, marks=pytest.mark.nightly)],
    ids=["few", "many"],
)
async def test_each_alert_is_fired_once_and_none_early_whoever_is_killed(
    shared_url: str, count: int, spread_s: float, kills: int
) -> None:
    rng = random.Random(count)
    struck: Counter[str] = Counter()
    async with Client.connect(shared_url) as client:
        watchdogs = [process(watch, shared_url) for _ in range(WATCHDOGS)]
        try:
            starts = [
                client.start(waiting, id=f"w-{number}", task_queue="nobody", options=options)
                for number, options in enumerate(policies(count, spread_s))
            ]
            await asyncio.gather(*starts)
            async with asyncio.timeout(PATIENCE_S + 2 * spread_s):
                while await armed(client) or struck["killed"] < kills or struck["stopped"] < 3:
                    struck[await strike(watchdogs, shared_url, rng)] += 1
                    await asyncio.sleep(rng.uniform(0.02, 0.2))
        finally:
            for one in watchdogs:
                one.kill()
                await asyncio.to_thread(one.join)
        with client.runtime.database.reader() as connection:
            assert check_database(connection) == []
            alerts = read_alerts(connection)
            text = "SELECT run_id FROM history_events WHERE type = 'SignalReceived'"
            signals = Counter(run_id for (run_id,) in fetch(connection, text))
    fired = Counter((alert.workflow_id, alert.kind, alert.mark) for alert in alerts)
    assert len(fired) == len(alerts) == MARKS * count
    assert {workflow_id for workflow_id, _, _ in fired} == {f"w-{number}" for number in range(count)}
    assert min(alert.fired_at - alert.due_at for alert in alerts) >= 0
    # Those who asked for it were told of each once.
    assert set(signals.values()) == {MARKS}
    assert len(signals) == count // 2


async def armed(client: Client) -> int:
    """How many have not been fired yet."""
    with client.runtime.database.reader() as connection:
        found: int = fetch(connection, "SELECT count(*) FROM alert_timers")[0][0]
    return found
