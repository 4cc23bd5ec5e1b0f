"""Where the user's code is: the line that a problem names."""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Final

_HERE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def users_frame() -> FrameType:
    """Return the innermost frame that is not of this package."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_HERE) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def users_line() -> str:
    """Return the line of the user's code that is being executed, as ``file:line``."""
    frame = users_frame()
    return source_line(frame.f_code.co_filename, frame.f_lineno)


def source_line(file: str, line: int) -> str:
    """Return a place in a file as ``file:line``, the file relative to the current folder where it lies in it.

    Args:
        file: The file.
        line: The line, counted from 1.
    """
    here = os.getcwd() + os.sep
    return f"{file.removeprefix(here)}:{line}"
