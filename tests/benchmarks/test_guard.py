"""What the runtime guard costs where it has nothing to do: Python calls its hook for each audit event."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import asyncio, json, sys
from collections import Counter
from benchmarks.harness.workloads import engine, run_orders

events, counting = Counter(), False

def hook(event, args):
    if counting:
        events[event] += 1

async def main(url):
    global counting
    async with engine(url) as client:
        await run_orders(client, 5, 1)
        counting = True
        await run_orders(client, 100, 1)
        counting = False
    print(json.dumps(events))

sys.addaudithook(hook)
asyncio.run(main(sys.argv[1]))
"""


def test_a_workflow_calls_it_eight_times_and_never_for_what_it_guards(tmp_path: Path) -> None:
    """Its two workflow tasks set and reset the hooks of asynchronous generators, of which Python tells twice each."""
    from outlast_workflow.run.guard import GUARDED

    command = [sys.executable, "-c", SCRIPT, f"sqlite:///{tmp_path}/a.db"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 0, done.stderr
    events: dict[str, int] = json.loads(done.stdout)
    assert sum(events.values()) <= 8 * 100 + 50
    assert set(events) & set(GUARDED) == set()
