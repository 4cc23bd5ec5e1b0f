"""An approval by webhook: an activity asks another service and defers; that service's webhook completes it."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass

from outlast import Client, RetryPolicy, Worker, activity, workflow
from outlast.errors import AttemptNotRunningError


@dataclass
class Decision:
    approved: bool
    by: str


class ApprovalService:
    """Stands in for a service that shows questions to people. It knows each question by a reference of yours."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def ask(self, question: str, reference: str) -> None:
        self.asked.put_nowait((question, reference))


service = ApprovalService()


@activity.defn(start_to_close_timeout=86_400, retry_policy=RetryPolicy(max_attempts=3))
async def ask(question: str) -> Decision:
    """Ask, and leave the answer to the webhook. Without one within a day, the question is asked again."""
    service.ask(question, reference=activity.info().task_token)
    return activity.defer()


async def webhook(client: Client, reference: str, body: dict[str, str]) -> int:
    """What the service calls when somebody has clicked; the body of a view of your web framework.

    Args:
        client: The application's client.
        reference: The task token, as the service got it.
        body: What the service posts.

    Returns:
        The HTTP status to answer with. A service repeats what is not answered with 2xx.
    """
    try:
        await client.complete_activity(reference, Decision(body["decision"] == "approve", body["by"]))
    except AttemptNotRunningError as error:
        # The service delivered it twice, or somebody clicked on an old question.
        return 200 if error.outcome == "completed" else 410
    return 200


@workflow.defn
async def expense(what: str) -> str:
    decision = await ask(f"May we buy {what}?")
    return f"{what}: {'approved' if decision.approved else 'rejected'} by {decision.by}"


WORKFLOWS = [expense]
ACTIVITIES = [ask]


async def main(url: str) -> None:
    async with Client.connect(url) as client, Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES):
        handle = await client.start(expense, "a chair", id="expense-1")
        question, reference = await service.asked.get()
        print(question)
        click = {"decision": "approve", "by": "ada"}
        print("answered with", await webhook(client, reference, click))
        print(await handle.result())
        print("and once more with", await webhook(client, reference, click))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/approvals.db"))
