"""The supervisor of a server that is spoken to over its input and output: it ends the server when nobody asks any more.

It is run as a file, so it imports nothing of Outlast. Its input begins with a block of JSON, after its length in four
bytes, that says what to run; what follows is the server's input. The server writes to the output that the supervisor
was given. When the input ends, because the call has its answer, was cancelled, or its worker died, the input of the
server ends. One that goes on is asked to end, and killed when its grace is over, with all that it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time

POLL_S = 0.2
LEAVING_POLL_S = 0.01
ASKED_S = 1.0
"""How long a server has after the end of its input before it is asked to end."""


def main() -> None:
    """Run what the input says."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    request = json.loads(_exactly(int.from_bytes(_exactly(4), "big")))
    try:
        process = subprocess.Popen(
            request["argv"],
            stdin=subprocess.PIPE,
            env=request["environment"],
            cwd=request["cwd"],
            start_new_session=True,
            restore_signals=True,
            preexec_fn=_defaults,
        )
    except OSError as error:
        os.write(2, f"{request['argv'][0]} cannot be started: {error.strerror or error}".encode())
        sys.exit(1)
    _watch(process, request["grace"])


def _defaults() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _watch(process: subprocess.Popen[bytes], grace: float) -> None:
    """Pass the input on until it or the server ends; then see to it that the server, and all that it started, ends."""
    assert process.stdin is not None
    rest = b""
    ended_at: float | None = None
    asked = False
    for pipe in (process.stdin, sys.stdin.buffer):
        os.set_blocking(pipe.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        while process.poll() is None:
            writes = bool(rest) and not process.stdin.closed
            if writes:
                selector.register(process.stdin, selectors.EVENT_WRITE)
            ready = selector.select(POLL_S if ended_at is None else LEAVING_POLL_S)
            if writes:
                selector.unregister(process.stdin)
            for key, _ in ready:
                if key.fd != 0:
                    rest = _fed(process, rest)
                elif (part := _read()) == b"":
                    selector.unregister(0)
                    ended_at = time.monotonic()
                elif part is not None:
                    rest += part
            if ended_at is not None:
                if not rest and not process.stdin.closed:
                    process.stdin.close()
                late = time.monotonic() - ended_at
                if late >= grace:
                    _signal(process, signal.SIGKILL)
                elif late >= ASKED_S and not asked:
                    _signal(process, signal.SIGTERM)
                    asked = True
    _signal(process, signal.SIGKILL)


def _fed(process: subprocess.Popen[bytes], rest: bytes) -> bytes:
    assert process.stdin is not None
    try:
        return rest[os.write(process.stdin.fileno(), rest[:65_536]) :]
    except BlockingIOError:
        return rest
    except OSError:
        # It does not want to read it all.
        return b""


def _read() -> bytes | None:
    try:
        return os.read(0, 65_536)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _exactly(size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = os.read(0, size - len(parts))
        if not part:
            sys.exit(1)
        parts += part
    return parts


if __name__ == "__main__":
    main()
