"""The guard that refuses database connections in a forked child.

Connections do not survive a fork: parent and child would talk over one socket, or lose each other's file locks. In a
child every statement is refused instead. That costs nothing per statement: a hook that runs in the child replaces the
dialect's execute methods, which are looked up on the instance anyway.
"""

from __future__ import annotations

import os
import weakref
from typing import Any, Final, NoReturn

from sqlalchemy import Dialect

from outlast_workflow.errors import ForkedConnectionError

_watched: Final[weakref.WeakSet[Dialect]] = weakref.WeakSet()
_kept: Final[list[Dialect]] = []

_EXECUTE_METHODS: Final = ("do_execute", "do_execute_no_params", "do_executemany")


def refuse_after_fork(dialect: Dialect) -> None:
    """Make every statement on this dialect's connections raise ForkedConnectionError in a forked child."""
    _watched.add(dialect)


def forked() -> ForkedConnectionError:
    """Return the error that a child gets."""
    return ForkedConnectionError(
        "this database connection was opened before the process forked, and both sides cannot use it: "
        "start processes with the 'spawn' method, or connect after the fork"
    )


def _refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise forked()


def _in_child() -> None:
    for dialect in list(_watched):
        _kept.append(dialect)
        for method in _EXECUTE_METHODS:
            setattr(dialect, method, _refuse)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
