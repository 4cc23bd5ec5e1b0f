"""How well deadlines are kept: ``python -m benchmarks.watchdog``.

Idle passes by the number of open deadlines, of schedules and of alerts, enforcements per second, lateness with a live
worker and of schedules that several watchdogs fire, and 2,000 workflow timeouts compared with a peer (``--with-dbos``
installs DBOS into an environment of its own, and removes it). Everything that was enforced is counted and checked. The
exit code is 1 if a figure is wrong; it never is for being slow.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.harness.databases import BACKENDS, Backend, Databases
from benchmarks.harness.environments import install
from benchmarks.harness.measuring import WrongResultError, expect
from benchmarks.harness.processes import ROOT, answer_of, measured
from benchmarks.harness.reports import RESULTS, machine
from benchmarks.watchdog.alerts import armed
from benchmarks.watchdog.alerts import fill as fill_alerts
from benchmarks.watchdog.due import KINDS
from benchmarks.watchdog.idle import fill, open_deadlines
from benchmarks.watchdog.lateness import SPREAD_S
from benchmarks.watchdog.schedules import fill as fill_schedules

IDLE_TARGET_MS = 5.0
RATE_TARGET = 5000
LATE_TARGET_MS = 50.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """The amounts of work that are measured."""

    idle: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    due: int = 10_000
    rounds: int = 3
    timers: int = 10_000
    activities: int = 1_000
    lead_s: float = 25.0
    peer: int = 2_000
    peer_lead_s: float = 30.0
    schedules: int = 100_000
    alerts: int = 1_000_000
    firing: tuple[int, int, int, int] = (8, 100, 60, 2)
    """Watchdogs, schedules of every second, seconds, and watchdogs that are killed."""


QUICK = Sizes(
    idle=(1_000, 10_000), due=1_000, rounds=1, timers=500, activities=100, lead_s=4, peer=100, peer_lead_s=5,
    schedules=1_000, alerts=1_000, firing=(2, 10, 6, 1),
)  # fmt: skip


@dataclass(slots=True)
class Row:
    """Return a line of the table, and what is saved of it."""

    database: str
    what: str
    figures: dict[str, Any]
    text: str
    target: str = ""
    met: bool | None = None


def idle(databases: Databases, backend: Backend, sizes: Sizes, say: Callable[[str], None]) -> list[Row]:
    """Measure passes over open deadlines of which none is due."""
    rows: list[Row] = []
    with databases.fresh(backend) as url:
        there = 0
        for size in sizes.idle:
            say(f"{backend}: {size:,} open deadlines")
            fill(url, size - there)
            there = size
            expect("open deadlines", open_deadlines(url), size)
            found = measured("benchmarks.watchdog.idle", url)
            text = (
                f"{found['median_ms']:.2f} ms median, {found['p99_ms']:.2f} ms p99; "
                f"{found['memory_mib']:.0f} MiB, {found['threads']:.0f} threads"
            )
            last = size == sizes.idle[-1]
            rows.append(
                Row(
                    backend,
                    f"idle pass over {size:,} open deadlines",
                    {"deadlines": size, **found},
                    text,
                    f"≤ {IDLE_TARGET_MS:g} ms" if last else "",
                    found["median_ms"] <= IDLE_TARGET_MS if last else None,
                )
            )
    return rows


def due(databases: Databases, backend: Backend, sizes: Sizes, say: Callable[[str], None]) -> list[Row]:
    """Measure enforcements per second."""
    rows: list[Row] = []
    for kind in KINDS:
        rates: list[float] = []
        cpu: list[float] = []
        for number in range(sizes.rounds):
            say(f"{backend}: {sizes.due:,} {kind} due, round {number + 1}")
            with databases.fresh(backend) as url:
                found = measured("benchmarks.watchdog.due", url, kind, sizes.due)
            rates.append(found["rate"])
            cpu.append(found["cpu_us"])
        rate = statistics.median(rates)
        rows.append(
            Row(
                backend,
                f"{sizes.due:,} {kind} due at once",
                {"kind": kind, "rates": rates, "cpu_us": cpu},
                f"{rate:,.0f}/s ({', '.join(f'{one:,.0f}' for one in rates)}); "
                f"{statistics.median(cpu):.0f} µs of CPU each",
                f"≥ {RATE_TARGET:,}/s",
                rate >= RATE_TARGET,
            )
        )
    return rows


def live(databases: Databases, backend: Backend, sizes: Sizes, say: Callable[[str], None]) -> list[Row]:
    """Measure lateness with a live worker."""
    counts = {"timers": sizes.timers, "activities": sizes.activities, "alerts": sizes.activities}
    say(f"{backend}: {counts} over {SPREAD_S:g} s")
    with databases.fresh(backend) as url:
        found = measured("benchmarks.watchdog.lateness", url, json.dumps(counts), sizes.lead_s)
    rows: list[Row] = []
    for kind, late in found["late_ms"].items():
        rows.append(
            Row(
                backend,
                f"{counts[kind]:,} {kind} over {SPREAD_S:g} s, live worker",
                {"kind": kind, **found},
                f"late by {_late(late)}",
                f"p99 ≤ {LATE_TARGET_MS:g} ms",
                late["p99"] <= LATE_TARGET_MS,
            )
        )
    return rows


def schedules(databases: Databases, backend: Backend, sizes: Sizes, say: Callable[[str], None]) -> list[Row]:
    """Measure passes over schedules of which none is due, and how late several watchdogs fire those of every second."""
    say(f"{backend}: {sizes.schedules:,} schedules")
    with databases.fresh(backend) as url:
        fill_schedules(url, sizes.schedules)
        idle = measured("benchmarks.watchdog.idle", url)
    watchdogs, number, seconds, killed = sizes.firing
    say(f"{backend}: {watchdogs} watchdogs, {number} schedules of every second")
    with databases.fresh(backend) as url:
        found = measured("benchmarks.watchdog.schedules", url, *sizes.firing)
    text = f"{idle['median_ms']:.2f} ms median, {idle['p99_ms']:.2f} ms p99"
    fired = f"all {found['fires']:,} once; late by {_late(found['late_ms'])}"
    if found["recovering_ms"]:
        fired += f"; after a kill by {_late(found['recovering_ms'])}"
    return [
        Row(
            backend,
            f"idle pass over {sizes.schedules:,} schedules",
            {"schedules": sizes.schedules, **idle},
            text,
            f"≤ {IDLE_TARGET_MS:g} ms",
            idle["median_ms"] <= IDLE_TARGET_MS,
        ),
        Row(
            backend,
            f"{number} schedules of every second, {seconds} s, {watchdogs} watchdogs, {killed} killed",
            found,
            fired,
            f"p99 ≤ {LATE_TARGET_MS:g} ms",
            found["late_ms"]["p99"] <= LATE_TARGET_MS,
        ),
    ]


def alerts(databases: Databases, backend: Backend, sizes: Sizes, say: Callable[[str], None]) -> list[Row]:
    """Measure passes with no alert armed and with many that lie ahead; how many are fired per second is in ``due``."""
    rows: list[Row] = []
    with databases.fresh(backend) as url:
        for size in (0, sizes.alerts):
            say(f"{backend}: {size:,} armed alerts")
            fill_alerts(url, size)
            expect("armed alerts", armed(url), size)
            found = measured("benchmarks.watchdog.idle", url)
            rows.append(
                Row(
                    backend,
                    f"idle pass over {size:,} armed alerts",
                    {"alerts": size, **found},
                    f"{found['median_ms']:.2f} ms median, {found['p99_ms']:.2f} ms p99",
                    f"≤ {IDLE_TARGET_MS:g} ms",
                    found["median_ms"] <= IDLE_TARGET_MS,
                )
            )
    return rows


def peer(
    databases: Databases, backend: Backend, sizes: Sizes, say: Callable[[str], None], interpreter: str | None
) -> list[Row]:
    """Measure the same workflow timeouts in Outlast and in DBOS."""
    say(f"{backend}: {sizes.peer:,} workflow timeouts")
    with databases.fresh(backend) as url:
        ours = measured(
            "benchmarks.watchdog.lateness", url, json.dumps({"runs": sizes.peer}), sizes.peer_lead_s
        )
    what = f"{sizes.peer:,} workflow timeouts over {SPREAD_S:g} s"
    rows = [Row(backend, f"{what}: Outlast", ours, _side(ours, ours["late_ms"]["runs"]))]
    if interpreter is None:
        return [*rows, Row(backend, f"{what}: DBOS", {}, "not measured: give --with-dbos")]
    say(f"{backend}: {sizes.peer:,} workflow timeouts in DBOS")
    with databases.fresh(backend) as url:
        script = str(ROOT / "benchmarks" / "peers" / "dbos_timeouts.py")
        target = url if backend == "postgresql" else url.replace(".db", "_peer.db")
        command = [interpreter, script, target, str(sizes.peer), str(sizes.peer_lead_s), str(SPREAD_S)]
        try:
            theirs = answer_of(command, timeout_s=sizes.peer_lead_s + SPREAD_S + 120)
        except (WrongResultError, subprocess.TimeoutExpired) as error:
            return [
                *rows,
                Row(backend, f"{what}: DBOS", {"error": str(error)}, f"failed: {str(error)[-200:]}"),
            ]
    text = _side(theirs, theirs["late_ms"])
    if theirs["enforced"] != sizes.peer:
        text += f"; only {theirs['enforced']:,} enforced after a minute more"
    return [*rows, Row(backend, f"{what}: DBOS", theirs, text)]


def _late(late: dict[str, float]) -> str:
    return f"{late['p50']:.1f} ms p50, {late['p99']:.1f} ms p99, {late['max']:.1f} ms max"


def _side(found: dict[str, Any], late: dict[str, float]) -> str:
    grown = found["memory_mib"] - found["memory_before_mib"]
    return (
        f"late by {_late(late)}; {found['threads']:.0f} threads, {found['memory_mib']:.0f} MiB (+{grown:.0f}), "
        f"{found['cpu']:.0%} of a core meanwhile, started in {found['started_s']:.1f} s"
    )


PARTS: dict[str, Callable[[Databases, Backend, Sizes, Callable[[str], None]], list[Row]]] = {
    "idle": idle,
    "due": due,
    "live": live,
    "schedules": schedules,
    "alerts": alerts,
}


def main(argv: list[str] | None = None) -> int:
    """Measure, print and save; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.watchdog", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, one round")
    parser.add_argument("--rounds", type=int, help="how often enforcements are measured")
    parser.add_argument("--database", choices=(*BACKENDS, "both"), default="both")
    parser.add_argument(
        "--part", choices=(*PARTS, "peer"), action="append", help="only this; may be given again"
    )
    parser.add_argument("--with-dbos", action="store_true", help="install DBOS, and measure it as well")
    parser.add_argument("--folder", type=Path, help="where the SQLite files go")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    options = parser.parse_args(argv)
    sizes = QUICK if options.quick else Sizes()
    if options.rounds:
        sizes = replace(sizes, rounds=options.rounds)
    backends: tuple[Backend, ...] = BACKENDS if options.database == "both" else (options.database,)
    parts = options.part or [*PARTS, "peer"]
    console = Console(width=None if sys.stdout.isatty() else 170)
    rows: list[Row] = []
    facts = {"machine": machine()}
    try:
        with (
            Databases(options.folder) as databases,
            tempfile.TemporaryDirectory(prefix="outlast-peer-") as folder,
            console.status("…") as status,
        ):
            wanted = options.with_dbos and "peer" in parts
            interpreter = install(Path(folder) / "venv", ["dbos"], console) if wanted else None
            for backend in backends:
                facts[backend] = databases.facts(backend)
                for name, part in PARTS.items():
                    if name in parts:
                        rows += part(databases, backend, sizes, status.update)
                if "peer" in parts:
                    rows += peer(databases, backend, sizes, status.update, interpreter)
    except WrongResultError as error:
        console.print(f"[red]wrong[/]: {error}")
        return 1
    show(console, facts, rows)
    console.print(f"kept in {save(facts, rows, options.results)}")
    return 0


def show(console: Console, facts: dict[str, dict[str, str]], rows: list[Row]) -> None:
    """Print everything."""
    for name, values in facts.items():
        console.print(f"[bold]{name}[/]: " + ", ".join(f"{key} {value}" for key, value in values.items()))
    table = Table("database", "what", "measured", "target", show_lines=False)
    for row in rows:
        verdict = (
            "" if row.met is None else f"[green]✓[/] {row.target}" if row.met else f"[red]✗[/] {row.target}"
        )
        table.add_row(row.database, row.what, row.text, verdict)
    console.print(table)


def save(facts: dict[str, dict[str, str]], rows: list[Row], folder: Path) -> Path:
    """Save everything as JSON, and return the file."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    figures = [{"database": row.database, "what": row.what, "met": row.met, **row.figures} for row in rows]
    document = {"at": at, "command": " ".join(sys.argv[1:]), "facts": facts, "measures": figures}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"watchdog-{at.replace(':', '')}.json"
    file.write_text(json.dumps(document, indent=1) + "\n")
    return file
