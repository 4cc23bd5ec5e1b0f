"""Processes that run documents and bring events to them, to be killed at any moment."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from typing import Any, Final

from outlast import Client, Worker
from outlast_serverless import Document, Runtime

LEASE_S: Final = 2.0
PROCESSES: Final = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.chaos.documents"])
HEAD: Final = "document: {dsl: '1.0.3', namespace: chaos, name: NAME, version: '1.0.0'}\n"
GATHER: Final = """
do:
  - gather:
      listen:
        to:
          any:
            - with: {type: measured}
              correlate: {room: {from: .data.room, expect: '${ .room }'}}
          until: '$workflow.input.count <= length'
      output: {as: '[.[].number]'}
"""
"""Gathers events of a room, in their order."""
LATE: Final = """
timeout: {after: '${ .workflow }'}
do:
  - attempt:
      try:
        - pause: {wait: PT1H, timeout: {after: '${ .task }'}}
      catch:
        do:
          - tell: {set: {caught: '${ $error.instance }'}}
"""
"""Waits longer than its task may, and maybe longer than the workflow may."""

EVERY_SECOND: Final = """
schedule: {every: {seconds: 1}}
do:
  - note: {set: {started: true}}
"""
"""Is started once a second."""


def document(text: str, name: str) -> Document:
    """Return a document."""
    return Document.parse(HEAD.replace("NAME", name) + text)


def worker_of(client: Client, runtime: Runtime) -> Worker:
    """Return a worker of documents that notices soon when others die."""
    return Worker(
        client,
        workflows=runtime.workflows,
        activities=runtime.activities,
        lease_duration=LEASE_S,
        watchdog_interval=0.1,
    )


def process(target: Callable[..., None], *args: Any) -> ForkServerProcess:
    """Start a function in a process of its own."""
    started = PROCESSES.Process(target=target, args=args, daemon=True)
    started.start()
    return started


def route_and_work(url: str) -> None:
    """Be a router and a worker."""

    async def main() -> None:
        async with Client.connect(url) as client, Runtime(client) as runtime:
            await worker_of(client, runtime).run()

    asyncio.run(main())


def work(url: str) -> None:
    """Be a worker that routes nothing."""

    async def main() -> None:
        async with Client.connect(url) as client:
            runtime = Runtime(client)
            await worker_of(client, runtime).run()

    asyncio.run(main())
