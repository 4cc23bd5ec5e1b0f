"""An agent: it thinks, uses a tool, and repeats. Tools may take hours, report progress, and survive their worker."""

from __future__ import annotations

import asyncio
import tempfile

from pydantic import BaseModel

from outlast import Client, RetryPolicy, Worker, activity, workflow


class Step(BaseModel):
    tool: str | None
    """The tool to use next; ``None`` when the goal is reached."""
    argument: str = ""
    answer: str = ""


class Memory(BaseModel):
    goal: str
    seen: list[str] = []


@activity.defn(start_to_close_timeout=120, retry_policy=RetryPolicy(max_attempts=5))
async def think(memory: Memory) -> Step:
    """A real agent would ask a language model here."""
    sources = ["archive", "library", "web"]
    if len(memory.seen) < len(sources):
        return Step(tool="search", argument=sources[len(memory.seen)])
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


@workflow.defn
class Agent:
    @workflow.init
    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.stopped = False

    @workflow.run
    async def run(self, memory: Memory) -> str:
        while not self.stopped:
            step = await think(self.memory)
            if step.tool is None:
                return step.answer
            self.memory.seen.append(await search(step.argument))
            # A loop without end must not have a history without end.
            if workflow.info().continue_as_new_suggested:
                workflow.continue_as_new(self.memory)
        return f"{self.memory.goal}: stopped"

    @workflow.signal
    def stop(self) -> None:
        self.stopped = True

    @workflow.query
    def progress(self) -> list[str]:
        return self.memory.seen


WORKFLOWS = [Agent]
ACTIVITIES = [think, search]


async def main(url: str) -> None:
    async with Client.connect(url) as client, Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES):
        handle = await client.start(Agent.run, Memory(goal="who was Ada"), id="agent-1")
        print(await handle.result())
        print(await handle.query(Agent.progress))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/agent.db"))
