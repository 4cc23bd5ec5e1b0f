"""An approval: it waits for a person's decision, reminds them, and expires if there is none."""

from __future__ import annotations

import asyncio
import tempfile

from outlast import Client, Worker, activity, workflow

sent: list[str] = []


@activity.defn(start_to_close_timeout=30)
async def send_mail(to: str, text: str) -> None:
    sent.append(f"{to}: {text}")


@workflow.defn
class Approval:
    """The approval of an expense. After ``remind_after`` seconds the approver is reminded, and has as long again."""

    @workflow.init
    def __init__(self, expense: str, approver: str, remind_after: float) -> None:
        self.expense = expense
        self.verdict: str | None = None

    @workflow.run
    async def run(self, expense: str, approver: str, remind_after: float) -> str:
        await send_mail(approver, f"please look at {expense}")
        for last in (False, True):
            try:
                await workflow.wait_condition(lambda: self.verdict is not None, timeout=remind_after)
                break
            except TimeoutError:
                if last:
                    return "expired"
                await send_mail(approver, f"{expense} still waits for you")
        assert self.verdict is not None
        return self.verdict

    @workflow.signal
    def approve(self, by: str) -> None:
        self.verdict = f"approved by {by}"

    @workflow.signal
    def reject(self, by: str, why: str) -> None:
        self.verdict = f"rejected by {by}: {why}"

    @workflow.query
    def status(self) -> str:
        return f"{self.expense}: {self.verdict or 'waiting'}"


WORKFLOWS = [Approval]
ACTIVITIES = [send_mail]


async def main(url: str) -> None:
    async with Client.connect(url) as client, Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES):
        handle = await client.start(Approval.run, "a chair", "ada", 86_400, id="expense-1")
        print(await handle.query(Approval.status))
        await handle.signal(Approval.approve, "ada")
        print(await handle.result())
        late = await client.execute(Approval.run, "a yacht", "ada", 0.1, id="expense-2")
        print(late, "after", len(sent), "mails")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/approvals.db"))
