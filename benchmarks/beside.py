"""Outlast compared with what users would pick instead: ``python -m benchmarks.beside``, or ``make bench-peers``.

DBOS on the same databases, equally durable (SQLite in WAL mode with full fsync, PostgreSQL with fsync), Temporal's
replayer without its sandbox, and, where ``TEMPORAL_BIN`` names the ``temporal`` command, its dev server on an SQLite
file with full fsync, with the sandbox and without. The packages are installed into an environment of their own, which
is removed. The engines take turns, each in a fresh process on a fresh database, and the ratio is the median of the
ratios of the rounds. Outlast is measured in two forms: the fastest, and a program as users write it. The bare database,
which writes the same rows in as few transactions, shows how large a ratio could be. Results are checked; being slow is
no error.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.harness.databases import BACKENDS, Backend, Databases
from benchmarks.harness.environments import install, version_of
from benchmarks.harness.floor import LARGEST_BATCH, bare_commits, floor
from benchmarks.harness.measuring import Timing, WrongResultError
from benchmarks.harness.reports import RESULTS, machine

ROOT = Path(__file__).parents[1]
PEERS = ROOT / "benchmarks" / "peers"
PACKAGES = ("engine", "watchdog", "activities", "store", "workflow", "migrations")


@dataclass(frozen=True, slots=True)
class Workload:
    """The amounts of work that all engines get.

    ``theirs`` is the amount for DBOS, if the same amount would take too long; Temporal's server gets a fifth of that.
    ``peers`` are those that take part, if not all do.
    """

    words: str
    name: str
    number: int
    theirs: int
    at_once: int = 1
    peers: tuple[str, ...] = ("dbos", "temporal", "temporal-sandboxed")


WORKLOADS: tuple[Workload, ...] = (
    Workload("a workflow with one step, alone", "in_flight", 500, 300),
    Workload("the same, 100 in flight", "in_flight", 5_000, 1_000, 100),
    Workload("the same, 1,000 in flight", "in_flight", 10_000, 1_000, 1_000),
    Workload("the same through a queue, 1,000 in flight", "queued", 5_000, 1_000, 1_000, ("dbos",)),
    Workload("1,000 steps in sequence", "sequence", 1_000, 1_000),
    Workload("1,000 steps at once", "fan_out", 1_000, 1_000),
    Workload("messages to one workflow", "messages", 1_000, 300),
)
TEMPORAL_BIN = os.environ.get("TEMPORAL_BIN")
REPLAYS = (333, 6_666)
"""How many activities: 1,000 and 20,000 events of Outlast's, 2,000 and 40,000 of Temporal's."""


FLOORS: dict[str, Callable[[str, Workload], Timing]] = {
    "in_flight": lambda url, work: floor(url, work.number, min(work.at_once, LARGEST_BATCH)),
    "sequence": lambda url, work: bare_commits(url, work.number),
}


@dataclass(slots=True)
class Comparison:
    """One workload on one database, compared with one peer: what each did in each round."""

    backend: str
    words: str
    peer: str
    ours: list[dict[str, Any]]
    written: list[dict[str, Any]]
    """Outlast in a program as users write it; ``ours`` is the fastest form."""
    theirs: list[dict[str, Any]]
    bare: list[dict[str, Any]] = field(default_factory=list)
    """The bare database, which writes Outlast's rows (:mod:`benchmarks.harness.floor`), where there is such a floor."""

    @property
    def ratio(self) -> float | None:
        """How many times the peer's rate Outlast reaches, as the median of the rounds."""
        return self._to_peer(self.ours)

    @property
    def written_ratio(self) -> float | None:
        """The same in a program as users write it."""
        return self._to_peer(self.written)

    @property
    def bare_ratio(self) -> float | None:
        """How many times the peer's rate the bare database reaches: with these rows there is no more."""
        return self._to_peer(self.bare)

    def _to_peer(self, side: list[dict[str, Any]]) -> float | None:
        pairs = zip(side, self.theirs, strict=False)
        ratios = [one["per_second"] / other["per_second"] for one, other in pairs]
        return statistics.median(ratios) if ratios else None


