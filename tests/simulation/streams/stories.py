"""Streams of a simulation: programs and activities that publish, and readers that read on wherever they were.

One seed in four has them, drawn from a source of its own, so that the other seeds are as they were.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.rows import latest_row
from tests.simulation.process import Role
from tests.simulation.programs import Step

from outlast import Client
from outlast.errors import RunNotFoundError, StreamTimeoutError, WorkflowNotFoundError
from outlast_workflow.errors import StoreError

NAMES = ("a", "b", "c")
SAID_BY = ("work", "stubborn", "plain")
AGAIN_AFTER_S = 0.3
MOST_LOOKS = 60
"""How often a reader looks for a workflow that is not there."""


class Reader:
    """Somebody who reads one stream to its end. It goes on where its last process was when that crashed."""

    def __init__(self, workflow_id: str, name: str, start: int, patience: float) -> None:
        self.workflow_id = workflow_id
        self.name = name
        self.start = start
        self.patience = patience
        self.first_run_id: str | None = None
        self.seen: list[tuple[int, Any]] = []
        self.wrong: list[str] = []
        self.done = False
        self.ended = False
        """Whether it was told that nothing more will come."""
        self._looks = 0

    def __repr__(self) -> str:
        return f"a reader of stream {self.name!r} of {self.workflow_id} from {self.start} on"

    async def run(self, client: Client) -> None:
        """Read to the end."""
        while not self.done:
            try:
                await self._read(client)
            except StreamTimeoutError as error:
                if error.offset != self.start + len(self.seen):
                    self.wrong.append(
                        f"{self!r} has {len(self.seen)} items and is to go on at {error.offset}"
                    )
                    self.done = True
            except (RunNotFoundError, WorkflowNotFoundError):
                self._looks += 1
                self.done = self._looks > MOST_LOOKS or self.first_run_id is not None
                await asyncio.sleep(AGAIN_AFTER_S)
            except StoreError:
                await asyncio.sleep(AGAIN_AFTER_S)

    async def _read(self, client: Client) -> None:
        handle = client.handle(self.workflow_id)
        if self.first_run_id is None:
            self.first_run_id = (await latest_row(handle)).first_run_id
        handle = client.handle(self.workflow_id, run_id=self.first_run_id)
        start = self.start + len(self.seen)
        async for item in handle.stream(self.name, start=start, timeout=self.patience):
            self.seen.append((item.offset, item.value))
        self.done = self.ended = True


class Publishing:
    """The streams of one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"streams of {seed}")
        self.used = seed % 4 == 1
        self.readers: list[Reader] = []

    def use(self, plan: list[Step]) -> None:
        """Let the programs of a plan and their activities publish, and draw who reads that."""
        rng = self.rng
        for action in plan if self.used else ():
            if action["do"] not in ("start", "signal_with_start"):
                continue
            steps = action["steps"]
            self._let_activities_publish(steps)
            for _ in range(rng.randint(1, 4)):
                steps.insert(rng.randint(0, len(steps)), self._step())
            for _ in range(rng.randint(0, 3)):
                start = rng.choice((0, 0, 0, 1, 4))
                patience = rng.choice((0.5, 2, 600))
                self.readers.append(Reader(action["id"], rng.choice(NAMES), start, patience))

    def spread(self, roles: list[Role]) -> None:
        """Give each reader to a process."""
        for reader in self.readers:
            self.rng.choice(roles).scripts.append(reader.run)

    def _step(self) -> Step:
        rng = self.rng
        publish: Step = {"do": "publish", "names": self._names(4)}
        kind = rng.choice(("publish", "publish", "publish", "race", "all", "shut"))
        if kind == "shut" and rng.random() < 0.4:
            return {"do": "shut", "name": rng.choice(NAMES)}
        pause: Step = {"do": "sleep", "for": rng.choice((0.001, 0.1, 0.5))}
        if kind in ("race", "all"):
            return {"do": kind, "branches": [[pause, publish], [publish, pause, publish]]}
        return publish

    def _names(self, most: int) -> list[str]:
        return [self.rng.choice(NAMES) for _ in range(self.rng.randint(0, most))]

    def _let_activities_publish(self, found: Any) -> None:
        """Go through a program."""
        if isinstance(found, list):
            for one in found:
                self._let_activities_publish(one)
        elif isinstance(found, dict):
            if found.get("do") == "call" and found["activity"] in SAID_BY:
                for behaviour in found["script"]:
                    behaviour.update(first=self._names(3), last=self._names(3))
            else:
                self._let_activities_publish(list(found.values()))
