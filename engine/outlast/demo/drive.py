"""The driver: starts the import and its workers, kills one half-way, and leaves no process behind."""

from __future__ import annotations

import asyncio

from outlast import Client, StartOptions
from outlast.client.workflows.handle import WorkflowHandle
from outlast.demo.display import Display
from outlast.demo.importing import ImportCsv, ImportSummary
from outlast.demo.processes import WorkerProcess
from outlast.demo.stage import Kill, Stage
from outlast.demo.warehouse import Warehouse
from outlast.demo.watching import Observer, Scene

_OBSERVE_EVERY_S = 0.08
_MARGIN_S = 30.0


class DemoError(Exception):
    """The demonstration could not finish; the message says why."""


class Driver:
    """Runs the demonstration once."""

    def __init__(self, client: Client, stage: Stage, display: Display, *, kill: bool) -> None:
        self._client = client
        self._stage = stage
        self._display = display
        self._will_kill = kill
        self._clock = client.runtime.environment.clock
        self._workers: list[WorkerProcess] = []
        self._heartbeat: tuple[int, int] | None = None
        self._taken_over = False

    async def play(self) -> ImportSummary:
        """Import the file, and return the result of the workflow.

        Raises:
            DemoError: A worker died without being killed, or the import took too long.
            OutlastError: The workflow ended without a result.
        """
        try:
            self._start_worker()
            handle = await self._start_workflow()
            self._display.say(
                f"started workflow [bold]{handle.workflow_id}[/]: execution timeout {self._stage.execution_timeout} s "
                f"over all its runs, run timeout {self._stage.run_timeout} s for each"
            )
            return await self._watch(handle)
        finally:
            for worker in self._workers:
                worker.stop()
            self._stage.save()

    def _start_worker(self) -> None:
        worker = WorkerProcess(self._stage, len(self._workers) + 1)
        self._workers.append(worker)
        self._display.say(
            f"worker {worker.number} is process {worker.pid}, with a lease of {self._stage.lease:g} s"
        )

    async def _start_workflow(self) -> WorkflowHandle[ImportSummary]:
        stage = self._stage
        options = (
            StartOptions.reject_duplicate()
            .with_execution_timeout(stage.execution_timeout)
            .with_run_timeout(stage.run_timeout)
        )
        handle = await self._client.start(
            ImportCsv.run, stage.job, None, id=stage.workflow_id, task_queue=stage.task_queue, options=options
        )
        assert handle.run_id is not None
        stage.run_id = handle.run_id
        return handle

    # --- watching ---------------------------------------------------------------------------------------------------

    async def _watch(self, handle: WorkflowHandle[ImportSummary]) -> ImportSummary:
        result = asyncio.ensure_future(handle.result())
        give_up_at = self._clock.monotonic() + self._stage.execution_timeout + _MARGIN_S
        try:
            with Warehouse(self._stage.warehouse) as warehouse:
                observer = Observer(self._client, self._stage, warehouse)
                while not result.done():
                    self._step(await observer.observe(), warehouse)
                    self._check_workers()
                    if self._clock.monotonic() > give_up_at:
                        raise DemoError("the workflow is open although its execution deadline has passed")
                    await asyncio.wait([result], timeout=_OBSERVE_EVERY_S)
                self._step(await observer.observe(), warehouse)
            return await result
        finally:
            result.cancel()

    def _step(self, scene: Scene, warehouse: Warehouse) -> None:
        self._display.show(scene, self._workers)
        killed = self._stage.killed
        if killed is None:
            self._remember_heartbeat(scene)
            if self._will_kill and is_time_to_kill(
                scene, self._stage.chunks, self._stage.job.chunk_rows, self._heartbeat
            ):
                self._kill(scene, warehouse)
        elif not self._taken_over:
            self._report_takeover(scene, killed)

    def _check_workers(self) -> None:
        for worker in self._workers:
            if not worker.killed and not worker.alive:
                raise DemoError(
                    f"worker {worker.number} ended by itself; its log ends with:\n{worker.last_lines()}"
                )

    # --- the kill ---------------------------------------------------------------------------------------------------

    def _remember_heartbeat(self, scene: Scene) -> None:
        activity, current = scene.activity, scene.current
        if activity is not None and current is not None and activity.heartbeat_details:
            row = activity.heartbeat_details[0]
            if activity.activity_type == "load_chunk" and row >= current.from_row:
                self._heartbeat = current.chunk, row

    def _kill(self, scene: Scene, warehouse: Warehouse) -> None:
        worker = self._workers[-1]
        worker.kill()
        at = self._clock.now() / 1_000_000
        line = [line for line in warehouse.ledger() if line.worker_pid == worker.pid][-1]
        heartbeat = (
            self._heartbeat[1] if self._heartbeat is not None and self._heartbeat[0] == line.chunk else None
        )
        killed = Kill(worker.pid, at, line.chunk, line.reached_row, heartbeat)
        self._stage.killed = killed
        reported = f"; its last heartbeat reported row {heartbeat:,}" if heartbeat is not None else ""
        self._display.say(
            f"[bold red]killed worker {worker.number}[/] (process {worker.pid}) with SIGKILL in chunk {line.chunk} "
            f"at row {line.reached_row:,}{reported}"
        )
        self._start_worker()

    def _report_takeover(self, scene: Scene, killed: Kill) -> None:
        for line in scene.ledger:
            if line.chunk == killed.chunk and line.worker_pid != killed.pid:
                self._taken_over = True
                self._display.say(
                    f"[bold green]worker {self._workers[-1].number} took over[/] {line.begun_at - killed.at:.1f} s "
                    f"later: chunk {line.chunk} continues at row {line.from_row:,}"
                )


def is_time_to_kill(scene: Scene, chunks: int, chunk_rows: int, heartbeat: tuple[int, int] | None) -> bool:
    """Return whether to kill the worker: in the middle of a chunk in the middle of the file, after a heartbeat of it.

    If that moment is missed, because the chunks are too short to be observed, any moment after the middle will do.

    Args:
        scene: The state of the import.
        chunks: The number of chunks.
        chunk_rows: The rows of a chunk.
        heartbeat: The chunk and the row of the last heartbeat.
    """
    current, middle = scene.current, chunks // 2 + 1
    if current is None or current.chunk < middle:
        return False
    share = (current.reached_row - current.from_row + 1) / chunk_rows
    seen = heartbeat is not None and heartbeat[0] == current.chunk
    return (seen and 0.3 <= share <= 0.85) or current.chunk > middle + 1
