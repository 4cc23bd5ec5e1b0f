"""The client's ledger: what was acknowledged, on disk before anything else is done."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Ledger:
    """A file of JSON lines, each synced."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, what: str, workflow_id: str, value: Any = None) -> None:
        """Something was acknowledged (``started``, ``signalled``, ``cancelled``, ``terminated``,
        ``completed``, ``failed``) or told (``answered``,
        ``queried``, ``result``)."""
        os.write(self._file, json.dumps([what, workflow_id, value]).encode() + b"\n")
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)

    def entries(self) -> list[tuple[str, str, Any]]:
        """All of it, from the disk."""
        return [tuple(json.loads(line)) for line in self.path.read_text().splitlines()]
