"""``outlast export`` and ``import``: histories as files."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.exit_codes import CommandFailedError
from outlast.cli.common.filters import Chosen, with_filters
from outlast.cli.common.options import AsJson, RunId, Url
from outlast.cli.common.output import document, progress, show
from outlast.client.client import Client
from outlast.histories.exporter import export_chain, export_run, export_runs
from outlast.histories.source import Documents
from outlast.text.wording import counted
from outlast_workflow.errors import InvalidOptionError

Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="The file to write, instead of stdout.", show_default=False
    ),
]


@with_filters
def export(
    chosen: Chosen,
    workflow_id: Annotated[
        str | None,
        typer.Argument(
            metavar="ID", help="The workflow's id; without one, all runs that match.", show_default=False
        ),
    ] = None,
    run_id: RunId = None,
    chain: Annotated[bool, typer.Option("--chain", help="All runs of each chain, first to last.")] = False,
    output: Output = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Write runs and their histories as JSON, one document on each line."""

    async def work(client: Client) -> tuple[int, int]:
        filters = chosen.filters(client)
        if workflow_id is None:
            if run_id is not None:
                raise InvalidOptionError("run id needs the workflow's ID", field="run_id")
            total = await client.count(**filters)
            texts = export_runs(client.runtime, client.list(page_size=100, **filters), chains=chain)
        else:
            if not chosen.is_empty:
                raise InvalidOptionError(
                    "an ID and filters exclude each other: leave one of them out", field="workflow_id"
                )
            # This refuses an invalid id.
            client.handle(workflow_id, run_id=run_id)
            total = 1
            texts = (
                export_chain(client.runtime, workflow_id, run_id)
                if chain
                else _alone(client, workflow_id, run_id)
            )
        async with aclosing(texts):
            return await _write(texts, output, total)

    runs, size = with_client(url, work)
    if output is not None:
        if json:
            document({"file": str(output), "runs": runs, "bytes": size})
        else:
            show(f"exported {runs:,} run{'' if runs == 1 else 's'} to {output}")


async def _alone(client: Client, workflow_id: str, run_id: str | None) -> AsyncGenerator[bytes]:
    yield await export_run(client.runtime, workflow_id, run_id)


async def _write(texts: AsyncIterator[bytes], output: Path | None, total: int) -> tuple[int, int]:
    """Write one document on each line. A file gets its name when it is complete."""
    part = None if output is None else output.with_name(f"{output.name}.part")
    runs = size = 0
    try:
        with progress("exporting", total) as reached, _sink(part) as sink:
            async for text in texts:
                sink.write(text + b"\n")
                runs += 1
                size += len(text) + 1
                reached(runs)
            sink.flush()
    except BaseException:
        if part is not None:
            part.unlink(missing_ok=True)
        raise
    if part is not None and output is not None:
        part.replace(output)
    return runs, size


def _sink(part: Path | None) -> Any:
    if part is None:
        sys.stdout.flush()
        return _KeptOpen(sys.stdout.buffer)
    try:
        return part.open("wb")
    except OSError as error:
        raise CommandFailedError(
            f"{part} cannot be written: {error.strerror}: choose another --output"
        ) from None


class _KeptOpen:
    """A stream that a `with` block leaves open."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __enter__(self) -> Any:
        return self._stream

    def __exit__(self, *exc_info: object) -> None:
        self._stream.flush()


def import_(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A file that `outlast export` wrote; - for stdin.", show_default=False
        ),
    ],
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Load exported closed runs into a database, for inspection and replay."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(file)
        if file == "-":
            path = Path(folder) / "stdin"
            with path.open("wb") as copy:
                shutil.copyfileobj(sys.stdin.buffer, copy)

        size = Documents(path).size

        async def work(client: Client) -> None:
            with progress("checking", size) as checked, progress("importing", 0) as reached:
                found = await client.import_histories(
                    path, progress=lambda what, done: checked(done) if what == "check" else reached(done)
                )
            if json:
                document({"workflows": found.workflows, "runs": found.runs, "events": found.events})
            else:
                show(
                    f"imported {counted(found.runs, 'run')} of {counted(found.workflows, 'workflow')}, "
                    f"{counted(found.events, 'event')}"
                )

        with_client(url, work, makes=True)
