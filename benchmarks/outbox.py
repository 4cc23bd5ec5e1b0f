"""How long after the commit of a user's transaction its workflow starts: ``python -m benchmarks.outbox``.

From the return of the user's COMMIT to the engine's clock in ``WorkflowStarted``. One at a time, with a pause between
them. *Session* and *connection* use the client of the process, which looks by itself; *ringing SQL* is
``outlast_start(…, ring => true)`` and *SQL* a plain row, on a connection that the engine knows nothing of. A worker in
the same process drains those.
"""

from __future__ import annotations

import argparse
import asyncio
import random

from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from benchmarks.handover import echo
from benchmarks.harness.databases import BACKENDS, Databases
from benchmarks.harness.measuring import percentile
from benchmarks.harness.tuning import tune
from outlast import Client, Worker
from outlast_workflow.primitives.times import from_iso

WAYS = ("Session", "connection", "ringing SQL", "SQL")
INSERT = "INSERT INTO outlast_outbox (kind, workflow_id, name, args) VALUES ('start', :id, 'echo', '[1]')"
RINGING = "SELECT outlast_start('echo', '[1]', id => :id, ring => true)"


async def measure(url: str, way: str, count: int) -> list[float]:
    """Start workflows one by one; return how late each began, in milliseconds.

    Args:
        url: The database.
        way: One of :data:`WAYS`.
        count: How many.
    """
    own = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    late: list[float] = []
    async with Client.connect(url) as client, Worker(client, workflows=[echo]):
        clock = client.runtime.environment.clock
        await client.execute(echo, 0)
        for number in range(count):
            workflow_id = f"{way}-{number}"
            await asyncio.sleep(random.uniform(0.02, 0.05))
            if way == "Session":
                with Session(own) as session, session.begin():
                    await client.start(echo, 1, id=workflow_id, connection=session)
            elif way == "connection":
                with own.begin() as connection:
                    await client.start(echo, 1, id=workflow_id, connection=connection)
            else:
                with own.begin() as connection:
                    statement = RINGING if way == "ringing SQL" else INSERT
                    connection.execute(text(statement), {"id": workflow_id})
            committed_at = clock.now()
            # Whoever asks for it would start it, so this waits without asking.
            while await client.count(workflow_id=workflow_id) == 0:
                await asyncio.sleep(0.01)
            handle = client.handle(workflow_id)
            await handle.result()
            (started, *_) = await handle.history_page()
            late.append((from_iso(started.recorded_at.isoformat()) - committed_at) / 1000)
    own.dispose()
    return late


def main() -> None:
    """Measure each way on each backend."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--backend", choices=BACKENDS, action="append")
    options = parser.parse_args()
    tune()
    table = Table("database", "way", "p50", "p99", "greatest", title="milliseconds", box=None)
    with Databases() as databases:
        for backend in options.backend or BACKENDS:
            for way in WAYS:
                if way == "ringing SQL" and backend == "sqlite":
                    continue
                count = min(options.count, 30) if way == "SQL" else options.count
                with databases.fresh(backend) as url:
                    late = asyncio.run(measure(url, way, count))
                figures = (percentile(late, 0.5), percentile(late, 0.99), max(late))
                table.add_row(backend, way, *(f"{one:.1f}" for one in figures))
    Console().print(table)


if __name__ == "__main__":
    main()
