"""The live view: a panel that is redrawn several times a second. Lines that should stay scroll by above it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import datetime
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from outlast.demo.narration import NOT_NARRATED, Narrator, clock
from outlast.demo.processes import WorkerProcess
from outlast.demo.stage import Stage
from outlast.demo.watching import ChainEvent, Scene

_EVENTS = 7
_BAR = 28
_WIDTH = 100


class LiveDisplay:
    """A display on a terminal."""

    def __init__(self, console: Console, stage: Stage) -> None:
        self._console = console
        self._stage = stage
        self._narrator = Narrator()
        self._events: deque[Text] = deque([Text("")] * _EVENTS, maxlen=_EVENTS)
        self._live = Live(console=console, transient=True, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        """Print a line above the panel."""
        self._console.print(text, highlight=False)

    def show(self, scene: Scene, processes: Sequence[WorkerProcess]) -> None:
        """Draw the panel."""
        for seen in scene.news:
            self._take(seen)
        panel = Panel(
            Group(*self._lines(scene, processes)),
            title=f"[bold]ImportCsv[/] {scene.description.workflow_id}",
            title_align="left",
            border_style="cyan",
            width=min(_WIDTH, self._console.width),
        )
        self._live.update(panel, refresh=True)

    def _take(self, seen: ChainEvent) -> None:
        words = self._narrator.describe(seen)
        if seen.event.type in NOT_NARRATED:
            return
        line = Text(
            f"{clock(seen.event.recorded_at)}  run {seen.run_number}  {seen.event.seq:>3}  ", style="dim"
        )
        line.append(f"{seen.event.type:<23}", style=_style(seen.event.type))
        line.append(words, style="default")
        line.no_wrap, line.overflow = True, "ellipsis"
        self._events.append(line)

    # --- the parts of the panel -------------------------------------------------------------------------------------

    def _lines(self, scene: Scene, processes: Sequence[WorkerProcess]) -> list[RenderableType]:
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(style="dim", no_wrap=True, width=9)
        table.add_column(no_wrap=True, width=_BAR)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        self._add_progress(table, scene)
        self._add_deadlines(table, scene)
        grid = Table.grid(padding=(0, 2), expand=True)
        grid.add_column(style="dim", no_wrap=True, width=9)
        grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        grid.add_row("activity", _activity(scene))
        grid.add_row("heartbeat", _heartbeat(scene))
        grid.add_row("workers", _workers(scene, processes))
        return [table, grid, Text(""), *self._events]

    def _add_progress(self, table: Table, scene: Scene) -> None:
        rows = self._stage.orders.rows
        table.add_row(
            "rows",
            ProgressBar(total=rows, completed=scene.rows_reached, width=_BAR, complete_style="green"),
            f"{scene.rows_reached:,} of {rows:,} · {scene.chunks_done} of {self._stage.chunks} chunks done",
        )

    def _add_deadlines(self, table: Table, scene: Scene) -> None:
        run = scene.description.run
        number = f"run {run.run_number} of {self._stage.runs}"
        execution = _deadline(
            run.execution_deadline_at, run.execution_time_left_seconds, "the same in every run"
        )
        this_run = _deadline(run.run_deadline_at, run.run_time_left_seconds, f"fresh in {number}")
        left = _left_bar(scene.description.execution_timeout_seconds, run.execution_time_left_seconds)
        table.add_row("execution", left, execution)
        table.add_row("run", _left_bar(run.run_timeout_seconds, run.run_time_left_seconds), this_run)


def _deadline(at: datetime | None, left: float | None, remark: str) -> str:
    if at is None:
        return "no deadline"
    return f"until {at:%H:%M:%S}" + (f" · {left:5.1f} s left" if left is not None else "") + f" · {remark}"


def _left_bar(timeout: float | None, left: float | None) -> ProgressBar:
    return ProgressBar(total=timeout or 1, completed=max(left or 0, 0), width=_BAR, complete_style="cyan")


def _activity(scene: Scene) -> Text:
    activity, description = scene.activity, scene.description
    if activity is None:
        for timer in description.pending_timers:
            return Text(f"none: the workflow sleeps until {clock(timer.fire_at)}", style="blue")
        return Text(f"none: the run is {description.run.status.value}")
    current = scene.current
    chunk = f" {current.chunk}" if activity.activity_type == "load_chunk" and current is not None else ""
    text = Text(f"{activity.activity_type}{chunk}", style="bold")
    text.append(f" · attempt {activity.attempt} · {activity.status.value}", style="not bold")
    if activity.worker is not None and activity.worker.pid is not None:
        text.append(f" in process {activity.worker.pid}", style="not bold")
    if activity.available_at is not None:
        text.append(f" · again at {clock(activity.available_at)}")
    if activity.last_failure is not None:
        text.append(f" · last: {activity.last_failure.message}", style="not bold red")
    return text


def _heartbeat(scene: Scene) -> Text:
    activity = scene.activity
    if activity is None:
        return Text("–", style="dim")
    parts: list[str] = []
    if activity.heartbeat_details:
        parts.append(f"reached row {activity.heartbeat_details[0]:,}")
    if activity.last_heartbeat_at is not None:
        ago = (scene.description.described_at - activity.last_heartbeat_at).total_seconds()
        parts.append(f"{max(ago, 0):.1f} s ago")
    if activity.heartbeat_deadline_at is not None:
        parts.append(f"deadline {clock(activity.heartbeat_deadline_at)}")
    if activity.start_to_close_deadline_at is not None:
        parts.append(f"attempt ends by {clock(activity.start_to_close_deadline_at)}")
    return Text(" · ".join(parts) or "–", style="default" if parts else "dim")


def _workers(scene: Scene, processes: Sequence[WorkerProcess]) -> Text:
    now = scene.description.described_at
    leases = {worker.pid: (worker.lease_expires_at - now).total_seconds() for worker in scene.workers}
    text = Text()
    for process in processes:
        if text:
            text.append("   ")
        if process.killed:
            text.append(f"process {process.pid} ✗ SIGKILL", style="red")
            state = (
                f" (lease {leases[process.pid]:.1f} s)"
                if leases.get(process.pid, -1) > 0
                else " (lease over)"
            )
        else:
            text.append(f"process {process.pid} ✓", style="green")
            state = f" (lease {leases[process.pid]:.1f} s)" if process.pid in leases else " (starting)"
        text.append(state)
    return text


def _style(event_type: str) -> str:
    if event_type.startswith("Workflow"):
        return "bold magenta" if event_type != "WorkflowCompleted" else "bold green"
    if event_type.startswith("Timer"):
        return "blue"
    return "green" if event_type == "ActivityCompleted" else "default"
