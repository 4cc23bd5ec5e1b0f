"""The worker processes. Each is started, killed or stopped by its own process id."""

from __future__ import annotations

import os
import subprocess
import sys

from outlast.demo.stage import Stage, worker_log
from outlast.demo.worker_process import LEASE, QUEUE, URL

_PATIENCE_S = 15.0
_TAIL = 20


class WorkerProcess:
    """A worker process. Its standard input is the pipe that :mod:`worker_process` watches."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.number = number
        self.log = worker_log(stage, number)
        given = {URL: stage.url, QUEUE: stage.task_queue, LEASE: str(stage.lease)}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "outlast.demo.worker_process"],
                # Not as arguments: a URL may hold a password, and everybody can see the arguments of a process.
                env={**os.environ, **given},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                # Ctrl-C reaches the driver only, which then stops its workers.
                start_new_session=True,
            )
        self.killed = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it is running."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Send SIGKILL: no handler runs, and nothing is flushed."""
        self._process.kill()
        self._process.wait()
        self.killed = True
        self._close_pipe()

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if the process does not stop."""
        if self.alive:
            self._process.terminate()
            try:
                self._process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._close_pipe()

    def last_lines(self) -> str:
        """Return the last lines of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_TAIL:]) or "(its log is empty)"

    def _close_pipe(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
