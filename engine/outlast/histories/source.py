"""Where exported histories come from: a file of JSON documents, one a line or a single one, or documents in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import orjson

from outlast_workflow.errors.history import InvalidHistoryError

Source = str | PathLike[str] | dict[str, Any] | Iterable[dict[str, Any]]
"""A file's path, a document, or several."""


class Documents:
    """The documents of a source. They can be iterated more than once, and a file is never held in memory as a whole.

    A place is the byte at which a document begins in its file, or the index of a document in memory.
    """

    def __init__(self, source: Source) -> None:
        self.path: Path | None = None
        self._given: list[Any] = []
        if isinstance(source, str | PathLike):
            self.path = Path(source)
        elif isinstance(source, dict):
            self._given = [source]
        else:
            self._given = list(source)

    @property
    def size(self) -> int:
        """The size of the source, in bytes of its file or in documents.

        Raises:
            InvalidHistoryError: The file is not there, or empty.
        """
        if self.path is None:
            return len(self._given)
        with self._opened() as file:
            size: int = file.seek(0, 2)
        if not size:
            raise InvalidHistoryError("it is empty: export the runs again", place=self.path.name)
        return size

    def __iter__(self) -> Iterator[tuple[int, str, Any]]:
        """Yield each document's place, the name of that place in messages, and the document.

        Raises:
            InvalidHistoryError: The file is not there, or is not JSON.
        """
        if self.path is None:
            for place, document in enumerate(self._given):
                yield place, f"history {place + 1}", document
            return
        with self._opened() as file:
            place = 0
            for number, line in enumerate(file, 1):
                if line.strip():
                    name = f"{self.path.name} line {number}"
                    try:
                        yield place, name, orjson.loads(line)
                    except orjson.JSONDecodeError:
                        # A single document may be spread over many lines.
                        if place == 0:
                            yield 0, self.path.name, self._whole()
                            return
                        raise InvalidHistoryError(
                            "this is not JSON: a file holds one document a line, as `outlast export` writes it",
                            place=name,
                        ) from None
                place += len(line)

    def at(self, place: int) -> Any:
        """Return the document of a place."""
        if self.path is None:
            return self._given[place]
        with self._opened() as file:
            file.seek(place)
            line = file.readline()
        try:
            return orjson.loads(line)
        except orjson.JSONDecodeError:
            return self._whole()

    def _opened(self) -> Any:
        assert self.path is not None
        try:
            return self.path.open("rb")
        except OSError as error:
            raise InvalidHistoryError(
                f"cannot be read: {error.strerror}: check the path", place=str(self.path)
            ) from None

    def _whole(self) -> Any:
        assert self.path is not None
        try:
            return orjson.loads(self.path.read_bytes())
        except orjson.JSONDecodeError:
            raise InvalidHistoryError(
                "this is not JSON: make the file with `outlast export`", place=self.path.name
            ) from None
