"""How a command ends: an exit code, and on failure a line on stderr that says what to do.

==== =========================================================================================
0    done
1    the workflow failed, or the command could not do what was asked
2    bad usage: an option, a name or a URL is not valid
3    there is no such workflow, run, activity, queue or alert
4    the database does not answer, cannot be written, or its schema does not match this code
5    the workflow did not end, or did not answer, within ``--timeout``; it continues
130  interrupted
==== =========================================================================================
"""

from __future__ import annotations

from enum import IntEnum

from outlast.errors import (
    ActivityNotFoundError,
    AlertNotFoundError,
    DagValidationError,
    DocumentNotFoundError,
    InvalidDocumentError,
    InvalidOptionError,
    InvalidUrlError,
    OutboxRowNotFoundError,
    OutlastError,
    QueueNotFoundError,
    RequestTimeoutError,
    ScheduleNotFoundError,
    StillRunningError,
    StoreError,
    UnsupportedTaskError,
    WorkflowAlreadyStartedError,
    WorkflowNotFoundError,
)
from outlast.text.error_reports import joined, one_line


class Exit(IntEnum):
    """The exit codes."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    DATABASE = 4
    STILL_RUNNING = 5
    INTERRUPTED = 130


class CommandFailedError(OutlastError):
    """A command could not do what was asked; the message says why in one line."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


def exit_code(error: BaseException) -> Exit:
    """Return the exit code of a command that raised an error."""
    if isinstance(error, CommandFailedError):
        return error.code
    if isinstance(error, InvalidOptionError | InvalidUrlError):
        return Exit.USAGE
    if isinstance(
        error,
        WorkflowNotFoundError
        | ActivityNotFoundError
        | QueueNotFoundError
        | ScheduleNotFoundError
        | OutboxRowNotFoundError
        | AlertNotFoundError
        | DocumentNotFoundError,
    ):
        return Exit.NOT_FOUND
    if isinstance(error, StoreError):
        return Exit.DATABASE
    if isinstance(error, StillRunningError | RequestTimeoutError):
        return Exit.STILL_RUNNING
    return Exit.FAILED


def error_line(error: BaseException) -> str:
    """Return what a command prints about an error. Its advice names options of the command line.

    It is one line, and one more for each problem where an error has several: nobody finds the seventh in one long line.
    """
    if isinstance(error, InvalidUrlError):
        problem = error.message.partition("; use one of:")[0]
        return f"{problem}: use sqlite:///orders.db or postgresql://user@host/orders"
    if isinstance(error, WorkflowAlreadyStartedError):
        problem = error.message.partition(": choose")[0]
        return f"{problem}: choose another --id, or --policy return_existing to use the workflow that exists"
    if (
        isinstance(error, InvalidDocumentError | UnsupportedTaskError | DagValidationError)
        and len(error.problems) > 1
    ):
        return "\n  ".join(joined(line) for line in str(error).splitlines())
    if isinstance(error, OutlastError):
        return one_line(error)
    return joined(f"{type(error).__name__}: {error} (OUTLAST_DEBUG=1 shows where)")
