"""``outlast check``: checks workflow code for what may not replay."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from outlast.checking.checker import check, line
from outlast.cli.common.exit_codes import Exit
from outlast.cli.common.options import AsJson
from outlast.cli.common.output import document, show
from outlast.cli.common.user_code import load
from outlast_workflow.declare.definitions import definition_of


def check_(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="MODULE[:NAME]",
            help="Everything that a module defines, or one workflow or a list of them.",
            show_default=False,
        ),
    ],
    json: AsJson = False,
) -> None:
    """Check workflow code for what may not replay: clocks, randomness, I/O, threads."""
    workflows, _ = load(targets)
    found: list[dict[str, Any]] = []
    names: list[str] = []
    told: set[str] = set()
    for definition in map(definition_of, workflows):
        names.append(definition.name)
        for one in check(definition):
            words = line(one)
            found.append(
                {
                    "workflow": definition.name,
                    "file": one.path,
                    "line": one.line,
                    "column": one.column,
                    "rule": one.rule,
                    "code": one.code,
                    "why": one.why,
                    "instead": one.instead,
                }
            )
            # Two workflows may share code.
            if not json and words not in told:
                show(words.replace(one.path, _short(one.path), 1))
            told.add(words)
    if json:
        document({"workflows": sorted(names), "found": found})
    else:
        workflows_words = f"{len(names)} workflow{'' if len(names) == 1 else 's'}"
        show(f"{workflows_words} checked: {len(told) or 'nothing'} found")
    if found:
        raise typer.Exit(Exit.FAILED)


def _short(path: str) -> str:
    here = Path(os.getcwd())
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path
