"""What a client does with the histories of its database: exporting, importing, deleting."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson

from outlast.histories.deletion import delete_workflow
from outlast.histories.exporter import export_runs
from outlast.histories.importer import Imported, Progress, import_histories
from outlast.histories.source import Source
from outlast.runtime.runtime import Runtime
from outlast.visibility.listing import Listing


class Histories:
    """The histories of a client's database.

    Args:
        runtime: The database.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def export(self, found: Listing, *, chains: bool) -> AsyncIterator[dict[str, Any]]:
        """Yield the documents of runs; see :meth:`outlast.Client.export_histories`."""
        async for text in export_runs(self._runtime, found, chains=chains):
            yield orjson.loads(text)

    async def import_from(self, source: Source, progress: Progress | None) -> Imported:
        """Import closed runs; see :meth:`outlast.Client.import_histories`."""
        return await import_histories(self._runtime, source, progress)

    async def delete(self, workflow_id: str, *, terminate: bool, children: bool) -> int:
        """Delete a closed workflow, and return how many runs it had; see :meth:`outlast.Client.delete`."""
        return await delete_workflow(self._runtime, workflow_id, terminate=terminate, children=children)
