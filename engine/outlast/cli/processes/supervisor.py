"""``outlast worker --processes N``: a supervisor of N worker processes.

The supervisor runs no user code and has no connection to the database. It spawns its processes (it never forks), passes
on what they print with their number before each line, and replaces those that end:

* A process that stopped gracefully, because it was sent a SIGTERM, is replaced at once. Processes are recycled so.
* A process that died is replaced after half a second. If it died within :data:`EARLY_S` of its start, the pause doubles
  each time. After :data:`MOST_EARLY_DEATHS` such deaths in a row, another start would not help: all processes are
  stopped, and the exit code is that process's own. Bad usage (exit code 2) stops all processes the first time.
* A process that cannot use the database (exit code 4: it is away, or migrated for newer code) is restarted without
  limit, after pauses that double too, because the other processes wait for the database as well. Before any process
  has worked it counts as a death, since the URL may be wrong.
* A process that cannot be started because the system is short of processes, memory or files is treated in the same way.

On SIGINT or SIGTERM, each process gets SIGTERM and stops gracefully. On a second signal, all processes get SIGKILL; so
does a process that is still running :data:`PATIENCE_S` after its grace period. The standard input of each process is a
pipe whose other end the supervisor holds. If the supervisor dies, for whatever reason, the pipe closes and the process
stops gracefully.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import BinaryIO, Final

from outlast.cli.common.exit_codes import Exit
from outlast.cli.common.stderr import tell
from outlast_workflow.environment import SystemClock

PROCESS_ENV: Final = "OUTLAST_WORKER_PROCESS"
"""Gives a process its number, and says that its standard input is its supervisor's pipe."""

EARLY_S: Final = 10.0
MOST_EARLY_DEATHS: Final = 5
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
PATIENCE_S: Final = 15.0
LAST_OUTPUT_S: Final = 1.0
LONGEST_LINE_BYTES: Final = 1 << 20
SHORT_OF: Final = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
"""Errors that mean a shortage, which may be over in a while."""
Pipes = tuple[int, int, int]
"""The end that keeps a process alive, and the ends from which its stdout and stderr are read."""


