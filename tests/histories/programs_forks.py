"""Forks: of open and closed workflows, of a fork, with children that have ended and ids made from ids. Never edited."""

from __future__ import annotations

from typing import Any

from outlast import activity, workflow
from outlast.testing import TestEnvironment


@activity.defn(start_to_close_timeout=60)
async def note(what: str) -> str:
    """Returns what it is given."""
    return what


@workflow.defn
async def errand(word: str) -> str:
    """A child."""
    await workflow.sleep(5)
    return word


@workflow.defn
class Walk:
    """Goes to some places, and sends children named after itself."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @workflow.signal
    def hear(self, word: str) -> None:
        """Hears a word."""
        self.heard.append(word)

    @workflow.update
    def ask(self, word: str) -> int:
        """Answers how many words it has heard."""
        self.heard.append(word)
        return len(self.heard)

    @workflow.run
    async def run(self, wanted: int) -> list[Any]:
        """Returns what it has seen and heard."""
        drawn = [workflow.random().randrange(1000)]
        found = [await note("a")]
        workflow.upsert_memo({"at": "a"})
        found.append(await workflow.execute_child(errand, "first", id=f"{workflow.info().workflow_id}/first"))
        await workflow.wait_condition(lambda: len(self.heard) >= wanted)
        drawn.append(workflow.random().randrange(1000))
        found.append(await workflow.execute_child(errand, "last", id=f"{workflow.info().workflow_id}/last"))
        return [found, self.heard, len(drawn)]


WORKFLOWS = [Walk, errand]
ACTIVITIES: list[Any] = [note]


async def live(env: TestEnvironment) -> None:
    """Forks of an open one, of a closed one, and of a fork; one of them is reset."""
    client = env.client
    walk = await client.start(Walk.run, 3, id="walk")
    await env.sleep(10)
    assert await walk.execute_update("ask", "y", id="u") == 1
    await walk.signal("hear", "x", request_id="k")
    await env.sleep(1)
    open_fork = await client.fork("walk", "last-workflow-task", id="open fork", reason="try it")
    await walk.signal("hear", "z")
    whole = await walk.result()
    early = await walk.fork("first-workflow-task", id="early")
    before = await walk.fork(before=2, id="before the child", signals=False)
    of_fork = await open_fork.fork("first-workflow-task", id="of fork")
    for fork in (open_fork, early, before, of_fork):
        for word in ("p", "q", "r"):
            await fork.signal("hear", word)
        assert (await fork.result())[0] == whole[0]
    again = await client.reset("early", "last-workflow-task")
    assert (await again.result())[0] == whole[0]
