"""The helper process: it compiles and runs jq programs, one request after the other, and nothing else.

It is run as a file, so it imports nothing of Outlast. A request is two blocks, each after its length in four bytes:
JSON that says what to do, and the input of the programs. The answer is one block of JSON. It ends when its input does;
a program that never ends is ended by an alarm, also where nobody is left to kill the process.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections import OrderedDict
from typing import Any

MOST_PROGRAMS = 4096


def main() -> None:
    """Answer requests until there are no more. The arguments: where jq is, seconds a request, bytes of memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    sys.path.insert(0, sys.argv[1])
    seconds, memory = float(sys.argv[2]), int(sys.argv[3])
    jq: Any = __import__("jq")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    programs: OrderedDict[str, Any] = OrderedDict()
    while True:
        head = _block()
        if head is None:
            return
        text = (_block() or b"").decode()
        request = json.loads(head)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            answers = [_one(jq, programs, program, text, request["run"]) for program in request["programs"]]
            encoded = f"[{','.join(answers)}]".encode()
        except MemoryError:
            os._exit(3)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _write(len(encoded).to_bytes(4, "big") + encoded)


def _one(jq: Any, programs: OrderedDict[str, Any], text: str, data: str, run: bool) -> str:
    program = programs.get(text)
    if program is None:
        try:
            program = jq.compile(text)
        except ValueError as error:
            return _told(["compile", str(error)])
        programs[text] = program
        if len(programs) > MOST_PROGRAMS:
            programs.popitem(last=False)
    else:
        programs.move_to_end(text)
    if not run:
        return _told(["ok", []])
    try:
        return _told(["ok", program.input_text(data).all()])
    except ValueError as error:
        return _told(["run", str(error)])
    except RecursionError:
        return _told(["deep", ""])


def _told(answer: list[Any]) -> str:
    return json.dumps(answer, separators=(",", ":"))


def _block() -> bytes | None:
    length = _read(4)
    return None if length is None else _read(int.from_bytes(length, "big"))


def _read(size: int) -> bytes | None:
    parts = b""
    while len(parts) < size:
        part = os.read(0, min(size - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return parts


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    main()
