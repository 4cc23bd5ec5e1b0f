"""Expressions: what they give, how they fail, and that none of them hangs or harms the process that asks."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import ExpressionBudgetError
from outlast_serverless.interpreter.tasks import filters
from outlast_serverless.jq import Evaluator, ExpressionFailed, JqChecker
from outlast_serverless.jq.paths import Path, path
from outlast_serverless.plan.data import expression, template
from outlast_serverless.plan.model import Constant

JQ: Any = importlib.import_module("jq")
NOW = 1_700_000_000.25


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    with Evaluator() as made:
        yield made


def evaluated(evaluator: Evaluator, text: str, data: Any = None, **variables: Any) -> Any:
    return evaluator.evaluate(expression(text, "/x"), data, variables, NOW)


@pytest.mark.parametrize(
    ("text", "data", "expected"),
    [
        (".", {"a": 1}, {"a": 1}),
        (".a.b[0]", {"a": {"b": [5]}}, 5),
        (".a.b", None, None),
        ('.["a b"]', {"a b": 2}, 2),
        (".[-1]", [1, 2, 3], 3),
        (".a + 1", {"a": 1}, 2),
        ("1, 2", None, [1, 2]),
        ("empty", None, None),
        ("[.[] | select(. > 1)]", [1, 2, 3], [2, 3]),
        (". # a comment", 3, 3),
        ("now", None, NOW),
        ("env", None, {}),
        ("$ENV", None, {}),
        ('0 | strflocaltime("%H:%M")', None, "00:00"),
        ("debug | stderr", 4, 4),
    ],
)
def test_it_gives_what_jq_gives(evaluator: Evaluator, text: str, data: Any, expected: Any) -> None:
    assert evaluated(evaluator, text, data) == expected


def test_only_variables_are_seen(evaluator: Evaluator) -> None:
    assert evaluated(evaluator, "$input.a + $item", None, input={"a": 1}, item=2) == 3
    with pytest.raises(ExpressionFailed, match=r"\$other is not defined"):
        evaluated(evaluator, "$other", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".a.b", 'Cannot index number with string ("b")'),
        (".a[0]", "Cannot index number with number (0)"),
        ("{", "syntax error"),
        ('error("no")', "no"),
        ("input", "input is not available here"),
        ("halt", "halt is not available here"),
        ("nothing", "nothing/0 is not defined"),
    ],
)
def test_it_fails_with_the_place_and_the_cause(evaluator: Evaluator, text: str, message: str) -> None:
    with pytest.raises(ExpressionFailed) as caught:
        evaluated(evaluator, text, {"a": 1})
    assert caught.value.pointer == "/x"
    assert message in caught.value.message
    assert "$__e" not in caught.value.message


@pytest.mark.parametrize("levels", [201, 300, 2_000, 9_000])
def test_what_is_nested_too_deeply_to_be_kept_is_an_error(evaluator: Evaluator, levels: int) -> None:
    nested = f"reduce range({levels}) as $i (0; [.])"
    with pytest.raises(ExpressionFailed, match="nested more than 200 levels deep"):
        evaluated(evaluator, nested)
    helper = evaluator.helper.pid
    assert evaluated(evaluator, f"{nested} | flatten | length") == 1
    assert evaluated(evaluator, "reduce range(200) as $i (0; [.]) | [.[0]] == .") is True
    assert evaluator.helper.pid == helper


def test_a_template_is_filled_in_one_round_trip(evaluator: Evaluator) -> None:
    value = {"a": "${ .x + 1 }", "b": ["${ $input }", "plain ${ .x }", {"c/d": "${ .x * 2 }"}], "e": 3}
    given_value = template(value, "/do/0/t/set")
    filled = evaluator.evaluate(given_value, {"x": 1}, {"input": [7]}, NOW)
    assert filled == {"a": 2, "b": [[7], "plain ${ .x }", {"c/d": 2}], "e": 3}
    assert value["a"] == "${ .x + 1 }"
    assert evaluator.evaluate(Constant({"k": "${"}), None, {}, NOW) == {"k": "${"}
    broken = template({"a": "${ .x }", "b": ["${ .x | error }"]}, "/do/0/t/set")
    with pytest.raises(ExpressionFailed) as caught:
        evaluator.evaluate(broken, {"x": "no"}, {}, NOW)
    assert caught.value.pointer == "/do/0/t/set/b/0"


def test_what_comes_from_data_is_no_expression(evaluator: Evaluator) -> None:
    data = {"x": "${ 1 + 1 }"}
    assert evaluated(evaluator, ".x", data) == "${ 1 + 1 }"
    assert evaluated(evaluator, "{y: .x}", data) == {"y": "${ 1 + 1 }"}


def test_the_loose_mode_keeps_what_does_not_work(evaluator: Evaluator) -> None:
    value = template({"a": "Hello there", "b": ".x", "c": "${ .x }"}, "/set", loose=True)
    assert evaluator.evaluate(value, {"x": 5}, {}, NOW) == {"a": "Hello there", "b": 5, "c": 5}


def test_an_integer_that_jq_would_change_is_refused(evaluator: Evaluator) -> None:
    data = {"id": 2**53 + 1, "n": 1}
    assert evaluated(evaluator, ".id", data) == 2**53 + 1
    with pytest.raises(ExpressionFailed, match=r"jq would change the integer 9007199254740993"):
        evaluated(evaluator, ".id + 1", data)
    assert evaluated(evaluator, ".n + 1", {**data, "id": 2**53}) == 2


def test_an_integer_that_jq_can_no_longer_count_exactly_is_refused(evaluator: Evaluator) -> None:
    assert evaluated(evaluator, "[.n - 1, {a: .n}]", {"n": 2**53}) == [2**53 - 1, {"a": 2**53}]
    with pytest.raises(ExpressionFailed, match=r"jq computed 9007199254740994, which is beyond 2\^53"):
        evaluated(evaluator, "[{a: (.n + 2)}]", {"n": 2**53})
    with pytest.raises(ExpressionFailed, match=r"beyond 2\^53"):
        evaluated(evaluator, "-(.n * 4)", {"n": 2**53})
    assert evaluated(evaluator, ".n * 1.5e-3", {"n": 2**53}) == 2**53 * 1.5e-3


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("def f: f; f", None),
        ("[limit(1000000000; repeat(1))] | length", None),
        ('test("(a*)*b")', "a" * 5_000),
    ],
)
def test_an_endless_expression_costs_its_helper(text: str, data: Any) -> None:
    with Evaluator(budget=0.3, memory_bytes=256 << 20) as evaluator:
        assert evaluated(evaluator, "1 + 1") == 2
        helper = evaluator.helper.pid
        try:
            evaluated(evaluator, text, data)
        except (ExpressionBudgetError, ExpressionFailed):
            pass
        assert evaluated(evaluator, "1 + 1") == 2
        if text.startswith("def"):
            assert evaluator.helper.pid != helper


def test_an_endless_expression_is_named() -> None:
    with Evaluator(budget=0.3) as evaluator:
        for _ in range(2):  # Also where the helper has to start again.
            with pytest.raises(ExpressionBudgetError, match="it is `def f: f; f` at /x"):
                evaluator.evaluate(expression("def f: f; f", "/x"), None, {}, 0.0)


def test_the_helper_does_not_outlive_its_process() -> None:
    program = (
        "import os, threading, time\n"
        "from outlast_serverless.jq import Evaluator\n"
        "from outlast_serverless.plan.data import expression\n"
        "made = Evaluator(budget=0.5)\n"
        "made.evaluate(expression('1 + 1', ''), None, {}, 0.0)\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print(made.helper.pid, flush=True))).start()\n"
        "made.evaluate(expression('def f: f; f', ''), None, {}, 0.0)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as parent:
        assert parent.stdout is not None
        helper = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while _alive(helper):
        assert time.monotonic() < deadline, "the helper lives on"
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


def test_the_checker_says_what_does_not_compile() -> None:
    with JqChecker() as checker:
        assert checker.problem(".a | map(. + $x)", frozenset({"x"})) is None
        assert checker.problem(".a", frozenset()) is None
        assert checker.problem("nothing", frozenset()) == "nothing/0 is not defined"
        assert "$y is not defined" in (checker.problem("$y | length", frozenset({"x"})) or "")


NAMES = st.sampled_from(["a", "b", "c d", "é", "0"])
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=2)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
STEPS = st.lists(
    st.sampled_from([".a", ".b", '.["c d"]', '."é"', "[0]", "[-1]", "[2]", '["a"]', ".[1]"]), max_size=4
)


@given(JSON, STEPS, st.booleans())
def test_a_path_is_what_jq_makes_of_it(data: Any, steps: list[str], of_variable: bool) -> None:
    text = "".join(steps)
    if of_variable:
        text = "$v" + text
    elif not text.startswith("."):
        text = "." + text
    found = path(text)
    assert isinstance(found, Path)
    assert outcome(lambda: found.of(data, {"v": data})) == outcome(
        lambda: JQ.compile(f". as $v | {text}").input_value(data).first()
    )


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ValueError as error:
        return f"failed: {error}"


@pytest.mark.parametrize(
    "text", ["a", "[0]", '["a"]', ".a.b?", ".a | .b", "..", ".[]", "$ENV", "$__loc__", ".a\\u0041", "1"]
)
def test_more_than_a_path_is_none(text: str) -> None:
    assert path(text) is None


def test_a_pattern_that_never_ends_costs_the_helper_alone(evaluator: Evaluator) -> None:
    """Filters of events are matched so, too."""
    pattern = filters._FULL_MATCH
    with pytest.raises((ExpressionFailed, ExpressionBudgetError)):
        evaluator.evaluate(
            expression(f"${{ {pattern} }}", "/p"), "a" * 40 + "!", {"pattern": "(a+)+x|(a|a)*x"}, NOW
        )
    assert (
        evaluator.evaluate(expression(f"${{ {pattern} }}", "/p"), "paid", {"pattern": "p(ai|en)d"}, NOW)
        is True
    )
    assert (
        evaluator.evaluate(expression(f"${{ {pattern} }}", "/p"), "unpaid", {"pattern": "p(ai|en)d"}, NOW)
        is False
    )
