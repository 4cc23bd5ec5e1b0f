"""What both database families do with many rows at once."""

from __future__ import annotations

import pytest

from outlast_store.database.database import Database
from outlast_store.database.statements import statements_for
from outlast_store.schema import tables
from outlast_store.schema.rows import InstanceRow


def instance(number: int, run: str) -> tuple[object, ...]:
    return tuple(vars(InstanceRow(f"w{number:03}", "Order", f"{run}{number:03}", 1, number)).values())


@pytest.mark.parametrize("there", [(), (0,), (1, 70, 199), tuple(range(200))])
def test_of_new_rows_those_are_inserted_that_none_is_in_the_way_of(
    database: Database, there: tuple[int, ...]
) -> None:
    statements = statements_for(database.backend)
    writer = database.writer()
    statements.insert(
        writer, tables.workflow_instances, [instance(number, "old") for number in (*there, 300)]
    )
    given = [instance(number, "new") for number in range(200)]
    inserted = statements.insert_new(writer, tables.workflow_instances, given)
    assert inserted == {f"w{number:03}" for number in range(200) if number not in there}
    runs = writer.exec_driver_sql("SELECT workflow_id, current_run_id FROM workflow_instances").all()
    writer.close()
    assert {key for key, run in runs if run.startswith("new")} == inserted
    assert len(runs) == 201
