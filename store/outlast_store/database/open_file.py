"""The SQLite file that a process has open: whether its path still leads to it.

A file that is deleted, moved or replaced (a backup restored over it) stays open in the processes that had it. They
would go on writing where nobody looks. So the file at the path is compared with the opened one, by device and inode,
before each commit and whenever a connection is lent. Once they differ, this process does not use the database any more.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from outlast_workflow.errors import StoreReplacedError

logger = logging.getLogger("outlast.store")


class OpenFile:
    """One process's view of one SQLite file. Any thread may call its methods.

    Args:
        path: The file.
        shown: The database's URL, for messages.

    Attributes:
        on_replaced: Called once, from whichever thread finds that the path leads elsewhere.
    """

    __slots__ = ("_identity", "_path", "_shown", "on_replaced", "replaced")

    def __init__(self, path: Path, shown: str) -> None:
        self._path = os.fspath(path)
        self._shown = shown
        self._identity: tuple[int, int] | None = None
        self.replaced: StoreReplacedError | None = None
        self.on_replaced: Callable[[StoreReplacedError], None] | None = None

    def opened(self) -> None:
        """Remember which file was opened, the first time.

        Raises:
            StoreReplacedError: It was taken away while it was opened.
        """
        if self._identity is None:
            try:
                found = os.stat(self._path)
            except FileNotFoundError:
                raise self._lost("was deleted or moved") from None
            self._identity = found.st_dev, found.st_ino

    def check(self) -> None:
        """Check that the path leads to the opened file.

        Raises:
            StoreReplacedError: It does not, or did not once.
        """
        if self.replaced is not None:
            raise self.replaced.with_traceback(None)
        if self._identity is None:
            return
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            raise self._lost("was deleted or moved") from None
        if (found.st_dev, found.st_ino) != self._identity:
            raise self._lost("was replaced by another file")

    def _lost(self, how: str) -> StoreReplacedError:
        self.replaced = error = StoreReplacedError(
            f"{self._shown} {how} while this process had it open: nothing is written any more, because nobody would "
            "find it; restart this process, and stop all processes first when you restore a backup"
        )
        logger.error("%s", error)
        if self.on_replaced is not None:
            self.on_replaced(error)
        return error
