"""``outlast dag start``, ``show`` and ``list``: the DAGs of a database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import orjson
import typer
from rich.text import Text

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Codec, Input, RunId, Timeout, Url, WorkflowId, input_values
from outlast.cli.common.output import document, show, table
from outlast.cli.common.start_options import GivenStartOptions, TaskQueue, with_start_options
from outlast.cli.common.waiting import tell_lacks
from outlast.cli.workflows.dags import dag_lines
from outlast.cli.workflows.endings import print_result
from outlast.client.client import Client
from outlast.text.parsing import waiting_time
from outlast.visibility.views import View, WorkerSummary
from outlast_dag.check.checks import MAX_LEVELS
from outlast_dag.description.describing import describe
from outlast_dag.run.documents import any_dag, document_problems
from outlast_dag.spec.dag import SHOWN_DIGITS, DagSpec
from outlast_dag.spec.reading import read_spec
from outlast_workflow.data.writing import is_deep
from outlast_workflow.errors import DagValidationError, InvalidOptionError
from outlast_workflow.options.start import DEFAULT_TASK_QUEUE

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


@with_start_options
def start_document(
    file: Annotated[
        str, typer.Argument(metavar="FILE.json", help="The DAG's spec as JSON.", show_default=False)
    ],
    id: Annotated[
        str | None,
        typer.Option("--id", help="The workflow id; by default a new UUID.", show_default=False),
    ] = None,
    input: Input = None,
    task_queue: TaskQueue = DEFAULT_TASK_QUEUE,
    *,
    start: GivenStartOptions,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the result and print it.")] = False,
    timeout: Timeout = None,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Run the DAG that a file describes. A worker must serve ``any_dag``."""
    if timeout is not None and not wait:
        raise InvalidOptionError(
            "timeout limits --wait: give both, or --execution-timeout to bound the workflow", field="timeout"
        )
    options, arguments, longest = start.options(), input_values(input), waiting_time(timeout)
    spec = read_file(file)
    problems = document_problems(spec, len(arguments))
    if problems:
        raise DagValidationError(spec.name, problems)

    async def work(client: Client) -> None:
        handle = await client.start(
            any_dag, spec.document, *arguments, id=id, task_queue=task_queue, options=options
        )
        if wait:
            await tell_lacks(client, handle.workflow_id, handle.run_id)
            await print_result(client, handle, longest, json=json)
            return
        if json:
            document({"workflow_id": handle.workflow_id, "run_id": handle.run_id, "dag": spec.name})
        else:
            show(f"started {handle.workflow_id}, run {handle.run_id}: the DAG {spec.name}")
        await tell_lacks(client, handle.workflow_id, handle.run_id)

    with_client(url, work, codec=codec)


def read_file(file: str) -> DagSpec:
    """Return the spec that a file describes.

    Raises:
        InvalidOptionError: The file cannot be read, is not JSON, or is nested too deeply.
        DagValidationError: Its form is wrong.
    """
    try:
        data = Path(file).read_bytes()
        read = orjson.loads(data)
    except OSError as error:
        raise InvalidOptionError(f"{file} cannot be read: {error.strerror}", field="file") from None
    except orjson.JSONDecodeError as error:
        raise InvalidOptionError(f"{file} is not JSON: {error}", field="file") from None
    if is_deep(data, MAX_LEVELS):
        raise InvalidOptionError(
            f"{file} is nested deeper than {MAX_LEVELS} levels: make its values flatter", field="file"
        )
    return read_spec(read)


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
