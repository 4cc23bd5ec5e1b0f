"""``outlast dag``: check and draw DAGs, print the form of their documents, show their runs, decide their approvals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import orjson
import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.exit_codes import CommandFailedError, Exit
from outlast.cli.common.login import login_name
from outlast.cli.common.options import AsJson, Codec, RunId, Timeout, Url, WorkflowId
from outlast.cli.common.output import document, show
from outlast.cli.common.user_code import import_module
from outlast.cli.common.waiting import tell_lacks
from outlast.client.client import Client
from outlast.text.parsing import waiting_time
from outlast.text.wording import counted
from outlast_dag.build.builder import DagBuilder
from outlast_dag.build.building import logger
from outlast_dag.check.critical_path import CriticalPath
from outlast_dag.check.report import report
from outlast_dag.decisions import approve as decide
from outlast_dag.definition import DagDefinition
from outlast_dag.picture.mermaid import mermaid
from outlast_dag.picture.svg import svg_of_spec
from outlast_dag.run_commands import list_served, read_file, show_run, start_document
from outlast_dag.spec.dag import DagSpec
from outlast_dag.spec.schema import SCHEMA
from outlast_workflow.errors import DagValidationError, InvalidOptionError
from outlast_workflow.errors.documents import DagApprovalError, Problem

app = typer.Typer(
    help="Check and draw DAGs, show their runs, and decide their approvals.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="MODULE[:NAME]|FILE.json",
        help="All DAGs of a module, one of them, or a DAG's spec as JSON.",
        show_default=False,
    ),
]


@dataclass(slots=True)
class _Found:
    """A DAG that was named: its spec unless that could not be read, and what was found in it."""

    name: str
    spec: DagSpec | None
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    path: CriticalPath | None = None


@app.command("check")
def check(
    targets: Targets,
    strict: Annotated[bool, typer.Option("--strict", help="Count warnings as errors.")] = False,
    json: AsJson = False,
) -> None:
    """Print what is wrong with DAGs, and their critical paths. Nothing is run, and no database is needed."""
    found = _dags(targets)
    for one in found:
        if json:
            document(_document(one))
        else:
            _show(one)
    if any(one.errors or (strict and one.warnings) for one in found):
        raise typer.Exit(Exit.FAILED)


@app.command("draw")
def draw(
    targets: Targets,
    svg: Annotated[bool, typer.Option("--svg", help="As an SVG picture; of one DAG.")] = False,
    json: AsJson = False,
) -> None:
    """Print DAGs as Mermaid flowcharts, or one as an SVG picture."""
    found = _dags(targets)
    if svg and len(found) != 1:
        raise InvalidOptionError(
            f"a picture shows one DAG, and {len(found)} are named: give MODULE:NAME", field="svg"
        )
    for one in found:
        if one.spec is None:
            raise CommandFailedError(
                f"{one.name} cannot be drawn: `outlast dag check` says what is wrong with it"
            )
        drawn = svg_of_spec(one.spec) if svg else mermaid(one.spec)
        if not drawn:
            raise CommandFailedError(
                f"{one.name} is too large to be drawn with boxes: its steps need groups; or leave out --svg"
            )
        if json:
            document({"name": one.name, "svg" if svg else "mermaid": drawn})
        else:
            show(drawn.rstrip())


app.command("start")(start_document)
app.command("show")(show_run)
app.command("list")(list_served)


@app.command("approve")
def approve(
    workflow_id: WorkflowId,
    node: Annotated[
        str, typer.Argument(metavar="NODE", help="The approval that the run waits for.", show_default=False)
    ],
    reject: Annotated[bool, typer.Option("--reject", help="Reject it.")] = False,
    comment: Annotated[
        str | None, typer.Option("--comment", help="What to say about it.", show_default=False)
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", help="Who decides; by default the user of the system.", show_default=False),
    ] = None,
    update_id: Annotated[
        str | None,
        typer.Option("--id", help="A key: to decide with the same key happens once.", show_default=False),
    ] = None,
    run_id: RunId = None,
    timeout: Timeout = None,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Approve what a run of a DAG waits for, or reject it. The first decision counts."""
    longest = waiting_time(timeout)
    who = by or login_name()

    async def work(client: Client) -> None:
        handle = client.handle(workflow_id, run_id=run_id)
        await tell_lacks(client, workflow_id, run_id)
        try:
            made = await decide(
                handle,
                node,
                decision="reject" if reject else "approve",
                comment=comment,
                by=who,
                id=update_id,
                timeout=longest,
            )
        except DagApprovalError as error:
            if update_id is None or error.closed:
                raise
            # An update's id keeps its first answer.
            raise CommandFailedError(
                f"{error}; this answer stays with --id {update_id}, so decide with another one"
            ) from error
        if json:
            document({"workflow_id": workflow_id, "node": node, **asdict(made)})
        else:
            show(f"{node} of {workflow_id} is {'approved' if made.approved else 'rejected'}")

    with_client(url, work, codec=codec)


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of a DAG's spec."""
    show(orjson.dumps(SCHEMA, option=orjson.OPT_INDENT_2).decode())


