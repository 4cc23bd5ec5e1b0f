"""The steps of the kit, in the vocabulary of the specification's own and with some of ours, and its stages."""

from __future__ import annotations

import asyncio
import base64
import itertools
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from pytest_bdd import given, parsers, then, when
from ruamel.yaml import YAML
from tests.conftest import SHARED_MEMORY, TEMPLATE
from tests.serverless.conformance.loop import KitLoop
from tests.serverless.conformance.modes import Modes
from tests.serverless.conformance.story import Act, Outcome
from tests.serverless.conformance.stub import serving
from tests.serverless.conformance.telling import Told

from outlast.testing.postgres import TemporaryPostgres
from outlast_serverless import Document
from outlast_serverless.interpreter.faults import BASE, same_type
from outlast_serverless.plan.durations import microseconds

BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]
SECRETS = (b"t0ken", base64.b64encode(b"ada:pw"))
"""The secrets of the kit, as they are sent."""
_US = 1_000_000
_ON_TIME_S = 0.2
_HEAD = {"dsl": "1.0.3", "namespace": "kit", "name": "scenario", "version": "0.1.0"}


# --- stages -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def invariants() -> list[str]:
    """The stage lives longer than a test, and looks at its database by itself when it ends."""
    return []


@pytest.fixture(scope="session")
def kit_runner() -> Iterator[asyncio.Runner]:
    """One loop for the whole kit."""
    with asyncio.Runner(loop_factory=KitLoop) as runner:
        yield runner


@pytest.fixture(scope="session")
def kit_server(kit_runner: asyncio.Runner) -> Iterator[str]:
    """The server that plays all hosts."""
    loop = kit_runner.get_loop()
    assert isinstance(loop, KitLoop)
    with serving(loop.hang) as url:
        yield url


@pytest.fixture(scope="session")
def kit_sqlite() -> Iterator[Callable[[], str]]:
    """Makes SQLite files."""
    parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="outlast-", dir=parent) as folder:
        numbers = itertools.count(1)
        yield lambda: f"sqlite:///{Path(folder) / f'kit-{next(numbers)}.db'}"
        written = b"".join(file.read_bytes() for file in Path(folder).iterdir())
    assert not [secret for secret in SECRETS if secret in written], "a secret of the kit was written"


@pytest.fixture(scope="session")
def kit_postgresql(postgres_server: TemporaryPostgres) -> Callable[[], str]:
    """Makes PostgreSQL databases."""
    numbers = itertools.count(1)
    return lambda: postgres_server.create_database(f"kit_{next(numbers)}", template=TEMPLATE)


def modes_on(request: pytest.FixtureRequest, **more: Any) -> Iterator[Modes]:
    """Play on the database that a fixture's parameter names; at the end, look at what that leaves."""
    runner, server = request.getfixturevalue("kit_runner"), request.getfixturevalue("kit_server")
    modes = Modes(runner, request.getfixturevalue(f"kit_{request.param}"), server, **more)
    yield modes
    wrong = modes.close()
    assert not wrong, "\n".join(["the kit broke what must always hold:", *wrong])


@pytest.fixture(scope="session", params=BOTH)
def modes(request: pytest.FixtureRequest) -> Iterator[Modes]:
    """The modes in which stories are played, on each database."""
    yield from modes_on(request, most=request.param == "sqlite")


# --- given and when --------------------------------------------------------------------------------------------------


@pytest.fixture
def told(modes: Modes) -> Told:
    """The story of this scenario."""
    return Told(modes)


def value_of(text: str) -> Any:
    """Return what a text in YAML says."""
    return YAML(typ="safe", pure=True).load(text)


def document_of(text: str) -> Document:
    """Return a document; it may leave out its head."""
    found = value_of(text)
    if "document" in found:
        return Document.parse(text)
    return Document.parse(orjson.dumps({"document": _HEAD, **found}))


@given("a workflow with definition:")
def _(told: Told, docstring: str) -> None:
    told.story.document = document_of(docstring)


@given("given the workflow input is:")
@given("the workflow input is:")
def _(told: Told, docstring: str) -> None:
    told.story.input = value_of(docstring)


@given("a registered workflow with definition:")
def _(told: Told, docstring: str) -> None:
    told.story.registered.append(document_of(docstring))


@given("a workflow that is too long to continue as new after each task")
def _(told: Told) -> None:
    told.story.continues = False


@given("no worker is alive")
def _(told: Told) -> None:
    told.story.workers = False


@when("the workflow is executed")
def _(told: Told) -> None:
    told.story.acts.append(Act("execute"))


@when(parsers.parse("time advances by {duration}"))
@when(parsers.parse("advance time by {duration}"))
def _(told: Told, duration: str) -> None:
    length = microseconds(duration)
    assert length is not None
    told.story.acts.append(Act("advance", length / _US))


@when("the event is published:")
@when("event is published:")
def _(told: Told, docstring: str) -> None:
    told.story.acts.append(Act("publish", value_of(docstring)))


@when("the event is sent to the workflow:")
def _(told: Told, docstring: str) -> None:
    told.story.acts.append(Act("send", value_of(docstring)))


_ACTS = {
    "the worker is killed": "kill",
    "every worker is killed": "gone",
    "a watchdog is started": "watchdog",
    "a worker is started": "worker",
    "the workflow is suspended": "suspend",
    "the workflow is resumed": "resume",
    "the workflow is cancelled": "cancel",
}


@when(parsers.re("(?P<text>" + "|".join(_ACTS) + ")"))
def _(told: Told, text: str) -> None:
    told.story.acts.append(Act(_ACTS[text]))


