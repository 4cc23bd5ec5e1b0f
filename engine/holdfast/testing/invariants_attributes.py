"""What must hold of search attributes: the row is what the history folds to, and the index is what the row says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from holdfast_store.rows import RunRow
from holdfast_store.search import index_rows
from holdfast_workflow import events
from holdfast_workflow.events import Event
from holdfast_workflow.search_attributes import merged


def check_attributes(
    runs: Mapping[str, RunRow],
    histories: Mapping[str, Sequence[Event]],
    indexed: Mapping[str, set[tuple[str, str]]],
) -> Iterator[tuple[str, str]]:
    """What is wrong: where, and a sentence."""
    for run in runs.values():
        where = f"run {run.run_id} of {run.workflow_id}"
        said = _folded(histories.get(run.run_id, ()))
        shown = orjson.loads(run.search_attributes) if run.search_attributes is not None else {}
        if said != shown:
            yield where, f"the search attributes {sorted(shown)} are not those of the history, {sorted(said)}"
        if index_rows(run.search_attributes) != indexed.get(run.run_id, set()):
            yield where, "the index of search attributes is not what the row says"
    for orphan in sorted(indexed.keys() - runs.keys()):
        yield f"run {orphan}", "has search attributes but is not in workflow_runs"


def _folded(history: Sequence[Event]) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for event in history:
        if isinstance(event, events.WorkflowStarted):
            attributes = merged(None, event.search_attributes or {})
        elif isinstance(event, events.SearchAttributesUpserted):
            attributes = merged(attributes, event.attributes)
    return attributes
