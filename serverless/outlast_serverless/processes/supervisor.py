"""The supervisor of one process: it ends the process, with all that it started, when nobody asks for it any more.

It is run as a file, so it imports nothing of Outlast. Its input begins with a block of JSON, after its length in four
bytes, that says what to run; when the input ends, because the worker cancelled or died, the process group is ended. Its
output is one document: how the process ended, and what it wrote.

A container is no process of the group: the engine keeps it. So it is killed by its label once its client has ended, and
what an earlier attempt left behind is removed before it begins.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

POLL_S = 0.2
ENGINE_S = 30.0
"""What an engine may take to find, kill or remove a container."""


def main() -> None:
    """Run what the input says."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    length = _exactly(4)
    request = json.loads(_exactly(int.from_bytes(length, "big")))
    if request["detached"]:
        _detach(request)
        return
    container = request.get("container")
    if container is not None and container["clear"]:
        _end_container(request, remove=True)
    with tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        argv = list(request["argv"])
        if request["file"] is not None:
            path = os.path.join(folder, request["file"]["name"])
            with open(path, "w", encoding="utf-8") as file:
                file.write(request["file"]["text"])
            argv = [path if part is None else part for part in argv]
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=request["environment"],
                cwd=request["cwd"],
                start_new_session=True,
                restore_signals=True,
                preexec_fn=_defaults,
            )
        except OSError as error:
            _answer({"error": f"{argv[0]} cannot be started: {error.strerror or error}"})
            return
        found = _watched(process, request)
        if container is not None and found["ended"]:
            _end_container(request, remove=container["remove"])
        _answer(found)


def _end_container(request: dict[str, Any], *, remove: bool) -> None:
    """Kill the container of the task, if there is one."""
    engine: list[str] = request["container"]["engine"]
    label: str = request["container"]["label"]

    def told(*arguments: str) -> list[str]:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                [*engine, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=request["environment"],
                cwd=request["cwd"],
                timeout=ENGINE_S,
                check=False,
                start_new_session=True,
            )
            return done.stdout.decode(errors="replace").split()
        return []

    for found in told("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={label}"):
        # One that has ended cannot be killed. One that was is waited for: removing it at once takes longer.
        if told("kill", found):
            told("wait", found)
        if remove:
            told("rm", "--force", "--volumes", found)


def _detach(request: dict[str, Any]) -> None:
    """Start a process that nobody waits for; its script, if it has one, is an argument of it."""
    argv = list(request["argv"])
    if request["file"] is not None:
        at = argv.index(None)
        flag = "-c" if request["file"]["name"].endswith(".py") else "-e"
        argv[at : at + 1] = [flag, request["file"]["text"]]
    try:
        subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=request["environment"],
            cwd=request["cwd"],
            start_new_session=True,
            preexec_fn=_defaults,
        )
    except OSError as error:
        _answer({"error": f"{argv[0]} cannot be started: {error.strerror or error}"})
    else:
        _answer({})


def _defaults() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _watched(process: subprocess.Popen[bytes], request: dict[str, Any]) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    limit: int = request["limit"]
    rest = memoryview(request["stdin"].encode())
    written = {"stdout": bytearray(), "stderr": bytearray()}
    large: str | None = None
    killed_at: float | None = None
    for pipe in (process.stdin, process.stdout, process.stderr, sys.stdin.buffer):
        os.set_blocking(pipe.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ, "asked")
        selector.register(process.stdout, selectors.EVENT_READ, "stdout")
        selector.register(process.stderr, selectors.EVENT_READ, "stderr")
        selector.register(process.stdin, selectors.EVENT_WRITE, "stdin")
        open_pipes = 2
        while process.poll() is None or open_pipes:
            for key, _ in selector.select(POLL_S):
                name: str = key.data
                if name == "stdin":
                    rest = _fed(process, rest)
                    if not rest:
                        selector.unregister(process.stdin)
                        process.stdin.close()
                    continue
                part = _read(key.fd)
                if part is None:
                    continue
                if name == "asked":
                    if part == b"":
                        selector.unregister(0)
                        killed_at = killed_at or _end(process, request["grace"])
                elif part == b"":
                    selector.unregister(key.fileobj)
                    open_pipes -= 1
                else:
                    written[name] += part[: limit + 1 - len(written[name])]
                    if len(written[name]) > limit and large is None:
                        large = name
                        killed_at = killed_at or _end(process, request["grace"])
            if killed_at is not None and time.monotonic() >= killed_at:
                if process.poll() is not None:
                    # What still holds its pipes is in another group.
                    break
                _signal(process, signal.SIGKILL)
            if process.poll() is not None and open_pipes:
                # What it left behind holds its pipes: it ends with it.
                _signal(process, signal.SIGKILL)
    _signal(process, signal.SIGKILL)
    return {
        "code": process.returncode,
        "ended": killed_at is not None,
        "large": large,
        "stdout": written["stdout"][:limit].decode(errors="replace"),
        "stderr": written["stderr"][:limit].decode(errors="replace"),
    }


def _fed(process: subprocess.Popen[bytes], rest: memoryview) -> memoryview:
    assert process.stdin is not None
    if not rest:
        return rest
    try:
        return rest[os.write(process.stdin.fileno(), rest[:65_536]) :]
    except BlockingIOError:
        return rest
    except OSError:
        # It does not want to read it all.
        return rest[len(rest) :]


def _read(descriptor: int) -> bytes | None:
    try:
        return os.read(descriptor, 65_536)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _end(process: subprocess.Popen[bytes], grace: float) -> float:
    """Ask a process to end; return when it is to be killed."""
    _signal(process, signal.SIGTERM)
    return time.monotonic() + grace


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


def _answer(found: dict[str, Any]) -> None:
    # A worker that has died reads nothing.
    with contextlib.suppress(OSError):
        view = memoryview(json.dumps(found).encode())
        while view:
            view = view[os.write(1, view) :]


if __name__ == "__main__":
    main()
