"""Retention: deletes closed chains by age or number, a few rows at a time, and exports them first if configured.

Any number of processes may do this at once, and may die at any moment. The name of an export file follows from the
chain (the day it was closed, its last run). The file appears complete, by a rename, before the first row is deleted,
and is never written again. So a process that reads a chain which another one has partly deleted finds the complete file
in place, and keeps it; two that have read the same complete chain write the same file.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from outlast.histories.deletion import PacedSteps, delete_chain
from outlast.histories.exporter import export_run
from outlast.histories.retention_policy import RetentionPolicy
from outlast.runtime.runtime import Runtime
from outlast_store.transitions import deletion
from outlast_store.transitions.deletion import Chain, DeleteLoneRuns
from outlast_watchdog.periodic import Periodic, periodic
from outlast_workflow.errors import OutlastError, WorkflowNotFoundError
from outlast_workflow.errors.refusals import DeleteRefusedError
from outlast_workflow.primitives.times import to_datetime

logger = logging.getLogger("outlast.retention")

CHAINS_PER_READ: Final = 100
LONE_AT_ONCE: Final = 50
"""How many chains of a single run share the steps of their deletion."""


@dataclass(slots=True)
class RetentionReport:
    """What a pass did.

    Attributes:
        chains: How many chains were deleted.
        runs: How many runs those had.
        exported: How many chains were written to files first.
        kept: How many were skipped because they had continued in the meantime.
    """

    chains: int = 0
    runs: int = 0
    exported: int = 0
    kept: int = 0


class HasRuntime(Protocol):
    """A client."""

    runtime: Runtime


class Retention:
    """Deletes what a policy no longer keeps: ``await Retention(client, policy).run_pass()``, or as part of a worker.

    Any number of them may run; each chain is deleted by the first that reaches it.

    Args:
        client: The client of the database.
        policy: What is kept.
        completed_type: Delete only workflows of this type that completed; the policy has ``days``.
    """

    def __init__(
        self, client: HasRuntime, policy: RetentionPolicy, *, completed_type: str | None = None
    ) -> None:
        self._completed_type = completed_type
        self._runtime = client.runtime
        self._policy = policy
        self._steps = PacedSteps(client.runtime)
        self._periodic: Periodic | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start making a pass at the policy's interval, on the same scheduler as the watchdog's; never two at once."""
        self._periodic = periodic(self._runtime.environment)
        self._periodic.add("retention", float(self._policy.interval), self._wake)
        self._periodic.start()

    async def stop(self) -> None:
        """Stop. A pass in progress is cancelled; a step that was handed to the journal is still committed."""
        if self._periodic is not None:
            self._periodic.stop()
            self._periodic = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _wake(self) -> None:
        if self._task is None or self._task.done():
            self._task = self._runtime.task(self._pass(), "outlast-retention")

    async def _pass(self) -> None:
        try:
            report = await self.run_pass()
        except (OutlastError, OSError) as error:
            logger.warning("retention was interrupted, and tries again later: %s", error)
            return
        if report.chains:
            logger.info("retention deleted %d runs of %d workflows", report.runs, report.chains)

    async def run_pass(self, limit: int | None = None) -> RetentionReport:
        """Delete what has expired, oldest first.

        A pass walks from the oldest run to those that are too young to have expired and, with ``days``, one more day of
        runs, because clocks may differ. So its cost depends on what is old, not on the size of the database.

        Args:
            limit: At most how many chains to delete; no limit if ``None``.

        Raises:
            StoreError: The database did not answer.
            OSError: A file could not be written.
        """
        runtime, policy, report = self._runtime, self._policy, RetentionReport()
        now = runtime.environment.clock.now()
        closed_before = None if policy.max_age_us is None else now - policy.max_age_us
        before = None
        if policy.keep_last is not None:
            before = await runtime.read_aside(deletion.newest_kept, policy.keep_last)
            if before is None:
                return report
        after = ""
        while limit is None or report.chains < limit:
            most = CHAINS_PER_READ if limit is None else min(CHAINS_PER_READ, limit - report.chains)
            found = await runtime.read_aside(
                deletion.expired, after, before, closed_before, most, completed_type=self._completed_type
            )
            await self._delete(found, report)
            if found:
                after = found[-1].last_run_id
            if len(found) < most:
                break
        return report

    async def _delete(self, chains: Sequence[Chain], report: RetentionReport) -> None:
        lone: list[Chain] = []
        for chain in chains:
            if self._policy.export_to is not None:
                try:
                    report.exported += await self._export(self._policy.export_to, chain)
                except WorkflowNotFoundError:
                    # Another process has deleted it.
                    continue
            if chain.is_alone:
                lone.append(chain)
            else:
                await self._delete_chain(chain, report)
        for start in range(0, len(lone), LONE_AT_ONCE):
            await self._delete_lone(lone[start : start + LONE_AT_ONCE], report)

    async def _delete_chain(self, chain: Chain, report: RetentionReport) -> None:
        try:
            report.runs += await delete_chain(
                self._runtime, chain.last_run_id, chain.workflow_id, steps=self._steps
            )
            report.chains += 1
        except DeleteRefusedError:
            report.kept += 1

    async def _delete_lone(self, chains: Sequence[Chain], report: RetentionReport) -> None:
        while (kept := await self._steps.apply(DeleteLoneRuns(chains))) is None:
            pass
        report.runs += len(chains) - kept
        report.chains += len(chains) - kept
        report.kept += kept

    async def _export(self, folder: Path, chain: Chain) -> bool:
        """Make sure that a chain is in its file on disk, and return whether this call wrote it."""
        day = to_datetime(chain.closed_at).date()
        file = folder / day.isoformat() / f"{chain.last_run_id}.jsonl"
        if file.exists():
            return False
        # Only as far as that run: a reset may have continued the chain since, and then it is kept.
        members = await self._runtime.read_aside(deletion.chain_backwards, chain.last_run_id)
        if not members:
            # Another process has deleted it.
            return False
        texts = [await export_run(self._runtime, chain.workflow_id, run_id) for run_id in members]
        write = partial(_write, file, f".{file.name}.{self._runtime.environment.ids.next()}.part", texts)
        if self._runtime.environment.threads:
            return await self._runtime.loop.run_in_executor(None, write)
        return write()


def _write(file: Path, part: str, texts: Sequence[bytes]) -> bool:
    """Write a file that appears complete and is then on disk; return ``False`` if it is there already."""
    folder = file.parent
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / part
    try:
        with made.open("xb") as opened:
            opened.writelines(text + b"\n" for text in texts)
            opened.flush()
            os.fsync(opened.fileno())
        # Checked only now: a process that has read a partly deleted chain finds the complete file here.
        if file.exists():
            return False
        made.replace(file)
    finally:
        made.unlink(missing_ok=True)
    for parent in (folder, folder.parent):
        _sync(parent)
    return True


def _sync(folder: Path) -> None:
    """Flush the names in a folder to disk, where folders can be opened."""
    try:
        opened = os.open(folder, os.O_RDONLY)
    except PermissionError:
        # Windows.
        return
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
