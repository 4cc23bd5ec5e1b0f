"""A transfer between accounts, exactly once: the activity writes in the transaction that records its completion."""

from __future__ import annotations

import asyncio
import tempfile

from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from outlast import Client, Worker, activity, workflow

CHANGE = text("UPDATE accounts SET cents = cents + :change WHERE name = :name")
tries: list[int] = []


@activity.defn(start_to_close_timeout=10, transactional=True)
def transfer(source: str, target: str, cents: int) -> int:
    """Move money; return what the source has left."""
    with Session(activity.connection()) as session:
        session.execute(CHANGE, {"name": source, "change": -cents})
        tries.append(cents)
        if len(tries) == 1:
            raise ConnectionError("the network is gone, and half of the money has moved")
        session.execute(CHANGE, {"name": target, "change": cents})
        left = session.execute(text("SELECT cents FROM accounts WHERE name = :name"), {"name": source})
        result = int(left.scalar_one())
        session.commit()
    return result


@workflow.defn
async def pay(source: str, target: str, cents: int) -> int:
    return await transfer(source, target, cents)


WORKFLOWS = [pay]
ACTIVITIES = [transfer]


async def main(url: str) -> None:
    bank = create_engine(url)
    with bank.begin() as connection:
        connection.execute(text("CREATE TABLE accounts (name text PRIMARY KEY, cents integer)"))
        connection.execute(text("INSERT INTO accounts VALUES ('ada', 10000), ('bob', 0)"))
    async with Client.connect(url) as client, Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES):
        left = await client.execute(pay, "ada", "bob", 2500, id="payment-1")
    with bank.connect() as connection:
        got = connection.execute(text("SELECT cents FROM accounts WHERE name = 'bob'")).scalar_one()
    bank.dispose()
    print(f"after {len(tries)} tries Ada has {left} cents and Bob {got}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/bank.db"))
