"""Queues under fire: their limits, a witness in the database, and what their histories say afterwards.

The witness is a trigger. Whoever takes a slot, or takes over a run that has one, is counted when its transaction
commits, under a lock that all of them take and keep until they have committed. So it sees what is true at that
instant, whatever the engine believed, and writes it down together with the limits that it finds exceeded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import psycopg
from sqlalchemy import Connection
from tests.chaos.record import Record

from outlast import Client, Queue, Rate
from outlast_store.database.sql_text import fetch

PARTITIONS: Final = (None, "t1", "t2", "t3", "t4")
QUEUES: Final = (
    Queue("narrow", concurrency=6, worker_concurrency=2),
    Queue("tenants", concurrency=14, partition_concurrency=3, partition_worker_concurrency=1),
    Queue("paced", rate=Rate(40, per=1), partition_rate=Rate(10, per=0.5)),
    Queue(
        "all",
        concurrency=10,
        worker_concurrency=3,
        rate=Rate(50, per=1),
        partition_concurrency=4,
        partition_worker_concurrency=2,
        partition_rate=Rate(15, per=1),
    ),
)
CHANGED: Final = "narrow"
"""The queue whose limits change while there is war, between one and those that it was defined with."""

_WITNESS: Final = """
CREATE TABLE slots_taken (run_id text, queue text, partition_key text, worker_id text, dequeued boolean, wrong text);

CREATE FUNCTION held(name text, partition text, worker text) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (SELECT count(*) FROM workflow_runs WHERE slot_queue = name
            AND (partition IS NULL OR partition_key = partition) AND (worker IS NULL OR owner_id = worker))
        + (SELECT count(*) FROM activity_executions WHERE status = 'running' AND queue = name
            AND (partition IS NULL OR partition_key = partition) AND (worker IS NULL OR claimed_by = worker))
$$;

CREATE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    gate queues%ROWTYPE;
    dequeued boolean := OLD.slot_queue IS NULL;
    wrong text := '';
BEGIN
    -- What the others have committed is seen by the statements after this one.
    PERFORM pg_advisory_xact_lock(16);
    SELECT * INTO gate FROM queues WHERE queue = NEW.slot_queue;
    -- Who takes a run over takes no slot: limits that were lowered meanwhile may be exceeded already.
    IF dequeued AND held(gate.queue, NULL, NULL) > gate.concurrency THEN
        wrong := wrong || ' concurrency';
    END IF;
    IF dequeued AND held(gate.queue, NEW.partition_key, NULL) > gate.partition_concurrency THEN
        wrong := wrong || ' partition_concurrency';
    END IF;
    IF held(gate.queue, NULL, NEW.owner_id) > gate.worker_concurrency THEN
        wrong := wrong || ' worker_concurrency';
    END IF;
    IF held(gate.queue, NEW.partition_key, NEW.owner_id) > gate.partition_worker_concurrency THEN
        wrong := wrong || ' partition_worker_concurrency';
    END IF;
    IF dequeued AND gate.paused_at IS NOT NULL THEN
        wrong := wrong || ' pause';
    END IF;
    INSERT INTO slots_taken
        VALUES (NEW.run_id, gate.queue, NEW.partition_key, NEW.owner_id, dequeued, nullif(wrong, ''));
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER witness AFTER UPDATE ON workflow_runs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.slot_queue IS NOT NULL AND NEW.owner_id IS NOT NULL
        AND (OLD.slot_queue IS NULL OR OLD.owner_id IS DISTINCT FROM NEW.owner_id))
    EXECUTE FUNCTION witness();
"""


def install_witness(url: str) -> None:
    """Let a trigger look at every slot that is taken in a PostgreSQL database."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_WITNESS)


async def define(client: Client) -> None:
    """Define the queues."""
    for queue in QUEUES:
        await client.queues.define_queue(queue, "keep")


def check_queues(connection: Connection, record: Record) -> Iterator[str]:
    """Say what the witness has seen, and which limits the histories exceed.

    The histories alone can't tell who had a slot of which worker; the witness alone knows of no rates.
    """
    seen = fetch(connection, "SELECT queue, partition_key, worker_id, dequeued, wrong FROM slots_taken")
    for queue, partition, worker, dequeued, wrong in seen:
        if wrong is not None:
            how = "was admitted" if dequeued else "was taken over"
            yield f"{queue}, partition {partition!r}: one {how} by {worker} too many:{wrong}"
    admissions = sum(1 for _ in record.events("WorkflowDequeued"))
    if admissions != sum(bool(dequeued) for _, _, _, dequeued, _ in seen):
        yield f"the histories have {admissions} admissions, the witness has seen {len(seen)} slots taken"
    yield from check_histories(record)


def check_histories(record: Record) -> Iterator[str]:
    """Say which limits of the queues the histories exceed.

    A run holds its slot at least from its first workflow task, which follows the commit of its admission, to the
    instant of its end, which comes before the commit of that.
    """
    spans: dict[tuple[str, str | None], list[tuple[int, int]]] = defaultdict(list)
    admitted: dict[tuple[str, str | None], list[int]] = defaultdict(list)
    for run in record.runs.values():
        if run.queue is None:
            continue
        for key in ((run.queue, None), (run.queue, run.partition_key)):
            if run.started_at is not None and run.closed_at is not None:
                spans[key].append((run.started_at, run.closed_at))
    for run, event in record.events("WorkflowDequeued"):
        assert run.queue is not None
        for key in ((run.queue, None), (run.queue, run.partition_key)):
            admitted[key].append(event.at)
    limits = {queue.name: queue for queue in QUEUES}
    for (name, partition), found in spans.items():
        queue = limits[name]
        limit = queue.concurrency if partition is None else queue.partition_concurrency
        most = most_at_once(found)
        if limit is not None and most > limit:
            yield f"{name}, partition {partition!r}: {most} ran at once, {limit} may"
    for (name, partition), instants in admitted.items():
        queue = limits[name]
        rate = queue.rate if partition is None else queue.partition_rate
        if (
            rate is not None
            and (most := most_in_a_window(instants, round(rate.per * 1_000_000))) > rate.limit
        ):
            yield f"{name}, partition {partition!r}: {most} were admitted in {rate.per} s, {rate.limit} may be"


def most_at_once(spans: list[tuple[int, int]]) -> int:
    """Return how many spans overlap at most; one that ends as another begins does not overlap it."""
    changes = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def most_in_a_window(instants: list[int], length: int) -> int:
    """Return how many instants lie at most in a window of a length, its end not included."""
    instants = sorted(instants)
    most = first = 0
    for place, instant in enumerate(instants):
        while instant - instants[first] >= length:
            first += 1
        most = max(most, place - first + 1)
    return most
