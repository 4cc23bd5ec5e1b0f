"""What a run that left memory has left to the garbage collector: nothing, if all is well."""

from __future__ import annotations

import gc
from typing import Any

from outlast_workflow.loop.futures import DeterministicFuture, DeterministicTask
from outlast_workflow.loop.greenlets import PlainCode

BEFORE: list[Any] = []
"""What other tests left behind (a simulated process that vanishes evicts nothing); held, so that ids stay theirs."""


def left_behind() -> list[Any]:
    """The tasks, futures and plain code that are still there and were not before the test."""
    kinds = DeterministicTask | DeterministicFuture | PlainCode
    known = {id(thing) for thing in BEFORE}
    return [thing for thing in gc.get_objects() if isinstance(thing, kinds) and id(thing) not in known]
