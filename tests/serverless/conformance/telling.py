"""Telling a story step by step, and what is checked of what came of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.serverless.conformance.modes import Modes
from tests.serverless.conformance.story import Outcome, Step, Story, traced

FEATURES: Final = os.environ.get("OUTLAST_FEATURES") or str(Path(__file__).parents[1] / "features")


class Told:
    """A story, as it is told, and what came of it in each mode.

    Args:
        modes: Plays it.

    Attributes:
        story: The story so far.
        modes: Plays it.
    """

    def __init__(self, modes: Modes) -> None:
        self.story = Story()
        self.modes = modes
        self._outcomes: dict[str, Outcome] | None = None

    def play(self) -> dict[str, Outcome]:
        """Play it in each mode."""
        return self.modes.play(self.story)

    def trace(self, outcome: Outcome) -> list[Step]:
        """Return the tasks that ran, in the order in which they began."""
        return self.modes.run(traced(outcome))

    def each(self, check: Callable[[Outcome], None]) -> None:
        """Check what came of it in each mode. It is played once."""
        if self._outcomes is None:
            self._outcomes = self.play()
        for mode, outcome in self._outcomes.items():
            try:
                check(outcome)
            except AssertionError as error:
                error.add_note(f"mode: {mode}; {outcome}")
                raise


class ToldAtEveryCommit(Told):
    """A story that is played once for each commit and moment."""

    def play(self) -> dict[str, Outcome]:
        """Play it."""
        return self.modes.play_at_every_commit(self.story)
