"""Checking that a run issues the same commands if it is evicted after any workflow task and restored by replay.

For each workflow task of a history, the history before it is replayed on a fresh machine. The workflow task then runs
*live*, with the events that its record names. Its commands must be those that were recorded. A plain replay does not
check this, because the code can see all along that it is being replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from outlast_workflow.history.events import REGISTRY, Event, WorkflowTaskCompleted
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import Row, replay, without_ids


def check_every_prefix(machine: Callable[[], WorkflowMachine], rows: Sequence[Row]) -> list[str]:
    """Return what differs after a replay of each prefix of a history: one sentence for each difference.

    Args:
        machine: Makes a fresh machine.
        rows: The whole history, payloads as JSON text. The time grows with the square of its length.
    """
    found: list[str] = []
    for index, (seq, kind, payload) in enumerate(rows):
        if kind == WorkflowTaskCompleted.type:
            found += _check(machine(), rows, index, seq, orjson.loads(payload))
    return found


def _check(
    machine: WorkflowMachine, rows: Sequence[Row], index: int, seq: int, record: dict[str, Any]
) -> list[str]:
    where = f"after a replay of {record['through']} events, the workflow task of event {seq}"
    try:
        replayed = replay(machine, rows[: record["through"]])
        due = [event for _, event in replayed.unapplied]
        due += [_event(row) for row in rows[index - record["own"] : index]]
        issued = machine.run_workflow_task(
            due,
            record["at"],
            history_events=record["history_events"],
            history_bytes=record["history_bytes"],
            suggested=record.get("suggested", False),
        )
    except Exception as error:
        return [f"{where} fails: {type(error).__name__}: {error}"]
    finally:
        machine.evict()
    found: list[str] = []
    if machine.time != record["at"]:
        found.append(f"{where} was at {machine.time}, not at {record['at']}")
    recorded = _commands(rows, index + 1, record["commands"])
    asked = [command.signature() for command in issued]
    expected = [cls.recorded_signature(said) for cls, said in recorded]
    if seq <= _forked_at(rows[0]):
        asked, expected = without_ids(asked), without_ids(expected)
    if asked != expected:
        found.append(
            f"{where} issues {[command.type for command in issued]}, not {[cls.type for cls, _ in recorded]}"
        )
    # A codec may encode a value differently each time.
    elif machine.converter.codec is None:
        for command, (cls, said) in zip(issued, recorded, strict=True):
            result = getattr(command, "result", None)
            if (None if result is None else result.value) != said.get("result"):
                found.append(f"{where} has another result in its {cls.type}")
    return found


def _forked_at(first: Row) -> int:
    """Return the seq up to which a history is that of another workflow."""
    fork = orjson.loads(first[2]).get("forked_from")
    return int(fork["seq"]) if fork is not None else 0


def _event(row: Row) -> Event:
    _, kind, payload = row
    return REGISTRY[kind].from_document(orjson.loads(payload))


def _commands(rows: Sequence[Row], index: int, count: int) -> list[tuple[type[Event], dict[str, Any]]]:
    """Return the commands that follow the record of a workflow task, without the engine's own."""
    found: list[tuple[type[Event], dict[str, Any]]] = []
    while len(found) < count and index < len(rows):
        _, kind, payload = rows[index]
        cls, document = REGISTRY[kind], orjson.loads(payload)
        if cls.command and document.get("by") is None:
            found.append((cls, document))
        index += 1
    return found
