"""The database under fire: a SQLite file on a small disk of its own, or a PostgreSQL server behind a proxy."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Protocol

import psycopg
from tests.chaos.proxy import Proxy

from outlast.runtime.schema_check import ensure_schema
from outlast.testing.postgres import TemporaryPostgres
from outlast_store.database.database import Database
from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.environment import Environment

DISK = "64m"
OPTIONS = "options=-cstatement_timeout%3D2s"
"""A silent connection is given up three seconds after the server would have ended a statement: after 5 s with this, not
15, so that a campaign has many. All else is as users have it: what is cut needs no option to be noticed."""


class Stage(Protocol):
    """A database that things can be done to."""

    url: str
    """How workers and clients reach it."""

    left_out: dict[str, str]
    """Faults that can't be done to it here, and why."""

    async def __aenter__(self) -> Stage: ...

    async def __aexit__(self, *exc_info: object) -> None: ...

    async def calm(self) -> None:
        """Whatever was done to it is over."""
        ...


class SqliteStage:
    """A file, on a file system of its own where that is permitted."""

    def __init__(self, folder: Path) -> None:
        self._disk = folder / "disk"
        self._disk.mkdir()
        self.mounted = False
        self.url = f"sqlite:///{self._disk / 'chaos.db'}"
        self.left_out: dict[str, str] = {}

    async def __aenter__(self) -> SqliteStage:
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(self._disk)]
        self.mounted = await asyncio.to_thread(_done, command)
        if not self.mounted:
            self.left_out["disk_full"] = (
                "no file system may be mounted here, and the disk is not ours to fill"
            )
        _migrate(self.url)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self.mounted:
            await asyncio.to_thread(_done, ["umount", "-l", str(self._disk)])

    def fill(self) -> None:
        """No room is left on the disk."""
        free = os.statvfs(self._disk)
        with contextlib.suppress(OSError), (self._disk / "ballast").open("wb") as ballast:
            for _ in range(free.f_blocks):
                ballast.write(bytes(free.f_bsize))
                ballast.flush()

    async def calm(self) -> None:
        """There is room again."""
        (self._disk / "ballast").unlink(missing_ok=True)


class PostgresStage:
    """A real server, reached through a proxy."""

    def __init__(self) -> None:
        self.server = TemporaryPostgres(settings={"max_connections": 200})
        self.url = self.direct_url = ""
        self.left_out: dict[str, str] = {}
        self.proxy: Proxy

    async def __aenter__(self) -> PostgresStage:
        await asyncio.to_thread(self.server.start)
        self.direct_url = self.server.create_database("chaos")
        _migrate(self.direct_url)
        self.proxy = Proxy(self.server.folder / ".s.PGSQL.5432")
        port = self.proxy.start()
        self.url = f"postgresql://postgres@127.0.0.1:{port}/chaos?{OPTIONS}"
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.to_thread(self.proxy.stop)
        await asyncio.to_thread(self.server.stop)

    async def restart(self) -> None:
        """Kill the server as a crash of its machine would, and start it again."""
        await asyncio.to_thread(self.server.kill)
        await asyncio.to_thread(self.server.restart)

    async def terminate_backend(self, rng: random.Random) -> None:
        """End one session in good order."""
        await asyncio.to_thread(self._with_backend, rng, terminate=True)

    async def kill_backend(self, rng: random.Random) -> None:
        """SIGKILL one session: the server restarts all of them."""
        await asyncio.to_thread(self._with_backend, rng, terminate=False)

    def _with_backend(self, rng: random.Random, *, terminate: bool) -> None:
        with contextlib.suppress(psycopg.OperationalError):
            with psycopg.connect(self.direct_url, autocommit=True) as connection:
                found = connection.execute(
                    "SELECT pid FROM pg_stat_activity WHERE application_name = 'outlast' AND datname = 'chaos'"
                ).fetchall()
                pids = [row[0] for row in found]
                if pids and terminate:
                    connection.execute("SELECT pg_terminate_backend(%s)", (rng.choice(pids),))
                elif pids:
                    os.kill(rng.choice(pids), signal.SIGKILL)

    async def calm(self) -> None:
        """Nothing is lost any more, and the server answers."""
        self.proxy.heal()
        self.proxy.cut()
        for _ in range(200):
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(self.direct_url).close()
                return
            await asyncio.sleep(0.1)


def _done(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _migrate(url: str) -> None:
    database = Database(DatabaseUrl.parse(url), Environment())
    ensure_schema(database, migrate=True)
    database.dispose()


def folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for one campaign."""
    return tempfile.TemporaryDirectory(prefix="outlast-chaos-", ignore_cleanup_errors=True)
