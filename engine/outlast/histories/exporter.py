"""Exporting histories: runs as JSON documents, whose format is that of :mod:`outlast_store.reads.export_format`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any

import orjson

from outlast.runtime.runtime import Runtime
from outlast_store.reads import export_format
from outlast_store.reads.runs import find_instance
from outlast_workflow.errors import RunNotFoundError, WorkflowNotFoundError


async def export_run(runtime: Runtime, workflow_id: str, run_id: str | None) -> bytes:
    """The document of a workflow's current run, or of a certain one.

    Raises:
        WorkflowNotFoundError: There is no such workflow; RunNotFoundError: it has no such run.
    """
    return orjson.dumps(await _document(runtime, workflow_id, run_id or await _current(runtime, workflow_id)))


async def export_chain(runtime: Runtime, workflow_id: str, run_id: str | None) -> AsyncGenerator[bytes]:
    """The documents of all runs of a chain, first to last.

    Raises:
        WorkflowNotFoundError: There is no such workflow; RunNotFoundError: it has no such run.
    """
    one = run_id or await _current(runtime, workflow_id)
    for member in await runtime.read(export_format.chain, one) or [one]:
        yield orjson.dumps(await _document(runtime, workflow_id, member))


async def export_runs(runtime: Runtime, runs: AsyncIterable[Any], *, chains: bool) -> AsyncGenerator[bytes]:
    """The documents of runs (which a listing gives), with ``chains`` those of all runs of their chains, each once.

    Runs that are deleted meanwhile are left out.
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
