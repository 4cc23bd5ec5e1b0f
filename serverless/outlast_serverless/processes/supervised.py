"""A process under its supervisor: whoever stops waiting for it ends it, with all that it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from typing import Any, Final
from weakref import WeakKeyDictionary

import orjson

from outlast_serverless.processes import supervisor

MOST_PROCESSES: Final = 100
"""How many processes run at a time in one worker's process; more wait."""
_rooms: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def room() -> asyncio.Semaphore:
    """Return what those hold who run a process on this loop."""
    loop = asyncio.get_running_loop()
    found = _rooms.get(loop)
    if found is None:
        found = _rooms[loop] = asyncio.Semaphore(MOST_PROCESSES)
    return found


async def ended(described: dict[str, Any]) -> dict[str, Any]:
    """Run a process to its end, and return how it ended and what it wrote.

    Args:
        described: What the supervisor is told.
    """
    async with room():
        return await _ended(described)


async def _ended(described: dict[str, Any]) -> dict[str, Any]:
    process = await supervised(supervisor.__file__, described)
    rest = asyncio.ensure_future(_rest(process))
    try:
        answer = await asyncio.shield(rest)
    except asyncio.CancelledError:
        assert process.stdin is not None
        process.stdin.close()
        # The supervisor kills what does not end by itself, and ends then.
        await asyncio.shield(rest)
        raise
    found: dict[str, Any] = orjson.loads(answer or b'{"error": "its supervisor was killed"}')
    return found


async def supervised(
    file: str, described: dict[str, Any], *, stderr: int = subprocess.DEVNULL, limit: int = 2**16
) -> asyncio.subprocess.Process:
    """Start a supervisor and tell it what to run.

    Args:
        file: The supervisor's file.
        described: What it is told.
        stderr: Where its errors go.
        limit: How long a line of its output may be, in bytes.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        file,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        limit=limit,
        env={name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ},
        start_new_session=True,
    )
    assert process.stdin is not None
    data = orjson.dumps(described)
    process.stdin.write(len(data).to_bytes(4, "big") + data)
    with contextlib.suppress(ConnectionError):
        await process.stdin.drain()
    return process


async def _rest(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    answer = await process.stdout.read()
    await process.wait()
    process.stdin.close()
    return answer
