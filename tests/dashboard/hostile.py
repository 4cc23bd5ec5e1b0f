"""Workflows that show what somebody malicious has put wherever the engine takes text."""

from __future__ import annotations

import asyncio
from typing import Any

from outlast import ApplicationError, RetryPolicy, activity, workflow

EVIL = "\"'><img src=x onerror=alert(1) planted><script planted>alert(1)</script><b planted hx-on:load=alert(1)>&lt;"
"""Ends an attribute in either quotes, and a tag; leaves elements with an attribute that no page has."""
SCHEME = "javascript:alert(1)//"
QUEUE = f"queue{EVIL}"


def raiser(message: str) -> Any:
    """A function whose file has a hostile name, so that stacks show it."""
    names: dict[str, Any] = {"ApplicationError": ApplicationError}
    source = f"def evil():\n    raise ApplicationError({message!r}, {{{message!r}: {message!r}}}, type={message!r})"
    exec(compile(source, f"/evil/{EVIL}.py", "exec"), names)
    return names["evil"]


@activity.defn(
    name=f"fails{EVIL}",
    start_to_close_timeout=60,
    retry_policy=RetryPolicy(initial_interval=0.01, backoff_coefficient=100_000, max_interval=3600),
)
async def fails() -> None:
    if activity.info().attempt < 3:
        raiser(EVIL)()
    activity.heartbeat(EVIL)
    await asyncio.sleep(3600)


@activity.defn(name=f"hangs{EVIL}", start_to_close_timeout=600, heartbeat_timeout=300)
async def hangs() -> None:
    activity.heartbeat(1, 10, EVIL)
    await asyncio.sleep(3600)


@workflow.defn(name=f"child{EVIL}")
async def child(text: str) -> str:
    await workflow.sleep(3600)
    return text


@workflow.defn(name=f"open{EVIL}")
class Open:
    """Has one of everything open."""

    @workflow.run
    async def run(self, text: str) -> str:
        workflow.set_progress(1, 4, EVIL)
        waiting: list[asyncio.Task[Any]] = [
            asyncio.create_task(workflow.execute_activity(fails, summary=EVIL)),
            asyncio.create_task(workflow.execute_activity(hangs, summary=EVIL)),
            asyncio.create_task(workflow.execute_child(child, text, id=f"child-{EVIL}", summary=EVIL)),
            asyncio.create_task(self._sleep()),
        ]
        await asyncio.gather(*waiting)
        return text

    async def _sleep(self) -> None:
        await workflow.sleep(3600, summary=EVIL)

    @workflow.signal(name=f"say{EVIL}")
    def say(self, text: str = EVIL) -> None:
        """</textarea><script planted>alert(1)</script>"""

    @workflow.query(name=f"show{EVIL}")
    def show(self, text: str = EVIL) -> dict[str, str]:
        return {EVIL: text}

    @workflow.update(name=f"change{EVIL}")
    def change(self, text: str = EVIL) -> str:
        raise ApplicationError(EVIL, type=EVIL)


@workflow.defn(name=f"failed{EVIL}")
async def failed(text: str) -> str:
    raiser(text)()
    return text


@workflow.defn(name=f"done{EVIL}")
async def done(text: str) -> dict[str, str]:
    return {text: text, SCHEME: SCHEME}


@workflow.defn(name=f"stuck{EVIL}", workflow_task_failure_types=[ApplicationError])
async def stuck(text: str) -> str:
    raiser(text)()
    return text
