"""The outbox: starts, signals and cancel requests that were written in somebody else's transaction.

Whoever has a transaction of his own on this database (a user's code through a client, a trigger, ``psql``, a program in
another language) inserts one row. It is there if and only if that transaction has committed, and nobody holds a lock of
the engine meanwhile. Any watchdog then applies the rows, in the order of their numbers, each exactly once: the
transaction that starts the workflow, delivers the signal or requests the cancellation is the one that deletes the row,
and it looks at the row under its lock first. So a process that dies amid it leaves all of it or nothing.

A row that cannot be applied is kept as *refused*, with the reason: nobody is there who could get the error.

The row's ``options`` are one JSON object:

======= ==============================================================================================================
start   ``run_id``, ``task_queue``, ``headers``, ``signal`` (``name``, ``args``, ``request_id``), and the options of a
        start by name: durations in seconds, instants by ISO 8601
signal  ``run_id``, ``request_id``, ``headers``
cancel  ``run_id``, ``reason``
======= ==============================================================================================================

Deadlines count from the row's ``created_at``, the instant of the call, and not from when it is applied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

import orjson

from outlast_runs.signals import deliver, find_target, was_delivered
from outlast_runs.start import StartRun
from outlast_runs.stored_options import from_document
from outlast_store.alerts.marks import check_alerts
from outlast_store.database.sql_text import marks
from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.reads.outbox import KEPT_FOR_US
from outlast_store.schema import tables
from outlast_store.schema.rows import InstanceRow, OutboxRow
from outlast_store.transitions.new_runs import first_run, started_event
from outlast_store.transitions.run_ends import request_cancel
from outlast_workflow.data.headers import checked_headers
from outlast_workflow.environment import Environment
from outlast_workflow.errors import (
    DamagedHistoryError,
    InvalidOptionError,
    OutlastError,
    StoreError,
    WorkflowClosedError,
)
from outlast_workflow.history.events import SignalReceived, WorkflowCancelRequested
from outlast_workflow.options import search_attributes
from outlast_workflow.options.limits import DEFAULT_LIMITS
from outlast_workflow.options.start import DEFAULT_TASK_QUEUE
from outlast_workflow.options.validation import (
    validate_name,
    validate_reason,
    validate_task_queue,
    validate_workflow_id,
    validate_workflow_type,
)
from outlast_workflow.primitives.enums import DuplicatePolicy
from outlast_workflow.primitives.payloads import Payload

MOST_REASON: Final = 1_000
"""How many characters of a reason are kept."""


class _Request(ABC):
    """What one row asks for."""

    instances: Sequence[str] = ()
    new_instances: Sequence[InstanceRow] = ()

    @abstractmethod
    def apply(self, batch: Batch) -> None:
        """Do it, or raise why not."""


class _Start(_Request):
    def __init__(self, row: OutboxRow, options: dict[str, Any], at: int, environment: Environment) -> None:
        workflow_id = validate_workflow_id(row.workflow_id)
        workflow_type = validate_workflow_type("workflow", row.name)
        task_queue = options.pop("task_queue", DEFAULT_TASK_QUEUE)
        if task_queue != DEFAULT_TASK_QUEUE:
            validate_task_queue(task_queue)
        run_id, headers = _run_id(options), options.pop("headers", None)
        signal = options.pop("signal", None)
        for field in ("memo", "search_attributes"):
            if options.get(field) is not None:
                _object(field, options[field])
        given, memo, document = from_document(options)
        if document is not None:
            checked = search_attributes.checked_attributes(search_attributes.from_document(document))
            document = search_attributes.to_document(checked)
        given.check_ends(at)
        given.check_deadline(at)
        run = first_run(
            run_id=run_id or environment.ids.next(),
            workflow_id=workflow_id,
            workflow_type=workflow_type,
            task_queue=task_queue,
            options=given,
            memo=memo,
            search_attributes=document,
            now=at,
            owner_id=None,
        )
        check_alerts(run)
        started = started_event(run, input=_input(row.args), seed=environment.random.getrandbits(52))
        if headers:
            started.headers = checked_headers(headers)
        message = None
        if signal is not None:
            signal = _object("signal", signal)
            message = _signal(signal.get("name"), _payload(signal.get("args", [])), signal, headers)
        self.change = StartRun(run, started, DuplicatePolicy(given.duplicate_policy), signal=message)
        self.new_instances = self.change.new_instances

    def apply(self, batch: Batch) -> None:
        """See :class:`_Request`."""
        self.change.apply(batch)


class _Message(_Request):
    def __init__(self, row: OutboxRow, options: dict[str, Any]) -> None:
        self.workflow_id = validate_workflow_id(row.workflow_id)
        self.run_id = _run_id(options)
        self.instances = () if self.run_id is not None else (self.workflow_id,)


class _Signal(_Message):
    def __init__(self, row: OutboxRow, options: dict[str, Any]) -> None:
        super().__init__(row, options)
        self.signal = _signal(row.name, _input(row.args), options, options.get("headers"))

    def apply(self, batch: Batch) -> None:
        """See :class:`_Request`. A key that the chain has seen is no error, also once it has ended."""
        try:
            run = find_target(batch, self.workflow_id, self.run_id)
        except WorkflowClosedError as closed:
            last = batch.run(closed.run_id)
            if last is not None and was_delivered(batch, last, self.signal):
                return
            raise
        deliver(batch, run, self.signal, DEFAULT_LIMITS)


class _Cancel(_Message):
    def __init__(self, row: OutboxRow, options: dict[str, Any]) -> None:
        super().__init__(row, options)
        self.reason = validate_reason(options.get("reason"))

    def apply(self, batch: Batch) -> None:
        """See :class:`_Request`. A workflow that has ended meanwhile need not be asked any more."""
        try:
            run = find_target(batch, self.workflow_id, self.run_id)
        except WorkflowClosedError:
            return
        request_cancel(batch, run, WorkflowCancelRequested(self.reason))


class AppliedOutbox:
    """What became of some rows of the outbox.

    Attributes:
        at: When.
        applied: The rows that were applied and deleted.
        refused: The rows that are kept, each with its reason.
    """

    __slots__ = ("applied", "at", "refused")

    def __init__(self, at: int) -> None:
        self.at = at
        self.applied: list[OutboxRow] = []
        self.refused: list[tuple[OutboxRow, str]] = []


class ApplyOutbox(BaseChange):
    """Apply rows of the outbox, in order, and delete them. Rows that others have applied meanwhile are left out.

    Args:
        rows: The rows, as they were read.
        current_runs: The current runs of the workflows that they are for, as far as there are any.
        environment: The source of ids, randomness and time.
    """

    # It decides against rows, which it may on locked rows only.
    needs_locks = True

    def __init__(
        self, rows: Sequence[OutboxRow], current_runs: Sequence[str], environment: Environment
    ) -> None:
        now = environment.clock.now()
        self.runs = current_runs
        self.requests: list[tuple[OutboxRow, _Request | str]] = [
            (row, _request_of(row, now, environment)) for row in rows
        ]
        requests = [request for _, request in self.requests if not isinstance(request, str)]
        self.instances = sorted({name for request in requests for name in request.instances})
        self.new_instances = [instance for request in requests for instance in request.new_instances]
        self.weight = sum(1024 + len(row.args or "") + len(row.options) for row in rows)

    def apply(self, batch: Batch) -> AppliedOutbox:
        """Apply those of the rows that still wait."""
        done = AppliedOutbox(batch.now)
        waiting = self._lock(batch)
        for row, request in self.requests:
            if row.outbox_id not in waiting:
                continue
            reason = request if isinstance(request, str) else self._refusal(batch, request)
            if reason is None:
                done.applied.append(row)
            else:
                done.refused.append((row, reason))
        if done.applied:
            self._delete(batch, [row.outbox_id for row in done.applied])
        for row, reason in done.refused:
            refuse(batch, row.outbox_id, reason)
        return done

    def _lock(self, batch: Batch) -> set[int]:
        """Lock the rows; return the numbers of those that still wait to be applied."""
        keys = [(row.outbox_id,) for row, _ in self.requests]
        found = [OutboxRow(*values) for values in batch.lock(tables.outbox, ("outbox_id",), keys)]
        return {row.outbox_id for row in found if row.state == "waiting"}

    @staticmethod
    def _refusal(batch: Batch, request: _Request) -> str | None:
        """Do what a row asks for; return why not, if it cannot be done."""
        try:
            request.apply(batch)
        except (StoreError, DamagedHistoryError):
            raise
        except OutlastError as error:
            return error.in_words
        return None

    @staticmethod
    def _delete(batch: Batch, numbers: Sequence[int]) -> None:
        text = f"DELETE FROM outlast_outbox WHERE outbox_id IN ({marks(numbers)})"
        if batch.execute(text, tuple(numbers)) != len(numbers):
            raise AssertionError("a locked row of the outbox is gone")


class RefuseOutbox(BaseChange):
    """Keep a row as refused that nobody could apply.

    Args:
        outbox_id: The row.
        reason: Why.
    """

    def __init__(self, outbox_id: int, reason: str) -> None:
        self.outbox_id = outbox_id
        self.reason = reason

    def apply(self, batch: Batch) -> bool:
        """Keep it; return whether it was still waiting."""
        return refuse(batch, self.outbox_id, self.reason)


class RetryOutbox(BaseChange):
    """Let a refused row wait again.

    Args:
        outbox_id: The row.
    """

    def __init__(self, outbox_id: int) -> None:
        self.outbox_id = outbox_id

    def apply(self, batch: Batch) -> bool:
        """Let it wait; return whether it was refused."""
        text = (
            "UPDATE outlast_outbox SET state = 'waiting', reason = NULL, refused_at = NULL "
            "WHERE outbox_id = ? AND state = 'refused'"
        )
        return batch.execute(text, (self.outbox_id,)) == 1


class DeleteOutbox(BaseChange):
    """Delete a row that waits or was refused: what it asks for never happens.

    Args:
        outbox_id: The row.
    """

    def __init__(self, outbox_id: int) -> None:
        self.outbox_id = outbox_id

    def apply(self, batch: Batch) -> bool:
        """Delete it; return whether it was there."""
        return batch.execute("DELETE FROM outlast_outbox WHERE outbox_id = ?", (self.outbox_id,)) == 1


class ForgetRefused(BaseChange):
    """Delete rows that were refused a week ago, the oldest first.

    Args:
        limit: How many.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def apply(self, batch: Batch) -> int:
        """Delete them; return how many."""
        text = (
            "DELETE FROM outlast_outbox WHERE outbox_id IN "
            "(SELECT outbox_id FROM outlast_outbox WHERE refused_at <= ? ORDER BY refused_at LIMIT ?)"
        )
        return batch.execute(text, (batch.now - KEPT_FOR_US, self.limit))


