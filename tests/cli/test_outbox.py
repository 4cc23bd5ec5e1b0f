"""``outlast outbox``: what waits and what was refused, for people and for programs."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text
from tests.cli.conftest import Command

ROW = "INSERT INTO outlast_outbox (kind, workflow_id, name, args, options) VALUES (:k, :w, :n, :a, :o)"


@pytest.fixture
def rows(outlast: Command, url: str) -> None:
    """One row that can be applied, and one that cannot until a queue is defined."""
    assert outlast("queue", "define", "q").code == 0
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        for workflow_id, options in (("good", "{}"), ("b\x1b[31mad", '{"queue": "nobodys"}')):
            values = {"k": "start", "w": workflow_id, "n": "Order", "a": '["secret"]', "o": options}
            connection.execute(text(ROW), values)
    engine.dispose()


def test_rows_are_listed_applied_retried_and_deleted(outlast: Command, rows: None) -> None:
    listed = outlast("outbox", "list", "--json").lines
    assert [(one["workflow_id"], one["state"]) for one in listed] == [
        ("good", "waiting"),
        ("b\x1b[31mad", "waiting"),
    ]
    assert outlast("outbox", "drain", "--json").json == {"applied": 1}
    refused = outlast("outbox", "list", "--state", "refused")
    assert "was refused" in refused.out
    assert "workflow id" in refused.out
    assert "\x1b" not in refused.out
    assert "secret" not in refused.out
    number = str(outlast("outbox", "list", "--json").lines[0]["outbox_id"])
    again = outlast("outbox", "retry", number)
    assert (again.code, again.out) == (1, "")
    assert f"but then refused (row {number} of the outbox): " in again.err
    assert outlast("outbox", "delete", number, "--json").json == {"outbox_id": int(number), "deleted": True}
    assert outlast("outbox", "list").out == "the outbox is empty\n"
    assert outlast("outbox", "list", "--state", "waiting").out == "nothing in the outbox is waiting\n"
    assert outlast("outbox", "drain").out == "applied 0\n"
    for verb in ("retry", "delete"):
        gone = outlast("outbox", verb, number)
        assert (gone.code, gone.out) == (3, "")
        assert f"there is no row {number} in the outbox" in gone.err
    assert outlast("outbox", "list", "--state", "lost").code == 2
