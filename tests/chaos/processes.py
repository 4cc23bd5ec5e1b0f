"""The processes that are killed: workers and watchdogs, each replaced when it is gone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from tests.chaos.bugs import BUG
from tests.chaos.programs import EFFECTS, QUESTIONS
from tests.chaos.worker import JUMP_S, LEASE_S

ROOT = Path(__file__).parents[2]


class Crew:
    """So many worker processes and standalone watchdogs on one database."""

    def __init__(
        self, url: str, folder: Path, *, workers: int, watchdogs: int, lease_s: float, bug: str = ""
    ) -> None:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self._environment = {
            **os.environ,
            "PYTHONPATH": path,
            "OUTLAST_URL": url,
            EFFECTS: str(folder / "effects"),
            QUESTIONS: str(folder / "questions"),
            LEASE_S: str(lease_s),
            JUMP_S: "1.5",
            BUG: bug,
        }
        self._workers_made = 0
        self._log = folder / "log"
        self._commands = {
            "worker": [sys.executable, "-m", "tests.chaos.worker"],
            "watchdog": [sys.executable, "-m", "outlast", "watchdog", "--interval", "0.2"],
        }
        self._wanted = {"worker": workers, "watchdog": watchdogs}
        self.members: dict[str, list[asyncio.subprocess.Process]] = {"worker": [], "watchdog": []}
        self.ended_by_themselves = 0

    async def start(self) -> None:
        """Start all."""
        for kind, count in self._wanted.items():
            for _ in range(count):
                await self._add(kind)

    async def _add(self, kind: str) -> None:
        command = list(self._commands[kind])
        if kind == "worker":
            self._workers_made += 1
            if self._workers_made % 2:
                command.append("--no-watchdog")
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=self._environment,
                start_new_session=True,
            )
        self.members[kind].append(process)

    async def kill(self, process: asyncio.subprocess.Process, kind: str) -> None:
        """SIGKILL, and another one in its place."""
        send(process, signal.SIGKILL)
        await process.wait()
        self.members[kind].remove(process)
        await self._add(kind)

    async def replace_dead(self) -> None:
        """Replace those that ended by themselves."""
        for kind, members in self.members.items():
            for process in [one for one in members if one.returncode is not None]:
                self.ended_by_themselves += 1
                members.remove(process)
                await self._add(kind)

    async def stop(self) -> list[int]:
        """Stop all in good order; returns the exit codes of those that did not (too young to listen does not count)."""
        everyone = [process for members in self.members.values() for process in members]
        for process in everyone:
            send(process, signal.SIGCONT)
            send(process, signal.SIGTERM)
        codes: list[int] = []
        for process in everyone:
            try:
                codes.append(await asyncio.wait_for(process.wait(), 40))
            except TimeoutError:
                send(process, signal.SIGKILL)
                codes.append(await process.wait())
        self.members = {"worker": [], "watchdog": []}
        return [code for code in codes if code not in (0, -signal.SIGTERM)]

    def kill_all(self) -> None:
        """Leave nobody behind."""
        for members in self.members.values():
            for process in members:
                send(process, signal.SIGKILL)


def send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal to one that may be gone."""
    try:
        process.send_signal(number)
    except ProcessLookupError:
        pass
