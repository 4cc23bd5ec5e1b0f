"""Bugs of the interpreter of DAGs. Those that are not registered are seen where DAGs are killed at every commit.

Those of its core are planted in ``tests/dag/test_progress.py``: the oracle is nearer to them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from tests.simulation.bugs.planting import bug, patch

from outlast_dag.run import calls, interpreter
from outlast_workflow.api.markers import side_effect
from outlast_workflow.options.activity import ActivityOptions
from outlast_workflow.primitives.enums import CancellationType


@bug
def dags_walk_a_set(stack: ExitStack) -> None:
    """What the core asks for is done in an order that no replay repeats."""
    right, order = interpreter._Run.do, random.Random(1)

    def wrong(self: Any, actions: Sequence[Any]) -> None:
        right(self, order.sample(actions, len(actions)))

    patch(stack, interpreter._Run, "do", wrong)


def dags_follow_the_code(stack: ExitStack) -> None:
    """A run goes on by the spec that its worker serves, whatever it began with."""

    def wrong(spec: Any) -> Any:
        side_effect(lambda: interpreter.record_of(spec), result_type=dict[str, Any])
        return spec

    patch(stack, interpreter, "_recorded", wrong)


def dags_do_not_wait_for_what_they_stop(stack: ExitStack) -> None:
    """A call that is asked to stop is taken for stopped."""
    patch(stack, calls, "STOPPING", ActivityOptions(cancellation_type=CancellationType.TRY))
