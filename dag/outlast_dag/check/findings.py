"""What was found in a spec, before it is known where the user wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a node, named by its position, or with the DAG as a whole."""

    kind: str
    index: int | None
    message: str
    advice: str


NO_TIMEOUT: Final = (
    "nothing bounds an attempt",
    "give it timeout=seconds, .with_timeout(seconds), or start_to_close_timeout on @activity.defn",
)
"""What is told of a step without a timeout."""
