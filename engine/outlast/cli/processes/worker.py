"""``outlast worker`` and ``watchdog``: the commands that run until a signal stops them."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from outlast.checking.checker import StaticChecks
from outlast.cli.common.connection import with_client
from outlast.cli.common.exit_codes import CommandFailedError
from outlast.cli.common.options import AsJson, Codec, Url, arguments_of, database_url
from outlast.cli.common.stderr import tell
from outlast.cli.common.user_code import interceptors as load_interceptors
from outlast.cli.common.user_code import load, named
from outlast.cli.processes.supervisor import PROCESS_ENV, Supervisor
from outlast.client.client import Client
from outlast.logs import RunIds
from outlast.text.parsing import duration
from outlast.watchdog import AlertRule, TaskWatchdog, WatchdogReport
from outlast.worker.tuning import tune_process
from outlast.worker.worker import Worker
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.limits import DEFAULT_LIMITS, StructuralLimits
from outlast_workflow.options.start import DEFAULT_TASK_QUEUE

if TYPE_CHECKING:
    from outlast.alerts.channels import AlertChannel

Interval = Annotated[
    str, typer.Option("--interval", metavar="TIME", help="The longest sleep between two passes.")
]
LeaseDuration = Annotated[
    str,
    typer.Option(
        "--lease-duration",
        metavar="TIME",
        help="How long a worker may be silent before others take its work.",
    ),
]
OwnerLosses = Annotated[
    int,
    typer.Option(
        "--owner-losses",
        help="How many owners in a row a run may lose before it fails; 0 for any number.",
    ),
]
LogLevel = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]


def worker(
    context: typer.Context,
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="MODULE[:NAME]",
            help="Everything that a module defines, or one workflow, one activity or a list of them.",
            show_default=False,
        ),
    ],
    task_queue: Annotated[
        list[str] | None,
        typer.Option(
            "--task-queue",
            help="A task queue to serve (default: `default`); repeatable.",
            show_default=False,
        ),
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            "--queue",
            help="A queue to admit from (default: all); repeatable.",
            show_default=False,
        ),
    ] = None,
    max_cached_workflows: Annotated[
        int, typer.Option("--max-cached-workflows", help="How many runs the workflow cache holds.")
    ] = 1000,
    max_concurrent_activities: Annotated[
        int | None,
        typer.Option(
            "--max-concurrent-activities",
            help="How many activities run at the same time (default: 1000 if all are coroutines, else 100).",
            show_default=False,
        ),
    ] = None,
    max_activities_per_second: Annotated[
        float | None,
        typer.Option(
            "--max-activities-per-second",
            help="How many activities a process starts in a second at most.",
            show_default=False,
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            min=1,
            metavar="N",
            help="Run this many supervised processes.",
            show_default=False,
        ),
    ] = None,
    lease_duration: LeaseDuration = "30s",
    graceful_shutdown_timeout: Annotated[
        str,
        typer.Option(
            "--graceful-shutdown-timeout",
            metavar="TIME",
            help="How long running activities may continue when it stops.",
        ),
    ] = "10s",
    no_watchdog: Annotated[bool, typer.Option("--no-watchdog", help="Run without a watchdog.")] = False,
    watchdog_interval: Annotated[
        str,
        typer.Option(
            "--watchdog-interval", metavar="TIME", help="The watchdog's longest sleep between two passes."
        ),
    ] = "1s",
    owner_losses: OwnerLosses = DEFAULT_LIMITS.owner_losses,
    build_id: Annotated[
        str | None,
        typer.Option("--build-id", help="A name for the code, shown by `describe`.", show_default=False),
    ] = None,
    static_checks: Annotated[
        str,
        typer.Option(
            "--static-checks", help="What to do about code that may not replay: warn, error or off."
        ),
    ] = "warn",
    no_runtime_guard: Annotated[
        bool, typer.Option("--no-runtime-guard", help="Let workflow code open files, sockets and processes.")
    ] = False,
    interceptors: Annotated[
        list[str] | None,
        typer.Option(
            "--interceptor",
            metavar="MODULE:NAME",
            help="An interceptor, its class, or a list of either; repeatable, outermost first.",
            show_default=False,
        ),
    ] = None,
    log_level: LogLevel = "info",
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Run workflows and activities until SIGINT or SIGTERM."""
    database = database_url(url)
    level = _level(log_level)
    if processes is not None:
        grace_s = duration("graceful shutdown timeout", graceful_shutdown_timeout) or 0
        raise typer.Exit(_supervise(context, processes, database, codec, grace_s=grace_s, json=json))
    limits = StructuralLimits(owner_losses=owner_losses)
    workflows, activities = load(targets)
    around = load_interceptors(interceptors or ())

    async def work(client: Client) -> None:
        made = Worker(
            client,
            task_queue=task_queue or DEFAULT_TASK_QUEUE,
            workflows=workflows,
            activities=activities,
            watchdog=not no_watchdog,
            watchdog_interval=duration("watchdog interval", watchdog_interval) or 0,
            lease_duration=duration("lease duration", lease_duration) or 0,
            max_cached_workflows=max_cached_workflows,
            max_concurrent_activities=max_concurrent_activities,
            max_activities_per_second=max_activities_per_second,
            graceful_shutdown_timeout=duration("graceful shutdown timeout", graceful_shutdown_timeout) or 0,
            build_id=build_id,
            static_checks=cast(StaticChecks, static_checks),
            runtime_guard=not no_runtime_guard,
            interceptors=around,
            queues=queue or None,
            limits=limits,
        )
        _log(level)
        tune_process()
        _stop_with_supervisor(made.request_stop)
        await made.run(started=lambda: _say_hello(made, json=json))
        if json:
            _document({"event": "stopped", "worker_id": made.worker_id, **_process()})
        else:
            tell("the worker has stopped")
        if made.unfinished:
            await client.close()
            _end_now()

    with_client(url, work, codec=codec, makes=True)


