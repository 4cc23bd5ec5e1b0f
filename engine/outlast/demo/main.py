"""The command: ``outlast demo``, ``python -m outlast.demo``, ``make demo``."""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import sys
from collections.abc import Sequence
from typing import NoReturn

from rich.console import Console

from outlast import Client, OutlastError
from outlast.demo.checks import check_all
from outlast.demo.display import Display, PlainDisplay
from outlast.demo.drive import DemoError, Driver
from outlast.demo.evidence import collect
from outlast.demo.live import LiveDisplay
from outlast.demo.orders import LEAST_ROWS
from outlast.demo.report import document, print_report
from outlast.demo.stage import Stage, Wishes, set_stage
from outlast.errors import StoreError

MOST_ROWS = 2_000_000
MOST_CHUNKS = 1_000

LOG_WIDTH = 120

OK, WRONG, USAGE, DATABASE, INTERRUPTED = 0, 1, 2, 4, 130

DESCRIPTION = """\
Import a CSV file of orders into a database through a workflow: validate it, load it chunk by chunk, retry a flaky step,
sleep, continue as new. Half-way the worker process is killed with SIGKILL, and a second one finishes. Everything is
checked at the end: exit code 0 if all of it holds, 1 if anything is wrong, 2 for bad usage, 4 if the database given by
--url cannot be used.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demonstration and exit.

    Args:
        arguments: The arguments; by default those of the command line.
    """
    wishes = parse(arguments)
    try:
        code = asyncio.run(demonstrate(wishes))
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as those of the other commands."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"outlast: {message}: see `{self.prog} --help`\n")


def parse(arguments: Sequence[str] | None = None) -> Wishes:
    """Return the options that were given. Invalid ones exit with 2."""
    parser = _Parser(
        prog="outlast demo", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    standard = Wishes()
    parser.add_argument(
        "--rows", type=int, default=standard.rows, help="rows of the CSV file (default: 50,000)"
    )
    parser.add_argument(
        "--chunk", type=int, metavar="ROWS", help="rows of one activity (default: a tenth of all)"
    )
    parser.add_argument(
        "--url", help="the Outlast database (default: a fresh SQLite file); PostgreSQL must be migrated"
    )
    parser.add_argument("--keep", action="store_true", help="keep the folder with the file and the databases")
    parser.add_argument("--no-kill", dest="kill", action="store_false", help="do not kill the first worker")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document; progress goes to stderr"
    )
    parser.add_argument("--quick", action="store_true", help="run faster, for tests")
    given = parser.parse_args(arguments)
    if not LEAST_ROWS <= given.rows <= MOST_ROWS:
        parser.error(f"--rows must be {LEAST_ROWS:,} to {MOST_ROWS:,}")
    if given.chunk is not None and not 1 <= given.chunk <= given.rows:
        parser.error(f"--chunk must be 1 to {given.rows:,}, the number of rows")
    if given.chunk is not None and given.rows > given.chunk * MOST_CHUNKS:
        parser.error(
            f"--chunk must be at least {-(-given.rows // MOST_CHUNKS):,}: there may be {MOST_CHUNKS:,} chunks"
        )
    return Wishes(given.rows, given.chunk, given.url, given.keep, given.kill, given.json, given.quick)


async def demonstrate(wishes: Wishes) -> int:
    """Run the demonstration, check it and report; return the exit code."""
    # With --json, standard output is for the document alone.
    console = Console(stderr=wishes.json)
    if not console.is_terminal:
        console.width = LOG_WIDTH
    kill = "; half-way its worker is killed and another one finishes" if wishes.kill else ""
    console.print(f"[bold]A workflow imports {wishes.rows:,} orders{kill}[/]", highlight=False)
    stage = set_stage(wishes)
    orders = stage.orders
    console.print(
        f"wrote {orders.path}: {orders.size / 1_000_000:.1f} MB, {len(orders.invalid)} rows are invalid",
        highlight=False,
        soft_wrap=True,
    )
    code = WRONG
    try:
        code = await _play(wishes, stage, console)
    except (DemoError, OutlastError) as error:
        code = WRONG if stage.run_id else DATABASE if isinstance(error, StoreError) else USAGE
        Console(stderr=True).print(f"[bold red]the demo failed:[/] {error}", highlight=False, soft_wrap=True)
    except asyncio.CancelledError:
        code = INTERRUPTED
        raise
    finally:
        _clean_up(wishes, stage, console, keep=wishes.keep or (code == WRONG and bool(stage.run_id)))
    return code


async def _play(wishes: Wishes, stage: Stage, console: Console) -> int:
    async with Client.connect(stage.url) as client:
        display: Display = LiveDisplay(console, stage) if console.is_terminal else PlainDisplay(console)
        with display:
            await Driver(client, stage, display, kill=wishes.kill).play()
        evidence = await collect(client, stage)
    checks = check_all(evidence, killed=wishes.kill)
    if wishes.json:
        print(json.dumps(document(evidence, checks), indent=2))
    else:
        print_report(console, evidence, checks)
    wrong = [check.name for check in checks if not check.ok]
    if wrong:
        Console(stderr=True).print(
            f"[bold red]{len(wrong)} of {len(checks)} checks failed[/]", highlight=False
        )
        return WRONG
    console.print(f"[bold green]all {len(checks)} checks hold[/]", highlight=False)
    return OK


def _clean_up(wishes: Wishes, stage: Stage, console: Console, *, keep: bool) -> None:
    if not keep:
        stage.remove()
        console.print(f"removed {stage.folder}; --keep keeps it", highlight=False, soft_wrap=True)
        return
    console.print(
        f"kept {stage.folder}: orders.csv, warehouse.db, the workers' logs", highlight=False, soft_wrap=True
    )
    console.print(
        f"to inspect it: outlast history {stage.workflow_id} --url {'…' if wishes.url else shlex.quote(stage.url)}",
        highlight=False,
        soft_wrap=True,
    )
