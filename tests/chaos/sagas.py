"""The ledger of sagas: a DAG charges, and refunds if it ends badly, whatever happens to the workers.

Workers are killed and stopped for longer than their lease; orders fail, hang until the reserve before their deadline,
and are cancelled. In the end each charge of an order that went well is kept, and each of one that did not is refunded,
once: never both, and the latest first.

``python -m tests.chaos.sagas --kills 200`` runs it on PostgreSQL and says what came of it; with ``--work URL`` it is
one worker.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table, text
from sqlalchemy.exc import OperationalError
from tests.chaos.transfers import LEASE_S, Workers, engine_of, prepared

from outlast import ApplicationError, Client, RetryPolicy, StartOptions, Worker, activity
from outlast.errors import OutlastError, WorkflowResultError
from outlast.testing.postgres import TemporaryPostgres
from outlast_dag import dag, each, step

metadata = MetaData()
entries = Table(
    "saga_entries",
    metadata,
    # No key forbids a second refund of a charge: the engine has to.
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String(36)),
    Column("kind", String(10)),
    Column("label", String(20)),
    Column("charge", String(60)),
    Column("cents", BigInteger),
)

OFTEN = RetryPolicy(initial_interval=0.05, max_interval=0.5, max_attempts=20)
HANGS_S = 8


def _enter(kind: str, label: str, charge: str, cents: int) -> None:
    run_id = activity.info().run_id
    row = {"run_id": run_id, "kind": kind, "label": label, "charge": charge, "cents": cents}
    activity.connection().execute(entries.insert().values(row))


@activity.defn(start_to_close_timeout=10, transactional=True, retry_policy=OFTEN)
def charge(label: str, cents: int) -> dict[str, str | int]:
    if cents == 13:
        raise ApplicationError("declined", type="Declined", non_retryable=True)
    info = activity.info()
    id = f"{info.run_id}/{info.activity_id}"
    _enter("charge", label, id, cents)
    return {"id": id, "label": label, "cents": cents}


@activity.defn(start_to_close_timeout=10, transactional=True, retry_policy=OFTEN)
def charge_item(cents: int) -> dict[str, str | int]:
    paid: dict[str, str | int] = charge.fn("items", cents)
    return paid


@activity.defn(start_to_close_timeout=10, transactional=True, retry_policy=OFTEN)
def refund(paid: dict[str, str | int]) -> None:
    _enter("refund", str(paid["label"]), str(paid["id"]), int(paid["cents"]))


@activity.defn(start_to_close_timeout=300, heartbeat_timeout=20)
async def deliver(seed: int) -> str:
    if seed % 11 == 5:
        # It hangs, until the reserve before the deadline begins.
        while True:
            activity.heartbeat()
            await asyncio.sleep(0.2)
    if seed % 3 == 0:
        raise ApplicationError("no stock", type="NoStock", non_retryable=True)
    return "delivered"


@activity.defn(start_to_close_timeout=10, retry_policy=OFTEN)
async def deliver_late(seed: int) -> str:
    if seed % 6 == 0:
        raise ApplicationError("no stock at all", type="NoStock", non_retryable=True)
    return "delivered late"


@dag(timeout=3600, reserve=660)
def purchase(seed: int, first_cents: int, second_cents: int, items: list[int]) -> str:
    first = step(charge, id="first", compensate=lambda paid: step(refund, id="refund_first")(paid))(
        "first", first_cents
    )
    second = step(
        charge, id="second", after=[first], compensate=lambda paid: step(refund, id="refund_second")(paid)
    )("second", second_cents)
    more = each(
        charge_item,
        id="items",
        max_items=5,
        concurrency=2,
        after=[first],
        compensate=lambda paid: each(refund, id="refund_items", max_items=5)(paid),
    )(items)
    return step(deliver, after=[second, more], on_failure=lambda failure: step(deliver_late)(seed))(seed)


def options_of(seed: int) -> StartOptions:
    """The options of an order: one that would hang has little time before the reserve begins."""
    return StartOptions(run_timeout=660 + HANGS_S) if seed % 11 == 5 else StartOptions()


def amounts_of(seed: int) -> tuple[int, int, list[int]]:
    """What an order charges; 13 is declined."""
    return 10 + seed % 3, 13 if seed % 7 == 3 else 20, [1, 2, 13 if seed % 13 == 4 else 3]


def audit(url: str) -> tuple[list[str], Counter[str]]:
    """Return what is wrong with the ledger, and how many orders ended how."""
    engine = engine_of(url)
    with engine.connect() as connection:
        runs = connection.execute(text("SELECT run_id, status, search_attributes FROM workflow_runs")).all()
        rows = connection.execute(entries.select().order_by(entries.c.number)).mappings().all()
        completions = connection.execute(
            text(
                "SELECT count(*) FROM activity_executions WHERE status = 'completed' "
                "AND activity_type IN ('charge', 'charge_item', 'refund')"
            )
        ).scalar_one()
    engine.dispose()
    wrong: list[str] = []
    if completions != len(rows):
        wrong.append(f"{len(rows)} entries, and {completions} activities that completed")
    charged: dict[str, dict[str, str]] = defaultdict(dict)
    refunded: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["kind"] == "charge":
            charged[row["run_id"]][row["charge"]] = row["label"]
        else:
            refunded[row["run_id"]].append(row["charge"])
    ends: Counter[str] = Counter()
    for run_id, status, attributes in runs:
        charges, refunds = charged[run_id], refunded[run_id]
        failed_to_undo = "compensation_failed" in (attributes or "")
        ends[status + (", not all undone" if failed_to_undo else "")] += 1
        if len(set(refunds)) != len(refunds) or not set(refunds) <= charges.keys():
            wrong.append(f"{run_id} ({status}) refunds what was refunded, or not charged")
        if status == "completed" and refunds:
            wrong.append(f"{run_id} went well, and refunds {len(refunds)}")
        if status != "completed" and not failed_to_undo and set(refunds) != charges.keys():
            wrong.append(
                f"{run_id} ({status}) keeps {len(charges.keys() - set(refunds))} of {len(charges)} charges"
            )
        if status not in ("completed", "failed", "cancelled"):
            wrong.append(f"{run_id} is {status}")
        labels = [charges.get(one) for one in refunds]
        if "first" in labels and labels[-1] != "first":
            wrong.append(f"{run_id} refunds the first charge before others")
    return wrong, ends


async def campaign(
    url: str, *, kills: int, seed: int, workers: int = 2, most_open: int = 12, pause_s: float = 0.7
) -> tuple[list[str], Counter[str], Workers]:
    """Order while workers are killed; return what is wrong in the end, how the orders ended, and the workers.

    Args:
        url: The database.
        kills: How many workers are killed.
        seed: Chooses the faults and what is cancelled.
        workers: How many worker processes.
        most_open: How many orders are open at once.
        pause_s: How long things go well in between, at most.
    """
    rng = random.Random(seed)
    engine = engine_of(url)
    metadata.create_all(engine)
    engine.dispose()
    crew = Workers(url, workers, "tests.chaos.sagas")
    ordered = 0
    try:
        async with await Client.connect(url) as client:
            waiting: dict[asyncio.Task[object], str] = {}

            async def order(number: int) -> object:
                handle = await client.start(
                    purchase, number, *amounts_of(number), id=f"o-{number}", options=options_of(number)
                )
                with suppress(WorkflowResultError):
                    return await handle.result()
                return None

            while crew.kills < kills or waiting:
                while crew.kills < kills and len(waiting) < most_open:
                    waiting[asyncio.create_task(order(ordered))] = f"o-{ordered}"
                    ordered += 1
                done, _ = await asyncio.wait(
                    waiting, timeout=rng.uniform(0.05, pause_s), return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    task.result()
                    del waiting[task]
                crew.revive()
                if crew.kills >= kills:
                    continue
                if waiting and rng.random() < 0.2:
                    with suppress(OutlastError):
                        await client.handle(rng.choice(list(waiting.values()))).cancel("changed my mind")
                if rng.random() < 0.9:
                    crew.kill(rng)
                else:
                    await crew.freeze(rng)
    finally:
        crew.close()
    for _ in range(50):
        with suppress(OperationalError):
            return *audit(url), crew
        await asyncio.sleep(0.2)
    return *audit(url), crew


async def work(url: str) -> None:
    """Be one worker."""
    async with await Client.connect(url) as client:
        worker = Worker(
            client,
            workflows=[purchase],
            activities=[charge, charge_item, refund, deliver, deliver_late],
            lease_duration=LEASE_S,
            watchdog_interval=0.2,
        )
        await worker.run()


def main(arguments: Sequence[str]) -> int:
    """Run a campaign on a PostgreSQL server of its own, and say what came of it."""
    parser = argparse.ArgumentParser(prog="tests.chaos.sagas", description=__doc__)
    parser.add_argument("--work", metavar="URL", help="be a worker on this database")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--url", help="the database; by default a PostgreSQL server of its own")
    chosen = parser.parse_args(arguments)
    if chosen.work:
        asyncio.run(work(chosen.work))
        return 0

    def run(url: str) -> int:
        prepared(url)
        began_at = time.monotonic()
        wrong, ends, crew = asyncio.run(
            campaign(url, kills=chosen.kills, seed=chosen.seed, workers=chosen.workers)
        )
        print(
            f"{sum(ends.values())} orders in {time.monotonic() - began_at:.0f} s ({dict(ends)}): {crew.kills} kills, "
            f"{crew.stops} freezes; wrong: {'; '.join(wrong) or 'nothing'}"
        )
        return int(bool(wrong))

    if chosen.url:
        return run(chosen.url)
    with TemporaryPostgres() as server:
        return run(server.create_database("sagas"))


if __name__ == "__main__":
    from tests.chaos import sagas

    sys.exit(sagas.main(sys.argv[1:]))
