"""Everything that is wrong with a DAG is told at once, with the line where it is written."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from outlast import InvalidOptionError, activity
from outlast_dag import DagBuilder, DagValidationError, dag, each, step

PLANTED = """\
from dataclasses import dataclass

from outlast import RetryPolicy, activity
from outlast_dag import DagBuilder, all_of, is_in, or_else


@dataclass
class Page:
    url: str
    rows: list[int]


@activity.defn
async def fetch(url: str) -> Page: ...


@activity.defn
async def parse(row: int) -> str: ...


@activity.defn(start_to_close_timeout=10)
async def report(rows: list[str], title: str = "") -> int: ...


elsewhere = DagBuilder("elsewhere").task("there", "there")
flow = DagBuilder("etl", version=3)  # bad_option
first = flow.task("first", fetch, "https://example.com")  # missing_timeout
flow.task("silent", fetch, "u").with_heartbeat_timeout(3)  # missing_timeout
flow.task("late", fetch, "u").with_timeout(-1)  # timeout_out_of_range
flow.task("torn", fetch, "u").with_timeout(30).with_schedule_to_close_timeout(20)  # contradicting_timeouts
flow.task("stubborn", fetch, "u").with_timeout(30).with_retry(RetryPolicy())  # unbounded_retries
flow.task("not an id", fetch, "u").with_timeout(30)  # bad_id
flow.task("first", fetch, "u").with_timeout(30)  # duplicate_id
flow.task("orphan", fetch, "u").with_timeout(30).after("nobody")  # unknown_dependency
own = flow.task("own", fetch, "u").with_timeout(30)  # self_dependency
own.after(own)
hen = flow.task("hen", fetch, "u").with_timeout(30)  # cycle
egg = flow.task("egg", fetch, hen.url).with_timeout(30)
hen.after(egg)
flow.task("guest", report, elsewhere)  # foreign_handle
flow.task("many", fetch, "u", "v").with_timeout(30)  # wrong_arguments
flow.task("few", report).with_args()  # wrong_arguments
flow.task("number", fetch, 5).with_timeout(30)  # type_mismatch
flow.task("whole", parse, first).with_timeout(30)  # type_mismatch
flow.task("typo", fetch, first.uri).with_timeout(30)  # type_mismatch
flow.task("called", report, fetch("u"))  # not_data
flow.task("thing", report, [object()])  # not_data
flow.task("perhaps", report, first.rows).trigger("all_done")  # data_may_be_missing, type_mismatch
flow.task("known", report, ["x"]).skip_when(1 == 1)  # bad_condition
flow.task("empty", report, ["x"]).run_when(all_of())  # bad_condition
flow.task("order", report, ["x"]).skip_when(first.rows > [])  # bad_condition
flow.each("letters", parse, first.url, timeout=3)  # bad_map
flow.each("none", parse, first.rows, timeout=3, max_items=0)  # bad_map
flow.each("wide", parse, first.rows, timeout=3, concurrency=-1)  # bad_concurrency
flow.task("rank", report, ["x"]).with_priority(10)  # bad_option
flow.task("rule", report, ["x"]).trigger("any")  # bad_option
flow.task("plain", print, "x").with_timeout(3)  # bad_activity
flow.task("colour", report, ["x"], colour="red")  # bad_option
"""

EXPECTED = [
    (number, kind)
    for number, line in enumerate(PLANTED.splitlines(), 1)
    if "  # " in line
    for kind in line.partition("  # ")[2].split(", ")
]


@activity.defn(start_to_close_timeout=5)
async def fetch(url: str) -> dict[str, Any]:
    return {"url": url}


@activity.defn(start_to_close_timeout=5)
async def parse(row: int) -> str:
    return str(row)


def planted() -> DagValidationError:
    names: dict[str, Any] = {"__name__": "planted"}
    exec(compile(PLANTED, "planted.py", "exec", dont_inherit=True), names)
    with pytest.raises(DagValidationError) as refused:
        names["flow"].build()
    return refused.value


def test_one_build_tells_all_planted_problems_with_their_lines():
    found = [(int(problem.source.partition(":")[2]), problem.kind) for problem in planted().problems]
    assert len(found) >= 25
    assert sorted(found) == sorted(EXPECTED)
    assert [line for line, _ in found] == sorted(line for line, _ in found)


def test_each_problem_names_its_node_and_what_to_do():
    for problem in planted().problems:
        assert problem.node or problem.source == "planted.py:26"
        assert problem.message
        assert str(problem).startswith(f"{problem.source}  {problem.node}".rstrip())


def test_no_problem_tells_a_value():
    flow = DagBuilder("secretive")
    flow.task("parse", parse, "hunter2")
    flow.task("fetch", fetch, {"hunter2": object()}, skip_when="hunter2" == "hunter3")  # type: ignore[comparison-overlap]
    with pytest.raises(DagValidationError) as refused:
        flow.build()
    kinds = {problem.kind for problem in refused.value.problems}
    assert kinds == {"type_mismatch", "bad_condition", "not_data"}
    assert "hunter" not in str(refused.value)


def test_a_problem_reads_as_one_line():
    flow = DagBuilder("etl")
    flow.task("fetch", "fetch")
    with pytest.raises(DagValidationError, match=r"the DAG etl has 1 problem:\n") as refused:
        flow.build()
    (problem,) = refused.value.problems
    assert re.fullmatch(
        r"\S+test_problems\.py:\d+  fetch  missing_timeout: nothing bounds an attempt: give it timeout=seconds, "
        r"\.with_timeout\(seconds\), or start_to_close_timeout on @activity\.defn",
        str(problem),
    )


def test_the_error_survives_a_history():
    error = planted()
    facts = {"name": error.name, "problems": [list(problem) for problem in error.problems]}
    restored = DagValidationError.restore(error.message, facts)
    assert restored.problems == error.problems
    assert str(restored) == str(error)


@pytest.mark.parametrize(
    ("use", "advice"),
    [
        ("if page.ok: pass", "skip_when or run_when"),
        ("for row in page.rows: pass", "use each"),
        ("f'{page.url}'", "what computes belongs"),
        ("str(page)", "what computes belongs"),
        ("len(page.rows)", "use each"),
        ("page.count + 1", "what computes belongs"),
        ("1 + page.count", "what computes belongs"),
        ("page.url.upper()", "it has no methods"),
        ("not page.ok", "none_of"),
        ("page.ok and page.url", "all_of"),
        ("3 in page.rows", "use is_in"),
        ("[*page.rows]", "use each"),
        ("{**page}", "what computes belongs"),
        ("{page: 1}", "what computes belongs"),
        ("int(page.count)", "what computes belongs"),
        ("range(page.count)", "what computes belongs"),
        ("page.rows[1:]", "what computes belongs"),
        ("1 < page.count < 3", "all_of"),
        ("with page: pass", "what computes belongs"),
        ("page['x'] = 1", "what computes belongs"),
    ],
)
def test_a_value_that_is_used_as_if_it_were_known_is_refused_where_it_is_used(use: str, advice: str):
    text = f"def flow():\n    page = step(fetch)('u')\n    lone = step('x')()\n    {use}\n"
    names: dict[str, Any] = {"step": step, "fetch": fetch, "__name__": "using"}
    exec(compile(text, "using.py", "exec", dont_inherit=True), names)
    with pytest.raises(DagValidationError) as refused:
        dag(names["flow"])
    kinds = {problem.kind: problem for problem in refused.value.problems}
    assert kinds.keys() == {"value_not_known", "missing_timeout"}
    assert kinds["value_not_known"].source == "using.py:4"
    assert kinds["value_not_known"].node == "fetch"
    assert advice in kinds["value_not_known"].advice


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("retries", "give retry="),
        ("retry_policy", "it is called retry here"),
        ("trigger_rule", "it is called trigger here"),
        ("execution_timeout", "it is called timeout here"),
        ("timeuot", "did you mean timeout?"),
    ],
)
def test_an_option_that_a_step_does_not_have_is_told_by_the_name_that_it_has(option: str, advice: str):
    flow = DagBuilder("flow", timeout=60)
    flow.task("a", "fetch", timeout=5, **cast("Any", {option: 3}))
    with pytest.raises(DagValidationError) as refused:
        flow.build()
    (problem,) = refused.value.problems
    assert problem.kind == "bad_option"
    assert advice in problem.message


def test_a_step_outside_a_dag_says_so():
    with pytest.raises(DagValidationError, match="outside_dag"):
        step(fetch)("u")
    with pytest.raises(DagValidationError, match="outside_dag"):
        each(parse)([1])


def test_a_cycle_is_told_by_the_way_round():
    flow = DagBuilder("round", timeout=60)
    a = flow.task("a", "x", timeout=1)
    b = flow.task("b", "x", timeout=1).after(a)
    c = flow.task("c", "x", timeout=1).after(b)
    a.after(c)
    flow.task("d", "x", timeout=1).after(c)
    with pytest.raises(DagValidationError) as refused:
        flow.build()
    (problem,) = refused.value.problems
    assert (problem.kind, problem.node) == ("cycle", "a")
    assert "a -> b -> c -> a" in problem.message


def test_a_run_with_a_history_that_is_too_long_is_refused():
    flow = DagBuilder("long", timeout=60)
    for number in range(2):
        flow.each(f"m{number}", "x", flow.input, timeout=1, max_items=8_000)
    with pytest.raises(DagValidationError, match="history_too_long"):
        flow.build()


def test_too_many_nodes_are_refused():
    flow = DagBuilder("wide", timeout=60)
    for number in range(2_001):
        flow.task(f"t{number}", "x", timeout=1)
    with pytest.raises(DagValidationError) as refused:
        flow.build()
    assert [problem.kind for problem in refused.value.problems] == ["too_large"]


def test_too_large_constants_are_refused():
    flow = DagBuilder("heavy", timeout=60)
    flow.task("t", "x", "y" * 600_000, timeout=1)
    with pytest.raises(DagValidationError, match="too_large"):
        flow.build()


def test_what_was_forgotten_around_a_call_is_told():
    with pytest.raises(DagValidationError, match=r"fetch\(…\) is a call, .*: write step\(fetch, …\)\(…\)"):

        @dag
        def unwrapped(url: str) -> Any:
            return fetch(url)

    with pytest.raises(
        DagValidationError, match=r"not_data: a function is given, .*: write step\(activity, …\)\(…\)"
    ):

        @dag
        def uncalled(url: str) -> Any:
            page: Any = step(fetch)
            return step(parse)(page)

    with pytest.raises(InvalidOptionError, match="coroutine_function is async"):

        @dag
        async def coroutine_function(url: str) -> Any:
            return step(fetch)(url)


def test_a_timeout_that_a_list_is_too_long_for_says_how_long_the_list_may_be():
    flow = DagBuilder("lists", timeout=60)
    flow.each("rows", parse, flow.input, concurrency=10)
    (warning,) = flow.build().warnings
    assert warning.kind == "deadline_below_critical_path"
    assert warning.advice.endswith("; 'rows' counts with max_items=1000")
