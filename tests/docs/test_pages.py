"""Pages whose code is a program: their blocks, put together, run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PROGRAMS = [
    "activities.md",
    "cancellation.md",
    "children.md",
    "client.md",
    "codecs.md",
    "concepts.md",
    "dags.md",
    "alerts.md",
    "upcoming.md",
    "dashboard.md",
    "deferring.md",
    "determinism.md",
    "from-celery.md",
    "from-dbos.md",
    "from-temporal.md",
    "interceptors.md",
    "labels.md",
    "logging.md",
    "outbox.md",
    "queries.md",
    "queues.md",
    "replaying.md",
    "reset.md",
    "fork.md",
    "retention.md",
    "schedules.md",
    "search.md",
    "serverless/calls.md",
    "serverless/events.md",
    "serverless/index.md",
    "serverless/messages.md",
    "serverless/rules.md",
    "signals.md",
    "streams.md",
    "sync-workflows.md",
    "tracing.md",
    "transactions.md",
    "updates.md",
    "web-frameworks.md",
    "versioning.md",
]


@pytest.mark.parametrize("page", PROGRAMS)
def test_the_code_of_the_page_runs(page: str, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.M | re.S)
    program = tmp_path / "program.py"
    program.write_text("\n\n".join(blocks))
    command = [sys.executable, "-W", "error", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
