"""Cached runs without a worker around them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.engine.run_rows import NOW, run_row

from outlast.worker.runs.cached_run import CachedRun


def cached(number: int = 1, *, seen_seq: int = 1, **columns: Any) -> CachedRun:
    """A cached run whose machine only says that no code waits for the start of a child."""
    machine: Any = SimpleNamespace(
        children=SimpleNamespace(awaits_start=lambda command_id: False), evict=lambda: None
    )
    row = run_row(number, created_at=NOW, **{"last_seq": seen_seq, **columns})
    return CachedRun(row, machine, seen_seq=seen_seq, open_ids=set())
