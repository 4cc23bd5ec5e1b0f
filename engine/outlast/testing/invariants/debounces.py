"""What must hold of debounced starts: the row of a key names its run, and inputs change before a run begins only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from outlast_store.schema.rows import DebounceRow, RunRow
from outlast_workflow.history.events import (
    Event,
    WorkflowStartChanged,
    WorkflowStarted,
    WorkflowTaskCompleted,
)


def check_debounces(
    rows: Sequence[DebounceRow], runs: Mapping[str, RunRow], histories: Mapping[str, Sequence[Event]]
) -> Iterator[tuple[str, str]]:
    """Check the rows of keys, and the histories of debounced runs. Yield the place, and a sentence.

    Args:
        rows: The rows of keys.
        runs: All runs.
        histories: Their histories.
    """
    for row in rows:
        # Its run may have been deleted.
        if row.run_id in runs and histories.get(row.run_id):
            for what in _check_row(row, histories[row.run_id]):
                yield "debounce " + row.debounce_key, what
    for run_id, history in histories.items():
        for what in _check_inputs(history):
            yield "run " + run_id, what


def _check_row(row: DebounceRow, history: Sequence[Event]) -> Iterator[str]:
    started = history[0]
    if not isinstance(started, WorkflowStarted):
        # A part of the history is gone, which is said of the run.
        return
    if (started.workflow_type, started.debounce_key) != (row.workflow_type, row.debounce_key):
        yield f"names run {row.run_id}, which was started for {started.workflow_type} by {started.debounce_key}"
        return
    calls = 1 + sum(1 for event in history if _gives_input(event))
    if calls != row.calls:
        yield f"has counted {row.calls} calls, and its run was given {calls} inputs"


def _check_inputs(history: Sequence[Event]) -> Iterator[str]:
    begun = False
    for event in history:
        begun = begun or isinstance(event, WorkflowTaskCompleted)
        if not _gives_input(event):
            continue
        if begun:
            yield "was given another input after it had begun"
        started = history[0]
        if isinstance(started, WorkflowStarted) and started.debounce_key is None:
            yield "was given another input, and is not debounced"


def _gives_input(event: Event) -> bool:
    return isinstance(event, WorkflowStartChanged) and event.input is not None
