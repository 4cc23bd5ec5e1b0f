"""Interceptors and headers: what stands around clients, workflows and activities, and what travels beside calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest
from tests.engine import programs
from tests.engine.conftest import MakeEnvironment

from outlast import Client, InvalidOptionError, RetryPolicy, StartOptions, Worker, activity, workflow
from outlast.errors import ApplicationError
from outlast.interceptors import (
    CancelWorkflow,
    ContinueAsNewCall,
    DescribeWorkflow,
    HandleQuery,
    HandleSignal,
    HandleUpdate,
    Heartbeat,
    Interceptor,
    QueryWorkflow,
    ReceiveMessage,
    RunActivity,
    RunWorkflow,
    SetStartDelay,
    SignalExternal,
    SignalWorkflow,
    StartActivity,
    StartChild,
    StartWorkflow,
    TerminateWorkflow,
    UpdateWorkflow,
)
from outlast.testing import TestEnvironment
from outlast_store.database.database import Database
from outlast_workflow.options.activity import ActivityOptions

VERBS = ("start", "delay", "signal", "cancel", "terminate")

seen: list[str] = []
"""What a ``Teller`` has seen, live only: replay must not tell it twice."""


@pytest.fixture(autouse=True)
def _seen_afresh() -> None:
    seen.clear()


class Teller(Interceptor):
    """Notes each call under its own name."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def tell(self, what: str) -> None:
        if not workflow.in_replay():
            seen.append(f"{self.name}{what}")

    async def start_workflow(
        self, call: StartWorkflow, next: Callable[[StartWorkflow], Awaitable[Any]]
    ) -> Any:
        self.tell(f"start {call.workflow_type} {call.id}")
        return await next(call)

    async def signal_workflow(self, call: SignalWorkflow, next: Any) -> None:
        self.tell(f"signal {call.name}{call.args} to {call.workflow_id}")
        await next(call)

    async def update_workflow(self, call: UpdateWorkflow, next: Any) -> Any:
        self.tell(f"update {call.name}{call.args}")
        return await next(call)

    async def query_workflow(self, call: QueryWorkflow, next: Any) -> Any:
        self.tell(f"query {call.name}{call.args}")
        return await next(call)

    async def handle_update(self, call: HandleUpdate, next: Any) -> Any:
        self.tell(f"handle {call.name}{call.args}")
        return await next(call)

    def handle_query(self, call: HandleQuery, next: Any) -> Any:
        return f"asked: {next(call)}"

    async def cancel_workflow(self, call: CancelWorkflow, next: Any) -> None:
        self.tell(f"cancel {call.workflow_id} {call.reason}")
        await next(call)

    async def terminate_workflow(self, call: TerminateWorkflow, next: Any) -> None:
        self.tell(f"terminate {call.workflow_id} {call.reason}")
        await next(call)

    async def set_start_delay(self, call: SetStartDelay, next: Any) -> None:
        self.tell(f"delay {call.workflow_id} {call.delay} {call.until}")
        call.delay = 50
        await next(call)

    async def describe_workflow(self, call: DescribeWorkflow, next: Any) -> Any:
        self.tell(f"describe {call.workflow_id}")
        return await next(call)

    async def run_workflow(self, call: RunWorkflow, next: Any) -> Any:
        self.tell(f"run {call.workflow_type}{call.args}")
        result = await next(call)
        self.tell(f"ran {call.workflow_type}")
        return result

    async def handle_signal(self, call: HandleSignal, next: Any) -> None:
        self.tell(f"handle {call.name}{call.args}")
        await next(call)

    def start_activity(self, call: StartActivity, next: Any) -> Any:
        self.tell(f"call {call.activity_type}{call.args}")
        return next(call)

    def start_child(self, call: StartChild, next: Any) -> Any:
        self.tell(f"child {call.workflow_type}{call.args} {call.workflow_id}")
        return next(call)

    def signal_external(self, call: SignalExternal, next: Any) -> Any:
        self.tell(f"tell {call.workflow_id} {call.name}{call.args}")
        return next(call)

    def continue_as_new(self, call: ContinueAsNewCall, next: Any) -> None:
        self.tell(f"continue {call.workflow_type}{call.args}")
        next(call)

    async def run_activity(self, call: RunActivity, next: Any) -> Any:
        self.tell(f"attempt {call.info.attempt} of {call.info.activity_type}{call.args}")
        return await next(call)

    def heartbeat(self, call: Heartbeat, next: Any) -> None:
        self.tell(f"beat {call.details}")
        next(call)


