"""Figures with their targets: a table for people, JSON for programs."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.harness.measuring import Timing, percentile
from benchmarks.harness.reports import RESULTS


@dataclass(slots=True)
class Figure:
    """One figure in a unit; ``target`` is its upper limit, or its lower limit with ``at_least``."""

    load: str
    database: str
    what: str
    value: float
    unit: str
    target: float | None = None
    at_least: bool = False
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """Whether the figure reaches its target; ``None`` without one."""
        if self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target


def rate(load: str, database: str, what: str, timing: Timing) -> Figure:
    """Return a rate per second, with this process's CPU for each."""
    return Figure(load, database, what, timing.rate, "/s", details={"CPU µs": timing.cpu_us})


def latency(load: str, database: str, what: str, seconds: list[float]) -> Figure:
    """Return the median in milliseconds, with the 99th percentile."""
    found = Figure(load, database, what, statistics.median(seconds) * 1000, "ms")
    found.details = {"p99 ms": percentile(seconds, 0.99) * 1000, "count": len(seconds)}
    return found


def show(console: Console, facts: dict[str, dict[str, str]], figures: Sequence[Figure]) -> None:
    """Print everything."""
    for name, values in facts.items():
        console.print(f"[bold]{name}[/]: " + ", ".join(f"{key} {value}" for key, value in values.items()))
    table = Table()
    table.add_column("load")
    table.add_column("database")
    table.add_column("measure", overflow="fold")
    table.add_column("figure", justify="right")
    table.add_column("details", overflow="fold")
    table.add_column("target")
    for one in figures:
        details = ", ".join(f"{name} {_number(value)}" for name, value in one.details.items())
        figure = f"{_number(one.value)} {one.unit}"
        table.add_row(one.load, one.database, one.what, figure, details, _verdict(one))
    console.print(table)


def _number(value: object) -> str:
    if not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _verdict(one: Figure) -> str:
    if one.target is None:
        return ""
    mark = "[green]✓[/]" if one.met else "[red]✗[/]"
    return f"{mark} {'≥' if one.at_least else '≤'} {_number(one.target)} {one.unit}"


def save(
    facts: dict[str, dict[str, str]],
    figures: Sequence[Figure],
    sizes: object,
    folder: Path = RESULTS,
    name: str = "loads",
) -> Path:
    """Save everything as JSON, and return the file."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    document = {
        "at": at,
        "command": " ".join(sys.argv[1:]),
        "facts": facts,
        "sizes": sizes,
        "figures": [{**asdict(one), "met": one.met} for one in figures],
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}-{at.replace(':', '')}.json"
    file.write_text(json.dumps(document, indent=1) + "\n")
    return file