def refuse(batch: Batch, outbox_id: int, reason: str) -> bool:
    """Keep a row as refused, if it still waits.

    Args:
        batch: The batch.
        outbox_id: The row.
        reason: Why.
    """
    text = (
        "UPDATE outlast_outbox SET state = 'refused', reason = ?, refused_at = ? "
        "WHERE outbox_id = ? AND state = 'waiting'"
    )
    return batch.execute(text, (reason[:MOST_REASON], batch.now, outbox_id)) == 1


def _request_of(row: OutboxRow, now: int, environment: Environment) -> _Request | str:
    """Return what a row asks for, or why it cannot be read."""
    # Whoever writes rows with SQL may have another clock.
    at = now if row.created_at is None else max(0, min(row.created_at, now))
    try:
        options = _object("options", _loaded("options", row.options))
        if row.kind == "start":
            return _Start(row, options, at, environment)
        return _Signal(row, options) if row.kind == "signal" else _Cancel(row, options)
    except OutlastError as error:
        return error.in_words
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        # Its text may quote what it could not read.
        return f"the row cannot be read ({type(error).__name__}): see the format of rows in docs/outbox.md"


def _signal(name: Any, input: Payload, options: dict[str, Any], headers: Any) -> SignalReceived:
    request_id = options.get("request_id")
    if request_id is not None:
        validate_name("request id", request_id)
    return SignalReceived(
        validate_name("signal name", name, segment=True),
        input,
        request_id,
        checked_headers(headers) if headers else None,
    )


def _run_id(options: dict[str, Any]) -> str | None:
    run_id = options.pop("run_id", None)
    return None if run_id is None else validate_name("run id", run_id)


def _input(args: str | None) -> Payload:
    if args is None:
        return Payload.of([])
    _payload(_loaded("args", args))
    return Payload(args.encode())


def _payload(args: Any) -> Payload:
    """Return arguments: an array, or what a codec has made of one."""
    if not isinstance(args, list) and not (isinstance(args, dict) and "$codec" in args):
        raise InvalidOptionError("args must be a JSON array: one item for each argument", field="args")
    return Payload.of(args)


def _object(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidOptionError(f"{field} must be a JSON object", field=field)
    return value


def _loaded(field: str, text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        raise InvalidOptionError(f"{field} must be JSON", field=field) from None
