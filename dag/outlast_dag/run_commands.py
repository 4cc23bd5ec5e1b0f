"""``outlast dag show`` and ``outlast dag list``: the DAGs of a database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from rich.text import Text

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Codec, RunId, Url, WorkflowId
from outlast.cli.common.output import document, show, table
from outlast.cli.workflows.dags import dag_lines
from outlast.client.client import Client
from outlast.visibility.views import View, WorkerSummary
from outlast_dag.description.describing import describe
from outlast_dag.spec.dag import SHOWN_DIGITS

MOST_NAMED: Final = 3


class ServedDag(View):
    """A DAG as live workers serve it.

    Attributes:
        name: The DAG.
        hash: The hash of the spec that its new runs follow.
        workers: The workers that serve it so.
        differs: Whether other live workers serve it with another spec.
    """

    name: str
    hash: str
    workers: tuple[str, ...]
    differs: bool


def show_run(
    workflow_id: WorkflowId,
    run_id: RunId = None,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Show how each node of a run stands, what it waits for, and what fires when. No worker is needed."""

    async def work(client: Client) -> None:
        found = await describe(client.handle(workflow_id, run_id=run_id))
        if json:
            document(found)
        else:
            show(*dag_lines(found))

    with_client(url, work, codec=codec)


def list_served(url: Url = None, json: AsJson = False) -> None:
    """List the DAGs that live workers serve, and warn where they differ."""

    async def work(client: Client) -> None:
        found = served(await client.workers())
        if json:
            for one in found:
                document(one)
        else:
            _show(found)

    with_client(url, work)


def served(workers: Sequence[WorkerSummary]) -> list[ServedDag]:
    """Return the DAGs that live workers serve, by name; each once for each spec.

    Args:
        workers: The registered workers.
    """
    by_name: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for worker in workers:
        if worker.alive:
            for name, hash in worker.dags.items():
                by_name[name][hash].append(worker.worker_id)
    return [
        ServedDag(name=name, hash=hash, workers=tuple(ids), differs=len(by_hash) > 1)
        for name, by_hash in sorted(by_name.items())
        for hash, ids in by_hash.items()
    ]


def _show(found: Sequence[ServedDag]) -> None:
    if not found:
        show("no live worker serves a DAG: give one to `outlast worker MODULE`")
        return
    made = table("DAG", "HASH", "WORKERS", drop=("WORKERS",))
    for one in found:
        more = len(one.workers) - MOST_NAMED
        names = ", ".join(one.workers[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        made.add_row(one.name, Text(one.hash[:SHOWN_DIGITS], style="red" if one.differs else ""), names)
    show(made)
    for name in sorted({one.name for one in found if one.differs}):
        show(
            f"{name}: workers differ: a new run follows the spec of the worker that begins it; deploy all of them"
        )
