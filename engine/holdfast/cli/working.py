"""``holdfast worker`` and ``watchdog``: the commands that run until they are told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import Annotated

import typer

from holdfast.cli.connecting import with_client
from holdfast.cli.exits import CommandFailedError
from holdfast.cli.loading import load
from holdfast.cli.options import AsJson, Codec, Url, database_url, duration
from holdfast.cli.output import document, show, tell
from holdfast.client import DEFAULT_QUEUE, Client
from holdfast.tuning import tune_process
from holdfast.watchdog import TaskWatchdog, WatchdogReport
from holdfast.worker import Worker
from holdfast_workflow.errors import InvalidOptionError

Interval = Annotated[
    str, typer.Option("--interval", metavar="TIME", help="The longest sleep between two passes.")
]


def worker(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="MODULE[:NAME]",
            help="All that a module defines, or one workflow, activity or list of it.",
            show_default=False,
        ),
    ],
    task_queue: Annotated[
        list[str] | None,
        typer.Option(
            "--task-queue",
            help="A queue to serve (default: `default`); may be given several times.",
            show_default=False,
        ),
    ] = None,
    max_cached_workflows: Annotated[
        int, typer.Option("--max-cached-workflows", help="How many runs stay in memory.")
    ] = 1000,
    max_concurrent_activities: Annotated[
        int, typer.Option("--max-concurrent-activities", help="How many activities run at a time.")
    ] = 100,
    lease_duration: Annotated[
        str, typer.Option("--lease-duration", metavar="TIME", help="How long it may be silent.")
    ] = "30s",
    graceful_shutdown_timeout: Annotated[
        str,
        typer.Option(
            "--graceful-shutdown-timeout", metavar="TIME", help="What activities get when it stops."
        ),
    ] = "10s",
    no_watchdog: Annotated[bool, typer.Option("--no-watchdog", help="Run without a watchdog.")] = False,
    watchdog_interval: Annotated[
        str, typer.Option("--watchdog-interval", metavar="TIME", help="Its longest sleep between passes.")
    ] = "1s",
    build_id: Annotated[
        str | None, typer.Option("--build-id", help="Names the code, for `describe`.", show_default=False)
    ] = None,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "info",
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Run workflows and activities until SIGINT or SIGTERM."""
    database_url(url)
    level = _level(log_level)
    workflows, activities = load(targets)

    async def work(client: Client) -> None:
        made = Worker(
            client,
            task_queue=task_queue or DEFAULT_QUEUE,
            workflows=workflows,
            activities=activities,
            watchdog=not no_watchdog,
            watchdog_interval=duration("watchdog interval", watchdog_interval) or 0,
            lease_duration=duration("lease duration", lease_duration) or 0,
            max_cached_workflows=max_cached_workflows,
            max_concurrent_activities=max_concurrent_activities,
            graceful_shutdown_timeout=duration("graceful shutdown timeout", graceful_shutdown_timeout) or 0,
            build_id=build_id,
        )
        _log(level)
        tune_process()
        _say_hello(made, json=json)
        await made.run()
        if json:
            document({"event": "stopped", "worker_id": made.worker_id})
        else:
            tell("the worker has stopped")

    with_client(url, work, codec=codec, makes=True)


def _say_hello(worker: Worker, *, json: bool) -> None:
    queues = list(worker.settings.task_queues)
    if json:
        document(
            {
                "event": "started",
                "worker_id": worker.worker_id,
                "task_queues": queues,
                "workflows": sorted(worker.workflows),
                "activities": sorted(worker.activities),
            }
        )
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


def _log(level: int) -> None:
    logging.basicConfig(
        level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True
    )
    if level > logging.DEBUG:
        for name in ("alembic", "apscheduler"):
            logging.getLogger(name).setLevel(logging.WARNING)


def watchdog(
    once: Annotated[bool, typer.Option("--once", help="Make one pass, print what it did, and end.")] = False,
    interval: Interval = "1s",
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Enforce deadlines, fire timers and take over from dead workers, without being one."""
    longest = duration("interval", interval) or 0

    async def work(client: Client) -> None:
        made = _Watchdog(client, longest, json=json)
        _log(logging.INFO)
        if once:
            report = await made.run_pass()
            if not json:
                show(_words(report))
            if report.set_aside:
                raise CommandFailedError(f"{report.set_aside} rows could not be handled: the log names them")
        else:
            await _until_signal(made)

    with_client(url, work)


class _Watchdog(TaskWatchdog):
    """One that tells programs what each pass did."""

    def __init__(self, client: Client, interval: float, *, json: bool) -> None:
        super().__init__(client, interval=interval)
        self._json = json
        self._told = False

    async def run_pass(self, limit: int | None = None) -> WatchdogReport:
        report = await super().run_pass(limit)
        if self._json and (report.done or not self._told):
            self._told = True
            document(report.to_document())
        return report


async def _until_signal(watchdog: TaskWatchdog) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    tell("the watchdog watches; Ctrl-C stops it")
    watchdog.start()
    try:
        await stop.wait()
    finally:
        await watchdog.stop()
    tell("the watchdog has stopped")


def _words(report: WatchdogReport) -> str:
    if report.skipped:
        return "skipped: the clock had jumped"
    done = ", ".join(f"{kind.replace('_', ' ')} {number}" for kind, number in sorted(report.counts.items()))
    late = f", at worst {report.worst_lateness_s:.1f} s late" if report.done else ""
    still = ", ".join(f"{kind.replace('_', ' ')} {number}" for kind, number in sorted(report.left.items()))
    return (done or "nothing was due") + late + (f"; still due: {still}" if still else "")
