"""Exporting histories: runs as JSON documents in the format of :mod:`outlast_store.reads.export_format`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any

import orjson

from outlast.runtime.runtime import Runtime
from outlast_store.reads import export_format
from outlast_store.reads.runs import find_instance
from outlast_workflow.errors import RunNotFoundError, WorkflowNotFoundError


async def export_run(runtime: Runtime, workflow_id: str, run_id: str | None) -> bytes:
    """Return the document of one run.

    Args:
        runtime: The database.
        workflow_id: The workflow.
        run_id: One of its runs; the current run if ``None``.

    Raises:
        WorkflowNotFoundError: There is no such workflow.
        RunNotFoundError: It has no such run.
    """
    return orjson.dumps(await _document(runtime, workflow_id, run_id or await _current(runtime, workflow_id)))


async def export_chain(runtime: Runtime, workflow_id: str, run_id: str | None) -> AsyncGenerator[bytes]:
    """Yield the documents of all runs of a chain, first to last.

    Args:
        runtime: The database.
        workflow_id: The workflow.
        run_id: A run of the chain; the current run if ``None``.

    Raises:
        WorkflowNotFoundError: There is no such workflow.
        RunNotFoundError: It has no such run.
    """
    one = run_id or await _current(runtime, workflow_id)
    for member in await runtime.read(export_format.chain, one) or [one]:
        yield orjson.dumps(await _document(runtime, workflow_id, member))


async def export_runs(runtime: Runtime, runs: AsyncIterable[Any], *, chains: bool) -> AsyncGenerator[bytes]:
    """Yield the documents of runs. Runs that are deleted in the meantime are left out.

    Args:
        runtime: The database.
        runs: The runs, as a listing yields them.
        chains: Whether to include the other runs of their chains; each chain is exported once.
    """
    done: set[str] = set()
    async for run in runs:
        members = [run.run_id]
        if chains:
            if run.first_run_id in done:
                continue
            done.add(run.first_run_id)
            members = await runtime.read(export_format.chain, run.run_id)
        for run_id in members:
            document = await runtime.read(export_format.export_run, run_id)
            if document is not None:
                yield orjson.dumps(document)


async def _current(runtime: Runtime, workflow_id: str) -> str:
    instance = await runtime.read(find_instance, workflow_id)
    if instance is None:
        raise WorkflowNotFoundError(workflow_id)
    return instance.current_run_id


async def _document(runtime: Runtime, workflow_id: str, run_id: str) -> dict[str, Any]:
    document = await runtime.read(export_format.export_run, run_id)
    if document is None or document["run"]["workflow_id"] != workflow_id:
        raise RunNotFoundError(run_id, workflow_id=workflow_id)
    return document
