"""Workflow timeouts in DBOS; run as a program by an interpreter that has it, never imported.

``python dbos_timeouts.py <database url> <how many> <lead> <spread>`` prints lateness, threads and memory as JSON. The
workflows wait, each with a timeout. Lateness is the time when the status was last written, minus the deadline, both
from DBOS's own table.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

dbos: Any = importlib.import_module("dbos")


def resident_mib() -> float:
    """Return the memory of this process in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def threads() -> int:
    """Return the number of threads of this process."""
    return len(list(Path("/proc/self/task").iterdir()))


async def waits_for_ever() -> None:
    """Wait until the timeout."""
    await dbos.DBOS.sleep_async(86_400)


async def measure(url: str, number: int, lead_s: float, spread_s: float) -> dict[str, Any]:
    """Start workflows, wait until all are cancelled, and read the table."""
    dbos.DBOS(config={"name": "bench", "system_database_url": url, "run_admin_server": False})
    waits = dbos.DBOS.workflow()(waits_for_ever)
    dbos.DBOS.launch()
    logging.getLogger("dbos").setLevel(logging.CRITICAL)
    before = resident_mib()
    first = time.monotonic() + lead_s
    began = time.monotonic()
    for index in range(number):
        at = first + (index + 0.5) * spread_s / number
        with dbos.SetWorkflowTimeout(max(at - time.monotonic(), 1)):
            await dbos.DBOS.start_workflow_async(waits)
    started_s = time.monotonic() - began
    await asyncio.sleep(max(0.0, first - time.monotonic() - 0.5))
    held = {"memory_mib": resident_mib(), "memory_before_mib": before, "threads": threads()}
    cpu, wall = time.process_time(), time.monotonic()
    found: list[Any] = []
    while time.monotonic() < first + spread_s + 60:
        await asyncio.sleep(1)
        if time.monotonic() > first + spread_s:
            found = await dbos.DBOS.list_workflows_async(
                status="CANCELLED", load_input=False, load_output=False
            )
            if len(found) == number:
                break
    load = (time.process_time() - cpu) / (time.monotonic() - wall)
    late = sorted(float(one.updated_at - one.workflow_deadline_epoch_ms) for one in found)
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        "late_ms": {name: late[min(len(late) - 1, int(share * len(late)))] for name, share in shares.items()},
        "enforced": len(found),
        "started_s": started_s,
        "cpu": load,
        **held,
    }


if __name__ == "__main__":
    answer = asyncio.run(measure(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])))
    print(json.dumps(answer), flush=True)
    os._exit(0)  # Its threads wait for workflows that were cancelled.
