"""Containers whose ``lifetime`` is ``eventually``: each is removed some time after its end.

The engine keeps what is to be removed, and when, as a label. So a process that dies forgets nothing: the next one that
enters a runtime on the machine looks at what is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from datetime import datetime
from typing import Any, Final

import orjson

from outlast import Client
from outlast_serverless.processes.containers import ENGINE_VARIABLES, REMOVE_AFTER
from outlast_serverless.processes.policy import ProcessPolicy
from outlast_serverless.processes.supervised import ended

logger = logging.getLogger("outlast.serverless")
_US: Final = 1_000_000
_SHORTEST_S: Final = 1.0
_LONGEST_S: Final = 3_600.0
"""How long it waits at most between two looks at containers that still run."""
_MOST_BYTES: Final = 64 << 20
_ENDED: Final = ("exited", "stopped", "dead")
_UNBEGUN: Final = ("created", "configured", "initialized")


class Sweeper:
    """Removes containers some time after their ends.

    Args:
        policy: Names the engine. Without one there is nothing to do.
        client: Tells the time.
    """

    def __init__(self, policy: ProcessPolicy, client: Client) -> None:
        self._policy = policy
        self._client = client
        self._looks = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Remove containers from now on, those first that others have left."""
        if self._policy.engine is not None:
            self._looks.set()
            self._task = asyncio.create_task(self._sweep())

    async def close(self) -> None:
        """Stop removing."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def look(self) -> None:
        """A container that is to be removed has been started, or has ended."""
        self._looks.set()

    async def _sweep(self) -> None:
        pause: float | None = None
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._looks.wait()
            self._looks.clear()
            try:
                pause = await self.sweep()
            except _EngineFailedError as error:
                logger.warning("containers that are to be removed are not: %s", error)
                pause = None

    async def sweep(self) -> float | None:
        """Remove the containers whose time is up.

        Returns:
            In how many seconds the next one is to be looked at; ``None`` if there is none.

        Raises:
            _EngineFailedError: The engine does not answer.
        """
        ids = (
            await self._told("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={REMOVE_AFTER}")
        ).split()
        if not ids:
            return None
        now = self._client.runtime.environment.clock.now() / _US
        up, waits = [], []
        for one in orjson.loads(await self._told("container", "inspect", *ids) or b"[]"):
            wait = _wait(one, now)
            if wait <= 0:
                up.append(str(one["Id"]))
            else:
                waits.append(wait)
        if up:
            with contextlib.suppress(_EngineFailedError):
                # Another process may have removed them.
                await self._told("rm", "--force", "--volumes", *up)
        return min(waits, default=None)

    async def _told(self, *arguments: str) -> str:
        policy = self._policy
        names = {*policy.environment, *ENGINE_VARIABLES}
        found = await ended(
            {
                "argv": [*(policy.engine or ()), *arguments],
                "file": None,
                "environment": {name: os.environ[name] for name in names if name in os.environ},
                "cwd": policy.cwd,
                "stdin": "",
                "limit": _MOST_BYTES,
                "grace": policy.grace,
                "detached": False,
            }
        )
        # Another process may have removed one meanwhile: what is told of the rest counts.
        if "error" in found or (found["code"] != 0 and not found["stdout"].strip()):
            raise _EngineFailedError(str(found.get("error") or found["stderr"].strip()[-500:]))
        return str(found["stdout"])


class _EngineFailedError(Exception):
    """The engine does not answer."""


def _wait(container: dict[str, Any], now: float) -> float:
    """Return how many seconds a container has until it is to be removed; until it is looked at, if it still runs."""
    after = float(container["Config"]["Labels"][REMOVE_AFTER])
    state = container["State"]
    if state["Status"] in _ENDED:
        since = state["FinishedAt"]
    elif state["Status"] in _UNBEGUN:
        since = container["Created"]
    else:
        return min(max(after, _SHORTEST_S), _LONGEST_S)
    return datetime.fromisoformat(since).timestamp() + after - now
