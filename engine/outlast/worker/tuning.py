"""How a process should be set up that does nothing but work; for its whole life, so only a main program may ask."""

from __future__ import annotations

import gc
import sys

SWITCH_INTERVAL_S = 0.0002
"""How long a computing thread keeps the interpreter each time the event loop has let go of it for a statement. With
1 ms the rest of a worker is half as fast beside such a thread; Python's default is 5; less than this gains little."""
GC_THRESHOLDS = (50_000, 20, 100)
"""A workflow in flight is a few hundred objects that live for milliseconds; Python's defaults look at all of them
again and again, which costs more than anything else that a workflow does."""


def tune_process() -> None:
    """Switch threads sooner, keep what is loaded out of garbage collections, and make those seldom."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
