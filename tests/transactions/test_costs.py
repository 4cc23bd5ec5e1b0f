"""What a transactional activity costs beyond its code's own statements, and that plain ones pay nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from sqlalchemy import Connection
from tests.transactions.bank import Bank, pays, says_hello
from tests.transactions.conftest import Working

from outlast_store.database.guests import GuestLink, Guests


async def test_the_engine_adds_these_statements(
    working: Working, bank: Bank, transfers: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: Counter[str] = Counter()
    make = GuestLink.__init__

    def count(link: GuestLink, connection: Connection) -> None:
        make(link, connection)
        execute = link.exec_driver_sql

        def counted(text: str, values: Any = None) -> Any:
            run[" ".join(text.split()[:2]) if text.startswith("SELECT set") else text.split()[0]] += 1
            return execute(text, values)

        link.exec_driver_sql = counted

    monkeypatch.setattr(GuestLink, "__init__", count)
    async with working() as client:
        assert await client.execute(pays, transfers, 5, id="p") == 5
    assert run.total() == (5 if kind == "sqlite-file" else 6), run


async def test_without_transactional_activities_nothing_is_opened(
    working: Working, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Guests] = []
    make = Guests.__init__

    def note(guests: Guests, *args: Any) -> None:
        made.append(guests)
        make(guests, *args)

    monkeypatch.setattr(Guests, "__init__", note)
    async with working() as client:
        assert await client.execute(says_hello, id="h") == "hello"
    assert not made
