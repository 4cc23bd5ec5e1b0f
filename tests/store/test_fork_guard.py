"""A forked child gets no connection of its parent."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

import pytest

from outlast_store.database.database import (
    Database,
)
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment
from outlast_workflow.errors import (
    ForkedConnectionError,
)


def _in_child(check: Callable[[], None]) -> int:
    """The exit code of a forked child: zero if the check passed there."""
    with warnings.catch_warnings():
        # From Python 3.12 on, forking a process that has threads warns.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        check()
        code = 0
    finally:
        os._exit(code)


def test_a_forked_child_is_refused_and_its_parent_goes_on(database: Database) -> None:
    writer = database.writer()

    def check() -> None:
        for use in (database.writer, lambda: writer.exec_driver_sql("SELECT 1")):
            with pytest.raises(ForkedConnectionError, match="spawn"):
                use()
        with pytest.raises(ForkedConnectionError), database.reader():
            pass
        database.dispose()

    assert _in_child(check) == 0
    assert writer.exec_driver_sql("SELECT 1").scalar_one() == 1
    writer.close()


def test_a_child_that_connects_for_itself_is_welcome(database_url: str, database: Database) -> None:
    def check() -> None:
        own = Database(DatabaseUrl.parse(database_url), Environment())
        connection = own.writer()
        assert connection.exec_driver_sql("SELECT 1").scalar_one() == 1
        connection.close()
        own.dispose()

    assert _in_child(check) == 0
