"""``outlast serverless``: check, draw and run documents of the Serverless Workflow DSL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from outlast.cli.common.exit_codes import CommandFailedError, Exit
from outlast.cli.common.options import AsJson
from outlast.cli.common.output import document, show
from outlast.text.wording import counted
from outlast_serverless.documents.document import Document
from outlast_serverless.event_commands import publish
from outlast_serverless.jq import JqChecker
from outlast_serverless.picture.mermaid import graph
from outlast_serverless.run_commands import (
    describe,
    list_,
    register,
    resume,
    run,
    schedule,
    show_source,
    start,
    suspend,
    worker,
)
from outlast_serverless.trace_command import trace
from outlast_workflow.errors import InvalidDocumentError, InvalidOptionError
from outlast_workflow.errors.options import DocumentProblem

app = typer.Typer(
    help="Check, draw and run documents of the Serverless Workflow DSL.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_COMMANDS: dict[str, Callable[..., None]] = {
    "run": run,
    "start": start,
    "register": register,
    "list": list_,
    "show": show_source,
    "schedule": schedule,
    "describe": describe,
    "trace": trace,
    "publish": publish,
    "suspend": suspend,
    "resume": resume,
    "worker": worker,
}
for name, command in _COMMANDS.items():
    app.command(name)(command)

Lenient = Annotated[
    bool,
    typer.Option("--lenient", help="Only warn of keys that the DSL does not know, where they do no harm."),
]


@app.command("validate")
def validate(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Documents, as YAML or JSON.", show_default=False)
    ],
    strict: Annotated[bool, typer.Option("--strict", help="Count warnings as errors.")] = False,
    lenient: Lenient = False,
    json: AsJson = False,
) -> None:
    """Print everything that is wrong with documents. Nothing is run, and no database is needed."""
    if strict and lenient:
        raise InvalidOptionError("--strict and --lenient exclude each other: leave one out", field="strict")
    failed, unreadable = False, None
    for file in files:
        try:
            loaded = _load(file, lenient)
        except CommandFailedError as error:
            # The other files are told all the same.
            unreadable = unreadable or error
            continue
        problems = loaded.problems if isinstance(loaded, InvalidDocumentError) else ()
        failed = failed or bool(problems) or (strict and bool(loaded.warnings))
        if json:
            document(
                {
                    "file": str(file),
                    "valid": not problems,
                    "document": _names(loaded),
                    "problems": [problem._asdict() for problem in problems],
                    "warnings": [warning._asdict() for warning in loaded.warnings],
                }
            )
        else:
            _show(file, loaded, problems)
    if unreadable is not None:
        raise unreadable
    if failed:
        raise typer.Exit(Exit.FAILED)


@app.command("graph")
def draw(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A document, as YAML or JSON.", show_default=False)
    ],
    lenient: Lenient = False,
    json: AsJson = False,
) -> None:
    """Print a document as a Mermaid flowchart."""
    loaded = _load(file, lenient)
    if isinstance(loaded, InvalidDocumentError):
        raise CommandFailedError(
            f"{file} cannot be drawn: `outlast serverless validate` says what is wrong with it"
        )
    drawn = graph(loaded.plan)
    if json:
        document({"file": str(file), "mermaid": drawn})
    else:
        show(drawn.rstrip())


def _load(file: Path, lenient: bool) -> Document | InvalidDocumentError:
    try:
        with JqChecker() as checker:
            return Document.load(file, lenient=lenient, checker=checker)
    except InvalidDocumentError as error:
        return error
    except OSError as error:
        raise CommandFailedError(f"{file} cannot be read: {error.strerror or error}") from None


def _names(loaded: Document | InvalidDocumentError) -> dict[str, str] | None:
    if isinstance(loaded, InvalidDocumentError):
        return None
    return {
        "namespace": loaded.namespace,
        "name": loaded.name,
        "version": loaded.version,
        "dsl": loaded.dsl,
        "digest": loaded.digest,
    }


def _show(file: Path, loaded: Document | InvalidDocumentError, problems: tuple[DocumentProblem, ...]) -> None:
    told = [(problem, "error") for problem in problems] + [
        (warning, "warning") for warning in loaded.warnings
    ]
    for problem, kind in sorted(told, key=lambda one: (one[0].line, one[0].column)):
        hint = f"; {problem.hint}" if problem.hint else ""
        show(
            f"{file}:{problem.line}:{problem.column}: {kind}: {problem.message}{hint} "
            f"[{problem.code}] {problem.pointer or '/'}"
        )
    if isinstance(loaded, Document):
        counts = f"{counted(loaded.plan.size, 'task')}, {counted(len(loaded.warnings), 'warning')}"
        show(f"{file}: {loaded.namespace}/{loaded.name}:{loaded.version} {loaded.digest[:12]}: {counts}")
    else:
        show(f"{file}: {counted(len(problems), 'problem')}")
