"""A worker process to be killed: ``python -m tests.chaos.worker``; its URL and options come by the environment.

SIGUSR1 makes its clock jump: by the seconds that a file says, back at the next signal.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys

from tests.chaos.bugs import BUG, BUGS
from tests.chaos.programs import ACTIVITIES, WORKFLOWS

from outlast.client.client import Client
from outlast.errors import StoreError
from outlast.worker.worker import Worker
from outlast_workflow.environment import Environment, SystemClock

JUMP_S = "OUTLAST_CHAOS_JUMP_S"
LEASE_S = "OUTLAST_CHAOS_LEASE_S"


class JumpingClock(SystemClock):
    """The machine's clock, which somebody sets."""

    __slots__ = ("jumped_us",)

    def __init__(self) -> None:
        super().__init__()
        self.jumped_us = 0

    def now(self) -> int:
        return super().now() + self.jumped_us

    def jump(self) -> None:
        self.jumped_us = 0 if self.jumped_us else int(float(os.environ[JUMP_S]) * 1_000_000)


async def connected(clock: JumpingClock) -> Client:
    """A client, as soon as the database answers; a supervisor would start the process again instead."""
    while True:
        try:
            return await Client.connect(os.environ["OUTLAST_URL"], environment=Environment(clock))
        except StoreError:
            await asyncio.sleep(0.2)


async def main() -> None:
    if os.environ[BUG]:
        BUGS[os.environ[BUG]]()
    clock = JumpingClock()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, clock.jump)
    async with await connected(clock) as client:
        worker = Worker(
            client,
            workflows=WORKFLOWS,
            activities=ACTIVITIES,
            lease_duration=float(os.environ[LEASE_S]),
            watchdog="--no-watchdog" not in sys.argv,
            watchdog_interval=0.2,
            graceful_shutdown_timeout=2,
        )
        await worker.run()


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # one that comes too soon
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(process)d %(levelname)s %(name)s %(message)s"
    )
    logging.getLogger("apscheduler").setLevel(logging.WARNING)
    asyncio.run(main())
