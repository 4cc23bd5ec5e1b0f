"""The process as ``outlast worker`` sets it up: long-lived objects kept out of collections, and those made seldom.

A workflow in flight is a few hundred objects that live for milliseconds. Python's defaults look at all of them again
and again; what is measured here is set up as the command line does it, unless ``--untuned`` is given.
"""

from __future__ import annotations

import gc
import sys

from outlast.worker.tuning import GC_THRESHOLDS, SWITCH_INTERVAL_S, tune_process


def tune() -> dict[str, str]:
    """Set this process up for work; returns what was set, for the report."""
    tune_process()
    return {
        "garbage collector": f"frozen, thresholds {' '.join(map(str, GC_THRESHOLDS))}",
        "switch interval": f"{SWITCH_INTERVAL_S * 1e3:g} ms",
    }


def untuned() -> dict[str, str]:
    """What Python sets by itself, for the report."""
    return {
        "garbage collector": f"thresholds {' '.join(map(str, gc.get_threshold()))}",
        "switch interval": f"{sys.getswitchinterval() * 1e3:g} ms",
    }
