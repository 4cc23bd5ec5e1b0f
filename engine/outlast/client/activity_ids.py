"""How somebody outside names an activity where there is no task token at hand."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ActivityIds:
    """An activity by its ids, for ``client.complete_activity`` and its kin. It means the attempt that runs now.

    A task token names one attempt, and so cannot reach a later one by mistake: prefer it where you have it.

    Attributes:
        workflow_id: The workflow.
        activity_id: The activity, as ``activity.info()`` and ``describe`` show it. Each run has its own numbers.
        run_id: The run that called it; ``None`` for the workflow's current run.
    """

    workflow_id: str
    activity_id: int
    run_id: str | None = None
