"""Lines on stderr, for people; stdout is for results."""

from __future__ import annotations

import sys


def tell(message: str) -> None:
    """Print one line on stderr."""
    print(f"outlast: {message}", file=sys.stderr, flush=True)