class Supervisor:
    """Keeps worker processes running.

    Args:
        command: The command of each process.
        count: The number of processes.
        environment: The environment of each process, without its number.
        grace_s: How long processes let their activities run when they stop.
        raw_output: Whether stdout is for programs, and is passed on unchanged.
    """

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        *,
        environment: Mapping[str, str],
        grace_s: float,
        raw_output: bool = False,
    ) -> None:
        self._command = tuple(command)
        self._count = count
        self._environment = dict(environment)
        self._patience_s = grace_s + PATIENCE_S
        self._raw_output = raw_output
        self._clock = SystemClock()
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()
        self._worked = False
        """Whether any process has lived for :data:`EARLY_S`, or has stopped gracefully."""
        self._killed = False
        self._code: int = Exit.OK

    async def run(self) -> int:
        """Supervise until a signal, or until a restart would not help; return the exit code."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self._signalled)
        try:
            async with asyncio.TaskGroup() as group:
                for name in range(1, self._count + 1):
                    _ = group.create_task(self._tend(name))
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
            # None is left unless the supervisor itself failed.
            for process in self._running.values():
                _kill(process)
        return Exit.INTERRUPTED if self._killed else self._code

    def _signalled(self) -> None:
        if not self._stopping.is_set():
            tell(f"stopping {len(self._running)} processes; another signal kills them")
            self._stop()
        else:
            self._killed = True
            for process in self._running.values():
                _kill(process)

    def _stop(self) -> None:
        self._stopping.set()
        for process in self._running.values():
            _send(process, signal.SIGTERM)

    # --- one process ------------------------------------------------------------------------------------------------

    async def _tend(self, name: int) -> None:
        """Keep process ``name`` running until all stop."""
        early = short = unusable = 0
        while not self._stopping.is_set():
            began = self._clock.monotonic()
            try:
                process, pipes = await self._start(name)
            except OSError as error:
                if error.errno not in SHORT_OF:
                    raise
                pause = _pause(short)
                short += 1
                tell(
                    f"process {name} cannot be started ({error.strerror}); the start is retried in {pause:g} s"
                )
                await self._wait(pause)
                continue
            short = 0
            code = await self._live(name, process, pipes)
            lived = self._clock.monotonic() - began
            if self._stopping.is_set():
                return
            if code == Exit.OK:
                tell(f"process {name} has stopped; another one starts")
                self._worked = True
                early = unusable = 0
                continue
            if lived >= EARLY_S:
                early = unusable = 0
            if code == Exit.DATABASE and self._worked:
                pause = _pause(unusable)
                unusable += 1
            else:
                early += lived < EARLY_S
                if early == MOST_EARLY_DEATHS or (early and code == Exit.USAGE):
                    self._give_up(name, code, early)
                    return
                pause = _pause(max(early - 1, 0))
            tell(f"process {name} {_ended(code)} after {lived:.1f} s; another one starts in {pause:g} s")
            await self._wait(pause)

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    def _give_up(self, name: int, code: int, times: int) -> None:
        again = f" {times} times within {EARLY_S:g} s of its start" if times > 1 else ""
        tell(f"process {name} {_ended(code)}{again}: see its log above; all processes are stopped")
        self._code = code if code > 0 else Exit.FAILED
        self._stop()

    async def _start(self, name: int) -> tuple[asyncio.subprocess.Process, Pipes]:
        """Start a process; return it with our ends of its pipes."""
        # With asyncio's own pipes, a process would not count as ended while a child of it still holds them.
        theirs: list[int] = []
        ours: list[int] = []
        try:
            for reads in (True, False, False):
                read, write = os.pipe()
                theirs.append(read if reads else write)
                ours.append(write if reads else read)
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=theirs[0],
                stdout=theirs[1],
                stderr=theirs[2],
                env={**self._environment, PROCESS_ENV: str(name)},
                # Ctrl-C reaches the supervisor only, which then stops its processes.
                start_new_session=True,
            )
        except BaseException:
            for end in ours:
                os.close(end)
            raise
        finally:
            for end in theirs:
                os.close(end)
        return process, (ours[0], ours[1], ours[2])

    async def _live(self, name: int, process: asyncio.subprocess.Process, pipes: Pipes) -> int:
        """Follow a process to its end; return its exit code, negative for the signal that killed it."""
        leash, out, err = pipes
        self._running[name] = process
        if self._stopping.is_set():
            _send(process, signal.SIGTERM)
        worked = asyncio.get_running_loop().call_later(EARLY_S, self._has_worked)
        prefix = f"[{name}] ".encode()
        printed = [
            asyncio.create_task(_pass_on(out, sys.stdout.buffer, b"" if self._raw_output else prefix)),
            asyncio.create_task(_pass_on(err, sys.stderr.buffer, prefix)),
        ]
        try:
            code = await self._end_of(name, process)
        finally:
            worked.cancel()
            del self._running[name]
            os.close(leash)
        # End the processes that it started and left behind.
        _kill(process)
        await asyncio.wait(printed, timeout=LAST_OUTPUT_S)
        for task in printed:
            task.cancel()
        return code

    def _has_worked(self) -> None:
        self._worked = True

    async def _end_of(self, name: int, process: asyncio.subprocess.Process) -> int:
        ended = asyncio.ensure_future(process.wait())
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait([ended, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not ended.done():
            await asyncio.wait([ended], timeout=self._patience_s)
        if not ended.done():
            tell(f"process {name} did not stop within {self._patience_s:g} s; it is killed")
            _kill(process)
        return await ended


async def _pass_on(pipe: int, out: BinaryIO, prefix: bytes) -> None:
    """Print whole lines, each after a prefix. A very long line, or a last one without an end, is printed as it is."""
    reader = asyncio.StreamReader()
    file = os.fdopen(pipe, "rb", 0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), file
    )
    rest = b""
    try:
        while chunk := await reader.read(1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > LONGEST_LINE_BYTES:
                lines, rest = [*lines, rest], b""
            _print(lines, out, prefix)
    finally:
        transport.close()
        _print([rest] if rest else [], out, prefix)


def _print(lines: Sequence[bytes], out: BinaryIO, prefix: bytes) -> None:
    if lines:
        # If the reader has gone, the work continues.
        with contextlib.suppress(OSError):
            out.write(b"".join(prefix + line + b"\n" for line in lines))
            out.flush()


def _send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a process and those that it started, which are in its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _pause(before: int) -> float:
    """Return the pause in seconds after this many pauses in a row."""
    return min(FIRST_PAUSE_S * 2.0 ** min(before, 16), LONGEST_PAUSE_S)


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
