"""What must hold of the outbox: a row is there, or what it asks for has happened, and never both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import orjson

from outlast_store.schema.rows import OutboxRow, RunRow


def check_outbox(rows: Sequence[OutboxRow], runs: Mapping[str, RunRow]) -> Iterator[tuple[str, str]]:
    """Check the rows of the outbox. Yield the place, and a sentence.

    Args:
        rows: The rows.
        runs: All runs.
    """
    for row in rows:
        where = f"row {row.outbox_id} of the outbox"
        refused = row.state == "refused"
        if refused != (row.refused_at is not None) or refused != (row.reason is not None):
            yield where, f"is {row.state}, but refused_at={row.refused_at} and reason={row.reason!r}"
        if row.kind == "start" and not refused and _run_id(row) in runs:
            yield where, "starts a workflow that is there already: it would start again"


def _run_id(row: OutboxRow) -> object:
    # Whoever writes rows with SQL may write anything.
    try:
        options = orjson.loads(row.options)
    except ValueError:
        return None
    run_id = options.get("run_id") if isinstance(options, dict) else None
    return run_id if isinstance(run_id, str) else None