@activity.defn(start_to_close_timeout=60, heartbeat_timeout=30)
async def pay(amount: int) -> int:
    activity.heartbeat("half-way")
    return amount


@activity.defn(start_to_close_timeout=60)
def stamp(text: str) -> str:
    return f"<{text}>"


@workflow.defn
class Talk:
    """Does one of everything that an interceptor sees."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @workflow.run
    async def run(self, rounds: int) -> list[Any]:
        if rounds:
            workflow.continue_as_new(rounds - 1)
        got: list[Any] = [await pay(3), await stamp("a")]
        got.append(await workflow.execute_child(Listener.run, id="child", parent_close_policy="abandon"))
        await workflow.wait_condition(lambda: self.heard)
        return [*got, *self.heard]

    @workflow.signal
    def hear(self, text: str) -> None:
        self.heard.append(text)


@workflow.defn
class Listener:
    @workflow.run
    async def run(self) -> str:
        info = workflow.info()
        assert info.parent is not None
        await workflow.external(info.parent.workflow_id).signal(Talk.hear, "hello")
        return "child"


TALK: dict[str, Any] = {"workflows": [Talk, Listener], "activities": [pay, stamp]}


async def test_an_interceptor_sees_every_call_once_and_in_order(engine: MakeEnvironment) -> None:
    async with engine(**TALK, interceptors=[Teller()]) as env:
        handle = await env.client.start(Talk.run, 1, id="talk")
        assert await handle.result() == [3, "<a>", "child", "hello"]
        await handle.describe()
        assert seen[:12] == [
            "start Talk talk",
            "run Talk(1,)",
            "continue Talk(0,)",
            "run Talk(0,)",
            "call pay(3,)",
            "attempt 1 of pay(3,)",
            "beat ('half-way',)",
            "call stamp('a',)",
            "attempt 1 of stamp('a',)",
            "child Listener() child",
            "run Listener()",
            "tell talk hear('hello',)",
        ]
        both = [
            "handle hear('hello',)",
            "ran Listener",
            "ran Talk",
        ]  # two workflows: in the order that they run
        assert sorted(seen[12:-1]) == both
        assert seen[-1] == "describe talk"


async def test_requests_of_a_client_are_seen(in_memory: Callable[..., TestEnvironment]) -> None:
    async with in_memory(**TALK, interceptors=[Teller()]) as env:
        handle = await env.client.start(Talk.run, 0, id="talk", options=StartOptions(start_delay=10))
        begin = env.now()
        await handle.set_start_delay(1000)
        begins_at = (await handle.describe()).run.begins_at
        assert begins_at is not None
        assert begin + timedelta(seconds=50) <= begins_at < begin + timedelta(seconds=60)
        await env.client.signal("talk", "hear", "late")
        await handle.cancel("enough")
        await env.client.handle("talk").terminate("now")
        assert [line for line in seen if line.split()[0] in VERBS] == [
            "start Talk talk",
            "delay talk 1000 None",
            "signal hear('late',) to talk",
            "cancel talk enough",
            "terminate talk now",
        ]


async def test_the_first_interceptor_is_the_outermost_and_the_workers_own_are_inside(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=(), activities=(), interceptors=[Teller("a "), Teller("b ")]) as env:
        worker = Worker(env.client, **TALK, interceptors=[Teller("c ")], watchdog=False)
        async with worker:
            handle = await env.client.start(Talk.run, 0, id="talk")
            await env.client.signal("talk", Talk.hear, "hi")
            await handle.result()
    order = [
        line for line in seen if line.split(" ", 1)[1].startswith(("start", "call pay", "attempt 1 of pay"))
    ]
    assert order == [
        *["a start Talk talk", "b start Talk talk"],
        *["a call pay(3,)", "b call pay(3,)", "c call pay(3,)"],
        *[f"{name} attempt 1 of pay(3,)" for name in "abc"],
    ]


# --- changing what passes ---------------------------------------------------------------------------------------------


class Changer(Interceptor):
    """Changes arguments, options and results on their way."""

    async def start_workflow(self, call: StartWorkflow, next: Any) -> Any:
        call.args = (call.args[0] + 1,)
        return await next(call)

    async def run_workflow(self, call: RunWorkflow, next: Any) -> Any:
        return ["changed", *await next(call)]

    def start_activity(self, call: StartActivity, next: Any) -> Any:
        call.options = call.options.merged(ActivityOptions(start_to_close_timeout=50))
        return next(call)

    async def run_activity(self, call: RunActivity, next: Any) -> Any:
        return await next(RunActivity(call.info, (call.args[0] * 10,), call.headers))


@workflow.defn
async def one_payment(amount: int) -> list[Any]:
    return [await pay(amount)]


async def test_an_interceptor_may_change_what_passes(engine: MakeEnvironment) -> None:
    async with engine(workflows=[one_payment], activities=[pay], interceptors=[Changer()]) as env:
        handle = await env.client.start(one_payment, 1, id="one")
        assert await handle.result() == ["changed", 20]
        scheduled = [event async for event in handle.history() if event.type == "ActivityScheduled"]
        assert scheduled[0].payload["options"]["start_to_close_timeout"] == 50


# --- headers ----------------------------------------------------------------------------------------------------------

arrived: list[tuple[str, str]] = []
tenant: ContextVar[str] = ContextVar("tenant")


class Tenant(Interceptor):
    """Carries who a workflow works for from the client to everything that it sets going."""

    async def start_workflow(self, call: StartWorkflow, next: Any) -> Any:
        call.headers["tenant"] = "acme"
        return await next(call)

    async def signal_workflow(self, call: SignalWorkflow, next: Any) -> None:
        call.headers["tenant"] = "signaller"
        await next(call)

    async def run_workflow(self, call: RunWorkflow, next: Any) -> Any:
        self.note(call.workflow_type, call.headers)
        tenant.set(call.headers["tenant"])
        return await next(call)

    async def handle_signal(self, call: HandleSignal, next: Any) -> None:
        self.note(call.name, call.headers)
        await next(call)

    async def update_workflow(self, call: UpdateWorkflow, next: Any) -> Any:
        call.headers["tenant"] = "updater"
        return await next(call)

    async def handle_update(self, call: HandleUpdate, next: Any) -> Any:
        self.note(call.name, call.headers)
        tenant.set(call.headers["tenant"])
        return await next(call)

    async def query_workflow(self, call: QueryWorkflow, next: Any) -> Any:
        call.headers["tenant"] = "asker"
        return await next(call)

    def handle_query(self, call: HandleQuery, next: Any) -> Any:
        self.note(call.name, call.headers)
        return next(call)

    def start_activity(self, call: StartActivity, next: Any) -> Any:
        call.headers["tenant"] = tenant.get()
        return next(call)

    def start_child(self, call: StartChild, next: Any) -> Any:
        call.headers["tenant"] = f"{tenant.get()}'s child"
        return next(call)

    def signal_external(self, call: SignalExternal, next: Any) -> Any:
        call.headers["tenant"] = tenant.get()
        return next(call)

    async def run_activity(self, call: RunActivity, next: Any) -> Any:
        self.note(call.info.activity_type, call.headers)
        return await next(call)

    def note(self, what: str, headers: dict[str, str]) -> None:
        if not workflow.in_replay():
            arrived.append((what, headers.get("tenant", "")))


@pytest.fixture(autouse=True)
def _arrived_afresh() -> None:
    arrived.clear()


async def test_headers_reach_runs_activities_children_signals_and_the_next_run(
    engine: MakeEnvironment,
) -> None:
    async with engine(**TALK, interceptors=[Tenant()]) as env:
        handle = await env.client.start(Talk.run, 1, id="talk")
        await handle.result()
    assert arrived == [
        ("Talk", "acme"),
        ("Talk", "acme"),
        ("pay", "acme"),
        ("stamp", "acme"),
        ("Listener", "acme's child"),
        ("hear", "acme's child"),
    ]


async def test_headers_reach_activities_of_another_worker_and_signals_of_a_client(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=[Talk, Listener], activities=(), interceptors=[Tenant()]) as env:
        elsewhere = env.new_worker(activities=[pay, stamp])
        async with elsewhere:
            handle = await env.client.start(Talk.run, 0, id="talk")
            await handle.signal(Talk.hear, "hi")
            await handle.result()
    assert {("hear", "signaller"), ("pay", "acme"), ("hear", "acme's child")} <= set(arrived)


@workflow.defn
async def second_time_lucky() -> int:
    info = workflow.info()
    if info.attempt == 1:
        raise ConnectionError
    return info.attempt


async def test_headers_are_kept_by_the_retry_of_a_run(engine: MakeEnvironment) -> None:
    async with engine(workflows=[second_time_lucky], activities=(), interceptors=[Tenant()]) as env:
        options = StartOptions(retry_policy=RetryPolicy(max_attempts=2))
        assert await env.client.execute(second_time_lucky, id="lucky", options=options) == 2
    assert arrived == [("second_time_lucky", "acme")] * 2


async def test_without_headers_history_has_none(engine: MakeEnvironment) -> None:
    async with engine(**TALK) as env:
        handle = await env.client.start(Talk.run, 0, id="talk")
        await handle.result()
        assert not [event async for event in handle.history() if "headers" in event.payload]


class Wrong(Interceptor):
    def __init__(self, headers: dict[Any, Any]) -> None:
        self.headers = headers

    async def start_workflow(self, call: StartWorkflow, next: Any) -> Any:
        call.headers.update(self.headers)
        return await next(call)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"tenant": 7}, "header 'tenant' must be text, not int"),
        ({7: "tenant"}, "header names must be text that is not empty, not 7"),
        ({"blob": "x" * 70_000}, "more than the limit of 65,536"),
    ],
)
async def test_headers_are_short_text(
    in_memory: Callable[..., TestEnvironment], headers: dict[Any, Any], message: str
) -> None:
    async with in_memory(**TALK, interceptors=[Wrong(headers)]) as env:
        with pytest.raises(InvalidOptionError, match=message):
            await env.client.start(Talk.run, 0, id="talk")
        assert await env.client.count() == 0


# --- what goes wrong --------------------------------------------------------------------------------------------------


class Sleepy(Interceptor):
    async def run_activity(self, call: RunActivity, next: Any) -> Any:
        await asyncio.sleep(1)
        return await next(call)


@workflow.defn
async def one_stamp() -> str:
    return await stamp.with_options(retry_policy=programs.ONCE)("x")


async def test_around_a_plain_function_an_interceptor_cannot_wait(
    in_memory: Callable[..., TestEnvironment],
) -> None:
    async with in_memory(workflows=[one_stamp], activities=[stamp], interceptors=[Sleepy()]) as env:
        with pytest.raises(Exception, match="workflow") as caught:
            await env.client.execute(one_stamp, id="one")
        failed = caught.value.__cause__
        assert failed is not None
        assert "nothing but next(call)" in str(failed.__cause__)


async def test_around_an_async_function_it_can(engine: MakeEnvironment) -> None:
    async with engine(workflows=[one_payment], activities=[pay], interceptors=[Sleepy()]) as env:
        began = env.now()
        assert await env.client.execute(one_payment, 5, id="one") == [5]
        assert (env.now() - began).total_seconds() >= 1


@workflow.defn
class Priced:
    def __init__(self) -> None:
        self.price = 0

    @workflow.run
    async def run(self) -> int:
        await workflow.wait_condition(lambda: self.price)
        return self.price

    @workflow.update
    async def set_price(self, price: int) -> str:
        stamped = await stamp(str(price))
        self.price = price
        return stamped

    @workflow.query
    def current(self) -> str:
        return str(self.price)


async def test_updates_and_queries_are_seen_and_updates_carry_headers(engine: MakeEnvironment) -> None:
    async with engine(workflows=[Priced], activities=[stamp], interceptors=[Teller(), Tenant()]) as env:
        handle = await env.client.start(Priced.run, id="priced")
        assert await handle.query(Priced.current) == "asked: 0"
        assert await handle.execute_update(Priced.set_price, 0) == "<0>"
        made = await handle.start_update(Priced.set_price(7))
        assert await made.result() == "<7>"
        assert await handle.result() == 7
        accepted = [event async for event in handle.history() if event.type == "UpdateAccepted"]
        assert [event.payload["headers"] for event in accepted] == [{"tenant": "updater"}] * 2
        assert [event.payload["input"] for event in accepted] == [[0], [7]]
    assert arrived.count(("set_price", "updater")) == 2
    said = [line for line in seen if line.startswith(("update", "query", "handle"))]
    assert said[:2] == ["query current()", "update set_price(0,)"]
    assert sorted(said[2:]) == ["handle set_price(0,)", "handle set_price(7,)", "update set_price(7,)"]


async def test_a_query_carries_headers_in_its_own_process_and_to_another(
    engine: MakeEnvironment, on_disk: Database
) -> None:
    around: dict[str, Any] = {"interceptors": [Tenant()]}
    async with (
        engine(workflows=[Priced], activities=[stamp], **around) as env,
        engine(seed=1, workflows=[], activities=[], **around) as other,
    ):
        handle = await env.client.start(Priced.run, id="priced")
        assert await handle.query(Priced.current) == "0"
        assert await other.client.handle("priced").query(Priced.current) == "0"
        asked = [one for one in arrived if one[0] == "current"]
        assert len(asked) >= 2  # where the owner takes its time, another worker answers as well
        assert set(asked) == {("current", "asker")}
        with pytest.raises(InvalidOptionError, match="timeout"):
            await handle.query(Priced.current, timeout=-1)


async def test_an_update_with_a_start_is_seen_and_its_headers_go_with_both(engine: MakeEnvironment) -> None:
    async with engine(workflows=[Priced], activities=[stamp], interceptors=[Teller(), Tenant()]) as env:
        made = await env.client.update_with_start(
            Priced.run, update=Priced.set_price(7), update_id="u", id="priced"
        )
        assert await made.result() == "<7>"
        assert await env.client.handle("priced").result() == 7
        events = [event async for event in env.client.handle("priced").history()]
        told = {event.type: event.payload.get("headers") for event in events}
        assert told["WorkflowStarted"] == told["UpdateAccepted"] == {"tenant": "acme"}
        assert seen[0] == "start Priced priced"


async def test_an_update_with_a_start_that_an_interceptor_keeps_back_says_so(
    in_memory: Callable[..., TestEnvironment],
) -> None:
    class Keeps(Interceptor):
        async def start_workflow(self, call: StartWorkflow, next: Any) -> Any:
            assert call.update is not None
            assert call.update.name == "set_price"

    async with in_memory(workflows=[Priced], interceptors=[Keeps()]) as env:
        with pytest.raises(InvalidOptionError, match="did not call next"):
            await env.client.update_with_start(Priced.run, update=Priced.set_price(7), id="priced")
        assert await env.client.count() == 0


async def test_a_handle_to_the_run_of_a_reset_is_intercepted_too(
    in_memory: Callable[..., TestEnvironment],
) -> None:
    async with in_memory(**TALK, interceptors=[Teller()]) as env:
        handle = await env.client.start(Talk.run, 0, id="talk")
        await env.sleep(1)
        again = await handle.reset("first-workflow-task")
        await again.signal(Talk.hear, "hi")
        assert "signal hear('hi',) to talk" in seen
        await again.terminate()


async def test_a_start_that_finds_its_workflow_says_so_with_interceptors_too(
    in_memory: Callable[..., TestEnvironment],
) -> None:
    reuse = StartOptions.return_existing()
    async with in_memory(**TALK, interceptors=[Teller()]) as env:
        client, later = env.client, StartOptions(start_delay=100)
        assert not (await client.start(Talk.run, 0, id="talk", options=later)).existed
        assert (await client.start(Talk.run, 0, id="talk", options=reuse)).existed
        signalled = await client.signal_with_start(Talk.run, 0, signal=Talk.hear("hi"), id="talk")
        assert signalled.existed
        afresh = await client.signal_with_start(Talk.run, 0, signal=Talk.hear("hi"), id="t", options=later)
        assert not afresh.existed


@workflow.defn
class Plain:
    """A synchronous workflow, whose handlers block too."""

    def __init__(self) -> None:
        self.stamped = ""

    @workflow.run
    def run(self) -> str:
        workflow.blocking.wait_condition(lambda: self.stamped)
        return self.stamped

    @workflow.signal
    def hear(self, text: str) -> None:
        self.stamped = stamp.call(text)


async def test_plain_workflows_are_seen_too(engine: MakeEnvironment) -> None:
    async with engine(workflows=[Plain], activities=[stamp], interceptors=[Teller()]) as env:
        handle = await env.client.start(Plain.run, id="plain")
        await handle.signal(Plain.hear, "a")
        assert await handle.result() == "<a>"
    assert [line for line in seen if line.startswith(("run", "handle", "call", "ran"))] == [
        "run Plain()",
        "handle hear('a',)",
        "call stamp('a',)",
        "ran Plain",
    ]


async def test_what_is_no_interceptor_is_refused(in_memory: Callable[..., TestEnvironment]) -> None:
    given: Any = [Teller]
    with pytest.raises(InvalidOptionError, match="not the class Teller"):
        _ = Client.connect("sqlite://", interceptors=given)
    async with in_memory() as env:
        wrong: Any = [object()]
        with pytest.raises(InvalidOptionError, match="not an object of type object"):
            Worker(env.client, **TALK, interceptors=wrong)


async def test_an_interceptor_that_looks_at_nothing_is_not_put_in(
    in_memory: Callable[..., TestEnvironment],
) -> None:
    async with in_memory(**TALK, interceptors=[Interceptor()]) as env:
        plain = Worker(env.client, **TALK)
        assert not any(definition.interceptors for definition in plain.workflows.values())
        assert plain.activities == {"pay": pay, "stamp": stamp}


class Counting(Interceptor):
    """A guard: makes one more durable call around each run, as replay must expect."""

    async def run_workflow(self, call: RunWorkflow, next: Any) -> Any:
        await stamp("begin")
        return await next(call)


sender: ContextVar[str] = ContextVar("sender", default="nobody")


class Senders(Interceptor):
    """Carries who sends a message to the code that receives it."""

    async def signal_workflow(self, call: SignalWorkflow, next: Any) -> None:
        call.headers["sender"] = sender.get()
        await next(call)

    def receive_message(self, call: ReceiveMessage, next: Any) -> Any:
        if not workflow.in_replay():
            seen.append(f"receive {call.name} {call.message}")
        if call.message == "bad":
            raise ApplicationError("a bad word")
        sender.set(call.headers.get("sender", "nobody"))
        call.message = call.message.upper()
        return next(call)


@workflow.defn
async def receiving() -> list[Any]:
    heard: list[Any] = []
    for _ in range(3):
        try:
            heard.append([await workflow.receive("word"), sender.get()])
        except ApplicationError as error:
            heard.append(error.message)
    heard.append(await workflow.receive("word", timeout=5, default="silence"))
    return heard


async def test_a_message_is_seen_on_its_way_to_the_code_and_its_headers_reach_it(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=[receiving], interceptors=[Senders()]) as env:
        handle = await env.client.start(receiving)
        for name, word in (("ada", "one"), ("bob", "bad"), ("bob", "two")):
            token = sender.set(name)
            await handle.signal("word", word)
            sender.reset(token)
        assert await handle.result() == [["ONE", "ada"], "a bad word", ["TWO", "bob"], "silence"]
    assert seen == ["receive word one", "receive word bad", "receive word two"]


async def test_the_durable_calls_of_an_interceptor_replay(engine: MakeEnvironment) -> None:
    async with engine(workflows=[one_payment], activities=[pay, stamp], interceptors=[Counting()]) as env:
        handle = await env.client.start(one_payment, 5, id="one")
        assert await handle.result() == [5]
        types = Counter([event.type async for event in handle.history()])
        assert types["ActivityCompleted"] == 2
