"""The faults, by name: each is done, and where it lasts, undone."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable

from tests.chaos.processes import Crew, send
from tests.chaos.stage import PostgresStage, SqliteStage

Fault = Callable[[], Awaitable[None]]


def faults(
    stage: SqliteStage | PostgresStage, crew: Crew, rng: random.Random, lease_s: float
) -> dict[str, Fault]:
    """What can be done on this stage."""

    async def kill_worker() -> None:
        await crew.kill(rng.choice(crew.members["worker"]), "worker")

    async def kill_watchdog() -> None:
        await crew.kill(rng.choice(crew.members["watchdog"]), "watchdog")

    async def pause_worker() -> None:
        """Longer than its lease: it comes back as a zombie."""
        process = rng.choice(crew.members["worker"])
        send(process, signal.SIGSTOP)
        await asyncio.sleep(lease_s * rng.uniform(1.1, 2))
        send(process, signal.SIGCONT)

    async def jump_clock() -> None:
        process = rng.choice(crew.members["worker"])
        send(process, signal.SIGUSR1)
        await asyncio.sleep(rng.uniform(0.2, 1))
        send(process, signal.SIGUSR1)

    found: dict[str, Fault] = {
        "kill_worker": kill_worker,
        "kill_watchdog": kill_watchdog,
        "pause_worker": pause_worker,
        "jump_clock": jump_clock,
    }
    if isinstance(stage, SqliteStage):
        if stage.mounted:
            found["disk_full"] = _disk_full(stage, rng)
    else:
        found.update(_of_postgresql(stage, rng))
    return found


def _disk_full(stage: SqliteStage, rng: random.Random) -> Fault:
    async def disk_full() -> None:
        stage.fill()
        await asyncio.sleep(rng.uniform(0.2, 1))
        await stage.calm()

    return disk_full


def _of_postgresql(stage: PostgresStage, rng: random.Random) -> dict[str, Fault]:
    proxy = stage.proxy

    async def lasting(seconds: float) -> None:
        await asyncio.sleep(seconds)
        proxy.heal()
        proxy.cut()

    async def kill_server() -> None:
        await stage.restart()

    async def kill_backend() -> None:
        await stage.kill_backend(rng)

    async def terminate_backend() -> None:
        await stage.terminate_backend(rng)

    async def cut() -> None:
        proxy.cut()

    async def lose_answers() -> None:
        """Commits are done, and nobody hears of them."""
        proxy.swallow_answers = True
        await lasting(rng.uniform(0.02, 0.5))

    async def black_hole() -> None:
        """Nothing passes for a while, whoever connects; then all connections are cut."""
        proxy.swallow_answers = proxy.swallow_requests = True
        await lasting(rng.uniform(0.2, 2))

    async def silence() -> None:
        """Nothing passes any more on the connections that there are, and nothing says so: their owners must notice."""
        proxy.silence()

    async def delay() -> None:
        proxy.delay_s = rng.uniform(0.01, 0.1)
        await asyncio.sleep(rng.uniform(0.2, 1))
        proxy.heal()

    return {
        "kill_server": kill_server,
        "kill_backend": kill_backend,
        "terminate_backend": terminate_backend,
        "cut": cut,
        "lose_answers": lose_answers,
        "black_hole": black_hole,
        "silence": silence,
        "delay": delay,
    }
