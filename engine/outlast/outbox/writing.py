"""Writing to the outbox: one row in a user's own transaction, once everything that can be checked now is checked.

The row that a start writes has its run id, and its deadlines count from the call. No row of the engine is locked: what
it asks for is decided when it is applied, after the commit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import orjson
from sqlalchemy import Connection, insert, select

from outlast.outbox.bells import bell_of
from outlast.outbox.connections import run_on
from outlast.runtime.runtime import Runtime
from outlast_runs.stored_options import to_document
from outlast_store.database.sql_text import fetch
from outlast_store.queues.contents import queue_not_found
from outlast_store.reads.queues import find_queue
from outlast_store.reads.runs import find_instance, find_run
from outlast_store.schema.rows import RunRow
from outlast_store.schema.tables import outbox
from outlast_workflow.errors import (
    UnstorableValueError,
    WorkflowAlreadyStartedError,
    WorkflowClosedError,
    WorkflowNotFoundError,
)
from outlast_workflow.history.events import SignalReceived, WorkflowStarted
from outlast_workflow.options.options import StartOptions
from outlast_workflow.primitives.enums import DuplicatePolicy, RunStatus
from outlast_workflow.primitives.payloads import Payload, embed

# In JSON text, an escaped NUL behind an even number of backslashes.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_ANY_START = frozenset({DuplicatePolicy.RETURN_EXISTING, DuplicatePolicy.TERMINATE_EXISTING})
"""The policies that refuse no start because of an open run."""


async def write_start(
    runtime: Runtime,
    connection: object,
    run: RunRow,
    started: WorkflowStarted,
    options: StartOptions,
    signal: SignalReceived | None,
) -> None:
    """Write a start.

    Args:
        runtime: The engine's database.
        connection: The user's.
        run: The row of the run that it will have.
        started: Its first event.
        options: Its options.
        signal: A signal to send with it.

    Raises:
        InvalidOptionError: The connection cannot be used.
        WorkflowAlreadyStartedError: The id is taken, as far as can be told now.
        QueueNotFoundError: Nobody has defined its queue.
        StoreError: The database refuses it.
    """
    policy = options.duplicate_policy
    await runtime.read(_check_start, run, policy, has_signal=signal is not None)
    memo = None if started.memo is None else started.memo
    document: dict[str, Any] = {
        "run_id": run.run_id,
        "task_queue": run.task_queue,
        **to_document(options, memo, started.search_attributes),
    }
    if started.headers:
        document["headers"] = started.headers
    if signal is not None:
        document["signal"] = {
            "name": signal.name,
            "args": signal.input,
            **({} if signal.request_id is None else {"request_id": signal.request_id}),
        }
    row = _row("start", run.workflow_id, run.workflow_type, started.input, document, run.created_at)
    look = None
    if signal is None and policy not in _ANY_START:
        look = partial(_refuse_second, workflow_id=run.workflow_id)
    await _write(runtime, connection, [row], look)


async def write_signal(
    runtime: Runtime, connection: object, workflow_id: str, run_id: str | None, signal: SignalReceived
) -> None:
    """Write a signal.

    Args:
        runtime: The engine's database.
        connection: The user's.
        workflow_id: The workflow.
        run_id: One of its runs; the current one if ``None``.
        signal: The signal.

    Raises:
        InvalidOptionError: The connection cannot be used.
        WorkflowNotFoundError: There is no such workflow, and the outbox starts none either.
        WorkflowClosedError: It has ended.
        StoreError: The database refuses it.
    """
    row = _signal_row(workflow_id, run_id, signal, runtime.environment.clock.now())
    # A key that the chain has seen is no error where the workflow has ended since.
    await _write_message(runtime, connection, row, run_id, may_be_closed=signal.request_id is not None)


async def write_signals(
    runtime: Runtime, connection: object, signals: Sequence[tuple[str, SignalReceived]]
) -> list[str]:
    """Write signals to several workflows, all of them or none; return the workflows.

    Args:
        runtime: The engine's database.
        connection: The user's.
        signals: The workflows and their signals, in order.

    Raises:
        OutlastError: As for :func:`write_signal`; nothing was written.
    """
    now = runtime.environment.clock.now()
    rows = [_signal_row(workflow_id, None, signal, now) for workflow_id, signal in signals]
    workflow_ids = list(dict.fromkeys(workflow_id for workflow_id, _ in signals))
    keyed = {workflow_id for workflow_id, signal in signals if signal.request_id is not None}
    looks = [
        await _look_for(runtime, workflow_id, None, may_be_closed=workflow_id in keyed)
        for workflow_id in workflow_ids
    ]

    def look(connection: Connection) -> None:
        for one in looks:
            if one is not None:
                one(connection)

    await _write(runtime, connection, rows, look)
    return workflow_ids


async def write_cancel(
    runtime: Runtime, connection: object, workflow_id: str, run_id: str | None, reason: str | None
) -> None:
    """Write a cancel request.

    Args:
        runtime: The engine's database.
        connection: The user's.
        workflow_id: The workflow.
        run_id: One of its runs; the current one if ``None``.
        reason: Why.

    Raises:
        OutlastError: As for :func:`write_signal`.
    """
    document = {name: value for name, value in (("run_id", run_id), ("reason", reason)) if value is not None}
    row = _row("cancel", workflow_id, None, None, document, runtime.environment.clock.now())
    await _write_message(runtime, connection, row, run_id)


async def _write_message(
    runtime: Runtime,
    connection: object,
    row: dict[str, Any],
    run_id: str | None,
    *,
    may_be_closed: bool = False,
) -> None:
    look = await _look_for(runtime, row["workflow_id"], run_id, may_be_closed=may_be_closed)
    await _write(runtime, connection, [row], look)


async def _look_for(
    runtime: Runtime, workflow_id: str, run_id: str | None, *, may_be_closed: bool
) -> Callable[[Connection], None] | None:
    """Return how to look on the user's connection for a workflow that is not there and open; ``None`` if it is."""
    current = await runtime.read(_find_current, workflow_id, run_id)
    if current is not None and (current.is_open or may_be_closed or current.next_run_id is not None):
        return None

    def look(connection: Connection) -> None:
        # A start of this very transaction counts, and one that others have committed.
        if run_id is None and _starts(connection, workflow_id):
            return
        if current is None:
            raise WorkflowNotFoundError(workflow_id)
        raise WorkflowClosedError(workflow_id, run_id=current.run_id, status=current.status)

    return look


