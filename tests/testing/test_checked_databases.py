"""What a test leaves in its databases is checked when they are closed: see ``invariants`` in ``tests/conftest.py``."""

from __future__ import annotations

from pathlib import Path

from tests.engine import programs

from holdfast.testing import TestEnvironment


def left(*statements: str, file: Path | None = None) -> None:
    """Let the engine leave a database in which something was done; with ``file`` in a file, which is gone then."""

    async def body() -> None:
        url = "sqlite://" if file is None else f"sqlite:///{file}"
        async with TestEnvironment(url=url) as env:
            await env.client.start(programs.nothing, id="w")
            with env.client.hub.database.writer() as connection:
                for statement in statements:
                    connection.exec_driver_sql(statement)
            if file is not None:
                for one in file.parent.glob(f"{file.name}*"):
                    one.unlink()

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
    left("DROP TABLE holdfast_schema")
    assert invariants == []


def test_where_there_is_no_database_any_more_is_nothing_to_check(
    invariants: list[str], tmp_path: Path
) -> None:
    left("UPDATE workflow_runs SET last_seq = 9", file=tmp_path / "gone.db")
    assert invariants == []
