from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from outlast.testing.postgres import PostgresUnavailableError, TemporaryPostgres

pytestmark = pytest.mark.postgresql


def test_what_was_committed_survives_a_kill() -> None:
    with TemporaryPostgres(settings={"max_connections": 20}) as server:
        folder, url = server.folder, server.create_database("orders")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE t AS SELECT 1 AS a")
            server.kill()
            assert server.pid is None
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
        server.restart()
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]
            assert connection.execute("SHOW max_connections").fetchone() == ("20",)
            assert connection.execute("SHOW fsync").fetchone() == ("off",)
    assert not folder.exists()


_OWNER = """
from outlast.testing.postgres import TemporaryPostgres
server = TemporaryPostgres()
server.start()
print(server.folder, flush=True)
input()
"""


def test_an_owner_that_is_killed_leaves_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", _OWNER], stdin=-1, stdout=-1, text=True) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        server = int((folder / "data" / "postmaster.pid").read_text().split()[0])
        owner.send_signal(signal.SIGKILL)
    give_up_at = time.monotonic() + 20
    while folder.exists() and time.monotonic() < give_up_at:
        time.sleep(0.02)
    assert not folder.exists()
    assert not _runs(server)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_version_that_the_wheel_lacks_is_named() -> None:
    with pytest.raises(PostgresUnavailableError, match="no PostgreSQL 9"):
        TemporaryPostgres(version=9).start()
