"""What a role of PostgreSQL needs to start workflows by SQL: what the page of the outbox says, no less and no more."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import ProgrammingError

from outlast import Client, Worker, workflow
from outlast_store.database.urls import DatabaseUrl

NEEDED = {
    "insert": "INSERT ON outlast_outbox",
    "select": "SELECT ON outlast_outbox",
    "usage": "USAGE ON SEQUENCE outlast_outbox_outbox_id_seq",
}
CALLS = (
    "SELECT outlast_start('ship', '[1]', id => 'order-1', ring => true)",
    "SELECT outlast_signal('order-1', 'note', '[2]')",
    "SELECT outlast_cancel('order-2', 'by hand')",
)
TRIGGER = """
CREATE FUNCTION ship() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM outlast_start('ship', jsonb_build_array(NEW.id), id => 'order-' || NEW.id);
    RETURN NEW;
END $$;
CREATE TRIGGER ship AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION ship();
"""


@pytest.fixture
def anyio_backend() -> str:
    """Real time."""
    return "asyncio"


@workflow.defn
async def ship(order: int) -> int:
    return order


@contextmanager
def role_with(url: str, *privileges: str) -> Generator[Connection]:
    """A connection as a role that may do this with the engine's tables, and owns a table of orders."""
    engine = create_engine(DatabaseUrl.parse(url).sqlalchemy_url, isolation_level="AUTOCOMMIT")
    name = f"shop_{uuid4().hex}"
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {name}")
        connection.exec_driver_sql("CREATE TABLE orders (id bigint PRIMARY KEY)")
        connection.exec_driver_sql(f"ALTER TABLE orders OWNER TO {name}")
        for privilege in privileges:
            connection.exec_driver_sql(f"GRANT {privilege} TO {name}")
        connection.exec_driver_sql(TRIGGER)
        connection.exec_driver_sql(f"SET ROLE {name}")
        try:
            yield connection
        finally:
            connection.exec_driver_sql("RESET ROLE")
            connection.exec_driver_sql(f"DROP OWNED BY {name}")
            connection.exec_driver_sql("DROP FUNCTION ship")
            connection.exec_driver_sql(f"DROP ROLE {name}")
    engine.dispose()


async def test_with_these_privileges_a_role_calls_the_functions_also_in_triggers(postgresql_url: str) -> None:
    async with Client.connect(postgresql_url) as client, Worker(client, workflows=[ship]):
        with role_with(postgresql_url, *NEEDED.values()) as connection:
            connection.exec_driver_sql("INSERT INTO orders (id) VALUES (7)")
            assert await client.handle("order-7").result() == 7
            for call in CALLS:
                connection.execute(text(call))
            assert await client.handle("order-1").result() == 1
            for table in ("workflow_runs", "history_events", "workflow_instances"):
                with pytest.raises(ProgrammingError, match="permission denied"):
                    connection.exec_driver_sql(f"SELECT * FROM {table}")
        await client.outbox.drain()
        refused = await client.outbox.list()
        assert {row.workflow_id for row in refused} <= {"order-1", "order-2"}, "nobody has started order-2"


@pytest.mark.parametrize("missing", NEEDED)
async def test_without_any_of_them_nothing_is_written(postgresql_url: str, missing: str) -> None:
    async with Client.connect(postgresql_url) as client:
        given = [privilege for name, privilege in NEEDED.items() if name != missing]
        with role_with(postgresql_url, *given) as connection:
            for call in (*CALLS, "INSERT INTO orders (id) VALUES (8)"):
                with pytest.raises(ProgrammingError, match="permission denied"):
                    connection.execute(text(call))
            assert connection.exec_driver_sql("SELECT count(*) FROM orders").scalar_one() == 0
        assert await client.outbox.list() == []
        assert await client.count() == 0
