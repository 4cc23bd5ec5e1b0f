"""An order row and its workflow in one commit: both are there, or neither is.

Run it: ``python examples/order_outbox.py``
"""

from __future__ import annotations

import asyncio
import sys
import tempfile

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session

from outlast import Client, Worker, activity, workflow


@activity.defn(start_to_close_timeout=30)
async def ship(order: int) -> str:
    return f"order {order} was shipped"


@workflow.defn
async def shipping(order: int) -> str:
    return await ship(order)


async def place(client: Client, engine: Engine, order: int, stock: int) -> str:
    """Insert an order and start its workflow in one transaction, which fails where the stock is used up."""
    with Session(engine) as session, session.begin():
        session.execute(text("INSERT INTO orders (id) VALUES (:id)"), {"id": order})
        handle = await client.start(shipping, order, id=f"order-{order}", connection=session)
        if order > stock:
            raise LookupError(f"order {order} was rolled back, and its workflow with it")
    return await handle.result()


async def main(url: str) -> None:
    engine = create_engine(url)
    async with Client.connect(url) as client, Worker(client, workflows=[shipping], activities=[ship]):
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE orders (id INTEGER PRIMARY KEY)"))
        for order in (1, 2):
            try:
                print(await place(client, engine, order, stock=1))
            except LookupError as error:
                print(error)
        with engine.connect() as connection:
            orders = connection.execute(text("SELECT count(*) FROM orders")).scalar_one()
        print(f"{orders} order, {await client.count()} workflow")
    engine.dispose()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{folder}/orders.db"))
