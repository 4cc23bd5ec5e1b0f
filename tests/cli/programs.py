"""What the command line's tests start and run."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from tests.engine.programs import add

from outlast import activity, workflow
from outlast.interceptors import Interceptor, RunWorkflow


@activity.defn(start_to_close_timeout=30, heartbeat_timeout=20)
async def double(number: int) -> int:
    activity.heartbeat({"at": number})
    return 2 * number


patient_double = double.with_options(start_to_close_timeout=60)


@activity.defn(start_to_close_timeout=3600)
async def hang() -> None:
    activity.heartbeat("hanging")
    await asyncio.sleep(3600)


@activity.defn(start_to_close_timeout=30, queue="mails")
async def mail(number: int) -> int:
    return number


@workflow.defn
async def mailing(number: int) -> int:
    return await mail.with_options(partition_key="t-7")(number)


@activity.defn(start_to_close_timeout=3600)
def ask() -> dict[str, Any]:
    activity.heartbeat(activity.info().task_token)
    return activity.defer()


@workflow.defn
async def asking() -> dict[str, Any]:
    return await ask()


@workflow.defn
async def kills_its_worker() -> None:
    with workflow.unsafe.allow_io():
        os.kill(os.getpid(), signal.SIGKILL)  # outlast: allow


@workflow.defn
class Doubling:
    @workflow.run
    async def run(self, number: int, more: Any = None) -> Any:
        return {"doubled": await patient_double(number), "more": more}


class Quiet(Interceptor):
    """Puts something of its own into what a workflow is started with."""

    async def run_workflow(self, call: RunWorkflow, next: Any) -> Any:
        call.args = (*call.args[:1], "seen")
        return await next(call)


@workflow.defn
async def fail() -> None:
    raise ValueError("card declined\nfor good")


@workflow.defn
async def sleep_long() -> None:
    await workflow.sleep(3600)


@workflow.defn
async def hanging() -> None:
    workflow.set_progress(1, 4, "waiting\nfor an answer")
    timer = asyncio.create_task(workflow.sleep(7200, summary="two [red] hours"))
    await hang.with_options(summary="hang on the line")()
    timer.cancel()


@workflow.defn
async def broken() -> None:
    await workflow.execute_activity("nobody")


@workflow.defn
class Ledger:
    def __init__(self) -> None:
        self.entries: list[int] = []

    @workflow.run
    async def run(self) -> None:
        await workflow.sleep(3600)

    @workflow.update
    async def enter(self, amount: int) -> int:
        self.entries.append(amount)
        return sum(self.entries)

    @enter.validator
    def check(self, amount: int) -> None:
        if amount < 0:
            raise ValueError("no debts here")

    @workflow.update
    async def never(self) -> None:
        await workflow.sleep(3600)

    @workflow.query
    def owner(self) -> str:
        return "ada"

    @workflow.query
    def entry(self, place: int) -> int:
        return self.entries[place]


EVERYTHING = [Doubling, fail, sleep_long, hanging, asking, mailing, broken, Ledger, double, hang, mail, ask]
WORKFLOWS = [Doubling, fail, sleep_long, hanging, asking, mailing, broken, Ledger]
ACTIVITIES = [double, hang, mail, ask]
BORROWED = add.name  # what a module imports is not what it defines
NUMBER = 7
