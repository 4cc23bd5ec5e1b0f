"""``outlast worker --processes N``: a supervisor, and so many worker processes that it looks after.

The supervisor runs no user code and has no connection to the database. It spawns (never forks) its processes, passes on
what they print with their number before each line, and starts another where one ends:

* one that ended by itself in good order (somebody sent *it* a SIGTERM) is replaced at once: that is how to recycle one;
* one that died is replaced after half a second; where it died within :data:`AT_ONCE_S` of its start, the pause doubles
  each time, and after :data:`MOST_AT_ONCE` times in a row another start is no help: all are stopped, and the exit code
  is its own. Bad usage (exit code 2) is not tried twice;
* one that can't use the database (exit code 4: it is away, or migrated for newer code) is tried again however often,
  after pauses that double too: the others wait for it as well. Not so before any of them has worked, for then the URL
  may be wrong;
* so is one that can't be started because the system is short of processes, memory or files.

SIGINT or SIGTERM: each process gets SIGTERM and stops in good order. A second signal, or a process that is not done
:data:`PATIENCE_S` after its grace period, is SIGKILL. Every process holds the end of a pipe, its standard input: where
the supervisor dies, however it dies, the pipe closes and its processes stop in good order.
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
"""Tells a process its number, and that its standard input is its supervisor's pipe."""

AT_ONCE_S: Final = 10.0
MOST_AT_ONCE: Final = 5
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
PATIENCE_S: Final = 15.0
LAST_WORDS_S: Final = 1.0
LONGEST_LINE: Final = 1 << 20
SHORT_OF: Final = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
"""What the system may have again in a while."""
Pipes = tuple[int, int, int]
"""The end that keeps a process alive, and what it says on stdout and stderr."""


class Supervisor:
    """Keeps worker processes running.

    Args:
        command: What each process runs.
        count: How many processes.
        environment: The environment of each, beside its number.
        grace_s: What the processes give their activities when they stop.
        raw_output: Whether what they print on stdout is for programs, and passed on as it is.
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
        """Whether any process has lived for :data:`AT_ONCE_S`, or ended in good order."""
        self._killed = False
        self._code: int = Exit.OK

    async def run(self) -> int:
        """Supervise until a signal, or until it is of no use; returns the exit code."""
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
            for process in self._running.values():  # only where something went wrong here
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
        """See to it that process ``name`` runs until all stop."""
        at_once = short = unusable = 0
        while not self._stopping.is_set():
            began = self._clock.monotonic()
            try:
                process, pipes = await self._start(name)
            except OSError as error:
                if error.errno not in SHORT_OF:
                    raise
                pause = _pause(short)
                short += 1
                tell(f"process {name} can't be started ({error.strerror}); it is tried again in {pause:g} s")
                await self._wait(pause)
                continue
            short = 0
            code = await self._live(name, process, pipes)
            lived = self._clock.monotonic() - began
            if self._stopping.is_set():
                return
            if code == Exit.OK:
                tell(f"process {name} has stopped; another one takes its place")
                self._worked = True
                at_once = unusable = 0
                continue
            if lived >= AT_ONCE_S:
                at_once = unusable = 0
            if code == Exit.DATABASE and self._worked:
                pause = _pause(unusable)
                unusable += 1
            else:
                at_once += lived < AT_ONCE_S
                if at_once == MOST_AT_ONCE or (at_once and code == Exit.USAGE):
                    self._give_up(name, code, at_once)
                    return
                pause = _pause(max(at_once - 1, 0))
            tell(f"process {name} {_ended(code)} after {lived:.1f} s; another one starts in {pause:g} s")
            await self._wait(pause)

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    def _give_up(self, name: int, code: int, times: int) -> None:
        again = f" {times} times within {AT_ONCE_S:g} s of its start" if times > 1 else ""
        tell(f"process {name} {_ended(code)}{again}: see its log above; all processes are stopped")
        self._code = code if code > 0 else Exit.FAILED
        self._stop()

    async def _start(self, name: int) -> tuple[asyncio.subprocess.Process, Pipes]:
        """Start one; returns it with our ends of its pipes."""
        # Pipes of our own: asyncio's would keep a process from counting as ended while one that it started holds them.
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
                start_new_session=True,  # Ctrl-C is for the supervisor, which then stops its processes
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
        """One process to its end; returns its exit code, negative for the signal that killed it."""
        leash, out, err = pipes
        self._running[name] = process
        if self._stopping.is_set():
            _send(process, signal.SIGTERM)
        worked = asyncio.get_running_loop().call_later(AT_ONCE_S, self._has_worked)
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
        _kill(process)  # its own processes, if it left any
        await asyncio.wait(printed, timeout=LAST_WORDS_S)
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
    """Print whole lines, each after a prefix; however long, and the last one without its end too."""
    reader = asyncio.StreamReader()
    file = os.fdopen(pipe, "rb", 0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), file
    )
    rest = b""
    try:
        while chunk := await reader.read(1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > LONGEST_LINE:
                lines, rest = [*lines, rest], b""
            _print(lines, out, prefix)
    finally:
        transport.close()
        _print([rest] if rest else [], out, prefix)


def _print(lines: Sequence[bytes], out: BinaryIO, prefix: bytes) -> None:
    if lines:
        with contextlib.suppress(OSError):  # whoever read has gone; the work has not
            out.write(b"".join(prefix + line + b"\n" for line in lines))
            out.flush()


def _send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)


def _kill(process: asyncio.subprocess.Process) -> None:
    """End a process and those that it has started, which are of its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _pause(before: int) -> float:
    """How long to wait after so many pauses in a row."""
    return min(FIRST_PAUSE_S * 2.0 ** min(before, 16), LONGEST_PAUSE_S)


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
