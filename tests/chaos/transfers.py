"""The ledger: money moves between accounts in the engine's own database, whatever happens to the workers.

Workers are killed, stopped for longer than their lease, and on PostgreSQL the server is killed and started again. In
the end nothing may be lost: the balances add up to what was there, and each entry of the ledger has exactly one
completion in history, and the other way round.

``python -m tests.chaos.transfers --workflows 30 --transfers 100 --faults 60`` runs it on PostgreSQL and says what came
of it; with ``--work URL`` it is one worker.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import BigInteger, Column, Engine, MetaData, String, Table, create_engine, text
from sqlalchemy.exc import OperationalError

from outlast import Client, RetryPolicy, Worker, activity, workflow
from outlast.errors import ActivityError
from outlast.runtime.schema_check import ensure_schema
from outlast.testing.postgres import TemporaryPostgres
from outlast_store.database.database import Database
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment

ACCOUNTS = 20
# Deadlocks are wanted, and the server looks for them after a second by default.
SETTINGS: dict[str, object] = {"deadlock_timeout": "50ms"}
OPENING = 1_000_000
LEASE_S = 2.0

metadata = MetaData()
accounts = Table(
    "ledger_accounts", metadata, Column("account", BigInteger, primary_key=True), Column("cents", BigInteger)
)
entries = Table(
    "ledger_entries",
    metadata,
    # No key forbids a second one: the engine has to.
    Column("run_id", String(36)),
    Column("activity_id", BigInteger),
    Column("cents", BigInteger),
)


@activity.defn(
    start_to_close_timeout=20,
    transactional=True,
    retry_policy=RetryPolicy(initial_interval=0.05, max_interval=0.5),
)
def move(source: int, target: int, cents: int) -> int:
    connection = activity.connection()
    info = activity.info()
    # Two transfers between the same accounts in opposite directions wait for each other, now and then for ever.
    for account, change in ((source, -cents), (target, cents)):
        row = accounts.c.account == account
        connection.execute(accounts.update().where(row).values(cents=accounts.c.cents + change))
    connection.execute(entries.insert().values(run_id=info.run_id, activity_id=info.activity_id, cents=cents))
    return cents


@workflow.defn
async def move_around(seed: int, transfers: int) -> int:
    rng = random.Random(seed)
    moved = 0
    for _ in range(transfers):
        source, target = rng.sample(range(ACCOUNTS), 2)
        cents, paid = rng.randint(1, 100), 0
        while not paid:
            # An activity whose workers have died four times fails; it has left nothing, so another one follows.
            with suppress(ActivityError):
                paid = await move(source, target, cents)
        moved += paid
    return moved


def engine_of(url: str) -> Engine:
    """An engine of the bank's own on the database."""
    parsed = DatabaseUrl.parse(url)
    if parsed.backend == "postgresql":
        return create_engine(parsed.sqlalchemy_url, pool_pre_ping=True)
    return create_engine(f"sqlite:///{parsed.path}", connect_args={"timeout": 30})


def open_accounts(url: str) -> None:
    """Make the bank's tables."""
    engine = engine_of(url)
    metadata.create_all(engine)
    with engine.begin() as connection:
        rows = [{"account": number, "cents": OPENING} for number in range(ACCOUNTS)]
        connection.execute(accounts.insert(), rows)
    engine.dispose()


def audit(url: str, transfers: int) -> list[str]:
    """Return what is wrong with the bank: nothing, if it has lost no cent and each effect has its event."""
    engine = engine_of(url)
    with engine.connect() as connection:

        def one(query: str) -> int:
            return int(connection.execute(text(query)).scalar_one())

        total = one("SELECT sum(cents) FROM ledger_accounts")
        booked = one("SELECT count(*) FROM ledger_entries")
        distinct = one("SELECT count(*) FROM (SELECT DISTINCT run_id, activity_id FROM ledger_entries) AS d")
        completed = one("SELECT count(*) FROM history_events WHERE type = 'ActivityCompleted'")
        paired = one(
            "SELECT count(*) FROM ledger_entries AS e JOIN activity_executions AS a "
            "ON a.run_id = e.run_id AND a.activity_id = e.activity_id WHERE a.status = 'completed'"
        )
    engine.dispose()
    wrong = []
    if total != ACCOUNTS * OPENING:
        wrong.append(f"{total - ACCOUNTS * OPENING} cents too many")
    counts = {"entries": booked, "distinct": distinct, "completions": completed, "pairs": paired}
    wrong += [f"{name}: {count}, not {transfers}" for name, count in counts.items() if count != transfers]
    return wrong


