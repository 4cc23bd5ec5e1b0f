"""Rules on expressions: what is seen without running any."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from outlast_serverless.plan.templates import MOST_EXPRESSION_BYTES
from outlast_serverless.rules.finding import Finding, Names, meant, quoted
from outlast_serverless.rules.jq_text import Checker, Glance, glance
from outlast_serverless.rules.sites import ARGUMENTS, Site, sites
from outlast_serverless.rules.subject import Subject

FORBIDDEN: Final = {
    "env": "the environment of a worker is no input of a workflow: use $secrets, or its input",
    "input": "there is one input: it is `.`, and `$input`",
    "inputs": "there is one input: it is `.`, and `$input`",
    "input_filename": "no file is read",
    "input_line_number": "no file is read",
    "halt": "an expression ends with its value",
    "halt_error": "raise an error with `raise`",
    "import": "modules are not loaded: write it out",
    "include": "modules are not loaded: write it out",
    "get_search_list": "modules are not loaded: write it out",
    "modulemeta": "modules are not loaded: write it out",
}
"""What a run cannot do twice with the same outcome, and what to do instead."""
FORBIDDEN_VARIABLES: Final = {"ENV": FORBIDDEN["env"], "__prog_args": "there are no arguments"}


def check_expressions(subject: Subject, checker: Checker | None) -> Iterator[Finding]:
    """Yield what is wrong with expressions.

    Args:
        subject: The definition.
        checker: What says whether an expression compiles; without one that is not checked.
    """
    secrets = subject.secrets
    every = frozenset(ARGUMENTS.union(*(task.variables for task in subject.tasks)))
    for site in sites(subject):
        if site.expression is None:
            if "${" in site.text and not site.shell and not subject.loose:
                yield Finding(
                    "embedded_expression",
                    site.pointer,
                    "`${` inside of a text is text",
                    'make the whole text an expression: ${ "… \\(.name) …" }',
                )
            continue
        if len(site.expression.encode()) > MOST_EXPRESSION_BYTES:
            yield Finding(
                "long_expression",
                site.pointer,
                "the expression is longer than 16 KiB",
                "divide it into several `set` tasks",
            )
            continue
        if not site.expression:
            yield Finding(
                "empty_expression", site.pointer, "the expression is empty", "write `.` for what comes in"
            )
            continue
        yield from _one(site, glance(site.expression), secrets, every, checker)


def _one(
    site: Site, seen: Glance, secrets: Names, every: frozenset[str], checker: Checker | None
) -> Iterator[Finding]:
    assert site.expression is not None
    place = site.pointer
    if seen.trouble:
        yield Finding("invalid_expression", place, f"it is no jq: {seen.trouble}", "correct it")
        return
    found = list(_variables(site, seen, every))
    for name in dict.fromkeys(seen.names):
        if name in FORBIDDEN:
            found.append(
                Finding("forbidden_builtin", place, f"`{name}` cannot be used in a workflow", FORBIDDEN[name])
            )
    if "secrets" in seen.used:
        if site.recorded:
            found.append(
                Finding(
                    "secret_recorded",
                    place,
                    "the secret would be written to the history of the run",
                    "use $secrets in the arguments of a call or a process, or in an authentication",
                )
            )
        for variable, name in seen.paths:
            if variable == "secrets" and name not in secrets:
                found.append(
                    Finding(
                        "unknown_secret",
                        place,
                        f"there is no secret {quoted(name)} in use.secrets",
                        meant(name, secrets, "name it under use.secrets"),
                    )
                )
    if "authorization" in seen.used and site.recorded:
        found.append(
            Finding(
                "authorization_recorded",
                place,
                "the credentials would be written to the history of the run",
                "use $authorization in the arguments of a call",
            )
        )
    yield from found
    if not found and checker is not None:
        trouble = checker.problem(site.expression, site.visible)
        if trouble is not None:
            yield Finding("invalid_expression", place, f"it is no jq: {trouble}", "correct it")


def _variables(site: Site, seen: Glance, every: frozenset[str]) -> Iterator[Finding]:
    for name in seen.used:
        if name in site.visible:
            continue
        if name in FORBIDDEN_VARIABLES:
            yield Finding(
                "forbidden_builtin",
                site.pointer,
                f"`${name}` cannot be used in a workflow",
                FORBIDDEN_VARIABLES[name],
            )
        elif name in every:
            yield Finding(
                "variable_not_available",
                site.pointer,
                f"`${name}` is not there yet, or no longer",
                f"here are {', '.join(f'${one}' for one in sorted(site.visible))}",
            )
        else:
            yield Finding(
                "unknown_variable",
                site.pointer,
                f"there is no variable `${name}`",
                meant(name, site.visible, f"here are {', '.join(f'${one}' for one in sorted(site.visible))}"),
            )
