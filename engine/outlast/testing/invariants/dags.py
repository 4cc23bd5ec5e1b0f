"""What must hold of runs of DAGs: the spec that one records is what its hash says, and each label is a node of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from outlast_workflow.history import events
from outlast_workflow.history.events import Event

_RECORD = b'{"outlast_dag":'
_DOCUMENTS = "outlast.dag"
_RESERVE = "reserve before the deadline"


def check_dag(history: Sequence[Event]) -> Iterator[str]:
    """Check what a run has recorded of its DAG, if it has one.

    Args:
        history: Its events, in order.
    """
    spec: Any = None
    started = history[0]
    if isinstance(started, events.WorkflowStarted) and started.workflow_type == _DOCUMENTS:
        spec = _document_of(started)
    for seq, event in enumerate(history, 1):
        if isinstance(event, events.SideEffectRecorded) and event.value.json.startswith(_RECORD):
            found = orjson.loads(event.value.json)
            spec = found["spec"]
            text = orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)
            if hashlib.sha256(text).hexdigest() != found["hash"]:
                yield f"event {seq} records a DAG whose hash is not {found['hash']}"
        elif spec is not None and event.command:
            label = getattr(event, "summary", None)
            if label is not None and label != _RESERVE and label.partition("[")[0] not in _nodes_of(spec):
                yield f"event {seq} is labelled {label}, which is no node of its DAG"


def _document_of(started: events.WorkflowStarted) -> Any:
    """Return the DAG that a run was given; ``None`` if it cannot be one, or a codec has encoded it."""
    given = orjson.loads(started.input.json)
    document = given[0] if isinstance(given, list) and given else None
    nodes = document.get("nodes") if isinstance(document, dict) else None
    is_one = isinstance(nodes, list) and all(isinstance(node, dict) and "id" in node for node in nodes)
    return document if is_one else None


def _nodes_of(spec: Any) -> set[str]:
    return {node["id"] for node in spec["nodes"]}
