"""The connection to the helper process: it is started when it is needed, and ended when it does not answer."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import orjson

from outlast import workflow
from outlast_serverless.jq.programs import unsafe_integer
from outlast_workflow.data.writing import MOST_LEVELS, is_deep
from outlast_workflow.environment import SystemClock
from outlast_workflow.errors import ExpressionBudgetError

_CLOCK: Final = SystemClock()
"""The budget counts in real time, also where the time of workflows is virtual."""
_STARTING_S: Final = 10.0
"""How long a helper that has just been started may take for its first answer, before its first request."""
_ALARM_FACTOR: Final = 3
"""A helper ends itself after so many budgets, where nobody is left to end it."""

_DEEP: Final = ["run", f"what it gives is nested more than {MOST_LEVELS} levels deep: make it flatter"]


def _message(request: dict[str, Any], data: bytes) -> bytes:
    head = orjson.dumps(request)
    return len(head).to_bytes(4, "big") + head + len(data).to_bytes(4, "big") + data


_HELLO: Final = _message({"run": False, "programs": []}, b"")


class HelperConnection:
    """One helper process for all that a process evaluates; one request at a time.

    Args:
        budget: Seconds that a request may take.
        memory_bytes: How much memory the helper may use.
    """

    def __init__(self, budget: float, memory_bytes: int) -> None:
        self._budget = budget
        self._memory = memory_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = os.getpid()
        self._fresh = True
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """The helper's process id, if there is one."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the helper, so that the first request need not wait for it."""
        with self._lock:
            self._running()

    def ask(self, request: dict[str, Any], data: bytes) -> list[Any]:
        """Return the helper's answer: for each program, what became of it and its outputs, or the reason.

        Args:
            request: What to do.
            data: The input of the programs, as JSON.

        Raises:
            ExpressionBudgetError: It did not answer in time, or died.
        """
        message = _message(request, data)
        with self._lock:
            process = self._running()
            try:
                if self._fresh:
                    # What a helper needs to start is not the expression's, nor is it hidden by it.
                    _exchange(process, _HELLO, _CLOCK.monotonic() + _STARTING_S)
                    self._fresh = False
                answer = _exchange(process, message, _CLOCK.monotonic() + self._budget)
            except BaseException:
                self._end()
                raise
        return _decoded(answer, len(request["programs"]))

    def close(self) -> None:
        """End the helper. A later request starts another one."""
        with self._lock:
            self._end()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._pid != os.getpid():
            # After a fork the pipes are the parent's.
            self._process, self._pid = None, os.getpid()
        if self._process is None or self._process.poll() is not None:
            with workflow.unsafe.allow_io():
                self._process = self._spawn()
            self._fresh = True
        return self._process

    def _spawn(self) -> subprocess.Popen[bytes]:
        found = find_spec("jq")
        if found is None or found.origin is None:
            raise ModuleNotFoundError(
                "expressions need the extra 'serverless': in a clone, pip install '.[serverless]'", name="jq"
            )
        process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                str(Path(__file__).with_name("helper.py")),
                str(Path(found.origin).parent),
                str(self._budget * _ALARM_FACTOR),
                str(self._memory),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"TZ": "UTC", "LC_ALL": "C"},
            bufsize=0,
            start_new_session=True,
        )
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        return process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with workflow.unsafe.allow_io():
                process.kill()
                process.wait()
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        with contextlib.suppress(OSError):
                            pipe.close()


def _decoded(answer: bytes, programs: int) -> list[Any]:
    """Return an answer as JSON. Outputs that are nested too deeply to be recorded are no outputs."""
    try:
        decoded: list[Any] = orjson.loads(answer)
    except orjson.JSONDecodeError:
        # What the helper writes is JSON, but nobody reads any depth.
        return [_DEEP] * programs
    if unsafe_integer(answer, decoded) is not None:
        decoded = [_exact(one, answer) for one in decoded]
    # Each answer is in a list, and so are the outputs in it.
    if answer[2 * MOST_LEVELS :] and is_deep(answer, MOST_LEVELS + 3):
        return [_DEEP if _is_deep(one) else one for one in decoded]
    return [_DEEP if one[0] == "deep" else one for one in decoded]


def _exact(one: list[Any], answer: bytes) -> list[Any]:
    """Return an answer, or a failure in its place where jq has counted beyond what it can."""
    large = unsafe_integer(answer, one[1:]) if one[0] == "ok" else None
    if large is None:
        return one
    return ["run", f"jq computed {large}, which is beyond 2^53, where it no longer counts exactly"]


def _is_deep(one: list[Any]) -> bool:
    try:
        return is_deep(orjson.dumps(one), MOST_LEVELS + 2)
    except TypeError:
        return True


def _exchange(process: subprocess.Popen[bytes], message: bytes, deadline: float) -> bytes:
    """Write a request and read its answer. Both pipes are looked after, so that neither side waits for the other."""
    assert process.stdin is not None
    assert process.stdout is not None
    to_helper, from_helper = process.stdin.fileno(), process.stdout.fileno()
    rest, got, size = memoryview(message), bytearray(), None
    while size is None or len(got) < size:
        left = deadline - _CLOCK.monotonic()
        readable, writable, _ = select.select([from_helper], [to_helper] if rest else [], [], max(left, 0))
        if not readable and not writable:
            raise ExpressionBudgetError(
                "an expression took longer than its budget, and its helper process was ended: make it cheaper, or "
                "give its work to a call"
            )
        try:
            if writable:
                rest = rest[os.write(to_helper, rest[:65_536]) :]
            part = os.read(from_helper, 1 << 20) if readable else None
        except BrokenPipeError:
            part = b""
        if part == b"":
            raise ExpressionBudgetError(
                "an expression used more memory than it may, and its helper process ended: make it cheaper, or give "
                "its work to a call"
            )
        if part:
            got += part
        if size is None and len(got) >= 4:
            size = int.from_bytes(got[:4], "big") + 4
    return bytes(got[4:])
