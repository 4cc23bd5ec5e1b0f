"""Whatever is given where a name, a list or an object belongs: a typed error before anything is written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engine.conftest import MakeEnvironment

from outlast import Client, Cron, SignalTo, wait_first
from outlast.errors import InvalidOptionError

Call = Callable[[Any, Any], Any]

NO_NAMES = [5, "", "a\0b", "x" * 10_000, b"name", object()]


async def every(listing: AsyncIterator[Any]) -> list[Any]:
    return [one async for one in listing]


NAMED: dict[str, Call] = {
    "start workflow": lambda c, n: c.start(n),
    "start id": lambda c, n: c.start("W", id=n),
    "start task_queue": lambda c, n: c.start("W", task_queue=n),
    "execute": lambda c, n: c.execute(n),
    "debounce workflow": lambda c, n: c.debounce(n, key="k", period=5),
    "debounce key": lambda c, n: c.debounce("W", key=n, period=5),
    "handle": lambda c, n: c.handle(n).describe(),
    "handle run_id": lambda c, n: c.handle("w", run_id=n).describe(),
    "describe": lambda c, n: c.describe(n),
    "delete": lambda c, n: c.delete(n),
    "reset": lambda c, n: c.reset(n),
    "resume": lambda c, n: c.resume(n),
    "fork": lambda c, n: c.fork(n),
    "fork id": lambda c, n: c.fork("w", id=n),
    "signal": lambda c, n: c.handle("w").signal(n),
    "query": lambda c, n: c.handle("w").query(n),
    "update": lambda c, n: c.handle("w").execute_update(n),
    "update id": lambda c, n: c.handle("w").start_update("u", id=n),
    "stream": lambda c, n: every(c.handle("w").stream(n)),
    "SignalTo": lambda c, n: c.signal_many([SignalTo(n, "s")]),
    "SignalTo signal": lambda c, n: c.signal_many([SignalTo("w", n)]),
    "signal_many": lambda c, n: c.signal_many(n),
    "list type": lambda c, n: every(c.list(workflow_type=n)),
    "list queue": lambda c, n: every(c.list(queue=n)),
    "list id_prefix": lambda c, n: every(c.list(id_prefix=n)),
    "count status": lambda c, n: c.count(status=n),
    "queues.define": lambda c, n: c.queues.define(n),
    "queues.define_queue": lambda c, n: c.queues.define_queue(n),
    "queues.update": lambda c, n: c.queues.update(n, concurrency=1),
    "queues.pause": lambda c, n: c.queues.pause(n),
    "queues.resume": lambda c, n: c.queues.resume(n),
    "queues.delete": lambda c, n: c.queues.delete(n),
    "queues.describe": lambda c, n: c.queues.describe(n),
    "schedules.create": lambda c, n: c.schedules.create(n, "W", spec=Cron("* * * * *")),
    "schedules.create workflow": lambda c, n: c.schedules.create("s", n, spec=Cron("* * * * *")),
    "schedules.create spec": lambda c, n: c.schedules.create("s", "W", spec=n),
    "schedules.handle": lambda c, n: c.schedules.handle(n).describe(),
    "schedules.delete": lambda c, n: c.schedules.handle(n).delete(),
    "schedules.apply": lambda c, n: c.schedules.apply(n),
    "schedules.apply one": lambda c, n: c.schedules.apply([n]),
    "schedules.preview": lambda c, n: c.schedules.preview(n),
    "schedules.list": lambda c, n: every(c.schedules.list(workflow_type=n)),
    "wait_first": lambda _, n: wait_first(n),
    "wait_first one": lambda _, n: wait_first([n]),
    "connect converter": lambda _, n: Client.connect("sqlite://", converter=n),
    "connect limits": lambda _, n: Client.connect("sqlite://", limits=n),
    "connect interceptors": lambda _, n: Client.connect("sqlite://", interceptors=n),
}
"""The public methods, each with one place for a name, a list or an object of ours."""

NONE_IS_NONE = {
    "start id",
    "fork id",
    "update id",
    "handle run_id",
    "list type",
    "list queue",
    "list id_prefix",
} | {
    "count status",
    "schedules.list",
    "connect converter",
    "connect limits",
}
"""Where ``None`` is nothing, and not a wrong name."""


@pytest.mark.parametrize("name", NAMED)
async def test_what_is_no_name_is_a_typed_error_and_writes_nothing(
    in_memory: MakeEnvironment, name: str
) -> None:
    async with in_memory() as env:
        for value in [*NO_NAMES, *([] if name in NONE_IS_NONE else [None])]:
            with pytest.raises(InvalidOptionError) as error:
                await NAMED[name](env.client, value)
            assert len(str(error.value)) < 500, "a long name is not repeated"
        assert await env.client.count() == 0
        assert await env.client.queues.list() == []


@pytest.mark.parametrize("after", [5, None, "a\0b", b"n"])
async def test_a_listing_goes_on_behind_a_text(in_memory: MakeEnvironment, after: Any) -> None:
    async with in_memory() as env:
        with pytest.raises(InvalidOptionError, match="after must"):
            await env.client.queues.list(after=after)
        with pytest.raises(InvalidOptionError, match="after must"):
            await every(env.client.schedules.list(after=after))


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.queues.delete(),
        lambda c: c.queues.describe("q", "more"),
        lambda c: c.queues.describe(queue="q"),
        lambda c: c.schedules.handle(),
        lambda c: c.schedules.handle("s").delete("more"),
        lambda c: c.schedules.handle("s").delete(force=True),
    ],
)
async def test_a_call_with_other_arguments_says_how_it_is_called(
    in_memory: MakeEnvironment, call: Callable[[Any], Any]
) -> None:
    async with in_memory() as env:
        with pytest.raises(InvalidOptionError):
            await call(env.client)


values = st.one_of(
    st.integers(),
    st.floats(),
    st.binary(max_size=5),
    st.booleans(),
    st.dictionaries(st.text(max_size=3), st.integers(), min_size=1, max_size=2),
    st.sampled_from([object(), type, len, ..., {1, 2}]),
)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(name=st.sampled_from(sorted(NAMED)), value=values)
async def test_no_value_of_another_type_gives_an_untyped_error(
    in_memory: MakeEnvironment, name: str, value: object
) -> None:
    async with in_memory() as env:
        with pytest.raises(InvalidOptionError):
            await cast("Any", NAMED[name])(env.client, value)