def _supervise(
    context: typer.Context, count: int, url: str, codec: str | None, *, grace_s: float, json: bool
) -> int:
    """Run this command in several processes. The environment passes on what may hold a secret: the URL, the codec."""
    command = [
        sys.executable,
        "-m",
        "outlast",
        "worker",
        *arguments_of(context, "processes", "url", "codec"),
    ]
    passed = {"OUTLAST_URL": url, **({"OUTLAST_CODEC": codec} if codec else {})}

    async def run() -> int:
        environment = {**os.environ, **passed}
        return await Supervisor(
            command, count, environment=environment, grace_s=grace_s, raw_output=json
        ).run()

    return asyncio.run(run())


def _stop_with_supervisor(stop: Callable[[], None]) -> None:
    """If a supervisor started this process, stop when the pipe closes: then the supervisor has died."""
    if PROCESS_ENV not in os.environ:
        return
    loop = asyncio.get_running_loop()

    def closed() -> None:
        loop.remove_reader(sys.stdin)
        # Nobody reads what is printed from here on.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.dup2(nowhere, sys.stderr.fileno())
        stop()

    loop.add_reader(sys.stdin, closed)


def _process() -> dict[str, int]:
    """Return the number of this process, if a supervisor started it."""
    number = os.environ.get(PROCESS_ENV)
    return {"process": int(number)} if number else {}


def _end_now() -> None:
    """End the process although handlers still run, for which Python would wait, perhaps forever.

    Their activities are rescued when the lease expires. A result that came here afterwards would be refused.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _say_hello(worker: Worker, *, json: bool) -> None:
    queues = list(worker.settings.task_queues)
    if json:
        _document(
            {
                "event": "started",
                "worker_id": worker.worker_id,
                "task_queues": queues,
                "workflows": sorted(worker.workflows),
                "activities": sorted(worker.activities),
                **_process(),
            }
        )
        return
    if logging.getLogger("outlast.worker").isEnabledFor(logging.INFO):
        # The log has said what it serves, and where.
        tell("Ctrl-C stops the worker")
        return
    names = ", ".join((*sorted(worker.workflows), *sorted(worker.activities)))
    tell(f"worker {worker.worker_id} serves {', '.join(queues)}: {names}; Ctrl-C stops it")


def _level(level: str) -> int:
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None or level.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise InvalidOptionError(
            f"log level must be debug, info, warning or error, not {level!r:.40}", field="log_level"
        )
    return number


class _Format(logging.Formatter):
    """One line for each record, with the workflow id if the record belongs to a workflow."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s%(whose)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        workflow_id = getattr(record, "workflow_id", "")
        record.whose = f" [{workflow_id}]" if workflow_id else ""
        return super().format(record)


