"""Telling Ctrl-C from code that raises ``KeyboardInterrupt``.

Workflow code is contained: whatever it raises ends its run or fails its task, never its worker. A ``KeyboardInterrupt``
that Python raises for SIGINT while such code runs is not the code's, and must reach the program. Python raises it in
the main thread between two instructions, from the handler of the signal.
"""

from __future__ import annotations

import functools
import signal
import threading
from opcode import opmap
from types import CodeType, TracebackType
from typing import Any, Final

_RAISE: Final = opmap["RAISE_VARARGS"]


def is_ctrl_c(error: BaseException) -> bool:
    """Return whether an exception is the process's own reaction to SIGINT."""
    if not isinstance(error, KeyboardInterrupt) or error.args:
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    handler: Any = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        return not _was_raised_by_code(error.__traceback__)
    code = _code_of(handler)
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code is code:
            return True
        traceback = traceback.tb_next
    return False


def _was_raised_by_code(traceback: TracebackType | None) -> bool:
    """Return whether the innermost frame was at a ``raise`` statement; the handler in C has no frame."""
    if traceback is None:
        return True
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_code[traceback.tb_lasti] == _RAISE


def _code_of(handler: Any) -> CodeType | None:
    """Return the code of a handler in Python, such as that of ``asyncio.run``."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return getattr(getattr(handler, "__func__", handler), "__code__", None)