def _dags(targets: list[str]) -> list[_Found]:
    """Return what is named. The warnings of building are not logged, since the command prints them."""
    was = logger.disabled
    logger.disabled = True
    try:
        return [
            one
            for target in targets
            for one in ([_of_file(target)] if target.endswith(".json") else _of_module(target))
        ]
    finally:
        logger.disabled = was


def _of_file(target: str) -> _Found:
    try:
        spec = read_file(target)
    except DagValidationError as error:
        return _Found(error.name, None, error.problems)
    told = report(spec)
    return _Found(spec.name, spec, told.errors, told.warnings, told.critical_path)


def _of_module(target: str) -> Iterator[_Found]:
    module_name, colon, path = target.partition(":")
    try:
        module = import_module(module_name)
    except CommandFailedError as error:
        if isinstance(error.__cause__, DagValidationError):
            # Its other DAGs are not there either, since the module was not imported to its end.
            yield _Found(error.__cause__.name, None, error.__cause__.problems)
            return
        raise
    things: list[Any] = list(vars(module).values())
    if colon:
        if not hasattr(module, path):
            raise InvalidOptionError(f"module {module_name!r} has no {path!r}", field="module")
        things = [getattr(module, path)]
    dags = {id(thing): thing for thing in things if isinstance(thing, DagDefinition | DagBuilder)}
    if not dags:
        raise InvalidOptionError(
            f"{target!r} has no DAG: declare one with @dag or DagBuilder", field="module"
        )
    # A module may hold a DagBuilder and the DAG that it has built.
    told: set[tuple[str, str]] = set()
    for thing in dags.values():
        try:
            built = thing.build() if isinstance(thing, DagBuilder) else thing
        except DagValidationError as error:
            yield _Found(error.name, None, error.problems)
        else:
            if (built.name, built.hash) in told:
                continue
            told.add((built.name, built.hash))
            yield _Found(built.name, built.spec, (), built.warnings, built.critical_path)


def _show(found: _Found) -> None:
    hash_ = f" {found.spec.short_hash}" if found.spec is not None else ""
    nodes = f", {_counted(len(found.spec.nodes), 'node')}" if found.spec is not None else ""
    wrong, warnings = _counted(len(found.errors), "problem"), _counted(len(found.warnings), "warning")
    show(f"{found.name}{hash_}{nodes}: {wrong}, {warnings}")
    for problem in found.errors:
        show(f"  {problem}")
    for problem in found.warnings:
        show(f"  warning: {problem}")
    if found.path is not None:
        show(f"  critical path: {found.path}")


def _counted(number: int, noun: str) -> str:
    return counted(number, noun) if number else f"no {noun}s"


def _document(found: _Found) -> dict[str, Any]:
    return {
        "name": found.name,
        "hash": found.spec.hash if found.spec is not None else None,
        "nodes": len(found.spec.nodes) if found.spec is not None else None,
        "problems": [problem._asdict() for problem in found.errors],
        "warnings": [problem._asdict() for problem in found.warnings],
        "critical_path": None if found.path is None else asdict(found.path),
    }
