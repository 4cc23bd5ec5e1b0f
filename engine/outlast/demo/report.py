"""The report: the histories, the deadlines, the ledger, the checks, and what was imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from outlast.demo.checks import Check
from outlast.demo.evidence import Evidence
from outlast.demo.narration import Narrator, clock
from outlast.demo.watching import ChainEvent


def print_report(console: Console, evidence: Evidence, checks: Sequence[Check]) -> None:
    """Print the report."""
    _print_history(console, evidence)
    _print_deadlines(console, evidence)
    _print_executions(console, evidence)
    print_checks(console, checks)
    summary, orders = evidence.summary, evidence.stage.orders
    console.print(
        f"\n[bold]{evidence.totals.rows:,} rows[/] of {orders.rows:,} are in the warehouse, {summary.rejected} were "
        f"rejected, worth {summary.total_eur:,.2f} EUR",
        highlight=False,
    )


def _print_history(console: Console, evidence: Evidence) -> None:
    narrator = Narrator()
    for number, run in enumerate(evidence.runs, 1):
        seen = run.description.run
        console.print(
            f"\n[bold]History of run {number}[/] {seen.run_id}: {seen.status.value} (times are UTC)",
            highlight=False,
        )
        table = _table()
        table.add_column("seq", justify="right", style="dim")
        table.add_column("recorded", style="dim")
        table.add_column("event")
        table.add_column("what", overflow="fold")
        for event in run.events:
            words = narrator.describe(ChainEvent(number, event))
            style = "dim" if event.type == "WorkflowTaskCompleted" else None
            table.add_row(str(event.seq), clock(event.recorded_at), event.type, escape(words), style=style)
        console.print(table)


def _print_deadlines(console: Console, evidence: Evidence) -> None:
    console.print("\n[bold]The deadlines, as describe shows them[/]")
    table = _table()
    for column in ("run", "status", "created_at", "execution_deadline_at", "run_deadline_at"):
        table.add_column(column)
    for number, run in enumerate(evidence.runs, 1):
        seen = run.description.run
        table.add_row(
            str(number),
            seen.status.value,
            clock(seen.created_at),
            clock(seen.execution_deadline_at) if seen.execution_deadline_at is not None else "none",
            clock(seen.run_deadline_at) if seen.run_deadline_at is not None else "none",
        )
    console.print(table)


def _print_executions(console: Console, evidence: Evidence) -> None:
    console.print("\n[bold]The warehouse's ledger: each time a chunk was started[/]")
    table = _table()
    for column in ("chunk", "execution", "attempt", "process", "from row", "to row", "rows"):
        table.add_column(column, justify="right")
    table.add_column("")
    killed = evidence.stage.killed
    for line in evidence.ledger:
        remark = "" if line.finished_at is not None else "not finished"
        if killed is not None and line.worker_pid == killed.pid and line.chunk == killed.chunk:
            remark = "[red]killed here[/]"
        elif line.execution > 1 and killed is not None:
            remark = f"[green]continued {line.begun_at - killed.at:.1f} s later[/]"
        values = (
            line.chunk,
            line.execution,
            line.attempt,
            line.worker_pid,
            line.from_row,
            line.reached_row,
            line.rows,
        )
        table.add_row(
            *(f"{value:,}" if index > 3 else str(value) for index, value in enumerate(values)), remark
        )
    console.print(table)


def print_checks(console: Console, checks: Sequence[Check]) -> None:
    """Print the checks."""
    console.print("\n[bold]Checks[/]")
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        table.add_row("[green]✓[/]" if check.ok else "[bold red]✗[/]", check.name, escape(check.found))
        for wrong in check.wrong:
            table.add_row("", "", f"[red]{escape(wrong)}[/]")
    console.print(table)


def document(evidence: Evidence, checks: Sequence[Check]) -> dict[str, Any]:
    """Return the report for programs."""
    killed = evidence.stage.killed
    return {
        "ok": all(check.ok for check in checks),
        "rows": evidence.totals.rows,
        "rejected": {str(row): reason for row, reason in evidence.rejected.items()},
        "cents": evidence.totals.cents,
        "total_eur": str(evidence.summary.total_eur),
        "workflow_id": evidence.stage.workflow_id,
        "folder": evidence.stage.folder,
        "killed_pid": killed.pid if killed is not None else None,
        "takeover_seconds": _takeover(evidence),
        "rows_written_again": len(evidence.written_again),
        "executions": [
            {
                "chunk": line.chunk,
                "execution": line.execution,
                "attempt": line.attempt,
                "pid": line.worker_pid,
            }
            for line in evidence.ledger
        ],
        "runs": [
            {
                **run.description.model_dump(mode="json"),
                "history": [{"seq": event.seq, "type": event.type} for event in run.events],
            }
            for run in evidence.runs
        ],
        "checks": [
            {"name": check.name, "ok": check.ok, "found": check.found, "wrong": list(check.wrong)}
            for check in checks
        ],
    }


def _takeover(evidence: Evidence) -> float | None:
    """Return the seconds from the kill to the first entry of the ledger that the second worker wrote."""
    killed = evidence.stage.killed
    if killed is None:
        return None
    begun = [line.begun_at for line in evidence.ledger if line.begun_at > killed.at]
    return round(min(begun) - killed.at, 3) if begun else None


def _table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