@then(parsers.re("the workflow should be (?P<phase>pending|running|waiting|suspended)"))
def _(told: Told, phase: str) -> None:
    told.story.acts.append(Act("phase", phase))


@then(parsers.parse("'{pointer}' should be open as '{kind}'"))
def _(told: Told, pointer: str, kind: str) -> None:
    told.story.acts.append(Act("open", (pointer, kind)))


# --- then: the workflow -----------------------------------------------------------------------------------------------


def _ended(told: Told, ending: str) -> None:
    def check(outcome: Outcome) -> None:
        assert outcome.ending == ending

    told.each(check)


@then("the workflow should complete")
def _(told: Told) -> None:
    _ended(told, "completed")


@then("the workflow should complete with output:")
def _(told: Told, docstring: str) -> None:
    wanted = value_of(docstring)

    def check(outcome: Outcome) -> None:
        assert (outcome.ending, outcome.value) == ("completed", wanted)

    told.each(check)


@then("the workflow should fault")
def _(told: Told) -> None:
    _ended(told, "faulted")


@then("the workflow should fault with error:")
def _(told: Told, docstring: str) -> None:
    wanted = value_of(docstring)

    def check(outcome: Outcome) -> None:
        assert outcome.ending == "faulted"
        _check_error(outcome.value, wanted)

    told.each(check)


def _check_error(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """What is said of an error must be so; a standard type may be one word."""
    told = {name: found.get(name) for name in wanted}
    if "type" in wanted:
        kind = str(wanted["type"])
        kind = BASE + kind if re.fullmatch("[a-z]{2,}", kind) else kind
        assert same_type(str(found["type"]), kind), found
        told["type"] = wanted["type"]
    assert told == wanted, found


@then("the workflow should cancel")
def _(told: Told) -> None:
    _ended(told, "cancelled")


@then(parsers.re(r"it should take (?P<duration>no time|P\S+)"))
def _(told: Told, duration: str) -> None:
    wanted = 0 if duration == "no time" else microseconds(duration)
    assert wanted is not None

    def check(outcome: Outcome) -> None:
        assert outcome.took_s == pytest.approx(wanted / _US, abs=_ON_TIME_S)

    told.each(check)


@then(parsers.parse("it should take between {least} and {most}"))
def _(told: Told, least: str, most: str) -> None:
    shortest, longest = (microseconds(one) for one in (least, most))
    assert shortest is not None
    assert longest is not None

    def check(outcome: Outcome) -> None:
        assert shortest / _US - _ON_TIME_S <= outcome.took_s <= longest / _US + _ON_TIME_S

    told.each(check)


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        assert part in value, f"there is no {path!r} in {value}"
        value = value[part]
    return value


@then(parsers.re("the workflow output should have properties (?P<paths>'.*')"))
def _(told: Told, paths: str) -> None:
    def check(outcome: Outcome) -> None:
        assert outcome.ending == "completed"
        for path in re.findall("'([^']+)'", paths):
            _at(outcome.value, path)

    told.each(check)


@then(parsers.parse("the workflow output should have a '{path}' property with value:"))
def _(told: Told, path: str, docstring: str) -> None:
    wanted = value_of(docstring)

    def check(outcome: Outcome) -> None:
        assert _at(outcome.value, path) == wanted

    told.each(check)


@then(
    parsers.re(
        "the workflow output should have a '(?P<path>[^']+)' property containing (?P<count>[0-9]+) items?"
    )
)
def _(told: Told, path: str, count: str) -> None:
    def check(outcome: Outcome) -> None:
        assert len(_at(outcome.value, path)) == int(count)

    told.each(check)


# --- then: tasks ------------------------------------------------------------------------------------------------------


def _names(told: Told, outcome: Outcome) -> list[str]:
    return [step.name for step in told.trace(outcome) if step.ending != "skipped"]


@then(parsers.parse("{name} should run first"))
def _(told: Told, name: str) -> None:
    def check(outcome: Outcome) -> None:
        assert _names(told, outcome)[0] == name

    told.each(check)


@then(parsers.parse("{name} should run last"))
def _(told: Told, name: str) -> None:
    def check(outcome: Outcome) -> None:
        assert _names(told, outcome)[-1] == name

    told.each(check)


@then(parsers.re(r"(?P<one>\S+) should run (?P<order>before|after) (?P<other>\S+)"))
def _(told: Told, one: str, order: str, other: str) -> None:
    def check(outcome: Outcome) -> None:
        names = _names(told, outcome)
        early, late = (one, other) if order == "before" else (other, one)
        assert names.index(early) < names.index(late)

    told.each(check)


@then(parsers.re(r"(?P<name>(?!the |it )\S+) should (?P<ending>cancel|complete|fault)"))
def _(told: Told, name: str, ending: str) -> None:
    wanted = {"cancel": "cancelled", "complete": "completed", "fault": "faulted"}[ending]

    def check(outcome: Outcome) -> None:
        assert wanted in [step.ending for step in told.trace(outcome) if step.name == name]

    told.each(check)


@then(parsers.re(r"(?P<name>(?!the )\S+) should (?P<ending>complete with output|fault with error):"))
def _(told: Told, name: str, ending: str, docstring: str) -> None:
    wanted = value_of(docstring)

    def check(outcome: Outcome) -> None:
        [found] = [step for step in told.trace(outcome) if step.name == name]
        if ending == "fault with error":
            assert found.ending == "faulted"
            _check_error(found.value, wanted)
        else:
            assert (found.ending, found.value) == ("completed", wanted)

    told.each(check)