class Workers:
    """Worker processes, which are killed and stopped.

    Args:
        url: The database.
        count: How many there are.
        module: What one of them runs.
    """

    def __init__(self, url: str, count: int, module: str = "tests.chaos.transfers") -> None:
        self.url = url
        self.module = module
        self.processes = [self._start() for _ in range(count)]
        self.kills = self.stops = 0

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", self.module, "--work", self.url], stderr=subprocess.DEVNULL
        )

    def kill(self, rng: random.Random) -> None:
        """Kill one, and start another."""
        place = rng.randrange(len(self.processes))
        process = self.processes[place]
        process.kill()
        process.wait()
        self.processes[place] = self._start()
        self.kills += 1

    def revive(self) -> None:
        """Start again those that have ended: one that begins while the server is away does."""
        self.processes = [process if process.poll() is None else self._start() for process in self.processes]

    async def freeze(self, rng: random.Random) -> None:
        """Stop one for longer than its lease: it comes back as a zombie."""
        process = rng.choice(self.processes)
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(LEASE_S * 1.5)
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        self.stops += 1

    def close(self) -> None:
        """End all."""
        for process in self.processes:
            process.kill()
            process.wait()


async def campaign(
    url: str,
    *,
    workflows: int,
    transfers: int,
    seed: int,
    faults: int,
    workers: int = 2,
    more_faults: Sequence[Callable[[], Any]] = (),
    pause_s: float = 0.7,
) -> tuple[list[str], Workers]:
    """Move money while things go wrong; return what is wrong in the end, and the workers.

    Args:
        url: The database.
        workflows: How many workflows.
        transfers: How many transfers each makes.
        seed: Chooses the faults.
        faults: How many things go wrong, at most.
        workers: How many worker processes.
        more_faults: What else can be done, such as to restart the server.
        pause_s: How long things go well in between, at most.
    """
    rng = random.Random(seed)
    open_accounts(url)
    crew = Workers(url, workers)
    try:
        async with await Client.connect(url) as client:
            handles = [await client.start(move_around, n, transfers, id=f"m-{n}") for n in range(workflows)]
            done = asyncio.gather(*[handle.result() for handle in handles])
            for _ in range(faults):
                await asyncio.wait([done], timeout=rng.uniform(0.2, pause_s))
                if done.done():
                    break
                chosen = rng.random()
                if chosen < 0.6:
                    crew.kill(rng)
                elif chosen < 0.85 or not more_faults:
                    await crew.freeze(rng)
                else:
                    await asyncio.to_thread(rng.choice(more_faults))
            while not done.done():
                crew.revive()
                await asyncio.wait([done], timeout=1)
            await done
    finally:
        crew.close()
    for _ in range(50):
        with suppress(OperationalError):
            return audit(url, workflows * transfers), crew
        await asyncio.sleep(0.2)
    return audit(url, workflows * transfers), crew


async def work(url: str) -> None:
    """Be one worker."""
    async with await Client.connect(url) as client:
        worker = Worker(
            client,
            workflows=[move_around],
            activities=[move],
            lease_duration=LEASE_S,
            watchdog_interval=0.2,
        )
        await worker.run()


def restarted(server: TemporaryPostgres) -> None:
    """Kill the server, and start it again."""
    server.kill()
    server.start()


def prepared(url: str) -> None:
    """Bring a database to head."""
    database = Database(DatabaseUrl.parse(url), Environment())
    ensure_schema(database, migrate=True)
    database.dispose()


def rescued(url: str) -> int:
    """Return how many attempts did not complete their activity."""
    engine = engine_of(url)
    with engine.connect() as connection:
        query = text("SELECT coalesce(sum(attempt - 1), 0) FROM activity_executions")
        found = int(connection.execute(query).scalar_one())
    engine.dispose()
    return found


def main(arguments: Sequence[str]) -> int:
    """Run a campaign on a PostgreSQL server of its own, and say what came of it."""
    parser = argparse.ArgumentParser(prog="tests.chaos.transfers", description=__doc__)
    parser.add_argument("--work", metavar="URL", help="be a worker on this database")
    parser.add_argument("--workflows", type=int, default=30)
    parser.add_argument("--transfers", type=int, default=100, help="of each workflow")
    parser.add_argument("--faults", type=int, default=60, help="at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args(arguments)
    if chosen.work:
        asyncio.run(work(chosen.work))
        return 0
    with TemporaryPostgres(settings=SETTINGS) as server:
        restarts: list[int] = []

        def restart() -> None:
            restarted(server)
            restarts.append(1)

        url = server.create_database("ledger")
        prepared(url)
        began_at = time.monotonic()
        wrong, crew = asyncio.run(
            campaign(
                url,
                workflows=chosen.workflows,
                transfers=chosen.transfers,
                seed=chosen.seed,
                faults=chosen.faults,
                workers=chosen.workers,
                more_faults=[restart],
                pause_s=2.0,
            )
        )
        print(
            f"{chosen.workflows * chosen.transfers} transfers in {time.monotonic() - began_at:.0f} s: "
            f"{crew.kills} kills, {crew.stops} freezes, {len(restarts)} restarts of the server, "
            f"{rescued(url)} attempts repeated; wrong: {'; '.join(wrong) or 'nothing'}"
        )
    return int(bool(wrong))


if __name__ == "__main__":
    from tests.chaos import transfers

    sys.exit(transfers.main(sys.argv[1:]))
