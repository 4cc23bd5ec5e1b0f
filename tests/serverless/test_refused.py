"""What is wrong with a document is told at its exact place: all of it, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.serverless.cases import HEAD, Case, cases, whole

from outlast_serverless import Document, InvalidDocumentError
from outlast_serverless.documents.builder import MOST_BYTES, MOST_DEPTH, MOST_NODES, MOST_PROBLEMS
from outlast_serverless.rules.catalogue import RULES
from outlast_workflow.errors.options import DocumentProblem

CASES = cases()
PAGE = Path(__file__).parents[2] / "docs" / "serverless" / "rules.md"


def told(
    text: str | bytes, *, lenient: bool = False
) -> tuple[tuple[DocumentProblem, ...], tuple[DocumentProblem, ...]]:
    """The problems and the warnings of a text."""
    try:
        document = Document.parse(text, lenient=lenient)
    except InvalidDocumentError as error:
        return error.problems, error.warnings
    assert document.plan.size
    return (), document.warnings


def codes(text: str | bytes) -> list[str]:
    problems, warnings = told(text)
    return [one.code for one in (*problems, *warnings)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_each_mistake_is_told_at_its_place(case: Case) -> None:
    problems, warnings = told(case.text)
    assert {(one.code, one.pointer, one.line) for one in (*problems, *warnings)} == case.told
    assert len(problems) + len(warnings) == len(case.told)
    for one in problems:
        assert not RULES[one.code].warning
    for one in warnings:
        assert RULES[one.code].warning


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 120


LARGE: dict[str, str | bytes] = {
    "too_large": HEAD + "# " + "x" * MOST_BYTES,
    "not_utf8": b"document: \xff",
    "empty": "# nothing\n",
    "too_deep": "a: " + "[" * (MOST_DEPTH + 1) + "]" * (MOST_DEPTH + 1),
    "too_many_nodes": "[" + "1," * MOST_NODES + "1]",
    "too_many_tasks": HEAD + "do:\n" + "".join(f"- t{index}: {{wait: PT1S}}\n" for index in range(5_001)),
    "long_expression": HEAD + "do:\n- a: {if: '." + "a" * 16_384 + "', set: {x: 1}}\n",
}


@pytest.mark.parametrize("code", LARGE)
def test_limits_are_told(code: str) -> None:
    problems, _ = told(LARGE[code])
    assert [one.code for one in problems] == [code]
    assert problems[0].line >= 1
    assert len(str(problems[0])) < 2_000


def test_each_code_is_met_by_a_case_and_is_on_the_page() -> None:
    met = {code for case in CASES for code, _, _ in case.told} | set(LARGE)
    # What the schema refuses for no reason that is found; the oracle of diagnoses has found none.
    assert set(RULES) - met == {"not_valid"}
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", PAGE.read_text(), re.M))
    assert set(rows) == set(RULES)
    for code, row in rows.items():
        assert row == RULES[code].says, code


def test_there_are_enough_rules() -> None:
    assert len(RULES) >= 80


def test_the_page_says_which_are_warnings() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| .+? \| (\w*) ?\|$", PAGE.read_text(), re.M))
    for code, rule in RULES.items():
        assert rows[code] == ("warning" if rule.warning else "lenient" if rule.lenient else ""), code


def test_the_published_page_gets_one_diagnosis_that_names_the_endpoint() -> None:
    text = """\
document:
  dsl: '1.0.0'
  namespace: examples
  name: workflow-with-timeout
  version: '1.0.0'
timeout: # Applies to the entire workflow execution
  after:
    minutes: 30 # Workflow will fault if it runs longer than 30 minutes
do:
  - callExternalService:
      call: http
      with:
        uri: https://api.externalservice.com/data
        method: get
      timeout: # Applies only to the callExternalService task
        after:
          seconds: 15 # Task will fault if it takes longer than 15 seconds
      then: processResult
  - processResult:
      set: {done: true}