def run_side(command: list[str], *, own_path: bool, folder: Path | None = None) -> dict[str, Any]:
    """Return what a process measured.

    Raises:
        WrongResultError: It failed, or a result was wrong.
    """
    environment = {"PYTHONPATH": ":".join(str(ROOT / name) for name in PACKAGES) if own_path else ""}
    if TEMPORAL_BIN:
        environment["TEMPORAL_BIN"] = TEMPORAL_BIN
    if folder is not None:
        environment["BENCH_FOLDER"] = str(folder)
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=1200, cwd="/", env=environment
    )
    if done.returncode != 0:
        raise WrongResultError(f"{' '.join(command[:4])}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(
    databases: Databases,
    backend: Backend,
    workload: Workload,
    peer: str | None,
    rounds: int,
    folder: Path | None,
) -> list[Comparison]:
    """Measure all engines, in turns."""
    names = [name for name in peers_on(backend) if name in workload.peers] if peer is not None else []
    ours: list[dict[str, Any]] = []
    written: list[dict[str, Any]] = []
    bare: list[dict[str, Any]] = []
    found = [Comparison(backend, workload.words, name, ours, written, [], bare) for name in names or [""]]
    script = str(PEERS / "work.py")
    for _ in range(rounds):
        tail = [workload.name, str(workload.number), str(workload.at_once)]
        for form, side in (("outlast", ours), ("outlast-as-written", written)):
            with databases.fresh(backend) as url:
                side.append(run_side([sys.executable, script, form, url, *tail], own_path=True))
        if workload.name in FLOORS:
            with databases.fresh(backend) as url:
                bare.append({"per_second": FLOORS[workload.name](url, workload).rate})
        for one in found if peer is not None else []:
            tail[1] = str(workload.theirs if one.peer == "dbos" else workload.theirs // 5)
            with databases.fresh(backend) as url:
                target = url if backend == "postgresql" else url.replace(".db", "_peer.db")
                command = [str(peer), script, one.peer, target, *tail]
                one.theirs.append(run_side(command, own_path=False, folder=folder))
                Path(target.removeprefix("sqlite:///")).unlink(missing_ok=True)
    return found


def peers_on(backend: Backend) -> list[str]:
    """Return the engines that can be measured on a database."""
    return ["dbos", "temporal", "temporal-sandboxed"] if backend == "sqlite" and TEMPORAL_BIN else ["dbos"]


def replays(databases: Databases, peer: str | None, rounds: int) -> list[Comparison]:
    """Measure the replay of activities in sequence, per activity: the two write different events for one."""
    made: list[Comparison] = []
    for steps in REPLAYS:
        found = Comparison("", f"replay of {steps:,} activities", "temporalio", [], [], [])
        for _ in range(rounds):
            with databases.fresh("sqlite") as url:
                script = str(PEERS / "own_replay.py")
                ours = run_side([sys.executable, script, url, str(steps), "3"], own_path=True)
            found.ours.append(_rate(ours, steps))
            if peer is not None:
                theirs = run_side([peer, str(PEERS / "replays.py"), str(steps), "1"], own_path=False)
                found.theirs.append(_rate(theirs, steps))
        made.append(found)
    return made


def _rate(measured: dict[str, Any], steps: int) -> dict[str, Any]:
    seconds = statistics.median(measured["seconds"])
    return {"seconds": seconds, "per_second": steps / seconds, "events": measured["events"]}


def show(console: Console, comparisons: list[Comparison], versions: dict[str, str]) -> None:
    """Print the table."""
    table = Table(
        title="Outlast beside " + ", ".join(f"{name} {number}" for name, number in versions.items())
    )
    for column in ("database", "workload", "beside"):
        table.add_column(column)
    for column in ("Outlast", "as written", "peer", "ratio", "as written", "bare", "p50 ms", "CPU µs"):
        table.add_column(column, justify="right")
    for one in comparisons:
        ratios = (one.ratio, one.written_ratio, one.bare_ratio)
        table.add_row(
            one.backend,
            one.words,
            one.peer,
            _median(one.ours, "per_second", "/s"),
            _median(one.written, "per_second", "/s"),
            _median(one.theirs, "per_second", "/s"),
            *("" if ratio is None else f"{ratio:.1f}×" for ratio in ratios),
            _pair(one, "p50_ms", 1),
            _pair(one, "cpu_us", 0),
        )
    console.print(table)


def _median(rounds: list[dict[str, Any]], name: str, unit: str) -> str:
    values = [found[name] for found in rounds if found.get(name) is not None]
    return f"{statistics.median(values):,.0f}{unit}" if values else ""


def _pair(one: Comparison, name: str, digits: int) -> str:
    sides = [
        statistics.median(values)
        for values in (
            [found[name] for found in side if found.get(name) is not None] for side in (one.ours, one.theirs)
        )
        if values
    ]
    return " / ".join(f"{value:,.{digits}f}" for value in sides)


def main(argv: list[str] | None = None) -> int:
    """Measure, print and save; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.beside", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=3, help="how many rounds")
    parser.add_argument("--database", choices=(*BACKENDS, "both"), default="both")
    names = list(dict.fromkeys(one.name for one in WORKLOADS))
    parser.add_argument("--only", choices=names, help="only these workloads, and no replays")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, one round")
    parser.add_argument("--peer-python", help="an interpreter that has dbos and temporalio already")
    parser.add_argument("--folder", type=Path, help="where the SQLite files go")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    options = parser.parse_args(argv)
    backends: tuple[Backend, ...] = BACKENDS if options.database == "both" else (options.database,)
    workloads = tuple(one for one in WORKLOADS if options.only in (None, one.name))
    rounds = options.rounds
    if options.quick:
        workloads = tuple(
            replace(one, number=one.number // 10, theirs=one.theirs // 10, at_once=min(one.at_once, 100))
            for one in workloads
        )
        rounds = 1
    console = Console(width=None if sys.stdout.isatty() else 160)
    comparisons: list[Comparison] = []
    with (
        Databases(options.folder) as databases,
        tempfile.TemporaryDirectory(prefix="outlast-peer-") as folder,
        console.status("…") as status,
    ):
        status.update("installing the peers")
        peer = options.peer_python or install(Path(folder) / "venv", ["dbos", "temporalio"], console)
        versions = {name: version_of(peer, name) for name in ("dbos", "temporalio")} if peer else {}
        facts: dict[str, dict[str, str]] = {"machine": machine()}
        for backend in backends:
            facts[backend] = databases.facts(backend)
        try:
            for backend in backends:
                for workload in workloads:
                    status.update(f"{backend}: {workload.words}")
                    comparisons += compare(databases, backend, workload, peer, rounds, options.folder)
            if options.only is None:
                status.update("replay")
                comparisons += replays(databases, peer, rounds)
        except WrongResultError as error:
            console.print(f"[red]wrong[/]: {error}")
            return 1
    show(console, comparisons, versions)
    kept = options.results / f"beside-{time.strftime('%Y%m%d-%H%M%S')}.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "facts": facts,
        "versions": versions,
        "comparisons": [
            {
                "backend": one.backend,
                "workload": one.words,
                "beside": one.peer,
                "outlast": one.ours,
                "as_written": one.written,
                "peer": one.theirs,
                "ratio": one.ratio,
                "written_ratio": one.written_ratio,
                "bare": one.bare,
                "bare_ratio": one.bare_ratio,
            }
            for one in comparisons
        ],
    }
    kept.write_text(json.dumps(document, indent=2))
    console.print(f"kept in {kept}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
