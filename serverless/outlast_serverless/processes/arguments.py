"""What stands in a document, as the arguments and variables of a process."""

from __future__ import annotations

from typing import Any

import orjson


def flat(arguments: Any) -> list[str]:
    """Return arguments as a list. A mapping is ``--key value``: for ``true`` the key alone, for ``false`` nothing."""
    if isinstance(arguments, dict):
        given = {key: value for key, value in arguments.items() if value is not None and value is not False}
        return [
            part
            for key, value in given.items()
            for part in ((f"--{key}",) if value is True else (f"--{key}", text(value)))
        ]
    return [text(value) for value in arguments or ()]


def text(value: Any) -> str:
    """Return a value as a process gets it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
