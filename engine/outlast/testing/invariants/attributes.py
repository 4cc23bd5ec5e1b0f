"""What must hold of memo and search attributes: the row equals the history, and the index equals the row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from outlast_store.schema.rows import RunRow
from outlast_store.schema.search_index import index_rows
from outlast_workflow.history import events
from outlast_workflow.history.events import Event
from outlast_workflow.options.search_attributes import merged
from outlast_workflow.primitives.payloads import Payload


def check_attributes(
    runs: Mapping[str, RunRow],
    histories: Mapping[str, Sequence[Event]],
    indexed: Mapping[str, set[tuple[str, str]]],
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong: the place, and a sentence."""
    for run in runs.values():
        where = f"run {run.run_id} of {run.workflow_id}"
        history = histories.get(run.run_id, ())
        if _memo(history) != (orjson.loads(run.memo) if run.memo is not None else None):
            yield where, "the memo is not that of the history"
        said = _folded(history)
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


def _memo(history: Sequence[Event]) -> Any:
    memo: Payload | None = None
    for event in history:
        if isinstance(event, events.WorkflowStarted | events.MemoUpserted):
            memo = event.memo
    return memo.value if memo is not None else None
