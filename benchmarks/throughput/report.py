"""The report of throughput: a table for people, JSON for programs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.harness.reports import RESULTS
from benchmarks.throughput.as_written import FASTEST, FORMS, WANTED, Compared
from benchmarks.throughput.growth import Growth
from benchmarks.throughput.rounds import Measure, Sizes


@dataclass(frozen=True, slots=True)
class Target:
    """What the speed budget requires: a rate, a share of the floor, or both; and what it aims for."""

    rate: float | None = None
    share: float | None = None
    aim: float | None = None

    def met(self, measure: Measure) -> bool:
        """Return whether a measure reaches it."""
        ratio = measure.ratio or 0.0
        return (self.rate is None or measure.rate >= self.rate) and (
            self.share is None or ratio >= self.share
        )

    def __str__(self) -> str:
        rate = f"≥ {self.rate:,.0f}/s" if self.rate is not None else ""
        share = f"≥ {self.share:.0%}" if self.share is not None else ""
        aim = f" (aim {self.aim:.0%})" if self.aim is not None else ""
        return ", ".join(part for part in (rate, share) if part) + aim


def target_of(measure: Measure) -> Target | None:
    """Return the budget of one measure; some have none."""
    if measure.name.startswith("replay"):
        return Target(rate=100_000)
    if measure.backend == "postgresql":
        return Target(share=1 / 4) if "1,000 in flight" in measure.name else None
    if "1,000 in flight" in measure.name:
        return Target(rate=2_500, share=1 / 3, aim=1 / 2)
    if "sequence" in measure.name:
        return Target(share=0.6)
    return None


def show(
    console: Console, facts: dict[str, dict[str, str]], measures: Sequence[Measure], growth: Growth | None
) -> None:
    """Print everything."""
    for name, values in facts.items():
        console.print(f"[bold]{name}[/]: " + ", ".join(f"{key} {value}" for key, value in values.items()))
    table = Table(title="medians of the rounds; ratios are medians of each round's own")
    table.add_column("database")
    table.add_column("measure", overflow="fold")
    for heading in ("Outlast", "floor", "share", "CPU µs", "p50 ms", "p99 ms"):
        table.add_column(heading, justify="right")
    table.add_column("target")
    for measure in measures:
        table.add_row(*_row(measure), end_section=False)
    console.print(table)
    if growth is not None:
        _show_growth(console, growth)


def _row(measure: Measure) -> list[str]:
    target, latency, bare, ratio = target_of(measure), measure.latency_ms, measure.bare_rate, measure.ratio
    verdict = ""
    if target is not None:
        verdict = f"[green]✓[/] {target}" if target.met(measure) else f"[red]✗[/] {target}"
    return [
        measure.backend,
        measure.name,
        f"{measure.rate:,.0f} {measure.unit}",
        f"{bare:,.0f}" if bare is not None else "",
        f"{ratio:.0%}" if ratio is not None else "",
        f"{measure.cpu_us:,.1f}",
        f"{latency[0]:.2f}" if latency is not None else "",
        f"{latency[1]:.2f}" if latency is not None else "",
        verdict,
    ]


def show_compared(console: Console, compared: Sequence[Compared]) -> None:
    """Print what a program as users write it reaches of the fastest form."""
    table = Table(title="a program as users write it, and its share of the fastest form: rate, and CPU")
    table.add_column("database")
    table.add_column("measure", overflow="fold")
    for form in FORMS:
        table.add_column(form, justify="right")
        if form != FASTEST:
            table.add_column("share", justify="right")
            table.add_column("of CPU", justify="right")
    for one in compared:
        row = [one.backend, one.name]
        for form in FORMS:
            row.append(f"{one.rate(form):,.0f}/s")
            if form != FASTEST:
                share = one.share(form)
                colour = "green" if share >= WANTED else "red"
                row += [f"[{colour}]{share:.0%}[/]", f"{one.cpu_share(form):.0%}"]
        table.add_row(*row)
    console.print(table)


def _show_growth(console: Console, growth: Growth) -> None:
    words = ("statements", "rows", "bytes of SQL", "commits")
    early, late = (
        ", ".join(
            f"{value / growth.window:,g} {word}" for word, value in zip(words, counts.written, strict=True)
        )
        for counts in (growth.early, growth.late)
    )
    verdict = "[green]✓[/] equal" if growth.flat else "[red]✗[/] not equal"
    console.print(f"[bold]an activity at 10 events of history[/]: {early}")
    console.print(f"[bold]an activity at {growth.events:,} events[/]: {late}: {verdict}")
    console.print(f"  time, late by early: {growth.wall_ratio:.3f} elapsed, {growth.cpu_ratio:.3f} of CPU")


def save(
    facts: dict[str, dict[str, str]],
    sizes: Sizes,
    measures: Sequence[Measure],
    compared: Sequence[Compared],
    growth: Growth | None,
    folder: Path = RESULTS,
) -> Path:
    """Save everything as JSON, and return the file."""
    document: dict[str, Any] = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": " ".join(sys.argv[1:]),
        "facts": facts,
        "sizes": asdict(sizes),
        "measures": [measure.document() for measure in measures],
        "as_written": [one.document() for one in compared],
        "growth": growth.document() if growth is not None else None,
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"throughput-{document['at'].replace(':', '')}.json"
    file.write_text(json.dumps(document, indent=1) + "\n")
    return file
