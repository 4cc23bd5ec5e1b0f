"""The import as a user would write it: one workflow, three activities, and their data.

Each run of the workflow loads one batch of chunks and continues as new, so that no history grows with the file. The
execution deadline stays that of the first run. An activity may run more than once, so a chunk is written by idempotent
upserts. Its heartbeats report the row that it has reached, from which the next execution continues.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice
from pathlib import Path

from outlast import ApplicationError, RetryPolicy, activity, workflow
from outlast.demo.csv_file import Record, records, sort_out
from outlast.demo.orders import HEADER
from outlast.demo.warehouse import Warehouse

FLAKY_FAILURES = 2
"""How often the rates service fails before it answers."""

_ROWS_PER_HEARTBEAT = 5_000


@dataclass(frozen=True)
class Chunk:
    """A part of the file: its rows, and the byte at which it starts."""

    number: int
    first_row: int
    rows: int
    offset: int

    @property
    def last_row(self) -> int:
        """The number of its last row."""
        return self.first_row + self.rows - 1


@dataclass(frozen=True)
class Plan:
    """The result of validation: the size and checksum of the file, and its chunks."""

    rows: int
    sha256: str
    chunks: list[Chunk]


@dataclass(frozen=True)
class Loaded:
    """What was loaded into the warehouse, of one chunk or several."""

    rows: int = 0
    rejected: int = 0
    cents: dict[str, int] | None = None

    def plus(self, other: Loaded) -> Loaded:
        """Return the sum of both."""
        cents = dict(self.cents or {})
        for currency, amount in (other.cents or {}).items():
            cents[currency] = cents.get(currency, 0) + amount
        return Loaded(self.rows + other.rows, self.rejected + other.rejected, dict(sorted(cents.items())))


@dataclass(frozen=True)
class ImportJob:
    """What to import, and how.

    Attributes:
        path: The CSV file.
        warehouse: The SQLite file to load it into.
        chunk_rows: Rows of one activity.
        chunks_per_run: Chunks of one run; then the workflow continues as new.
        slice_rows: Rows of one transaction in the warehouse, and between heartbeats.
        latency: Extra seconds for each slice, as if the warehouse were far away.
        pause: Seconds to sleep between two runs.
    """

    path: str
    warehouse: str
    chunk_rows: int
    chunks_per_run: int
    slice_rows: int
    latency: float
    pause: float


@dataclass(frozen=True)
class Carried:
    """What one run passes to the next."""

    plan: Plan
    next_chunk: int
    loaded: Loaded
    rates: dict[str, Decimal]


@dataclass(frozen=True)
class ImportSummary:
    """What the import returns."""

    rows: int
    loaded: int
    rejected: int
    cents: dict[str, int]
    total_eur: Decimal
    chunks: int
    runs: int
    sha256: str


# --- the workflow ---------------------------------------------------------------------------------------------------


@workflow.defn
class ImportCsv:
    """Validate the file, load it batch by batch, each in a run of its own, and sum up."""

    @workflow.run
    async def run(self, job: ImportJob, carried: Carried | None = None) -> ImportSummary:
        """Load the next batch of chunks."""
        if carried is None:
            plan = await validate_csv(job)
            rates = await fetch_rates()
            carried = Carried(plan, 0, Loaded(), rates)
        chunks, loaded = carried.plan.chunks, carried.loaded
        end = min(carried.next_chunk + job.chunks_per_run, len(chunks))
        for chunk in chunks[carried.next_chunk : end]:
            loaded = loaded.plus(await load_chunk(job, chunk))
        if end < len(chunks):
            # A durable timer: it fires even if every process dies meanwhile.
            await asyncio.sleep(job.pause)
            workflow.continue_as_new(job, replace(carried, next_chunk=end, loaded=loaded))
        return _summary(carried, loaded)


def _summary(carried: Carried, loaded: Loaded) -> ImportSummary:
    cents = loaded.cents or {}
    total = sum(
        (Decimal(amount) / 100 * carried.rates[currency] for currency, amount in cents.items()), Decimal(0)
    )
    return ImportSummary(
        rows=carried.plan.rows,
        loaded=loaded.rows,
        rejected=loaded.rejected,
        cents=cents,
        total_eur=total.quantize(Decimal("0.01")),
        chunks=len(carried.plan.chunks),
        runs=workflow.info().run_number,
        sha256=carried.plan.sha256,
    )


# --- the activities -------------------------------------------------------------------------------------------------


@activity.defn(start_to_close_timeout=120, heartbeat_timeout=30)
def validate_csv(job: ImportJob) -> Plan:
    """Read the file once: its header, its checksum, and where its chunks start. A plain function runs in a thread."""
    found = records(job.path)
    header = next(found, None)
    if header is None or tuple(header.fields) != HEADER:
        raise ApplicationError(
            "the file does not start with the header of orders", type="NotOrders", non_retryable=True
        )
    chunks: list[Chunk] = []
    first, offset, last = 1, header.end, header
    for last in found:
        if last.number % job.chunk_rows == 0:
            chunks.append(Chunk(len(chunks) + 1, first, job.chunk_rows, offset))
            first, offset = last.number + 1, last.end
        if last.number % _ROWS_PER_HEARTBEAT == 0:
            activity.heartbeat(last.number)
    if first <= last.number:
        chunks.append(Chunk(len(chunks) + 1, first, last.number - first + 1, offset))
    with Path(job.path).open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    return Plan(last.number, checksum, chunks)


@activity.defn(
    start_to_close_timeout=10,
    retry_policy=RetryPolicy(initial_interval=0.4, backoff_coefficient=2, max_attempts=5),
)
async def fetch_rates() -> dict[str, Decimal]:
    """Ask a service for exchange rates. It is unreliable: it answers only the third request."""
    if activity.info().attempt <= FLAKY_FAILURES:
        raise ApplicationError("503 Service Unavailable", type="RatesUnavailable")
    rates = {"CHF": "1.06", "EUR": "1", "GBP": "1.17", "SEK": "0.09", "USD": "0.92"}
    return {currency: Decimal(rate) for currency, rate in rates.items()}


@activity.defn(
    start_to_close_timeout=120,
    heartbeat_timeout=20,
    retry_policy=RetryPolicy(initial_interval=0.5, max_attempts=5),
)
def load_chunk(job: ImportJob, chunk: Chunk) -> Loaded:
    """Load a chunk, slice by slice, after the last row that a heartbeat of an earlier execution reported."""
    info = activity.info()
    reached: int = info.heartbeat_details[0] if info.heartbeat_details else chunk.first_row - 1
    rest = islice(records(job.path, offset=chunk.offset, number=chunk.first_row), chunk.rows)
    wanted = (record for record in rest if record.number > reached)
    with Warehouse(job.warehouse) as warehouse:
        execution = warehouse.begin(
            chunk.number, attempt=info.attempt, worker_pid=os.getpid(), from_row=reached + 1
        )
        for part in _slices(wanted, job.slice_rows):
            orders, rejected = sort_out(part)
            warehouse.write(chunk.number, execution, orders, rejected, part[-1].number)
            activity.heartbeat(part[-1].number)
            time.sleep(job.latency)
        warehouse.finish(chunk.number, execution)
        totals = warehouse.totals(chunk.first_row, chunk.last_row)
    return Loaded(totals.rows, totals.rejected, totals.cents)


def _slices(items: Iterator[Record], size: int) -> Iterator[list[Record]]:
    while part := list(islice(items, size)):
        yield part
