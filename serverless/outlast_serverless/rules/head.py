"""Rules on what stands around the tasks: the version of the DSL, root keys, schemas, extensions, variables, errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import jsonschema_rs

from outlast_serverless.plan.json_schemas import DRAFTS, is_known, validator_of
from outlast_serverless.plan.pointers import child
from outlast_serverless.rules.finding import Finding, meant, quoted
from outlast_serverless.rules.sites import ARGUMENTS
from outlast_serverless.rules.subject import Subject, Task, entries, items, mapping

ROOT: Final = ("document", "input", "use", "do", "timeout", "output", "schedule", "evaluate")
MOST_TASKS: Final = 5_000
NEWEST: Final = (1, 0, 3)
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
ERRORS: Final = (
    "configuration",
    "validation",
    "expression",
    "authentication",
    "authorization",
    "timeout",
    "communication",
    "runtime",
)
"""The standard's own errors."""
_ERROR: Final = re.compile(
    r"https?://(?:serverlessworkflow\.io|open-workflow-specification\.org)/(?:spec/[\d.]+/errors|dsl/errors/types)/(.*)"
)
_FILTERS: Final = ("type", "status", "instance", "title", "detail", "details")


def dsl_version(definition: Any) -> tuple[int, int, int] | None:
    """Return the version of the DSL that a definition names, or ``None`` if it names none."""
    dsl = mapping(definition, "document").get("dsl")
    found = re.match(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", dsl) if isinstance(dsl, str) else None
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


def check_head(subject: Subject) -> Iterator[Finding]:
    """Yield what is wrong around the tasks, and with the names that they set."""
    definition = subject.definition
    for key in definition:
        if key not in ROOT:
            yield Finding(
                "unknown_root_key",
                child("", key),
                f"{quoted(key)} is unknown here",
                meant(key, ROOT, "leave it out"),
                key=True,
            )
    yield from _dsl(definition)
    language = mapping(definition, "evaluate").get("language", "jq")
    if isinstance(language, str) and language != "jq":
        yield Finding(
            "unknown_language",
            "/evaluate/language",
            f"expressions in {quoted(language)} are not evaluated",
            "write them in jq",
        )
    if len(subject.tasks) > MOST_TASKS:
        yield Finding(
            "too_many_tasks",
            "/do",
            f"it has more than {MOST_TASKS:,} tasks",
            "divide it into workflows that call each other",
        )
    secrets = items(subject.use, "secrets")
    for index, name in enumerate(secrets):
        if name in secrets[:index]:
            yield Finding(
                "duplicate_secret", f"/use/secrets/{index}", "the secret is there twice", "keep one of them"
            )
    yield from _extensions(subject)
    for name, error in subject.component("errors").items():
        yield from _error(error, child("/use/errors", name))
    yield from _schemas(definition, "")
    for task in subject.tasks:
        yield from _schemas(task.value, task.pointer)
        yield from _of_task(task)


def _dsl(definition: dict[str, Any]) -> Iterator[Finding]:
    version = dsl_version(definition)
    if version is None:
        return
    if version[0] != 1:
        older = (
            "versions before 1.0 are another language" if version[0] == 0 else "only versions 1.x are known"
        )
        yield Finding("unsupported_dsl", "/document/dsl", older, "write the document for dsl 1.0.3")
    elif version > NEWEST:
        yield Finding(
            "newer_dsl",
            "/document/dsl",
            "it is newer than 1.0.3, the newest release that is known",
            "what came later is not checked",
        )


def _extensions(subject: Subject) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, name, extension in entries(subject.use.get("extensions")):
        place = child("/use/extensions", index, name)
        if name in seen:
            yield Finding(
                "duplicate_extension",
                place,
                f"the extension {quoted(name)} is there twice",
                "give each a name of its own",
                key=True,
            )
        seen.add(name)
        if "before" not in extension and "after" not in extension:
            yield Finding(
                "idle_extension",
                place,
                "it does nothing before or after a task",
                "give it `before` or `after`",
                key=True,
            )


def _of_task(task: Task) -> Iterator[Finding]:
    if task.kind == "for":
        yield from _variables(
            mapping(task.value, "for"), f"{task.pointer}/for", task, each="item", at="index"
        )
    elif task.kind == "listen":
        yield from _variables(
            mapping(task.value, "foreach"), f"{task.pointer}/foreach", task, item="item", at="index"
        )
    elif task.kind == "call":
        inner = mapping(mapping(mapping(task.value, "with"), "subscription"), "foreach")
        yield from _variables(
            inner, f"{task.pointer}/with/subscription/foreach", task, item="item", at="index"
        )
    elif task.kind == "raise":
        yield from _error(mapping(task.value, "raise").get("error"), f"{task.pointer}/raise/error")
    elif task.kind == "try":
        yield from _catch(task)


def _variables(value: dict[str, Any], place: str, task: Task, **defaults: str) -> Iterator[Finding]:
    names: dict[str, str] = {}
    for key, default in defaults.items():
        name = value.get(key, default)
        if not isinstance(name, str):
            continue
        where = f"{place}/{key}" if key in value else place
        if VARIABLE.fullmatch(name) is None:
            yield Finding(
                "variable_name",
                where,
                f"{quoted(name)} cannot name a variable",
                "use letters, digits and _, without $",
            )
        elif name in ARGUMENTS:
            yield Finding(
                "reserved_variable", where, f"`${name}` has a meaning of its own", "give it another name"
            )
        elif name in names.values():
            yield Finding(
                "same_variable", where, f"`${name}` is set twice here", "give each a name of its own"
            )
        elif name in task.variables and key in value:
            yield Finding(
                "hidden_variable",
                where,
                f"`${name}` hides the one of a task around it",
                "give it another name",
            )
        names[key] = name


def _catch(task: Task) -> Iterator[Finding]:
    caught, place = mapping(task.value, "catch"), f"{task.pointer}/catch"
    yield from _variables(caught, place, task, **{"as": "error"})
    if not caught.keys() - {"as"} and isinstance(task.value.get("catch"), dict):
        yield Finding(
            "silent_catch",
            place,
            "it catches every error and does nothing about it",
            "name errors, or give it `retry`, `do` or `then`",
            key=True,
        )
    filters, where = mapping(mapping(caught, "errors"), "with"), f"{place}/errors/with"
    for name in filters:
        if name not in _FILTERS:
            yield Finding(
                "unknown_filter",
                child(where, name),
                f"errors have no {quoted(name)}",
                meant(name, _FILTERS),
                key=True,
            )
    for name in mapping(caught, "errors"):
        if name != "with":
            yield Finding(
                "unknown_filter",
                child(f"{place}/errors", name),
                f"{quoted(name)} is unknown here",
                "put what is compared under `with`",
                key=True,
            )
    yield from _error_type(filters.get("type"), f"{where}/type")
    yield from _status(filters.get("status"), f"{where}/status")


def _error(error: Any, place: str) -> Iterator[Finding]:
    if isinstance(error, dict):
        yield from _error_type(error.get("type"), f"{place}/type")
        yield from _status(error.get("status"), f"{place}/status")
        instance = error.get("instance")
        if isinstance(instance, str) and not instance.startswith("/") and "${" not in instance and instance:
            yield Finding("error_instance", f"{place}/instance", "it is no JSON pointer", "begin it with /")


def _error_type(kind: Any, place: str) -> Iterator[Finding]:
    found = _ERROR.fullmatch(kind) if isinstance(kind, str) else None
    if found is not None and found[1] not in ERRORS:
        yield Finding(
            "unknown_error_type",
            place,
            f"the standard has no error {quoted(found[1])}",
            meant(found[1], ERRORS, f"it has {', '.join(ERRORS)}"),
        )


def _status(status: Any, place: str) -> Iterator[Finding]:
    if isinstance(status, int) and not isinstance(status, bool) and not 100 <= status <= 599:
        yield Finding("error_status", place, "a status is from 100 to 599", "use one of HTTP, such as 500")


def _schemas(value: dict[str, Any], pointer: str) -> Iterator[Finding]:
    for key in ("input", "output", "export"):
        schema, place = mapping(mapping(value, key), "schema"), f"{pointer}/{key}/schema"
        form = schema.get("format", "json")
        if isinstance(form, str) and not is_known(form):
            drafts = ", ".join(f"`json:{draft}`" for draft in DRAFTS)
            yield Finding(
                "schema_format",
                f"{place}/format",
                f"schemas of the format {quoted(form)} are not read",
                f"write it as JSON Schema, format `json`, or of a draft: {drafts}",
            )
        elif "document" in schema:
            yield from _json_schema(
                schema["document"], form if isinstance(form, str) else "json", f"{place}/document"
            )


def _json_schema(schema: Any, form: str, place: str) -> Iterator[Finding]:
    if not isinstance(schema, dict | bool):
        yield Finding("invalid_schema", place, "a JSON Schema is a mapping", "write it as {type: object, …}")
        return
    try:
        validator_of(schema, form)
    except jsonschema_rs.ValidationError as error:
        if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Referencing):
            yield Finding(
                "schema_reference",
                place,
                "it refers to what is not in it",
                "put what $ref names under $defs; nothing is fetched",
            )
            return
        yield Finding(
            "invalid_schema", child(place, *error.instance_path), "it is no JSON Schema here", "correct it"
        )
    except ValueError:
        yield Finding("invalid_schema", place, "it is no JSON Schema", "correct it")
