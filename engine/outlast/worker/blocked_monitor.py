"""The monitor: notices a workflow task that blocks its worker's loop, says where, and interrupts it.

Workflow code decides and waits; it takes milliseconds. Code that computes for seconds, or never waits, keeps
everything else of its process from happening: other runs, handlers, commits, the watchdog. A thread looks at the
workflow task under way; when one has run for longer than :data:`LIMIT_S` it logs the stack and fails the workflow task:
the run's *task* fails, backs off and shows in ``describe``, while the process goes on.

The interruption is an exception raised in the loop's thread between two steps of Python code. Code that is inside a
call of C (``time.sleep``, a driver) is interrupted when that returns; code that catches ``BaseException`` for ever
can't be. Raising it and leaving the workflow task take the same lock, and whoever leaves withdraws what has not arrived
yet: nothing outside a workflow task is ever interrupted.
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

LIMIT_S: Final = 2.0
LOOK_S: Final = 0.25

_here = threading.local()


class WorkflowTaskInterrupted(BaseException):  # control flow: no `except Exception` may catch it
    """Raised in workflow code that blocks."""


class BlockedMonitor:
    """Watches the workflow tasks of one thread; :meth:`start` and :meth:`stop` are called on it."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._machine: WorkflowMachine | None = None
        self._began = 0.0
        self._raised = False
        self._watched = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outlast-monitor", daemon=True)

    def start(self) -> None:
        """Watch the workflow tasks of the calling thread."""
        self._watched = threading.get_ident()
        _here.monitor = self
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        if monitor() is self:
            _here.monitor = None
        self._stopping.set()

    def enter(self, machine: WorkflowMachine) -> None:
        """A workflow task begins."""
        self._began = time.perf_counter()
        self._machine = machine

    def leave(self) -> None:
        """It has ended, in whatever way."""
        with self._lock:
            self._machine = None
            if self._raised:
                self._raised = False
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._watched), None)

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_S):
            with self._lock:
                machine = self._machine
                if machine is None:
                    continue
                blocked_s = time.perf_counter() - self._began
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
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self._watched), ctypes.py_object(WorkflowTaskInterrupted)
        )


def monitor() -> BlockedMonitor | None:
    """The monitor of the calling thread."""
    return getattr(_here, "monitor", None)
