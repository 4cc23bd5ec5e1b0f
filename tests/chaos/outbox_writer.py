"""A process that inserts orders and starts their workflows in the same transactions, until it is killed.

It says what it did once that is done: ``committed o-1`` or ``rolled-back o-2``. A worker beside it runs the workflows,
so the process is killed amid transactions, amid draining, and between a commit and the drain.
"""

from __future__ import annotations

import asyncio
import random
import sys

from sqlalchemy import create_engine, text

from outlast import Client, Worker, workflow


@workflow.defn
class Noted:
    def __init__(self) -> None:
        self.seen: list[str] = []

    @workflow.run
    async def run(self, order: str) -> list[str]:
        await workflow.wait_condition(lambda: len(self.seen) == 2)
        return [order, *self.seen]

    @workflow.signal
    def note(self, item: str) -> None:
        self.seen.append(item)


async def main(url: str, name: str) -> None:
    rng = random.Random(name)
    own = url.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(own, connect_args={"timeout": 60} if own.startswith("sqlite") else {})
    async with Client.connect(url) as client, Worker(client, workflows=[Noted]):
        number = 0
        while True:
            number += 1
            order = f"{name}-{number}"
            with engine.connect() as connection:
                connection.execute(text("INSERT INTO orders (id) VALUES (:id)"), {"id": order})
                handle = await client.start(Noted.run, order, id=order, connection=connection)
                for item in ("a", "b"):
                    await handle.signal(Noted.note, item, connection=connection)
                if rng.random() < 0.3:
                    connection.rollback()
                    print(f"rolled-back {order}", flush=True)
                else:
                    connection.commit()
                    print(f"committed {order}", flush=True)
            await asyncio.sleep(rng.choice((0, 0, 0.003)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
