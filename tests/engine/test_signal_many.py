"""Signals that are sent together: all of them or none, in order, each key once."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.engine.conftest import MakeEnvironment
from tests.engine.histories import types_of

from outlast import Client, SignalTo, workflow
from outlast.interceptors import Interceptor, SignalMany
from outlast_workflow.errors import (
    DurableCallError,
    InvalidOptionError,
    StructuralLimitError,
    WorkflowClosedError,
    WorkflowNotFoundError,
)
from outlast_workflow.options.limits import StructuralLimits


@workflow.defn
async def reader(most: int) -> list[Any]:
    return [await workflow.receive("letter") for _ in range(most)]


@workflow.defn
class Clerk:
    def __init__(self) -> None:
        self.papers: list[str] = []

    @workflow.run
    async def run(self) -> list[str]:
        await workflow.wait_condition(lambda: len(self.papers) == 2)
        return self.papers

    @workflow.signal
    def stamp(self, paper: str) -> None:
        self.papers.append(paper)


WORKFLOWS = [reader, Clerk]


async def signals_of(client: Client, *workflow_ids: str) -> list[int]:
    return [(await types_of(client, one)).count("SignalReceived") for one in workflow_ids]


async def test_several_workflows_get_their_signals_in_order(engine: MakeEnvironment) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        one = await env.client.start(reader, 2, id="one")
        two = await env.client.start(Clerk.run, id="two")
        sent = await env.client.signal_many(
            [
                SignalTo("one", "letter", "a"),
                SignalTo("two", Clerk.stamp, "x"),
                SignalTo("one", "letter"),
                SignalTo("two", Clerk.stamp("y"), request_id="y"),
            ]
        )
        assert sorted(sent) == ["one", "two"]
        assert (await one.result(), await two.result()) == (["a", None], ["x", "y"])


@pytest.mark.parametrize(
    ("bad", "error"), [("nobody", WorkflowNotFoundError), ("closed", WorkflowClosedError)]
)
async def test_one_bad_destination_keeps_all_others_from_it(
    engine: MakeEnvironment, bad: str, error: type[WorkflowNotFoundError | WorkflowClosedError]
) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        ids = [f"w{number}" for number in range(5)]
        for workflow_id in ids:
            await env.client.start(reader, 1, id=workflow_id)
        await env.client.execute(reader, 0, id="closed")
        with pytest.raises(error) as raised:
            await env.client.signal_many([SignalTo(one, "letter", 1) for one in [*ids[:3], bad, *ids[3:]]])
        assert getattr(raised.value, "workflow_id", None) == bad
        assert await signals_of(env.client, *ids) == [0] * 5


async def test_a_key_that_was_delivered_is_not_sent_again_even_to_a_closed_workflow(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        one = await env.client.start(reader, 1, id="one")
        two = await env.client.start(reader, 2, id="two")
        both = [SignalTo(id, "letter", 1, request_id="k") for id in ("one", "two")]
        for _ in range(2):
            await env.client.signal_many(both)
            assert await one.result() == [1]
        await env.client.signal_many([*both, SignalTo("two", "letter", 2)])
        assert await two.result() == [1, 2]


async def test_what_cannot_be_sent_together_is_refused_before(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        send = env.client.signal_many
        await env.client.start(reader, 1, id="one")
        with pytest.raises(InvalidOptionError, match="two signals with the request id 'k'"):
            await send([SignalTo("one", "letter", request_id="k"), SignalTo("one", "note", request_id="k")])
        with pytest.raises(InvalidOptionError, match="at most 1,000 signals, not 1,001"):
            await send([SignalTo("one", "letter")] * 1001)
        with pytest.raises(InvalidOptionError, match="not str"):
            await send(cast("Any", ["one"]))
        with pytest.raises(DurableCallError, match="stamp cannot be called like this"):
            await send([SignalTo("one", "letter"), SignalTo("one", Clerk.stamp, cast("Any", 5))])
        with pytest.raises(InvalidOptionError, match="workflow id must not be empty"):
            SignalTo("", "letter")
        assert await send([]) == []
        assert await signals_of(env.client, "one") == [0]
        assert repr(SignalTo("one", "letter", "s3cret")) == "<SignalTo 'one' letter>"


async def test_too_many_for_one_of_them_are_too_many_for_all(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS, limits=StructuralLimits(unhandled_signals=3)) as env:
        await env.client.start(Clerk.run, id="one")
        await env.client.start(Clerk.run, id="two")
        many = [SignalTo("two", Clerk.stamp, "x"), *[SignalTo("one", "letter", n) for n in range(4)]]
        with pytest.raises(StructuralLimitError):
            await env.client.signal_many(many)
        assert await signals_of(env.client, "one", "two") == [0, 0]
        await env.client.signal_many(many[:-1])
        assert await signals_of(env.client, "one", "two") == [3, 1]


class Headers(Interceptor):
    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    async def signal_many(self, call: SignalMany, next: Any) -> Any:
        for one in call.signals:
            self.seen.append((one.workflow_id, one.name))
            one.headers["from"] = "me"
        call.signals[0].args = ("changed",)
        return await next(call)


async def test_interceptors_stand_around_all_of_them(in_memory: MakeEnvironment) -> None:
    around = Headers()
    async with in_memory(workflows=WORKFLOWS, interceptors=[around]) as env:
        handle = await env.client.start(reader, 1, id="one")
        await env.client.signal_many([SignalTo("one", "letter", "x")])
        assert await handle.result() == ["changed"]
        assert around.seen == [("one", "letter")]
        (event,) = [one async for one in handle.history() if one.type == "SignalReceived"]
        assert event.payload["headers"] == {"from": "me"}


async def test_a_thousand_workflows_are_signalled_at_once(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=WORKFLOWS) as env:
        handles = [await env.client.start(reader, 1, id=f"w{number}") for number in range(1000)]
        await env.client.signal_many(
            [SignalTo(one.workflow_id, "letter", one.workflow_id) for one in handles]
        )
        for one in handles:
            assert await one.result() == [one.workflow_id]


async def test_forks_get_the_signals_too_and_those_that_have_ended_are_left_out(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=WORKFLOWS) as env:
        original = await env.client.start(reader, 1, id="original")
        await env.settle()
        fork = await original.fork(id="fork")
        await env.settle()
        await fork.fork(id="fork of the fork")
        ended = await original.fork(id="ended")
        await ended.terminate()
        await env.client.start(reader, 1, id="other")
        sent = await env.client.signal_many(
            [SignalTo("original", "letter", "x", request_id="k")], to_forks=True
        )
        assert sorted(sent) == ["fork", "fork of the fork", "original"]
        for workflow_id in sent:
            assert await env.client.handle(workflow_id).result() == ["x"]
        assert await signals_of(env.client, "ended", "other") == [0, 0]
