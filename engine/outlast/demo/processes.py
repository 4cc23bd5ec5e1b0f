"""The worker processes: started, killed without warning, stopped in good order. Each only by its own process id."""

from __future__ import annotations

import os
import subprocess
import sys

from outlast.demo.stage import Stage, worker_log
from outlast.demo.worker_process import LEASE, QUEUE, URL

_PATIENCE = 15.0
_TAIL = 20


class WorkerProcess:
    """One worker process; its standard input is the leash that :mod:`worker_process` speaks of."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.number = number
        self.log = worker_log(stage, number)
        told = {URL: stage.url, QUEUE: stage.task_queue, LEASE: str(stage.lease)}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "outlast.demo.worker_process"],
                # Not by arguments: a URL may hold a password, and those are for all to see.
                env={**os.environ, **told},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the driver, which then stops its workers
            )
        self.killed = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL: no handler, no goodbye, nothing flushed."""
        self._process.kill()
        self._process.wait()
        self.killed = True
        self._let_go()

    def stop(self) -> None:
        """SIGTERM; and SIGKILL where that is not heard."""
        if self.alive:
            self._process.terminate()
            try:
                self._process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._let_go()

    def last_words(self) -> str:
        """The end of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_TAIL:]) or "(its log is empty)"

    def _let_go(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
