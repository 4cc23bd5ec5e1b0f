"""Building what runs if a step fails, and what undoes it: both faces, what is wrong, and the time it takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from outlast import ApplicationError, RetryPolicy, activity
from outlast_dag import DagBuilder, DagValidationError, NodeFailure, dag, dry_run, each, or_else, step
from outlast_dag.check.report import report
from outlast_dag.spec.nodes import Call
from outlast_dag.spec.reading import read_spec
from outlast_dag.spec.values import Ref


@dataclass
class Paid:
    id: str
    cents: int


@activity.defn(start_to_close_timeout=5)
async def charge(cents: int) -> Paid:
    return Paid("p", cents)


@activity.defn(start_to_close_timeout=4)
async def refund(id: str) -> None: ...


@activity.defn(start_to_close_timeout=4)
async def refund_paid(paid: Paid) -> None: ...


@activity.defn(start_to_close_timeout=5)
async def ship(paid: Paid) -> str:
    return "shipped"


@activity.defn(start_to_close_timeout=5)
async def mail(failure: NodeFailure) -> str:
    return "mailed"


@dag(timeout=100, reserve=15)
def order(cents: int) -> str:
    paid = step(charge, compensate=lambda paid: step(refund, retry=3)(paid.id))(cents)
    return step(ship, on_failure=lambda failure: step(mail)(failure))(paid)


def built(write: Callable[[DagBuilder], Any], **options: Any) -> list[tuple[str, str]]:
    """Return the kind and the node of each problem of a DAG."""
    given: dict[str, Any] = {"timeout": 1000, **options}
    flow = DagBuilder("flow", **given)
    write(flow)
    try:
        definition = flow.build()
    except DagValidationError as error:
        return [(problem.kind, problem.node) for problem in error.problems]
    return [(problem.kind, problem.node) for problem in definition.warnings]


def test_both_faces_make_the_same_spec() -> None:
    flow = DagBuilder("order", timeout=100, reserve=15)
    paid = flow.task("charge", charge, flow.input)
    shipped = flow.task("ship", ship, paid)
    paid.compensate(flow.task("refund", refund, paid["id"]).with_retry(3))
    shipped.on_failure(flow.task("mail", mail))
    spec = flow.build().spec
    traced = {node.id: node for node in order.spec.nodes}
    assert {node.id: node for node in spec.nodes}.keys() == traced.keys()
    assert [(node.id, node.on_failure, node.compensate) for node in spec.nodes[:2]] == [
        ("charge", None, "refund"),
        ("ship", "mail", None),
    ]
    for one in (spec.graph.nodes["mail"], traced["mail"]):
        assert isinstance(one, Call)
        assert one.args == (Ref("bound", "failure"),)
    assert spec.output == order.spec.output == Ref("of", "ship")
    assert order.warnings == ()
    assert read_spec(order.spec.document).hash == order.spec.hash
    assert report(read_spec(order.spec.document)).errors == ()
    assert "n0 -.->|undo| n1" in order.mermaid()


def test_a_dry_run_says_what_is_undone() -> None:
    down = ApplicationError("no stock", type="Stock")
    paid = {"id": "p", "cents": 5}
    fine = dry_run(order, 5, outcomes={"charge": paid, "ship": down, "mail": "mailed"})
    assert (fine.status, fine.result, fine.states["ship"]) == ("completed", "mailed", "recovered")
    tried = dry_run(order, 5, outcomes={"charge": paid, "ship": down, "mail": down})
    assert tried.status == "failed"
    assert tried.failures == ["ship", "mail"]
    assert tried.calls[-1] == ("refund", ("p",))
    assert tried.states["charge"] == "compensated"


def test_what_belongs_to_another_step_is_told() -> None:
    def several(flow: DagBuilder) -> None:
        a = flow.task("a", charge, 1)
        b = flow.task("b", charge, 2).after(a)
        undo = flow.task("undo", refund_paid).with_args(a)
        a.compensate(undo)
        b.compensate(undo)

    assert built(several) == [("auxiliary_has_dependencies", "undo")]

    def depends(flow: DagBuilder) -> None:
        a = flow.task("a", charge, 1)
        b = flow.task("b", charge, 2)
        a.compensate(flow.task("undo", refund_paid, b))
        b.on_failure(flow.task("other", charge, 3).after(a))
        flow.task("behind", ship, "undo").with_args().after("undo")

    found = built(depends)
    assert ("auxiliary_has_dependencies", "undo") in found
    assert ("auxiliary_has_dependencies", "other") in found
    assert ("auxiliary_has_dependencies", "behind") in found

    def itself(flow: DagBuilder) -> None:
        flow.task("a", charge, 1).on_failure("b")
        flow.task("b", charge, 2).on_failure("b")

    assert ("auxiliary_has_dependencies", "b") in built(itself)

    def round_about(flow: DagBuilder) -> None:
        flow.task("x", charge, 1)
        flow.task("a", charge, 1).on_failure("b")
        flow.task("b", charge, 2).on_failure("a")

    assert ("cycle", "a") in built(round_about)

    def nobody(flow: DagBuilder) -> None:
        a = flow.task("a", charge, 1)
        a.compensate("nobody")
        a.on_failure(flow.input)
        a.on_failure(DagBuilder("elsewhere").task("there", "there"))

    assert {kind for kind, _ in built(nobody)} == {"unknown_dependency", "bad_option", "foreign_handle"}

    def nested(flow: DagBuilder) -> None:
        before = flow.task("s0", charge, 1)
        for number in range(1, 30):
            after = flow.task(f"s{number}", charge, 1)
            before.on_failure(after)
            before = after

    assert ("too_large", "s29") in built(nested)


def test_undoing_has_an_end_of_its_own() -> None:
    def endless(flow: DagBuilder) -> None:
        a = flow.task("a", charge, 1)
        a.compensate(flow.task("undo", refund_paid).with_retry(RetryPolicy()))
        b = flow.task("b", charge, 1).after(a)
        beating = flow.task("beating", "refund", b).with_timeout(5, extended_by_heartbeat=True)
        b.compensate(beating)
        beating.compensate(flow.task("twice", "twice"))

    found = built(endless, reserve=100)
    assert {("unbounded_retries", "undo"), ("missing_timeout", "beating"), ("bad_option", "beating")} <= set(
        found
    )


def test_what_has_only_begun_has_returned_nothing() -> None:
    def part(flow: DagBuilder) -> None:
        a = flow.task("a", charge, 1)
        a.compensate(flow.task("undo", refund, a["id"]), when="started")

    def whole(flow: DagBuilder) -> None:
        a = flow.task("a", charge, 1)
        a.compensate(flow.task("undo", "undo", a, timeout=5), when="started")

    assert built(part, reserve=100) == [("data_may_be_missing", "undo")]
    assert built(whole, reserve=100) == []

    def ever(flow: DagBuilder) -> None:
        unknown: Any = "ever"
        flow.task("a", charge, 1).compensate("a", when=unknown)

    assert ("bad_option", "a") in built(ever)


def test_what_stands_in_for_a_step_returns_the_same() -> None:
    def unlike(flow: DagBuilder) -> None:
        flow.task("a", charge, 1).on_failure(flow.task("b", mail))

    assert built(unlike) == [("type_mismatch", "b")]


def test_whoever_follows_the_advice_for_a_reserve_has_no_more_warnings() -> None:
    def flow(reserve: float | None) -> list[str]:
        made = DagBuilder("flow", timeout=600, reserve=reserve)
        paid = made.task("a", charge, 1).with_timeout(4)
        paid.compensate(made.task("undo", refund_paid).with_timeout(4))
        return [
            warning.advice for warning in made.build().warnings if warning.kind == "no_time_to_compensate"
        ]

    for reserve in (None, 3, 5):
        (advice,) = flow(reserve)
        told = re.search(r"reserve=([0-9.]+) or more", advice)
        assert told is not None
        assert flow(float(told[1])) == []


@pytest.mark.parametrize(
    ("reserve", "retry", "kinds"),
    [
        (None, 3, ["no_time_to_compensate"]),
        (3, 3, ["no_time_to_compensate"]),
        (4, 3, ["no_time_to_compensate"]),
        (4, 1, []),
        (15, 3, []),
        (995, 1, ["deadline_below_critical_path"]),
        (1000, 1, ["deadline_never_holds"]),
    ],
)
def test_the_reserve_is_compared_with_what_undoing_takes(reserve: Any, retry: int, kinds: list[str]) -> None:
    def one(flow: DagBuilder) -> None:
        a = flow.task("a", charge, 1).with_timeout(6).with_retry(1)
        a.compensate(flow.task("undo", refund_paid).with_retry(retry))

    found = [kind for kind, _ in built(one, reserve=reserve)]
    assert [kind for kind in found if kind != "unused_result"] == kinds


def test_options_of_the_dag_are_checked() -> None:
    def one(flow: DagBuilder) -> None:
        flow.task("a", refund, "x")

    assert built(one, reserve=-1) == [("timeout_out_of_range", "")]
    assert built(one, reserve=5, timeout=None) == [("bad_option", "")]
    assert built(one, cancel_on="") == [("bad_option", "")]
    assert built(one, compensate_on_cancel="yes") == [("bad_option", "")]


def test_a_function_that_adds_more_or_less_than_a_step_is_refused() -> None:
    with pytest.raises(DagValidationError) as caught:

        @dag(timeout=100)
        def wrong(cents: int) -> Any:
            paid = step(charge, compensate=lambda paid: paid)(cents)
            step(
                charge,
                id="two",
                on_failure=lambda failure: step(charge, id="three")(step(charge, id="four")(1).cents),
            )(cents)
            leaked: list[NodeFailure] = []

            def leak(failure: NodeFailure) -> str:
                leaked.append(failure)
                return step(mail)(failure)

            step(ship, id="x", on_failure=leak)(paid)
            return step(mail, id="late")(leaked[0])

    found = {(problem.kind, problem.node) for problem in caught.value.problems}
    assert {
        ("bad_option", "charge"),
        ("auxiliary_has_dependencies", "four"),
        ("unknown_dependency", "late"),
    } <= found


def test_lists_can_be_undone_and_replaced() -> None:
    @dag(timeout=1000, reserve=500)
    def many(cents: list[int]) -> list[Paid]:
        return each(
            charge,
            max_items=5,
            compensate=lambda paid: each(refund_paid, max_items=5)(paid),
            on_failure=lambda failure: step("none", result=list[Paid], timeout=5)(failure.item),
        )(cents)

    bad = ApplicationError("bad")
    tried = dry_run(
        many, [1, 2], outcomes={"charge": lambda cents: {"id": cents}, "charge[1]": bad, "none": bad}
    )
    assert tried.status == "failed"
    assert ("none", (1,)) in tried.calls
    assert [args for name, args in tried.calls if name.startswith("refund")] == [({"id": 1},)]


def test_a_list_that_is_divided_among_children_cannot_be_undone() -> None:
    def divided(flow: DagBuilder) -> None:
        paid = flow.each("paid", charge, [1, 2], chunks_of=1)
        paid.compensate(flow.each("undo", refund_paid, paid, max_items=2))

    assert built(divided, reserve=100) == [("bad_option", "paid")]


def nullable(name: str) -> list[str]:
    return [problem.kind for problem in DAGS[name].warnings]


@dag(timeout=100)
def may_be_null(cents: int) -> str:
    paid = step(charge)(cents)
    return step(ship, skip_when=paid.cents == 0)(paid)


@dag(timeout=100)
def behind_what_may_be_skipped(cents: int) -> dict[str, str]:
    paid = step(charge, skip_when=cents == 0)(cents)
    return {"shipped": step(ship)(paid)}


@dag(timeout=100)
def optional(cents: int) -> str | None:
    return step(ship, skip_when=cents == 0)(step(charge)(cents))


@dag(timeout=100)
def has_another(cents: int) -> str:
    return or_else(step(ship, skip_when=cents == 0)(step(charge)(cents)), "nothing")


@dag(timeout=100)
def replaced_where_skipped(cents: int) -> str:
    paid = or_else(step(charge, skip_when=cents == 0)(cents), Paid("none", 0))
    return step(ship)(paid)


@dag(timeout=100)
def for_failures(cents: int) -> str:
    paid = step(charge)(cents)
    return step(ship, trigger="one_failed")(or_else(paid, Paid("none", 0)))


DAGS = {
    one.name: one
    for one in (
        *(may_be_null, behind_what_may_be_skipped, for_failures),
        *(optional, has_another, replaced_where_skipped),
    )
}


def test_a_result_that_may_be_null_and_is_not_declared_so_is_told() -> None:
    told = {name for name in DAGS if "result_may_be_null" in nullable(name)}
    assert told == {"may_be_null", "behind_what_may_be_skipped", "for_failures"}
