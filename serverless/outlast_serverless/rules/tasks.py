"""Rules on what single tasks do: calls, events, processes, loops."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from semver import Version

from outlast_serverless.plan.kinds import is_url
from outlast_serverless.plan.pointers import child
from outlast_serverless.plan.templates import uri_names, wrapped
from outlast_serverless.rules.finding import Finding, meant, quoted
from outlast_serverless.rules.subject import Subject, Task, items, mapping

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")
LANGUAGES: Final = ("js", "javascript", "python")
MCP_METHODS: Final = (
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/read",
    "resources/templates/list",
)
_ATTRIBUTE: Final = re.compile(r"[a-z0-9]{1,40}", re.ASCII)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def check_tasks(subject: Subject) -> Iterator[Finding]:
    """Yield what is wrong with single tasks."""
    definition = subject.definition
    if "schedule" in definition:
        yield from _strategy(mapping(mapping(definition, "schedule"), "on"), "/schedule/on")
    for name, catalog in subject.component("catalogs").items():
        yield from _endpoint(
            catalog.get("endpoint") if isinstance(catalog, dict) else None,
            child("/use/catalogs", name, "endpoint"),
        )
    for task in subject.tasks:
        if task.kind == "call":
            yield from _call(task)
        elif task.kind == "emit":
            event = mapping(mapping(mapping(task.value, "emit"), "event"), "with")
            yield from _event(event, f"{task.pointer}/emit/event/with", emitted=True)
        elif task.kind == "listen":
            yield from _strategy(mapping(mapping(task.value, "listen"), "to"), f"{task.pointer}/listen/to")
        elif task.kind == "run":
            yield from _run(task, subject)
        elif task.kind == "for":
            inline = mapping(task.value, "for").get("in")
            if inline == []:
                yield Finding(
                    "empty_loop", f"{task.pointer}/for/in", "there is nothing to go through", "give it items"
                )


def _call(task: Task) -> Iterator[Finding]:
    arguments, place = mapping(task.value, "with"), f"{task.pointer}/with"
    if task.protocol == "http":
        yield from _http(arguments, place)
    elif task.protocol in ("openapi", "asyncapi"):
        yield from _endpoint(
            mapping(arguments, "document").get("endpoint"),
            f"{place}/document/endpoint",
            schemes=("http", "https", "file"),
        )
    elif task.protocol == "grpc":
        yield from _endpoint(
            mapping(arguments, "proto").get("endpoint"),
            f"{place}/proto/endpoint",
            schemes=("http", "https", "file"),
        )
    elif task.protocol == "mcp":
        transport = mapping(arguments, "transport")
        yield from _endpoint(mapping(transport, "http").get("endpoint"), f"{place}/transport/http/endpoint")
    elif task.protocol == "a2a":
        if "agentCard" not in arguments and "server" not in arguments:
            yield Finding(
                "no_agent", place, "it names no agent", "say where it is with `agentCard` or `server`"
            )
        card = mapping(arguments, "agentCard")
        yield from _endpoint(card.get("endpoint"), f"{place}/agentCard/endpoint")
        yield from _endpoint(arguments.get("server"), f"{place}/server")
    if task.protocol is None and isinstance(task.value["call"], str) and is_url(task.value["call"]):
        yield from _endpoint(task.value["call"], f"{task.pointer}/call", schemes=("http", "https", "file"))


def _http(arguments: dict[str, Any], place: str) -> Iterator[Finding]:
    method = arguments.get("method")
    if isinstance(method, str) and wrapped(method) is None:
        if method.upper() not in METHODS:
            yield Finding(
                "unknown_method",
                f"{place}/method",
                f"HTTP has no method {quoted(method)}",
                meant(method, METHODS, f"it has {', '.join(METHODS)}"),
            )
        elif method.upper() in ("GET", "HEAD") and arguments.get("body") is not None:
            yield Finding(
                "body_ignored",
                f"{place}/body",
                f"servers ignore the body of a {method.upper()}",
                "use `query`, or POST",
                key=True,
            )
    yield from _endpoint(arguments.get("endpoint"), f"{place}/endpoint")
    names = [name.lower() for name in mapping(arguments, "headers")]
    for index, name in enumerate(mapping(arguments, "headers")):
        if name.lower() in names[:index]:
            yield Finding(
                "duplicate_header",
                child(place, "headers", name),
                f"the header {quoted(name)} is there twice",
                "headers do not differ by upper and lower case: keep one",
                key=True,
            )


def _endpoint(
    endpoint: Any, place: str, *, schemes: tuple[str, ...] = ("http", "https")
) -> Iterator[Finding]:
    if isinstance(endpoint, dict):
        endpoint, place = endpoint.get("uri"), f"{place}/uri"
    if not isinstance(endpoint, str) or wrapped(endpoint) is not None:
        return
    names = uri_names(endpoint)
    if names is None or "" in names:
        yield Finding(
            "uri_template",
            place,
            "its braces do not match, or name nothing",
            "write {name}, and %7B for a brace",
        )
        return
    scheme = _SCHEME.match(endpoint)
    if scheme is not None and "{" not in scheme[1] and scheme[1].lower() not in schemes:
        yield Finding(
            "unknown_scheme",
            place,
            f"nothing is called by {quoted(scheme[1])} here",
            f"use {' or '.join(schemes)}",
        )


def _strategy(strategy: dict[str, Any], place: str, *, inner: bool = False) -> Iterator[Finding]:
    if items(strategy, "all") == [] and "all" in strategy:
        yield Finding(
            "no_events",
            f"{place}/all",
            "it waits for no event",
            "name events, or use `any: []` for every event",
            key=True,
        )
    filters = [
        (one, child(place, kind, index))
        for kind in ("all", "any")
        for index, one in enumerate(items(strategy, kind))
    ]
    filters.append((strategy.get("one"), f"{place}/one"))
    for one, where in filters:
        yield from _event(mapping(one, "with"), f"{where}/with", emitted=False)
        if isinstance(one, dict) and one.get("correlate") == {}:
            yield Finding(
                "no_correlation",
                f"{where}/correlate",
                "it correlates nothing",
                "name a key, or leave it out",
                key=True,
            )
    until = strategy.get("until")
    if "until" in strategy and inner:
        yield Finding(
            "nested_until",
            f"{place}/until",
            "what ends a subscription has no end of its own",
            "leave it out",
            key=True,
        )
    if isinstance(until, dict):
        yield from _strategy(until, f"{place}/until", inner=True)


def _event(event: dict[str, Any], place: str, *, emitted: bool) -> Iterator[Finding]:
    for name in event:
        if _ATTRIBUTE.fullmatch(name) is None:
            yield Finding(
                "event_attribute",
                child(place, name),
                f"{quoted(name)} is no attribute of a CloudEvent",
                "use lower-case letters and digits; put other values into `data`",
                key=True,
            )
    if event.get("specversion", "1.0") != "1.0":
        yield Finding("event_version", f"{place}/specversion", "events are CloudEvents 1.0", "leave it out")
    time = event.get("time")
    if emitted and isinstance(time, str) and wrapped(time) is None and not _is_instant(time):
        yield Finding("event_time", f"{place}/time", "it is no instant", "write it as 2026-01-31T12:00:00Z")


def _is_instant(text: str) -> bool:
    try:
        return len(text) < 60 and datetime.fromisoformat(text).tzinfo is not None and "T" in text.upper()
    except ValueError:
        return False


def _run(task: Task, subject: Subject) -> Iterator[Finding]:
    run, place = mapping(task.value, "run"), f"{task.pointer}/run"
    if run.get("await") is False and "return" in run:
        yield Finding(
            "return_without_await",
            f"{place}/return",
            "nothing is returned by what is not awaited",
            "leave one of them out",
            key=True,
        )
    script = mapping(run, "script")
    language = script.get("language")
    if isinstance(language, str) and language.lower() not in LANGUAGES:
        yield Finding(
            "unknown_script_language",
            f"{place}/script/language",
            f"the standard knows no scripts in {quoted(language)}",
            "it runs where a worker names a program for it",
        )
    source = mapping(script, "source")
    yield from _endpoint(
        source.get("endpoint"), f"{place}/script/source/endpoint", schemes=("http", "https", "file")
    )
    subflow = mapping(run, "workflow")
    version = subflow.get("version", "latest")
    fixed = isinstance(version, str) and version != "latest" and wrapped(version) is None
    if fixed and (len(version) > 200 or not Version.is_valid(version)):
        yield Finding(
            "subflow_version",
            f"{place}/workflow/version",
            "it is no semantic version",
            "write it as '1.0.0', or latest",
        )
    if "workflow" in run and "return" in run:
        yield Finding(
            "return_of_workflow",
            f"{place}/return",
            "a workflow returns its output, and nothing else",
            "leave it out",
            key=True,
        )
    itself = mapping(subject.definition, "document")
    if subflow and all(subflow.get(name) == itself.get(name) for name in ("namespace", "name")):
        outer = task.scope
        while outer.outer is not None:
            outer = outer.outer
        if "if" not in task.value:
            yield Finding(
                "recursive_workflow",
                f"{place}/workflow",
                "the workflow starts itself",
                "give the task an `if` that ends it, or use `then` to go back",
                key=True,
            )
