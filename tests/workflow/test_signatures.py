from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import pytest

from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.errors import DurableCallError

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForCheckers


@dataclass
class Order:
    lines: int


class Shop:
    class Item:
        pass

    def list(self) -> None:
        pass

    def buy(self, item: Item, names: list[str]) -> Order: ...  # type: ignore[valid-type,empty-body]

    async def sell(self, order: Order, amount: int = 1) -> bool: ...  # type: ignore[empty-body]

    def __call__(self, order: Order) -> str: ...  # type: ignore[empty-body]


def charge(order: Order, amount: int): ...


def partly(order: OnlyForCheckers, amount: int) -> list[Missing]: ...  # type: ignore[name-defined,empty-body]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]


async def fetch(url: str, *, verbose: bool = False) -> Order: ...  # type: ignore[empty-body]


def later(url: str) -> Coroutine[Any, Any, Order]: ...  # type: ignore[empty-body]


def soon(url: str) -> Awaitable[int]: ...  # type: ignore[empty-body]


def variadic(first: int, *rest: str): ...


def nothing(): ...


def decorated(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any) -> Any:
        return fn(*args)

    return wrapper


@pytest.mark.parametrize(
    ("fn", "names", "hints", "result"),
    [
        (charge, ("order", "amount"), (Order, int), Any),
        (partly, ("order", "amount"), (Any, int), Any),
        (fetch, ("url",), (str,), Order),
        (later, ("url",), (str,), Order),
        (soon, ("url",), (str,), int),
        (decorated(charge), ("order", "amount"), (Order, int), Any),
        (functools.partial(charge, Order(1)), ("amount",), (int,), Any),
        (Shop().sell, ("order", "amount"), (Order, int), bool),
        (Shop().buy, ("item", "names"), (Shop.Item, list[str]), Order),
        (Shop(), ("order",), (Order,), str),
        (Order, ("lines",), (int,), type(None)),
        (lambda a, b: None, ("a", "b"), (Any, Any), Any),
    ],
)
def test_names_hints_and_result_are_found(fn, names, hints, result):
    signature = CallSignature.of(fn)
    assert signature.names == names
    assert signature.hints == hints
    assert signature.result_hint == result


def test_self_can_be_left_out():
    signature = CallSignature.of(Shop.sell, skip_first=True)
    assert signature.names == ("order", "amount")
    assert signature.defaults == (1,)
    assert signature.required == 1


def test_hints_may_name_what_a_closure_holds_and_keep_their_annotations():
    @dataclass
    class Local:
        pass

    def takes(local: Local, size: Annotated[int, "bytes"]) -> None:
        Local()

    assert CallSignature.of(takes).hints == (Local, Annotated[int, "bytes"])


@pytest.mark.parametrize(
    ("fn", "args", "message"),
    [
        (charge, [1], "charge() takes 2 arguments (order, amount), 1 given"),
        (charge, [1, 2, 3], "charge() takes 2 arguments (order, amount), 3 given"),
        (fetch, [], "fetch() takes 1 argument (url), 0 given"),
        (Shop().sell, [], "sell() takes 1 to 2 arguments (order, amount), 0 given"),
        (variadic, [], "variadic() takes at least 1 argument (first, *rest), 0 given"),
        (nothing, [1], "nothing() takes 0 arguments, 1 given"),
    ],
)
def test_a_call_with_the_wrong_number_of_arguments_says_what_is_taken(fn, args, message):
    with pytest.raises(DurableCallError) as caught:
        CallSignature.of(fn).check(args)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("fn", "args"), [(charge, [1, 2]), (Shop().sell, [1]), (variadic, [1, 2, 3]), (nothing, [])]
)
def test_a_call_that_fits_passes(fn, args):
    CallSignature.of(fn).check(args)


def test_a_message_may_call_a_run_method_by_its_workflows_name():
    with pytest.raises(DurableCallError, match=r"^Order\(\) takes 2 arguments"):
        CallSignature.of(charge).check([], "Order")


def test_a_variadic_function_names_and_types_all_its_arguments():
    signature = CallSignature.of(variadic)
    assert [signature.parameter(i) for i in range(3)] == ["first", "*rest", "*rest"]
    assert [signature.hint(i) for i in range(3)] == [int, str, str]


def test_a_keyword_that_no_durable_call_can_give_is_refused():
    def picky(order: int, *, currency: str) -> None: ...

    with pytest.raises(DurableCallError, match="keyword-only parameter 'currency'"):
        CallSignature.of(picky)


def test_what_has_no_signature_is_refused():
    with pytest.raises(DurableCallError, match="no signature"):
        CallSignature.of(type)
