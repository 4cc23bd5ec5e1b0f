"""The main program of the demonstration's workers. Your own can be as short, or you use ``outlast worker``.

It stops gracefully on SIGTERM, and when its standard input is closed: if the driver dies, its workers stop too.
"""

from __future__ import annotations

import asyncio
import os
import sys

from outlast import Client, Worker
from outlast.demo.importing import ImportCsv, fetch_rates, load_chunk, validate_csv

URL, QUEUE, LEASE = "OUTLAST_DEMO_URL", "OUTLAST_DEMO_QUEUE", "OUTLAST_DEMO_LEASE"


class _DriverPipe(asyncio.Protocol):
    """The pipe whose other end the driver holds."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop, because the driver has closed the pipe or died."""
        self.worker.request_stop()


async def run(url: str, task_queue: str, lease: float) -> None:
    """Work until a signal or the end of the driver."""
    async with Client.connect(url) as client:
        worker = Worker(
            client,
            task_queue=task_queue,
            workflows=[ImportCsv],
            activities=[validate_csv, fetch_rates, load_chunk],
            lease_duration=lease,
        )
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: _DriverPipe(worker), sys.stdin)
        await worker.run()
        transport.close()


if __name__ == "__main__":
    asyncio.run(run(os.environ[URL], os.environ[QUEUE], float(os.environ[LEASE])))
