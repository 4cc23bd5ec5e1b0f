"""A campaign: load and faults together, then calm until all has ended, then the verdict."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos import queues
from tests.chaos.faults import faults
from tests.chaos.judge import Verdict, judge
from tests.chaos.ledger import Ledger
from tests.chaos.load import Load
from tests.chaos.processes import Crew
from tests.chaos.programs import trace
from tests.chaos.record import read
from tests.chaos.stage import PostgresStage, SqliteStage, folder
from tests.engine.process import until_so

from outlast import Client
from outlast_store.database.database import Database
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment

CALM_S = 120.0
WEIGHTS = {
    "kill_worker": 40,
    "kill_watchdog": 6,
    "pause_worker": 6,
    "jump_clock": 4,
    "disk_full": 3,
    "kill_server": 4,
    "kill_backend": 3,
    "terminate_backend": 8,
    "cut": 6,
    "lose_answers": 8,
    "black_hole": 3,
    "silence": 3,
    "delay": 3,
}


@dataclass(slots=True)
class Plan:
    """What a campaign is to be."""

    database: str = "sqlite"
    seed: int = 0
    seconds: float = 10.0
    """How long there are faults."""
    pause_s: float = 0.2
    """Between one fault and the next."""
    workers: int = 3
    watchdogs: int = 1
    in_flight: int = 12
    lease_s: float = 1.0
    queued: bool = False
    """Whether all goes through queues, with a witness in the database: PostgreSQL only."""
    bug: str = ""
    """What is wrong with the workers' engine (:mod:`tests.chaos.bugs`)."""
    only: tuple[str, ...] = ()
    """These faults alone; all that the database allows if empty."""
    without: tuple[str, ...] = ()
    """But not these."""
    at_least: dict[str, int] = field(default_factory=dict)
    """So many of each there must be: where the time was too short, they are done after it."""


@dataclass(slots=True)
class Report:
    """What came of it."""

    plan: Plan
    faults: Counter[str]
    left_out: dict[str, str]
    """Faults that can't be done here, and why."""
    verdict: Verdict
    seconds: float
    retries: int
    ended_by_themselves: int
    """Processes that nobody had killed."""
    stopped_badly: int
    log: str

    def to_document(self) -> dict[str, Any]:
        verdict = self.verdict
        return {
            "database": self.plan.database,
            "seed": self.plan.seed,
            "seconds": round(self.seconds, 1),
            "faults": dict(sorted(self.faults.items())),
            "left_out": self.left_out,
            "ended_by_themselves": self.ended_by_themselves,
            "stopped_badly": self.stopped_badly,
            "acknowledged": dict(sorted(verdict.acknowledged.items())),
            "runs": verdict.runs,
            "replayed": verdict.replayed,
            "admitted": verdict.admitted,
            "timed_out": verdict.timed_out,
            "effects": verdict.effects,
            "repeated_effects": verdict.repeated,
            "client_retries": self.retries,
            "tracebacks": self.log.count("Traceback"),
            "wrong": verdict.wrong[:20],
        }


async def campaign(plan: Plan, *, keep: Path | None = None) -> Report:
    """Carry it out."""
    rng = random.Random(plan.seed)
    with folder() as made:
        place = keep or Path(made)
        place.mkdir(parents=True, exist_ok=True)
        stage = PostgresStage() if plan.database == "postgresql" else SqliteStage(place)
        async with stage:
            return await _under_fire(plan, stage, place, rng)


async def _under_fire(
    plan: Plan, stage: SqliteStage | PostgresStage, place: Path, rng: random.Random
) -> Report:
    began = time.monotonic()
    effects = place / "effects"
    ledger = Ledger(place / "ledger")
    crew = Crew(
        stage.url, place, workers=plan.workers, watchdogs=plan.watchdogs, lease_s=plan.lease_s, bug=plan.bug
    )
    try:
        async with Client.connect(stage.url) as client:
            if plan.queued:
                assert isinstance(stage, PostgresStage)
                queues.install_witness(stage.direct_url)
                await queues.define(client)
            await crew.start()
            rng_of_load = random.Random(plan.seed)
            load = Load(client, ledger, rng_of_load, plan.in_flight, place / "questions", queued=plan.queued)
            working = asyncio.create_task(load.run())
            await _until_at_work(effects)
            done = await _fight(plan, stage, crew, rng)
            await stage.calm()
            load.stop()
            async with asyncio.timeout(CALM_S):
                while not working.done():
                    await crew.replace_dead()
                    await asyncio.wait([working], timeout=0.5)
                await working
        stopped_badly = len(await crew.stop())
    finally:
        crew.kill_all()
        ledger.close()
    database = Database(DatabaseUrl.parse(stage.url), Environment())
    try:
        with database.reader() as connection:
            verdict = judge(connection, ledger, effects)
            if plan.queued:
                record = read(connection)
                verdict.admitted = sum(1 for _ in record.events("WorkflowDequeued"))
                verdict.wrong += queues.check_queues(connection, record)
    finally:
        database.dispose()
    log = (place / "log").read_text(errors="replace")
    seconds = time.monotonic() - began
    return Report(
        plan,
        done,
        stage.left_out,
        verdict,
        seconds,
        load.retries,
        crew.ended_by_themselves,
        stopped_badly,
        log,
    )


async def _until_at_work(effects: Path) -> None:
    """Wait until a worker does something: to kill one that has not begun proves little."""

    async def at_work() -> bool:
        return bool(trace(effects))

    await until_so(at_work, within_s=CALM_S)


async def _fight(
    plan: Plan, stage: SqliteStage | PostgresStage, crew: Crew, rng: random.Random
) -> Counter[str]:
    """One fault after the other; when the time is over, those alone of which there are to be more."""
    possible = faults(stage, crew, rng, plan.lease_s)
    if missing := {*plan.only, *plan.at_least} - possible.keys():
        raise ValueError(f"this can't be done here: {', '.join(sorted(missing))} {stage.left_out or ''}")
    done: Counter[str] = Counter()
    end = time.monotonic() + plan.seconds
    names = [name for name in plan.only or possible if name not in plan.without]
    while names:
        await asyncio.sleep(rng.uniform(0.5, 1.5) * plan.pause_s)
        name = rng.choices(names, [WEIGHTS[name] for name in names])[0]
        await possible[name]()
        done[name] += 1
        await crew.replace_dead()
        if time.monotonic() >= end:
            names = [name for name, least in plan.at_least.items() if done[name] < least]
    return done
