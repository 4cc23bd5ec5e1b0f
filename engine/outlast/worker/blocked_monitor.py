"""The blocked monitor: finds a workflow task that blocks its worker's event loop, logs where, and interrupts it.

Workflow code decides and waits, which takes milliseconds. Code that computes for seconds, or never waits, stops
everything else in its process: other runs, handlers, commits, the watchdog. A thread checks the workflow task that is
running. If it has run for longer than :data:`BLOCKED_AFTER_S`, the monitor logs the stack and fails the workflow task,
which backs off and shows in ``describe``, while the process continues.

The interruption is an exception that is raised in the loop's thread between two steps of Python code. Code inside a C
call (``time.sleep``, a driver) is interrupted when the call returns. Code that catches ``BaseException`` in a loop
cannot be interrupted. Raising the exception and leaving the workflow task take the same lock, and leaving takes an
exception that has not arrived yet, so nothing outside a workflow task is ever interrupted.
"""

from __future__ import annotations

import ctypes
import logging
import sys
import threading
import time
import traceback
from typing import Final

from outlast_workflow.errors.task import WorkflowTaskBlockedError
from outlast_workflow.run.machine import WorkflowMachine

logger = logging.getLogger("outlast.worker")

BLOCKED_AFTER_S: Final = 2.0
"""How long a workflow task may run without waiting."""
CHECK_INTERVAL_S: Final = 0.25


class _Here(threading.local):
    """The monitor of the thread that looks."""

    monitor: BlockedMonitor | None = None


HERE: Final = _Here()


# Control flow: no `except Exception` of workflow code may catch it.
class WorkflowTaskInterrupted(BaseException):
    """Raised in workflow code that blocks."""


class BlockedMonitor:
    """Watches the workflow tasks of one thread, the one that calls :meth:`start` and :meth:`stop`."""

    def __init__(self, limit_s: float = BLOCKED_AFTER_S) -> None:
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._machine: WorkflowMachine | None = None
        self._started_at = 0.0
        self._raised = False
        self._watched = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outlast-monitor", daemon=True)

    def start(self) -> None:
        """Watch the workflow tasks of the calling thread."""
        self._watched = threading.get_ident()
        HERE.monitor = self
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        if HERE.monitor is self:
            HERE.monitor = None
        self._stopping.set()

    def enter(self, machine: WorkflowMachine) -> None:
        """Note that a workflow task starts."""
        self._started_at = time.perf_counter()
        self._machine = machine

    def leave(self) -> None:
        """Note that the workflow task has ended, in whatever way."""
        with self._lock:
            self._machine = None
            if self._raised:
                self._raised = False
                self._take()

    def _take(self) -> None:
        """Take an exception that has not arrived yet, here where it does no harm.

        Another one replaces it, and is waited for. To withdraw it, as the interpreter offers, leaves its evaluation
        loop looking for an exception that never comes (CPython 3.11, 3.12): the thread is slower for good, and a
        profiler that is set in it hangs.
        """
        try:
            self._raise()
            while True:
                pass
        except WorkflowTaskInterrupted:
            pass

    def _raise(self) -> None:
        """Let the watched thread raise an exception between two steps of Python code."""
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self._watched), ctypes.py_object(WorkflowTaskInterrupted)
        )

    def _run(self) -> None:
        while not self._stopping.wait(CHECK_INTERVAL_S):
            with self._lock:
                machine = self._machine
                if machine is None:
                    continue
                blocked_s = time.perf_counter() - self._started_at
                if blocked_s >= self._limit_s:
                    self._interrupt(machine, blocked_s)

    def _interrupt(self, machine: WorkflowMachine, blocked_s: float) -> None:
        frame = sys._current_frames().get(self._watched)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
        if not self._raised:
            logger.error(
                "a workflow task of run %s (%s) has blocked the worker for %.1f s; it is interrupted here:\n%s",
                machine.run_id,
                machine.definition.source,
                blocked_s,
                stack,
                extra={"run_id": machine.run_id},
            )
        machine.interrupt(
            WorkflowTaskBlockedError(
                f"the workflow's code ran for {blocked_s:.1f} s without waiting: "
                "do what computes or blocks in an activity, and wait for something in every loop"
            )
        )
        self._raised = True
        self._raise()
