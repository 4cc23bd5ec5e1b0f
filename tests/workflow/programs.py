"""Random workflows: trees of everything that asyncio offers, interpreted by one workflow.

A program is plain JSON, so a run of it can be repeated in another process. Its result is a trace of what happened in
which order, so two runs that differ anywhere differ in their result.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from hypothesis import strategies as st

from outlast import workflow
from outlast_workflow.declare.definitions import defn
from outlast_workflow.errors import ActivityError

Tree = list[Any]


@defn
async def program(tree: Any) -> Any:
    """Interpret a tree; the result is its trace."""
    interpreter = Interpreter()
    try:
        await interpreter.do(tree)
    except* (ActivityError, TimeoutError) as group:
        interpreter.trace.append(f"raised {sorted(type(error).__name__ for error in group.exceptions)}")
    interpreter.trace.append([str(workflow.uuid4()), workflow.random().random(), workflow.now().isoformat()])
    return interpreter.trace


class Interpreter:
    def __init__(self) -> None:
        self.trace: list[Any] = []

    async def do(self, tree: Tree) -> Any:
        kind, *rest = tree
        result = await getattr(self, f"do_{kind}")(*rest)
        self.trace.append([kind, asyncio.get_running_loop().time()])
        return result

    def all(self, trees: list[Tree]) -> list[Any]:
        return [self.call(tree) for tree in trees]

    def call(self, tree: Tree) -> Any:
        """A tree as something to await: a durable call as it is, without a coroutine around it."""
        if tree[0] == "activity":
            return workflow.execute_activity(tree[1], len(self.trace))
        if tree[0] == "sleep":
            return workflow.sleep(tree[1] / 1000)
        return self.do(tree)

    async def do_activity(self, name: str) -> None:
        self.trace.append(await workflow.execute_activity(name))

    async def do_sleep(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)

    async def do_seq(self, *trees: Tree) -> None:
        for tree in trees:
            await self.do(tree)

    async def do_gather(self, *trees: Tree) -> None:
        results = await asyncio.gather(*self.all(list(trees)), return_exceptions=True)
        self.trace.append([type(result).__name__ for result in results])

    async def do_strict_gather(self, *trees: Tree) -> None:
        await asyncio.gather(*self.all(list(trees)))

    async def do_group(self, *trees: Tree) -> None:
        async with asyncio.TaskGroup() as group:
            for tree in trees:
                group.create_task(self.call(tree))

    async def do_wait(self, first: bool, *trees: Tree) -> None:
        tasks = [asyncio.ensure_future(self.call(tree)) for tree in trees]
        when = asyncio.FIRST_COMPLETED if first else asyncio.ALL_COMPLETED
        done, pending = await asyncio.wait(set(tasks), return_when=when)
        self.trace.append([tasks.index(task) for task in done])
        for task in pending:  # in the order of a set: the run's hashes decide it
            task.cancel()
            self.trace.append(tasks.index(task))
        await asyncio.gather(*tasks, return_exceptions=True)

    async def do_race(self, *trees: Tree) -> None:
        gathered = [asyncio.gather(self.call(tree), return_exceptions=True) for tree in trees]
        done, pending = await asyncio.wait(gathered, return_when=asyncio.FIRST_COMPLETED)
        for one in [*done, *pending]:
            self.trace.append(gathered.index(one))
            await one

    async def do_wait_for(self, ms: int, tree: Tree) -> None:
        await asyncio.wait_for(self.call(tree), ms / 1000)

    async def do_timeout(self, ms: int, tree: Tree) -> None:
        async with asyncio.timeout(ms / 1000):
            await self.do(tree)

    async def do_shield(self, ms: int, tree: Tree) -> None:
        inner = asyncio.ensure_future(self.call(tree))
        try:
            await asyncio.wait_for(asyncio.shield(inner), ms / 1000)
        except TimeoutError:
            self.trace.append("left behind")

    async def do_as_completed(self, *trees: Tree) -> None:
        for one in asyncio.as_completed(self.all(list(trees))):
            try:
                self.trace.append(await one)
            except (ActivityError, TimeoutError) as error:
                self.trace.append(type(error).__name__)

    async def do_cancel_after(self, ms: int, tree: Tree) -> None:
        task = asyncio.create_task(self.call(tree))
        await asyncio.sleep(ms / 1000)
        self.trace.append(task.cancel())
        self.trace.append(
            [type(result).__name__ for result in await asyncio.gather(task, return_exceptions=True)]
        )

    async def do_tolerate(self, tree: Tree) -> None:
        try:
            await self.do(tree)
        except* (ActivityError, TimeoutError) as group:
            self.trace.append(f"tolerated {len(group.exceptions)}")

    async def do_finally(self, tree: Tree, after: Tree) -> None:
        try:
            await self.do(tree)
        finally:
            await self.do(after)

    async def do_queue(self, *trees: Tree) -> None:
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)

        async def produce(index: int, tree: Tree) -> None:
            await self.do_tolerate(tree)
            await queue.put(index)

        producers = [asyncio.create_task(produce(index, tree)) for index, tree in enumerate(trees)]
        for _ in producers:
            self.trace.append(await queue.get())
        await asyncio.gather(*producers)

    async def do_event(self, tree: Tree) -> None:
        event = asyncio.Event()

        async def wait(index: int) -> None:
            await event.wait()
            self.trace.append(index)

        waiters = [asyncio.create_task(wait(index)) for index in range(3)]
        await self.do_tolerate(tree)
        event.set()
        await asyncio.wait(waiters)

    async def do_lock(self, *trees: Tree) -> None:
        lock, few = asyncio.Lock(), asyncio.Semaphore(2)

        async def hold(tree: Tree) -> None:
            async with few, lock:
                await self.do_tolerate(tree)

        await asyncio.gather(*(hold(tree) for tree in trees))

    async def do_stream(self, *trees: Tree) -> None:
        async def each() -> AsyncIterator[Any]:
            for tree in trees:
                await self.do(tree)
                yield tree[0]

        async for kind in each():
            self.trace.append(kind)
            if kind == "sleep":
                break  # and leave the generator behind


_delays = st.sampled_from([0, 1, 10, 10, 25, 100, 400])
_leaves = st.one_of(
    st.tuples(st.just("activity"), st.sampled_from("abc")),
    st.tuples(st.just("sleep"), _delays),
)


def _branches(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def many(kind: str, least: int = 1) -> st.SearchStrategy[Any]:
        return st.lists(children, min_size=least, max_size=4).map(lambda trees: (kind, *trees))

    return st.one_of(
        *(
            many(kind)
            for kind in (
                "seq",
                "gather",
                "strict_gather",
                "group",
                "as_completed",
                "queue",
                "lock",
                "stream",
                "race",
            )
        ),
        st.tuples(st.booleans(), st.lists(children, min_size=1, max_size=4)).map(
            lambda t: ("wait", t[0], *t[1])
        ),
        *(
            st.tuples(st.just(kind), _delays, children)
            for kind in ("wait_for", "timeout", "shield", "cancel_after")
        ),
        st.tuples(st.just("tolerate"), children),
        st.tuples(st.just("event"), children),
        st.tuples(st.just("finally"), children, children),
    )


trees = st.recursive(_leaves, _branches, max_leaves=25)
"""Programs, as nested tuples; JSON makes lists of them."""
