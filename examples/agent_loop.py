"""An agent: it thinks, uses a tool, and repeats, within a budget. Tools may take hours; some need consent."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable

from pydantic import BaseModel

from outlast import Client, RetryPolicy, Worker, activity, workflow


class Step(BaseModel):
    tool: str | None
    """The tool to use next; ``None`` when the goal is reached."""
    argument: str = ""
    answer: str = ""
    cost: int = 10
    """What the thought has cost. A real agent would count tokens."""


class Memory(BaseModel):
    goal: str
    seen: list[str] = []
    budget: int = 100
    """What the agent may still spend on thoughts."""


@activity.defn(start_to_close_timeout=120, retry_policy=RetryPolicy(max_attempts=5))
async def think(memory: Memory) -> Step:
    """A real agent would ask a language model here."""
    sources = ["archive", "library", "web"]
    if len(memory.seen) < len(sources):
        return Step(tool="search", argument=sources[len(memory.seen)])
    if memory.goal.startswith("publish") and len(memory.seen) == len(sources):
        return Step(tool="publish", argument=", ".join(memory.seen))
    return Step(tool=None, answer=f"{memory.goal}: {', '.join(memory.seen)}")


@activity.defn(start_to_close_timeout=4 * 3600, heartbeat_timeout=30)
async def search(source: str) -> str:
    """Go through a source page by page. Another attempt continues after the last heartbeat."""
    details = activity.info().heartbeat_details
    first = details[0] if details else 0
    for page in range(first, 3):
        await asyncio.sleep(0.01)
        activity.heartbeat(page + 1)
    return f"3 pages of the {source}"


@activity.defn(start_to_close_timeout=60)
async def publish(text: str) -> str:
    return "published"


TOOLS: dict[str, Callable[[str], Awaitable[str]]] = {"search": search, "publish": publish}
NEED_CONSENT = {"publish"}


@workflow.defn
class Agent:
    @workflow.init
    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.stopped = False
        self.question: str | None = None
        self.consent: bool | None = None

    @workflow.run
    async def run(self, memory: Memory) -> str:
        while not self.stopped and self.memory.budget > 0:
            step = await think(self.memory)
            self.memory.budget -= step.cost
            if step.tool is None:
                return step.answer
            if step.tool not in NEED_CONSENT or await self.consented(step):
                self.memory.seen.append(await TOOLS[step.tool](step.argument))
            else:
                self.memory.seen.append(f"no consent to {step.tool}")
            # A loop without end must not have a history without end.
            if workflow.info().continue_as_new_suggested:
                workflow.continue_as_new(self.memory)
        return f"{self.memory.goal}: {'stopped' if self.stopped else 'out of budget'}"

    async def consented(self, step: Step) -> bool:
        """Ask a person, who has a day to answer. Silence is a no."""
        self.question, self.consent = f"{step.tool} {step.argument}?", None
        try:
            await workflow.wait_condition(lambda: self.consent is not None or self.stopped, timeout=86_400)
        except TimeoutError:
            pass
        self.question = None
        return bool(self.consent)

    @workflow.update
    def decide(self, consent: bool) -> None:
        self.consent = consent

    @decide.validator
    def check_decide(self, consent: bool) -> None:
        if self.question is None:
            raise ValueError("nobody asked")

    @workflow.query
    def asks(self) -> str | None:
        return self.question

    @workflow.signal
    def stop(self) -> None:
        self.stopped = True

    @workflow.query
    def progress(self) -> list[str]:
        return self.memory.seen


WORKFLOWS = [Agent]
ACTIVITIES = [think, search, publish]


async def main(url: str) -> None:
    async with Client.connect(url) as client, Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES):
        handle = await client.start(Agent.run, Memory(goal="who was Ada"), id="agent-1")
        print(await handle.result())
        print(await handle.query(Agent.progress))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/agent.db"))
