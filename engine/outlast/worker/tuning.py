"""Tuning of a process that only runs a worker. It lasts for the process's life, so only a main program may apply it."""

from __future__ import annotations

import gc
import sys

SWITCH_INTERVAL_S = 0.00005
"""How long a computing thread keeps the interpreter lock each time the event loop has released it for a statement.

SQLite's driver releases it several times for each statement. With 0.2 ms, the rest of a worker on SQLite is half as
fast next to such a thread as with this. Python's default is 5 ms. A lower value gains little.
"""
GC_THRESHOLDS = (50_000, 20, 100)
"""The thresholds of the garbage collector's generations.

A workflow in flight is a few hundred objects that live for milliseconds. With Python's defaults the collector examines
them again and again, which costs more than anything else that a workflow does.
"""


def tune_process() -> None:
    """Set this process up as ``outlast worker`` does: with many in flight, a quarter to a half more workflows a second.

    Call it once in a main program whose work is workflows, after its imports: it switches threads sooner, exempts what
    is loaded from garbage collection, and collects less often, for the whole process and as long as it lives.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
