"""How the parts of a simulation see each other: a database its processes, a process its world."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from tests.simulation.faults import Faults
from tests.simulation.loop import SimulationLoop

from outlast_workflow.environment import Environment
from outlast_workflow.options.limits import StructuralLimits


class WorldView(Protocol):
    """The world, to those who live in it."""

    loop: SimulationLoop
    shared: Any
    bells: Any
    violations: list[str]
    poll_s: float
    hop_s: float
    limits: StructuralLimits
    dags: Any

    def note(self, who: object, what: str) -> None:
        """Write a line of the trace."""
        ...

    def wrote(self, process: Any, what: str, events: Iterable[tuple[str, str]]) -> None:
        """A transaction of a process is durable."""
        ...

    def draw_skew(self) -> int:
        """By how much a process's clock is off, in microseconds."""
        ...

    def look(self) -> None:
        """Check all invariants, now."""
        ...

    def gone(self, process: Any) -> None:
        """A process has ended."""
        ...


class ProcessView(Protocol):
    """A process, to its connections."""

    world: WorldView
    faults: Faults
    environment: Environment

    def step(self) -> None:
        """One more thing is about to be done; the process may crash instead."""
        ...

    def crash(self, where: str) -> None:
        """Vanish."""
        ...
