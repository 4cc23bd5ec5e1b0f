"""An inbox: requests come as messages, one after the other; whoever asked waits for the answer in the memo."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from typing import Any

import outlast
from outlast import Client, SignalTo, Worker, WorkflowHandle, activity, workflow

HOUR = 3600


@dataclass
class Request:
    """What somebody wants to buy."""

    number: int
    what: str
    price: int


@dataclass
class Answer:
    """What became of it."""

    number: int
    approved: bool


@workflow.defn
async def inbox(budget: int, quiet: float = HOUR) -> int:
    """Answers requests while the budget lasts, until nobody has asked for an hour; returns what is left of it."""
    while True:
        request = await workflow.receive("request", timeout=quiet, default=None, result_type=Request)
        if request is None:
            return budget
        approved = request.price <= budget
        budget -= request.price if approved else 0
        workflow.upsert_memo({f"answer {request.number}": Answer(request.number, approved)})
        if workflow.info().continue_as_new_suggested:
            # Requests that nobody has received move on to the next run.
            workflow.continue_as_new(budget, quiet)


@activity.defn(start_to_close_timeout=30)
async def ask(inbox_id: str, number: int, what: str, price: int) -> bool:
    """Asks the inbox and waits for its answer. Asked twice, it is one request: the request id says so."""
    client: Client = activity.client()
    request = Request(number, what, price)
    await client.signal(inbox_id, "request", request, request_id=f"request {number}")
    answer: Answer = await client.handle(inbox_id).memo_value(
        f"answer {number}", timeout=20, result_type=Answer
    )
    return answer.approved


@workflow.defn
async def purchase(inbox_id: str, number: int, what: str, price: int) -> str:
    approved = await ask(inbox_id, number, what, price)
    return f"{what}: {'bought' if approved else 'too dear'}"


WORKFLOWS = [inbox, purchase]
ACTIVITIES = [ask]


async def main(url: str) -> None:
    async with Client.connect(url) as client, Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES):
        await client.start(inbox, 100, 2.0, id="inbox")
        wishes = [("a lamp", 30), ("a yacht", 1_000_000), ("a chair", 60)]
        waiting: list[WorkflowHandle[Any]] = [
            await client.start(purchase, "inbox", number, what, price)
            for number, (what, price) in enumerate(wishes)
        ]
        while waiting:
            first = await outlast.wait_first(waiting)
            waiting.remove(first)
            print(await first.result())
        # Two at once: both are in the inbox, or neither.
        await client.signal_many(
            [SignalTo("inbox", "request", Request(number, "a pen", 4)) for number in (10, 11)]
        )
        print("left:", await client.handle("inbox").result())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/inbox.db"))