async def _write(
    runtime: Runtime,
    connection: object,
    rows: Sequence[dict[str, Any]],
    look: Callable[[Connection], None] | None = None,
) -> None:
    bell = bell_of(runtime)
    if runtime.database.backend == "postgresql":
        _check_storable(rows)

    def write(connection: Connection) -> None:
        if look is not None:
            look(connection)
        # One statement, and each row gets the number after the one before it.
        connection.execute(insert(outbox).inline().values(rows))
        bell.ring_after(connection)

    await run_on(connection, runtime, write)


def _check_storable(rows: Sequence[dict[str, Any]]) -> None:
    """Refuse what PostgreSQL's checks of the outbox cannot read, before it aborts the user's whole transaction.

    Raises:
        UnstorableValueError: A value holds text with NUL.
    """
    for row in rows:
        if _NUL.search(row["args"] or "") or _NUL.search(row["options"]):
            raise UnstorableValueError(
                f"the outbox cannot hold text with NUL, which this {row['kind']} of {row['workflow_id']} has: leave "
                "that out, or give no connection; nothing was written, and your transaction can go on"
            )


def _signal_row(workflow_id: str, run_id: str | None, signal: SignalReceived, now: int) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, value in (("run_id", run_id), ("request_id", signal.request_id), ("headers", signal.headers)):
        if value:
            document[name] = value
    return _row("signal", workflow_id, signal.name, signal.input, document, now)


def _row(
    kind: str,
    workflow_id: str,
    name: str | None,
    args: Payload | None,
    document: dict[str, Any],
    created_at: int,
) -> dict[str, Any]:
    return {
        "kind": kind,
        "workflow_id": workflow_id,
        "name": name,
        "args": None if args is None else args.json.decode(),
        "options": orjson.dumps(document, default=embed).decode(),
        "created_at": created_at,
    }


# --- what is looked at ----------------------------------------------------------------------------------------------


def _check_start(connection: Connection, run: RunRow, policy: DuplicatePolicy, *, has_signal: bool) -> None:
    if run.queue is not None:
        queue = find_queue(connection, run.queue)
        if queue is None or queue.deleted_at is not None:
            raise queue_not_found(partial(fetch, connection), run.queue)
    current = _find_current(connection, run.workflow_id, None)
    if current is None:
        return
    if current.is_open:
        refused = not has_signal and policy not in _ANY_START
    else:
        refused = policy is DuplicatePolicy.REJECT_DUPLICATE or (
            policy is DuplicatePolicy.ALLOW_DUPLICATE_FAILED_ONLY and current.status == RunStatus.COMPLETED
        )
    if refused:
        raise WorkflowAlreadyStartedError(run.workflow_id, run_id=current.run_id, status=current.status)


def _find_current(connection: Connection, workflow_id: str, run_id: str | None) -> RunRow | None:
    if run_id is None:
        instance = find_instance(connection, workflow_id)
        if instance is None:
            return None
        run_id = instance.current_run_id
    run = find_run(connection, run_id)
    return run if run is not None and run.workflow_id == workflow_id else None


def _starts(connection: Connection, workflow_id: str) -> list[str]:
    """Return the options of the starts of a workflow id that wait, those of this very transaction included."""
    waiting = select(outbox.c.options).where(
        outbox.c.workflow_id == workflow_id, outbox.c.kind == "start", outbox.c.state == "waiting"
    )
    return [row[0] for row in connection.execute(waiting)]


def _refuse_second(connection: Connection, workflow_id: str) -> None:
    waiting = _starts(connection, workflow_id)
    if waiting:
        run_id = orjson.loads(waiting[0]).get("run_id") or "not named yet"
        raise WorkflowAlreadyStartedError(workflow_id, run_id=run_id, status="in the outbox")
