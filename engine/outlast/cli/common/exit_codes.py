"""What a command ends with: an exit code, and on failure one line on stderr that says what to do.

==== ================================================================================
0    done
1    the workflow failed, or the command could not be done
2    bad usage: an option, a name or a URL that can't be
3    there is no such workflow or run
4    the database does not answer, can't be written, or has another schema than this code
5    the workflow did not end, or gave no answer, within ``--timeout``; it goes on
130  interrupted
==== ================================================================================
"""

from __future__ import annotations

from enum import IntEnum

from outlast.errors import (
    InvalidOptionError,
    InvalidUrlError,
    OutlastError,
    RequestError,
    RequestTimeoutError,
    StillRunningError,
    StoreError,
    WorkflowAlreadyStartedError,
    WorkflowNotFoundError,
    WorkflowResultError,
)


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
    """A command could not be done, and says why in one line."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


def exit_code(error: BaseException) -> Exit:
    """What an error ends the command with."""
    if isinstance(error, CommandFailedError):
        return error.code
    if isinstance(error, InvalidOptionError | InvalidUrlError):
        return Exit.USAGE
    if isinstance(error, WorkflowNotFoundError):
        return Exit.NOT_FOUND
    if isinstance(error, StoreError):
        return Exit.DATABASE
    if isinstance(error, StillRunningError | RequestTimeoutError):
        return Exit.STILL_RUNNING
    return Exit.FAILED


def one_line(error: BaseException) -> str:
    """The message of an error, on one line; of a workflow that failed, with what it failed of."""
    if isinstance(error, InvalidUrlError):
        problem = error.message.partition("; use one of:")[0]
        return f"{problem}: use sqlite:///orders.db or postgresql://user@host/orders"
    if isinstance(error, WorkflowAlreadyStartedError):
        problem = error.message.partition(": choose")[0]
        return f"{problem}: choose another --id, or --policy return_existing for the one that is there"
    if isinstance(error, WorkflowResultError) and error.__cause__ is not None:
        return _joined(f"workflow {error.workflow_id!r} failed: {causes(error.__cause__)}")
    if isinstance(error, RequestError) and error.__cause__ is not None:
        problem, _, advice = error.message.partition(": see the cause")
        return _joined(f"{problem}: {causes(error.__cause__)}{advice}")
    if isinstance(error, OutlastError):
        return _joined(error.message)
    return _joined(f"{type(error).__name__}: {error} (OUTLAST_DEBUG=1 shows where)")


def causes(error: BaseException, most: int = 3) -> str:
    """An exception and what led to it, the latest first."""
    words: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(words) < most:
        name = getattr(cause, "type", None) or type(cause).__name__
        words.append(f"{name}: {cause}" if str(cause) else str(name))
        cause = cause.__cause__
    return ", because of ".join(words)


def _joined(text: str) -> str:
    return " ".join(text.split())
