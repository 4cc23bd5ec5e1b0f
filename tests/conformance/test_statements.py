"""What both database families do with many rows at once."""

from __future__ import annotations

import pytest

from outlast_store.database.database import Database
from outlast_store.database.statements import statements_for
from outlast_store.schema import tables
from outlast_store.schema.rows import InstanceRow


def instance(number: int, run: str) -> tuple[object, ...]:
    return tuple(vars(InstanceRow(f"w{number:03}", "Order", f"{run}{number:03}", 1, number)).values())


@pytest.mark.parametrize("run", ["old", "new"], ids=["other", "equal"])
@pytest.mark.parametrize("there", [(), (0,), (1, 70, 199), tuple(range(200))])
@pytest.mark.parametrize("count", [1, 200])
def test_of_new_rows_those_are_inserted_that_none_is_in_the_way_of(
    database: Database, there: tuple[int, ...], run: str, count: int
) -> None:
    """A row in the way may be equal to the one that is given: another process had the same to do at the same time."""
    statements = statements_for(database.backend)
    writer = database.writer()
    statements.insert(writer, tables.workflow_instances, [instance(number, run) for number in (*there, 300)])
    given = [instance(number, "new") for number in range(count)]
    inserted = statements.insert_new(writer, tables.workflow_instances, given)
    assert inserted == {f"w{number:03}" for number in range(count) if number not in there}
    rows = writer.exec_driver_sql("SELECT workflow_id, current_run_id FROM workflow_instances").all()
    writer.close()
    assert {key for key, _ in rows} == {f"w{number:03}" for number in (*range(count), *there, 300)}
    assert {key for key, run_id in rows if run_id.startswith("new")} >= inserted
