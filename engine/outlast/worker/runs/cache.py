"""The workflow cache: the runs that a worker keeps in memory, so that it need not replay them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from outlast.runtime.runtime import Runtime
from outlast.worker.runs.cached_run import CachedRun
from outlast.worker.runs.late_results import LateResults
from outlast.worker.runs.loader import Result

MOST_EVICTION_TRIES: Final = 16
"""How many runs one :meth:`RunCache.trim` examines."""


class RunCache:
    """The cached runs of one worker, the least recently used first.

    Args:
        runtime: The journal's cache of rows is kept in step with this one.
        capacity: How many idle runs may stay in memory.
        late_results: Commits the results that a discarded run leaves behind.
    """

    def __init__(self, runtime: Runtime, capacity: int, late_results: LateResults) -> None:
        self.runs: OrderedDict[str, CachedRun] = OrderedDict()
        self._runtime = runtime
        self.capacity = capacity
        self._late_results = late_results

    def discard(self, cached_run: CachedRun, in_flight: list[Result] | None = None) -> None:
        """Drop a run from memory and commit its uncommitted activity results on their own.

        Args:
            cached_run: The run.
            in_flight: Results that were bundled with a workflow task that was refused.
        """
        if self.runs.get(cached_run.run_id) is cached_run:
            del self.runs[cached_run.run_id]
        if cached_run.queries:
            cached_run.abandon_queries()
        cached_run.machine.evict()
        self._runtime.journal.cache.forget((cached_run.run_id,), ())
        results = (in_flight or []) + cached_run.own_tasks
        cached_run.own_tasks = []
        cached_run.own = []
        if results and cached_run.run.closed_at is None:
            self._late_results.commit(results)

    def trim(self) -> None:
        """Evict idle runs, the least recently used first, until the cache is within its capacity."""
        runs = self.runs
        for _ in range(min(len(runs), MOST_EVICTION_TRIES)):
            if len(runs) <= self.capacity:
                return
            run_id, cached_run = next(iter(runs.items()))
            if cached_run.idle:
                self.discard(cached_run)
            else:
                runs.move_to_end(run_id)

    def clear(self) -> None:
        """Discard all runs but those whose workflow task is being committed; its outcome discards them."""
        for cached_run in list(self.runs.values()):
            if cached_run.change is None:
                self.discard(cached_run)
