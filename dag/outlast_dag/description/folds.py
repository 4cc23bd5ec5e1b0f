"""The folds of the runs that were looked at last, so that the next look reads what is new."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary, ref

import orjson

from outlast.histories.following import Following
from outlast.runtime.runtime import Runtime
from outlast_dag.description.fold import DagFold
from outlast_dag.spec.dag import ANY_DAG
from outlast_store.reads.description import list_worker_loads
from outlast_store.reads.histories import read_history
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import PayloadCodecError
from outlast_workflow.history.events import SideEffectRecorded, WorkflowTaskCompleted
from outlast_workflow.primitives.payloads import Payload

RECORD_WITHIN: Final = 20
"""Within how many events after its first workflow task a run records its DAG: interceptors may make calls before."""

MOST_VERDICTS: Final = 10_000
"""Of how many runs it is remembered whether they are runs of DAGs."""


class Folds:
    """What is kept of one database.

    Args:
        runtime: The database.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = ref(runtime)
        self.following: Following[DagFold] = Following(runtime)
        self._verdicts: OrderedDict[str, bool] = OrderedDict()

    async def of(self, run_id: str, workflow_type: str, converter: DataConverter) -> DagFold | None:
        """Return the fold of a run, up to its last event.

        Args:
            run_id: The run.
            workflow_type: Its type.
            converter: Decodes its payloads.

        Returns:
            The fold; ``None`` if the run is not one of a DAG, or if that is not known yet.

        Raises:
            PayloadCodecError: Its payloads need another codec.
            OutlastError: Its history cannot be followed.
        """
        if not await self._is_dag(run_id, workflow_type, converter):
            return None
        # Who has another key must not see what this one has opened.
        key = (run_id, id(converter.codec))
        return await self.following.of(key, run_id, lambda: DagFold(run_id, workflow_type, converter))

    async def _read(self, question: Callable[..., Any], *arguments: Any) -> Any:
        runtime = self._runtime()
        assert runtime is not None, "who looks has the database"
        return await runtime.read(question, *arguments)

    async def _is_dag(self, run_id: str, workflow_type: str, converter: DataConverter) -> bool:
        if workflow_type == ANY_DAG:
            return True
        known = self._verdicts.get(run_id)
        if known is not None:
            return known
        verdict = await self._verdict(run_id, workflow_type, converter)
        if verdict is not None:
            self._verdicts[run_id] = verdict
            if len(self._verdicts) > MOST_VERDICTS:
                self._verdicts.popitem(last=False)
        return bool(verdict)

    async def _verdict(self, run_id: str, workflow_type: str, converter: DataConverter) -> bool | None:
        """Return whether a run records a DAG in its first workflow task, or soon after; ``None`` before."""
        after, end = 0, None
        while rows := await self._read(read_history, run_id, after, RECORD_WITHIN):
            for seq, kind, payload in rows:
                if end is None and kind == WorkflowTaskCompleted.type:
                    end = seq + RECORD_WITHIN
                if kind == SideEffectRecorded.type:
                    value = orjson.loads(payload)["value"]
                    if await self._records_dag(value, workflow_type, converter):
                        return True
                if end is not None and seq >= end:
                    return False
                after = seq
        return None

    async def _records_dag(self, value: Any, workflow_type: str, converter: DataConverter) -> bool:
        try:
            found = converter.decode(Payload.of(value))
        except PayloadCodecError:
            # Whose spec cannot be read may still be known as a DAG.
            for load in await self._read(list_worker_loads):
                if workflow_type in orjson.loads(load.worker.types).get("dags", {}):
                    raise
            return False
        return isinstance(found, dict) and "outlast_dag" in found


_FOLDS: WeakKeyDictionary[Runtime, Folds] = WeakKeyDictionary()


def folds_of(runtime: Runtime) -> Folds:
    """Return what is kept of a database."""
    found = _FOLDS.get(runtime)
    if found is None:
        found = _FOLDS[runtime] = Folds(runtime)
    return found