"""
    problems, warnings = told(text)
    assert not warnings
    (problem,) = problems
    assert (problem.code, problem.pointer) == ("unknown_property", "/do/0/callExternalService/with/uri")
    assert (problem.line, problem.column) == (13, 9)
    assert "`endpoint`" in problem.message
    assert problem.hint == "did you mean `endpoint`?"
    mended = Document.parse(text.replace("uri:", "endpoint:"))
    assert not mended.warnings
    timeout = mended.plan.timeout
    assert timeout is not None


def test_everything_is_told_at_once() -> None:
    text = whole("- a: {wait: PT0S, then: nowhere}\n- a: {set: {x: '${ $y }'}, timeout: PT5S}\n")
    assert codes(text) == [
        "duration_not_positive", "unknown_target", "duplicate_task", "unknown_variable", "unknown_timeout",
        "unreachable_task",
    ]  # fmt: skip


def test_no_more_is_told_than_anybody_reads() -> None:
    assert (
        len(codes(whole("".join(f"- t{index}: {{wait: PT0S}}\n" for index in range(500))))) == MOST_PROBLEMS
    )
    assert len(codes("a: 1\n" * 1_000)) == MOST_PROBLEMS


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("- a: {wait: PT5S, then: proces}\n- process: {set: {x: 1}, then: a}", "process"),
        ("- a: {wait: PT5S, then: contineu}", "continue"),
        ("- a: {set: {x: '${ $contxt }'}}", "context"),
        ("- a: {wait: PT5S, timeout: PT5S}", "timeout: {after: PT5S}"),
        ("- a: {call: htttp}", "http"),
        ("- a: {wiat: PT5S}", "wait"),
        ("- a: {wait: PT5S, metdata: {}}", "metadata"),
        ("- a: {listen: {to: {any: []}, read: envelop}}", "envelope"),
    ],
)
def test_what_was_meant_is_proposed(text: str, meant: str) -> None:
    problems, _ = told(whole(text))
    assert any(one.hint == f"did you mean `{meant}`?" for one in problems)


def test_leniency_warns_of_what_does_no_harm() -> None:
    text = HEAD + "do:\n- a: {set: {x: 1}}\nx-owner: me\n"
    assert [one.code for one in told(text)[0]] == ["unknown_root_key"]
    problems, warnings = told(text, lenient=True)
    assert not problems
    assert [one.code for one in warnings] == ["unknown_root_key"]


@pytest.mark.parametrize(
    "expression",
    [
        ".env",
        ". as $x | $x + 1",
        ". as [$a, {b: $c}] | $a + $c",
        "{env: .x, input: 1}",
        "{env, halt}",
        "reduce .[] as $x (0; . + $x)",
        "def f($a; g): $a | g; f(1; 2)",
        '"a \\(.b | map("c \\($input.d)")) ) }"',
        "label $out | foreach .[] as $i (0; . + $i; if . > 3 then ., break $out else . end)",
        ". as [$a] ?// $a | $a",
        '@base64 "x\\(.y)"',
        ".a # a comment with ) and $nothing\n| .b",
        "$__loc__ | .file",
        '.["a)"] | ."b]"',
        "$input | .input | .halt?",
    ],
)
def test_jq_that_is_in_order_is_left_alone(expression: str) -> None:
    assert codes(whole("- a:\n    if: " + _quoted(expression) + "\n    wait: PT1S")) in (
        [],
        ["variable_not_available"],
    )
    assert codes(whole("- a:\n    set:\n      x: " + _quoted("${ " + expression + " }"))) == []


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''").replace("\n", "\n\n          ") + "'"


def test_a_checker_is_asked_about_each_expression_that_looks_right() -> None:
    asked: list[tuple[str, bool]] = []

    class Refusing:
        def problem(self, expression: str, variables: frozenset[str]) -> str | None:
            asked.append((expression, "context" in variables))
            return "function foo/0 is not defined" if "foo" in expression else None

    with pytest.raises(InvalidDocumentError) as caught:
        Document.parse(
            whole("- a: {if: foo, set: {x: '${ .a }', y: plain, z: '${ ) }'}}"), checker=Refusing()
        )
    assert [one.pointer for one in caught.value.problems] == ["/do/0/a/if", "/do/0/a/set/z"]
    assert sorted(asked) == [(".a", True), ("foo", True)]


def test_a_message_holds_no_value_of_the_document() -> None:
    text = whole("- a: {set: {password: 0x1, x: 99999999999999999999999}, wait: hunter2}\n")
    for one in told(text)[0]:
        assert "hunter2" not in str(one)
        assert "99999" not in str(one)


def test_shell_and_script_texts_may_hold_dollars_and_braces() -> None:
    assert codes(whole("- a: {run: {shell: {command: 'echo ${HOME} x'}}}")) == []
    assert codes(whole("- a: {run: {script: {language: js, code: 'console.log(`${x} y`)'}}}")) == []


def test_secrets_may_stand_where_nothing_is_recorded() -> None:
    text = """\
use: {secrets: [token]}
do:
  - a:
      input: {from: '${ $secrets.token }'}
      call: http
      with:
        method: post
        endpoint: {uri: 'https://example.com', authentication: {bearer: {token: '${ $secrets.token }'}}}
        body: {x: '${ $secrets["token"] }'}
  - b: {run: {shell: {command: x, environment: {TOKEN: '${ $secrets.token }'}}}}
  - c: {call: http, with: {method: get, endpoint: 'https://example.com', headers: {x: '${ $authorization.parameter }'}}}
"""
    assert codes(whole(text)) == []