def _log(level: int) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(RunIds())
    handler.setFormatter(_Format())
    logging.basicConfig(level=level, handlers=[handler], force=True)


def watchdog(
    once: Annotated[bool, typer.Option("--once", help="Make one pass, print what it did, and exit.")] = False,
    interval: Interval = "1s",
    lease_duration: LeaseDuration = "30s",
    owner_losses: OwnerLosses = DEFAULT_LIMITS.owner_losses,
    alerts: Annotated[
        Path | None,
        typer.Option(
            "--alerts",
            metavar="FILE",
            help="Rules of alerts, and channels to deliver to: a TOML file.",
            show_default=False,
        ),
    ] = None,
    log_level: LogLevel = "info",
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Enforce deadlines, fire timers and release the work of dead workers, without being a worker."""
    longest = duration("interval", interval) or 0
    lease = duration("lease duration", lease_duration) or 0
    limits = StructuralLimits(owner_losses=owner_losses)
    level = _level(log_level)
    channels, rules = _alerts_of(alerts)

    async def work(client: Client) -> None:
        made = _Watchdog(client, longest, lease, limits, rules, json=json)
        _log(level)
        if once:
            report = await made.run_pass()
            if not json:
                # As in _document.
                from outlast.cli.common.output import show

                show(_words(report))
            if report.set_aside:
                raise CommandFailedError(f"{report.set_aside} rows could not be handled: the log names them")
        else:
            await _until_signal(made, _deliverer(client, channels, lease))

    with_client(url, work)


def _alerts_of(file: Path | None) -> tuple[Mapping[str, AlertChannel], Sequence[AlertRule]]:
    """Return the channels and the rules of a file, if there is one."""
    if file is None:
        return {}, ()
    # A watchdog without alerts does not load what they need.
    from outlast.alerts.alerts_file import read_alerts_file

    read = read_alerts_file(file, partial(named, "function"))
    return read.channels, read.rules


def _deliverer(client: Client, channels: Mapping[str, AlertChannel], lease: float) -> Worker | None:
    """Return a worker that does nothing but deliver alerts; ``None`` where there are no channels."""
    if not channels:
        return None
    return Worker(
        client, task_queue=(), queues=(), watchdog=False, lease_duration=lease, alert_channels=channels
    )


class _Watchdog(TaskWatchdog):
    """A watchdog that prints a JSON document of each pass."""

    def __init__(
        self,
        client: Client,
        interval: float,
        lease_duration: float,
        limits: StructuralLimits,
        rules: Sequence[AlertRule],
        *,
        json: bool,
    ) -> None:
        super().__init__(client, interval=interval, lease_duration=lease_duration, limits=limits, rules=rules)
        self._json = json
        self._reported = False

    async def run_pass(self, limit: int | None = None) -> WatchdogReport:
        report = await super().run_pass(limit)
        if self._json and (report.done or not self._reported):
            self._reported = True
            _document(report.to_document())
        return report


async def _until_signal(watchdog: TaskWatchdog, deliverer: Worker | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    tell("the watchdog is running; Ctrl-C stops it")
    watchdog.start()
    try:
        async with deliverer or nullcontext():
            await stop.wait()
    finally:
        await watchdog.stop()
    tell("the watchdog has stopped")


def _words(report: WatchdogReport) -> str:
    if report.skipped:
        return "skipped: the clock has jumped"
    done = ", ".join(f"{kind.replace('_', ' ')} {number}" for kind, number in sorted(report.counts.items()))
    late = f", at worst {report.worst_lateness_s:.1f} s late" if report.done else ""
    still = ", ".join(f"{kind.replace('_', ' ')} {number}" for kind, number in sorted(report.left.items()))
    return (done or "nothing was due") + late + (f"; still due: {still}" if still else "")


def _document(value: Mapping[str, object]) -> None:
    # A worker that prints none does without the tables and colours of other commands: 4 MB.
    from outlast.cli.common.output import document

    document(value)
