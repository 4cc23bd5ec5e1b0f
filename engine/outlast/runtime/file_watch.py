"""Being told by the operating system that a file is written to."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from asyncinotify import Inotify

logger = logging.getLogger("outlast.notifier")


class FileWatch:
    """Tells once that a file is written to, after it was armed. Linux has this; others look at the file themselves.

    Args:
        inotify: The connection to the kernel.
        path: The file.
    """

    def __init__(self, inotify: Inotify, path: Path) -> None:
        self._inotify = inotify
        self._path = path

    @classmethod
    def of(cls, path: Path) -> Self | None:
        """Return a watch of a file, or ``None`` where the system has none to give.

        The first call takes a tenth of a second: the library looks for the system's own by starting a process.

        Args:
            path: The file, which need not be there yet.
        """
        if sys.platform != "linux":
            return None
        try:
            from asyncinotify import Inotify

            return cls(Inotify(), path)
        except (ImportError, OSError) as error:
            # Such as too many instances of this user.
            logger.debug("the system does not tell of writes to %s: %s", path, error)
            return None

    def arm(self) -> bool:
        """Begin to watch for the next write, and return whether that can be told."""
        from asyncinotify import Mask

        try:
            self._inotify.add_watch(self._path, Mask.MODIFY | Mask.ONESHOT)
        except OSError:
            # The file is not there yet, or no longer.
            return False
        return True

    async def written(self) -> None:
        """Return once the file has been written to since :meth:`arm`, or is gone."""
        await self._inotify.get()

    def close(self) -> None:
        """Watch no more."""
        self._inotify.close()
