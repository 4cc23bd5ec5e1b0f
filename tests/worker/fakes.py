"""A runtime that only notes what it is asked to do, for what a worker is made of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tests.engine.run_rows import NOW


class Notes:
    """A runtime; ``reads`` answers by the name of the function that would read."""

    def __init__(self) -> None:
        self.submitted: list[tuple[Any, Callable[[Any, BaseException | None], None]]] = []
        self.later: list[Callable[[], Any]] = []
        self.reads: dict[str, Any] = {}
        self.asked: list[str] = []
        self.closed: BaseException | None = None
        self.forgotten: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        rows = SimpleNamespace(runs={}, forget=lambda runs, activities: self.forgotten.extend(runs))
        self.journal: Any = SimpleNamespace(submit=self._submit, cache=rows)
        self.loop: Any = SimpleNamespace(call_later=self._call_later)
        self.environment: Any = SimpleNamespace(
            clock=SimpleNamespace(now=lambda: NOW), ids=SimpleNamespace(next=lambda: "next-run")
        )
        self.polls_regularly = True
        self.listeners: list[Any] = []
        self.subscribe, self.unsubscribe = self.listeners.append, self.listeners.remove

    def _submit(self, change: Any, done: Any) -> None:
        if self.closed is not None:
            raise self.closed
        self.submitted.append((change, done))

    def _call_later(self, delay: float, callback: Any, *args: Any) -> None:
        self.later.append(lambda: callback(*args))

    async def read(self, query: Any, *args: Any) -> Any:
        self.asked.append(query.__name__)
        await asyncio.sleep(0)
        found = self.reads[query.__name__]
        if isinstance(found, BaseException):
            raise found
        return found() if callable(found) else found

    def task(self, work: Any, name: str) -> asyncio.Task[None]:
        self.tasks.append(asyncio.ensure_future(work))
        return self.tasks[-1]

    @property
    def changes(self) -> list[str]:
        """The names of the changes that were submitted."""
        return [type(change).__name__ for change, _ in self.submitted]
