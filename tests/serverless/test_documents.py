"""Documents that are in order: the standard's examples, their digests, plans and pictures, and the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Done
from tests.serverless.cases import HERE, whole

from outlast.cli.main import run
from outlast_serverless import Document, InvalidDocumentError, graph, latest
from outlast_serverless.documents.reading import read
from outlast_serverless.documents.schemas import schema
from outlast_serverless.plan import model
from outlast_serverless.plan.durations import CalendarUnitError, microseconds

EXAMPLES = sorted((HERE / "examples").glob("*.yaml"))
INVALID = sorted((HERE / "invalid").glob("*.yaml"))
NEWER = {"for-inline-array", "try-catch-then-directive"}


@pytest.fixture
def outlast(capsys: pytest.CaptureFixture[str]) -> Any:
    def command(*arguments: str) -> Done:
        code = run(["serverless", *arguments])
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return command


def test_all_examples_of_the_standard_are_here() -> None:
    assert (len(EXAMPLES), len(INVALID)) == (68, 3)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_in_order_and_is_compiled_and_drawn(path: Path) -> None:
    document = Document.load(path)
    definition = document.definition
    assert schema("main").validator.is_valid(definition)
    assert schema("1.0.3").validator.is_valid(definition) == (path.stem not in NEWER)
    assert [one.code for one in document.warnings] == (["newer_feature"] if path.stem in NEWER else [])
    assert document.plan.size >= len(document.plan.tasks.tasks) > 0
    assert graph(document.plan).startswith("flowchart TD\n")
    # The same as JSON: another text, the same definition.
    again = Document.parse(json.dumps(definition, indent=2))
    assert (again.definition, again.digest, again.plan) == (definition, document.digest, document.plan)


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_a_fixture_that_must_be_refused_is(path: Path) -> None:
    with pytest.raises(InvalidDocumentError):
        Document.load(path)


@pytest.mark.parametrize(("name", "file"), [("1.0.3", "workflow-1.0.3.yaml"), ("main", "workflow.yaml")])
def test_the_schemas_are_those_of_the_standard(name: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The schema is longer and deeper than a document may be in one respect or another.
    text = (HERE / "specification" / file).read_bytes()
    assert read(text).value == schema(name).document


def test_the_digest_is_of_the_definition_not_of_its_text() -> None:
    one = Document.parse(whole("- a: {set: {x: 1, y: 2}} # a comment"))
    other = Document.parse(whole("- a:\n    set:\n      y: 2\n      x: 1"))
    changed = Document.parse(whole("- a: {set: {x: 1, y: 3}}"))
    assert one.digest == other.digest != changed.digest
    assert len(one.digest) == 64


def test_the_latest_version_is_no_pre_release_while_there_is_another() -> None:
    assert latest([]) is None
    assert latest(["1.9.0", "1.10.0", "2.0.0-rc.1"]) == "1.10.0"
    assert latest(["2.0.0-rc.2", "2.0.0-rc.10"]) == "2.0.0-rc.10"
    assert latest(["1.0.0+b", "1.0.0+a"]) == latest(["1.0.0+a", "1.0.0+b"])


@pytest.mark.parametrize(
    ("duration", "us"),
    [
        ("PT5S", 5_000_000),
        ("PT0.25S", 250_000),
        ("P1DT2H3M4S", 93_784_000_000),
        ("P2W", 1_209_600_000_000),
        ({"minutes": 1, "seconds": 30, "milliseconds": 5}, 90_005_000),
        ({"days": 1, "hours": -1}, 82_800_000_000),
        ("P", None),
        ("PT", None),
        ("5s", None),
        ("PT٥S", None),
        ({}, None),
        ({"seconds": True}, None),
        (5, None),
    ],
)
def test_durations_have_a_length(duration: Any, us: int | None) -> None:
    assert microseconds(duration) == us


@pytest.mark.parametrize("duration", ["P1Y", "P1M", "P1Y2DT3S"])
def test_years_and_months_have_none(duration: str) -> None:
    with pytest.raises(CalendarUnitError):
        microseconds(duration)


PLANNED = """\
document: {dsl: '1.0.3', namespace: n, name: a, version: '0.1.0'}
use:
  timeouts: {short: {after: PT5S}}
  errors: {gone: {type: 'https://example.com', status: 410}}
  retries: {often: {delay: PT1S, backoff: {exponential: {}}, limit: {attempt: {count: 3}}}}
  extensions:
    - first: {extend: all, before: [{log: {set: {x: 1}}}]}
    - second: {extend: wait, when: .x, after: [{log: {set: {x: 1}}}]}
    - third: {extend: composite, after: [{log: {set: {x: 1}}}]}
do:
  - nap: {wait: PT1S, timeout: short}
  - a/b~c:
      try:
        - fail: {raise: {error: gone}}
      catch:
        retry: often
        do:
          - tell: {set: {who: '${ $error.title }', n: 1}}
