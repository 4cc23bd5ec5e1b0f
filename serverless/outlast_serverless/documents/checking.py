"""Holding a definition against the schema of its version and against the rules."""

from __future__ import annotations

from typing import Any

from outlast_serverless.documents.diagnosis import diagnose
from outlast_serverless.documents.schemas import RELEASE, name_for, schema
from outlast_serverless.plan.pointers import child, keys, resolve
from outlast_serverless.rules.catalogue import RULES
from outlast_serverless.rules.check import check
from outlast_serverless.rules.finding import Finding
from outlast_serverless.rules.head import dsl_version
from outlast_serverless.rules.jq_text import Checker


def findings(definition: Any, checker: Checker | None = None) -> list[Finding]:
    """Return everything that is wrong with a definition, or worth a look.

    Args:
        definition: What was read.
        checker: What says whether an expression compiles; without one that is not checked.
    """
    form = [_softened(finding, definition) for finding in _form(definition)]
    if not isinstance(definition, dict):
        return form
    meaning = list(dict.fromkeys(check(definition, checker)))
    # Of one place the rule's error is told, being plainer than the schema's; but no warning takes an error's place.
    plainer = {one.pointer for one in meaning if not _is_soft(one)}
    refused = {one.pointer for one in form if not _is_soft(one)}
    return [one for one in form if one.pointer not in plainer] + [
        one for one in meaning if not (_is_soft(one) and one.pointer in refused)
    ]


def _is_soft(finding: Finding) -> bool:
    rule = RULES[finding.code]
    return rule.warning or rule.lenient


def _form(definition: Any) -> list[Finding]:
    name = name_for(dsl_version(definition) or (1, 0, 3))
    # The release's schema has forgotten `evaluate`, and accepts anything there.
    forgotten = _evaluation(definition) if name == RELEASE else []
    if schema(name).validator.is_valid(definition):
        return forgotten
    found = diagnose(definition, schema(name))
    if name == RELEASE:
        found = _with_newer(definition, found)
    return (found or [_whatever(definition, name)]) + forgotten


def _evaluation(definition: Any) -> list[Finding]:
    if not isinstance(definition, dict) or "evaluate" not in definition:
        return []
    found = diagnose(definition, schema("main"))
    return [one for one in found if one.pointer == "/evaluate" or one.pointer.startswith("/evaluate/")]


def _with_newer(definition: Any, found: list[Finding]) -> list[Finding]:
    """Make warnings of what the schema after the release accepts."""
    newer = schema("main")
    if newer.validator.is_valid(definition):
        return [_newer(finding) for finding in found]
    refused = {finding.pointer for finding in diagnose(definition, newer)}
    if not any(finding.pointer in refused for finding in found):
        return found
    return [finding if finding.pointer in refused else _newer(finding) for finding in found]


def _newer(finding: Finding) -> Finding:
    return Finding(
        "newer_feature",
        finding.pointer,
        "the DSL has this only after 1.0.3",
        "other runtimes may refuse it",
        finding.key,
    )


def _whatever(definition: Any, name: str) -> Finding:
    """Return what the validator itself says, where no reason was found."""
    error = next(iter(schema(name).validator.iter_errors(definition)), None)
    pointer = "" if error is None else child("", *error.instance_path)
    return Finding(
        "not_valid", pointer, f"the schema {name} refuses it", "compare it with the reference of the DSL"
    )


def _softened(finding: Finding, definition: Any) -> Finding:
    """Return a finding as a warning, or as what leniency accepts, where the schema is stricter than the runtime."""
    if finding.code != "wrong_type":
        return finding
    path = keys(finding.pointer)
    if len(path) < 3:
        return finding
    try:
        value = resolve(definition, finding.pointer)
    except LookupError:
        return finding
    if (
        len(path) > 3
        and path[-2] in ("query", "headers")
        and path[-3] == "with"
        and isinstance(value, int | float)
    ):
        return Finding("number_as_text", finding.pointer, "it is sent as text", "write it in quotes")
    of_process = (
        path[-3] == "run" and path[-2] in ("script", "shell", "container") and path[-1] == "arguments"
    )
    if of_process and isinstance(value, dict):
        return Finding(
            "arguments_as_map",
            finding.pointer,
            "they are given as --key value",
            "write them as a list",
            key=True,
        )
    if len(path) > 3 and path[-3:-1] == ["for", "in"]:
        return Finding(
            "scalar_items",
            finding.pointer,
            "the DSL lists only mappings here",
            "write `in: ${ [1, 2] }`, or check it leniently",
        )
    return finding
