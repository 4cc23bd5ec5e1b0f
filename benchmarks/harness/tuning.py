"""The process tuned as ``outlast worker`` does it: long-lived objects exempt from collections, and those less often.

A workflow in flight is a few hundred objects that live for milliseconds. With Python's defaults the collector examines
them again and again. What is measured here is tuned as the command line does it, unless ``--untuned`` is given.
"""

from __future__ import annotations

import gc
import sys

from outlast.worker.tuning import GC_THRESHOLDS, SWITCH_INTERVAL_S, tune_process


def tune() -> dict[str, str]:
    """Tune this process, and return what was set, for the report."""
    tune_process()
    return {
        "garbage collector": f"frozen, thresholds {' '.join(map(str, GC_THRESHOLDS))}",
        "switch interval": f"{SWITCH_INTERVAL_S * 1e3:g} ms",
    }


def untuned() -> dict[str, str]:
    """Return Python's defaults, for the report."""
    return {
        "garbage collector": f"thresholds {' '.join(map(str, gc.get_threshold()))}",
        "switch interval": f"{sys.getswitchinterval() * 1e3:g} ms",
    }