"""


def test_a_plan_has_references_looked_up_and_extensions_woven_in() -> None:
    plan = Document.parse(PLANNED).plan
    nap, attempt = plan.tasks.tasks
    assert isinstance(nap, model.WaitTask)
    assert nap.duration == model.Duration(1_000_000, "PT1S")
    assert nap.timeout == model.Duration(5_000_000, "PT5S")
    assert [one.name for one in nap.extensions] == ["first", "second"]
    assert nap.extensions[1].when == model.Expression(".x", "/use/extensions/1/second/when")
    before = nap.extensions[0].before
    assert before is not None
    assert before.tasks[0].extensions == ()
    assert isinstance(attempt, model.TryTask)
    assert attempt.pointer == "/do/1/a~1b~0c"
    assert [one.name for one in attempt.extensions] == ["first", "third"]
    (failing,) = attempt.tasks.tasks
    assert isinstance(failing, model.RaiseTask)
    assert failing.error == model.Constant({"type": "https://example.com", "status": 410})
    retry = attempt.catch.retry
    assert retry is not None
    assert (retry.count, retry.backoff, retry.pointer) == (3, "exponential", "/use/retries/often")
    assert attempt.catch.tasks is not None
    (telling,) = attempt.catch.tasks.tasks
    assert isinstance(telling, model.SetTask)
    assert telling.value == model.Template(
        {"who": "${ $error.title }", "n": 1},
        (model.Expression("$error.title", "/do/1/a~1b~0c/catch/do/0/tell/set/who"),),
        "/do/1/a~1b~0c/catch/do/0/tell/set",
    )
    assert plan.size == 7


def test_a_text_that_is_wholly_an_expression_is_one_in_the_plan() -> None:
    plan = Document.parse(whole("- a: {set: '${ .x }'}\n- b: {set: {x: plain}}")).plan
    whole_text, constant = plan.tasks.tasks
    assert isinstance(whole_text, model.SetTask)
    assert whole_text.value == model.Expression(".x", "/do/0/a/set")
    assert isinstance(constant, model.SetTask)
    assert constant.value == model.Constant({"x": "plain"})


def test_a_plan_cannot_be_changed() -> None:
    plan: Any = Document.parse(PLANNED).plan
    with pytest.raises(AttributeError):
        plan.size = 1
    with pytest.raises(TypeError):
        plan.tasks.positions["x"] = 1


def test_all_kinds_of_tasks_are_met_in_the_examples() -> None:
    met: set[str] = set()

    def look(tasks: model.TaskList | None) -> None:
        for task in tasks.tasks if tasks is not None else ():
            met.add(type(task).__name__)
            for name in ("tasks", "branches"):
                look(getattr(task, name, None))

    for path in EXAMPLES:
        look(Document.load(path).plan.tasks)
    met.add("DoTask") if isinstance(
        Document.parse(whole("- a: {do: [{b: {wait: PT1S}}]}")).plan.tasks.tasks[0], model.DoTask
    ) else None
    assert met == {name for name in dir(model) if name.endswith("Task") and name != "Task"}


def test_a_drawing_shows_where_tasks_go_on() -> None:
    drawn = graph(
        Document.parse(
            whole(
                "- a: {switch: [{yes: {when: .x, then: c}}, {no: {then: end}}]}\n"
                "- c: {fork: {compete: true, branches: [{d: {wait: PT1S}}, {'e\"]': {wait: PT1S}}]}}\n"
            )
        ).plan
    )
    assert "t1 -->|yes| t2" in drawn
    assert "t1 -->|no| finish" in drawn
    assert 'subgraph t2["c<br/>fork"]' in drawn
    assert "the first to end wins" in drawn
    assert "e#34;#93;" in drawn


def test_a_document_is_validated_by_the_command(outlast: Any, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(whole("- a: {set: {x: 'hi ${ .y }'}}"))
    bad.write_text(whole("- a: {wait: PT0S}"))
    done = outlast("validate", str(good))
    assert done.code == 0
    assert f"{good}:3:" in done.out
    assert "warning: `${` inside of a text is text" in done.out
    assert "n/a:0.1.0" in done.out
    assert outlast("validate", "--strict", str(good)).code == 1
    done = outlast("validate", str(good), str(bad), "--json")
    assert done.code == 1
    first, second = done.lines
    assert (first["valid"], first["document"]["name"], first["problems"]) == (True, "a", [])
    assert (second["valid"], second["problems"][0]["code"]) == (False, "duration_not_positive")
    assert set(second["problems"][0]) == {"code", "pointer", "line", "column", "message", "hint"}


def test_what_cannot_be_read_or_drawn_is_told(outlast: Any, tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"
    done = outlast("validate", str(missing))
    assert (done.code, "cannot be read" in done.err) == (1, True)
    bad = tmp_path / "bad.yaml"
    bad.write_text("x")
    done = outlast("graph", str(bad))
    assert (done.code, "outlast serverless validate" in done.err) == (1, True)
    done = outlast("validate", "--strict", "--lenient", str(bad))
    assert done.code == 2


def test_a_document_is_drawn_by_the_command(outlast: Any) -> None:
    path = str(HERE / "examples" / "fork.yaml")
    assert outlast("graph", path).out == graph(Document.load(path).plan)
    (line,) = outlast("graph", path, "--json").lines
    assert line["mermaid"] == graph(Document.load(path).plan)


def test_leniency_is_an_option(outlast: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(whole("do:\n- a: {set: {x: 1}}\nx-owner: me\n"))
    assert outlast("validate", str(path)).code == 1
    assert outlast("validate", "--lenient", str(path)).code == 0


def test_nothing_of_it_is_loaded_unless_it_is_used() -> None:
    script = """
import sys, outlast, outlast.cli.main
outlast.cli.main.run(["--help"])
loaded = {name.partition(".")[0] for name in sys.modules} & {"ruamel", "jsonschema_rs", "semver", "outlast_serverless"}
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_problem_travels_with_its_error() -> None:
    with pytest.raises(InvalidDocumentError) as caught:
        Document.parse("a: 1", name="order.yaml")
    assert str(caught.value).startswith("order.yaml has ")
    facts = json.loads(json.dumps({name: getattr(caught.value, name) for name in InvalidDocumentError.facts}))
    assert InvalidDocumentError.restore(str(caught.value), facts).problems == caught.value.problems
