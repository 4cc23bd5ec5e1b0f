"""What retention finds to delete: all of it, and by a walk that ends where nothing can have expired."""

from __future__ import annotations

import random

from tests.engine.run_rows import HOUR, NOW, SECOND, insert_runs, run_id_at, run_row
from tests.statements import asked_of

from outlast_store.database.database import Database
from outlast_store.schema.rows import RunRow
from outlast_store.transitions import deletion


def closed_run(number: int, *, created_at: int, closed_at: int, ahead: int = 0) -> RunRow:
    """A closed run that was created by a clock that was ahead."""
    run_id = run_id_at(created_at + ahead, number)
    return run_row(number, created_at=created_at, closed_at=closed_at, status="completed", run_id=run_id)


def test_the_walk_for_what_has_expired_ends_where_all_is_younger(shared_database: Database) -> None:
    """Its last page, too, which finds less than it may."""
    writer = shared_database.writer()
    rows = [closed_run(number, created_at=NOW + number, closed_at=NOW + SECOND) for number in range(10)]
    later = NOW + 1000 * HOUR
    rows += [closed_run(10 + number, created_at=later + number, closed_at=later) for number in range(20_000)]
    insert_runs(writer, rows)
    if shared_database.backend == "postgresql":
        writer.exec_driver_sql("ANALYZE")
    writer.close()
    sqlite = shared_database.backend == "sqlite"
    with asked_of(shared_database) as asked, shared_database.reader() as connection:
        for before in (None, rows[5].run_id):
            asked.clear()
            found = deletion.expired(connection, "", before, NOW + HOUR, 100)
            assert [chain.last_run_id for chain in found] == [
                row.run_id for row in rows[: 5 if before else 10]
            ]
            text, values = next(one for one in asked if "ORDER BY run_id" in one[0])
            explain = "EXPLAIN QUERY PLAN " if sqlite else "EXPLAIN ANALYZE "
            plan = "\n".join(str(tuple(row)) for row in connection.exec_driver_sql(explain + text, values))
            assert ("(run_id>? AND run_id<?)" if sqlite else "pk_workflow_runs") in plan, plan
            assert "Rows Removed by Filter" not in plan, plan


def test_nothing_that_has_expired_is_passed_over(database: Database) -> None:
    """However long it ran, and by whatever clock within a day its id was made."""
    chance = random.Random(5)
    rows: list[RunRow] = []
    for number in range(500):
        created_at = NOW - chance.randrange(20 * 24) * HOUR
        lived = chance.choice((0, 1, SECOND, HOUR, 50 * HOUR))
        ahead = chance.choice((-23, 0, 23)) * HOUR
        rows.append(closed_run(number, created_at=created_at, closed_at=created_at + lived, ahead=ahead))
    rows.sort(key=lambda row: row.run_id)
    writer = database.writer()
    insert_runs(writer, rows)
    writer.close()
    with database.reader() as connection:
        for hours in range(-1, 20 * 24, 7):
            closed_before = NOW - hours * HOUR + chance.randrange(-1, 2)
            wanted = [
                row.run_id for row in rows if row.closed_at is not None and row.closed_at < closed_before
            ]
            found: list[str] = []
            while page := deletion.expired(connection, found[-1] if found else "", None, closed_before, 40):
                found += [chain.last_run_id for chain in page]
            assert found == wanted
