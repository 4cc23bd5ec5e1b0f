"""What a test leaves in its databases is checked when they are closed: see ``invariants`` in ``tests/conftest.py``."""

from __future__ import annotations

from tests.engine import programs

from outlast.testing import TestEnvironment


def left(*statements: str, url: str = "sqlite://") -> None:
    """Let the engine leave a database in which something was done; one in a file is gone then."""

    async def body() -> None:
        async with TestEnvironment(url=url) as env:
            await env.client.start(programs.nothing, id="w")
            with env.client.runtime.database.writer() as connection:
                for statement in statements:
                    connection.exec_driver_sql(statement)
            path = env.client.runtime.url.path
            if path is not None:
                for file in path.parent.glob(f"{path.name}*"):
                    file.unlink()

    TestEnvironment.run(body)


def test_what_is_in_order_is_no_news(invariants: list[str]) -> None:
    left()
    assert invariants == []


def test_what_is_wrong_is_told(invariants: list[str]) -> None:
    left("UPDATE workflow_runs SET last_seq = 9")
    (found,) = invariants
    assert "last_seq is 9" in found
    invariants.clear()


def test_a_check_that_can_not_be_made_is_told_too(invariants: list[str]) -> None:
    left("DROP TABLE timers")
    (found,) = invariants
    assert "sqlite:// can't be checked" in found
    assert "timers" in found
    invariants.clear()


def test_where_there_are_no_tables_is_nothing_to_check(invariants: list[str]) -> None:
    left("DROP TABLE outlast_schema")
    assert invariants == []


def test_where_there_is_no_database_any_more_is_nothing_to_check(
    invariants: list[str], sqlite_url: str
) -> None:
    left("UPDATE workflow_runs SET last_seq = 9", url=sqlite_url)
    assert invariants == []
