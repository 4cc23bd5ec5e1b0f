"""The registered workers as people and programs are shown them."""

from __future__ import annotations

import orjson

from outlast.runtime.runtime import Runtime
from outlast.visibility.views import WorkerSummary
from outlast_store.reads.description import list_worker_loads
from outlast_workflow.primitives.times import to_datetime


async def worker_summaries(runtime: Runtime) -> list[WorkerSummary]:
    """Return all registered workers, oldest first, with what each holds."""
    now = runtime.environment.clock.now()
    summaries: list[WorkerSummary] = []
    for load in await runtime.read(list_worker_loads):
        row, types = load.worker, orjson.loads(load.worker.types)
        summaries.append(
            WorkerSummary(
                worker_id=row.worker_id,
                host=row.host,
                pid=row.pid,
                alive=row.lease_expires_at > now,
                started_at=to_datetime(row.started_at),
                lease_expires_at=to_datetime(row.lease_expires_at),
                task_queues=tuple(orjson.loads(row.task_queues)),
                workflows=tuple(types.get("workflows", ())),
                activities=tuple(types.get("activities", ())),
                build_id=row.build_id,
                runs_held=load.runs,
                activities_held=load.activities,
                activity_slots=types.get("activity_slots"),
                queues=None if types.get("queues") is None else tuple(types["queues"]),
                dags=types.get("dags", {}),
            )
        )
    return summaries
