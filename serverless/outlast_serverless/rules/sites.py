"""Where expressions stand in a definition, and what each can see.

An expression-typed property holds one bare or in ``${ … }``. Anywhere else a text is one if it is wholly ``${ … }``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from outlast_serverless.plan.pointers import child
from outlast_serverless.plan.templates import bare, texts, wrapped
from outlast_serverless.rules.subject import Subject, Task, entries, items, mapping, named

ALWAYS: Final = frozenset({"secrets", "workflow", "runtime"})
BEFORE: Final = ALWAYS | {"context", "task"}
DURING: Final = BEFORE | {"input", "authorization"}
AFTER: Final = DURING | {"output"}
ARGUMENTS: Final = AFTER
"""All that a runtime gives to expressions."""


@dataclass(frozen=True, slots=True)
class Site:
    """A text that is an expression, or may be one.

    Attributes:
        pointer: Its place.
        text: The text as it is written.
        expression: The expression in it; ``None`` if it is a plain text.
        visible: The variables it can see.
        recorded: Whether what it gives is kept in history, so that no secret may be in it.
        shell: Whether ``${`` means something else in it, as in a script.
    """

    pointer: str
    text: str
    expression: str | None
    visible: frozenset[str]
    recorded: bool = True
    shell: bool = False


def sites(subject: Subject) -> Iterator[Site]:
    """Yield all texts that may be expressions."""
    definition = subject.definition
    yield from _expression(mapping(definition, "input").get("from"), "/input/from", ALWAYS)
    yield from _expression(mapping(definition, "output").get("as"), "/output/as", ALWAYS | {"context"})
    yield from _resources(definition, "")
    yield from _template(mapping(definition, "timeout").get("after"), "/timeout/after", ALWAYS | {"input"})
    every = DURING.union(*(task.variables for task in subject.tasks), _set_variables(subject))
    for kind in ("timeouts", "errors"):
        for name, inner in subject.component(kind).items():
            yield from _template(inner, child("/use", kind, name), every)
    for name, policy in subject.component("retries").items():
        yield from _retry(policy, child("/use/retries", name), every)
    for name, policy in subject.component("authentications").items():
        yield from _template(policy, child("/use/authentications", name), every, recorded=False)
    for name, catalog in subject.component("catalogs").items():
        yield from _template(catalog, child("/use/catalogs", name), ALWAYS, recorded=False)
    for index, name, extension in entries(subject.use.get("extensions")):
        yield from _expression(extension.get("when"), child("/use/extensions", index, name, "when"), DURING)
    for task in subject.tasks:
        yield from _task(task)


def _set_variables(subject: Subject) -> frozenset[str]:
    return frozenset(
        name
        for task in subject.tasks
        if task.kind == "try"
        for name in named(mapping(task.value, "catch"), **{"as": "error"})
    )


def _expression(
    value: Any, pointer: str, visible: frozenset[str], *, recorded: bool = True
) -> Iterator[Site]:
    """Yield an expression-typed property; where it is an object, the texts in it."""
    if isinstance(value, str):
        yield Site(pointer, value, bare(value), visible, recorded)
    else:
        yield from _template(value, pointer, visible, recorded=recorded)


def _template(
    value: Any, pointer: str, visible: frozenset[str], *, recorded: bool = True, shell: bool = False
) -> Iterator[Site]:
    for place, text in texts(value, pointer):
        yield Site(place, text, wrapped(text), visible, recorded, shell)


def _task(task: Task) -> Iterator[Site]:
    value, place = task.value, task.pointer
    before, during, after = (names | task.variables for names in (BEFORE, DURING, AFTER))
    deferred = task.protocol is not None
    yield from _expression(value.get("if"), f"{place}/if", before)
    yield from _expression(
        mapping(value, "input").get("from"), f"{place}/input/from", before, recorded=not deferred
    )
    yield from _expression(mapping(value, "output").get("as"), f"{place}/output/as", during)
    yield from _expression(mapping(value, "export").get("as"), f"{place}/export/as", after)
    yield from _template(mapping(value, "timeout").get("after"), f"{place}/timeout/after", during)
    yield from _resources(value, place)
    yield from _BODIES[task.kind](task, during)


def _call(task: Task, during: frozenset[str]) -> Iterator[Site]:
    arguments, place = mapping(task.value, "with"), f"{task.pointer}/with"
    yield from _template(task.value["call"], f"{task.pointer}/call", during)
    for name, value in arguments.items():
        if task.protocol == "asyncapi" and name == "subscription" and isinstance(value, dict):
            yield from _subscription(value, f"{place}/subscription", during)
        else:
            yield from _template(value, child(place, name), during, recorded=task.protocol is None)


def _subscription(value: dict[str, Any], place: str, during: frozenset[str]) -> Iterator[Site]:
    yield from _expression(value.get("filter"), f"{place}/filter", during, recorded=False)
    consume = mapping(value, "consume")
    for name in ("while", "until"):
        yield from _expression(consume.get(name), f"{place}/consume/{name}", during)
    yield from _template(consume.get("for"), f"{place}/consume/for", during)
    yield from _iterator(mapping(value, "foreach"), f"{place}/foreach", during)


def _resources(value: dict[str, Any], place: str) -> Iterator[Site]:
    """Yield what stands in the resources of schemas, which are fetched once for the whole run."""
    for key in ("input", "output", "export"):
        schema, where = mapping(mapping(value, key), "schema"), f"{place}/{key}/schema/resource"
        yield from _template(schema.get("resource"), where, ALWAYS, recorded=False)


def _iterator(value: dict[str, Any], place: str, during: frozenset[str]) -> Iterator[Site]:
    inside = during | named(value, item="item", at="index")
    yield from _resources(value, place)
    yield from _expression(mapping(value, "output").get("as"), f"{place}/output/as", inside)
    yield from _expression(mapping(value, "export").get("as"), f"{place}/export/as", inside | {"output"})


def _for(task: Task, during: frozenset[str]) -> Iterator[Site]:
    loop = mapping(task.value, "for")
    yield from _expression(loop.get("in"), f"{task.pointer}/for/in", during)
    yield from _expression(
        task.value.get("while"), f"{task.pointer}/while", during | named(loop, each="item", at="index")
    )


def _listen(task: Task, during: frozenset[str]) -> Iterator[Site]:
    yield from strategy(mapping(mapping(task.value, "listen"), "to"), f"{task.pointer}/listen/to", during)
    yield from _iterator(mapping(task.value, "foreach"), f"{task.pointer}/foreach", during)


def strategy(value: dict[str, Any], place: str, during: frozenset[str]) -> Iterator[Site]:
    """Yield the texts of a strategy that consumes events.

    Args:
        value: The strategy.
        place: Its pointer.
        during: The variables that it can see.
    """
    filters = [
        (one, child(place, kind, index))
        for kind in ("all", "any")
        for index, one in enumerate(items(value, kind))
    ]
    filters.append((value.get("one"), f"{place}/one"))
    for one, where in filters:
        yield from _template(mapping(one, "with"), f"{where}/with", during)
        for key, correlation in mapping(one, "correlate").items():
            spot = child(where, "correlate", key)
            if isinstance(correlation, dict):
                yield from _expression(correlation.get("from"), f"{spot}/from", during)
                yield from _template(correlation.get("expect"), f"{spot}/expect", during)
    until = value.get("until")
    if isinstance(until, dict):
        yield from strategy(until, f"{place}/until", during)
    else:
        yield from _expression(until, f"{place}/until", during)


def _run(task: Task, during: frozenset[str]) -> Iterator[Site]:
    for name, process in mapping(task.value, "run").items():
        place = child(f"{task.pointer}/run", name)
        if not isinstance(process, dict):
            continue
        for key, value in process.items():
            yield from _template(
                value,
                child(place, key),
                during,
                recorded=name == "workflow",
                shell=key in ("command", "code"),
            )


def _switch(task: Task, during: frozenset[str]) -> Iterator[Site]:
    for index, name, case in entries(task.value["switch"]):
        yield from _expression(case.get("when"), child(f"{task.pointer}/switch", index, name, "when"), during)


def _try(task: Task, during: frozenset[str]) -> Iterator[Site]:
    caught, place = mapping(task.value, "catch"), f"{task.pointer}/catch"
    inside = during | named(caught, **{"as": "error"})
    yield from _template(mapping(caught, "errors").get("with"), f"{place}/errors/with", inside)
    for name in ("when", "exceptWhen"):
        yield from _expression(caught.get(name), f"{place}/{name}", inside)
    yield from _retry(caught.get("retry"), f"{place}/retry", inside)


def _retry(policy: Any, place: str, visible: frozenset[str]) -> Iterator[Site]:
    if isinstance(policy, dict):
        for name, value in policy.items():
            if name in ("when", "exceptWhen"):
                yield from _expression(value, f"{place}/{name}", visible)
            else:
                yield from _template(value, child(place, name), visible)


def _body(key: str) -> Any:
    def of(task: Task, during: frozenset[str]) -> Iterator[Site]:
        yield from _template(task.value[key], f"{task.pointer}/{key}", during)

    return of


def _nothing(task: Task, during: frozenset[str]) -> Iterator[Site]:
    return iter(())


_BODIES: Final[dict[str, Any]] = {
    "call": _call,
    "do": _nothing,
    "emit": _body("emit"),
    "for": _for,
    "fork": _nothing,
    "listen": _listen,
    "raise": _body("raise"),
    "run": _run,
    "set": _body("set"),
    "switch": _switch,
    "try": _try,
    "wait": _body("wait"),
}
