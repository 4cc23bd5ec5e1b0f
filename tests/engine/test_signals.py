"""Signals arrive once, in order, and none that was acknowledged is lost."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.engine import programs, talkers
from tests.engine.conftest import MakeEnvironment
from tests.engine.histories import types_of
from tests.engine.talkers import (
    Approval,
    Busy,
    Catchall,
    Collector,
    Messenger,
    Mutex,
    Patient,
    Relay,
    Rolling,
)
from tests.rows import latest_row

from outlast import workflow
from outlast.testing import TestEnvironment
from outlast_workflow.errors import (
    DurableCallError,
    InvalidOptionError,
    StructuralLimitError,
    WorkflowAlreadyStartedError,
    WorkflowClosedError,
    WorkflowFailedError,
    WorkflowNotFoundError,
)
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import RetryPolicy, StartOptions


@pytest.fixture
def talking(engine: MakeEnvironment) -> MakeEnvironment:
    def make(**options: Any) -> TestEnvironment:
        return engine(**{"workflows": talkers.WORKFLOWS, **options})

    return make


async def test_a_signal_is_handled(talking: MakeEnvironment) -> None:
    async with talking() as env:
        handle = await env.client.start(Approval.run, "o-1", id="a")
        await handle.signal("note", "one")
        await handle.signal(Approval.take_note, "two")
        await env.client.signal("a", Approval.approve, "ada")
        assert await handle.result() == ["made for o-1", "begun", "one", "two", "approved by ada"]


async def test_a_signal_may_take_the_defaults_of_its_handler(talking: MakeEnvironment) -> None:
    async with talking() as env:
        handle = await env.client.start(Approval.run, "o-1", id="a")
        await handle.signal("approve")
        assert (await handle.result())[-1] == "approved by nobody"


async def test_a_signal_that_its_handler_could_not_be_given_is_not_sent(talking: MakeEnvironment) -> None:
    async with talking() as env:
        handle = await env.client.start(Approval.run, "o-1", id="a")
        with pytest.raises(
            DurableCallError, match=r"note cannot be called like this: parameter 'text' of .*take_note\(\)"
        ):
            await handle.signal(cast("Any", Approval.take_note), 7)
        with pytest.raises(DurableCallError, match="approve cannot be called like this"):
            await env.client.signal_with_start(
                Approval.run, "o-1", id="a", signal=cast("Any", Approval.approve)(["ada"])
            )
        assert "SignalReceived" not in await types_of(env.client, "a")


@workflow.defn
async def careless(workflow_id: str) -> None:
    await workflow.external(workflow_id).signal(cast("Any", Approval.approve), ["ada"])


async def test_a_workflow_sends_no_signal_that_could_not_be_handled(talking: MakeEnvironment) -> None:
    async with talking(workflows=[Approval, careless]) as env:
        target = await env.client.start(Approval.run, "o-1", id="a")
        sender = await env.client.start(careless, "a", id="s")
        await env.settle()
        (failure, *_) = (await sender.describe()).failures
        assert failure.exception_class == "DurableCallError"
        assert (
            "signal 'approve' cannot be called like this: parameter 'by' of Approval.approve()"
            in failure.message
        )
        assert (await target.describe()).run.task_failures == 0


async def test_a_signal_by_name_that_can_not_be_handled_says_which_and_a_reset_leaves_it_behind(
    talking: MakeEnvironment,
) -> None:
    async with talking() as env:
        handle = await env.client.start(Approval.run, "o-1", id="a")
        await handle.signal("note", "one")
        await env.settle()
        kept = (await handle.describe()).run.history_length
        await handle.signal("note", {"pin": "s3cret"})
        await env.settle()
        (failed,) = [event async for event in handle.history() if event.type == "WorkflowTaskFailed"]
        message = failed.payload["failure"]["message"]
        assert "signal 'note', number 2 of those that this run has received, cannot be handled: " in message
        assert "parameter 'text'" in message
        assert "s3cret" not in message
        again = await handle.reset(kept, signals=False)
        await again.signal(Approval.approve, "ada")
        assert await again.result() == ["made for o-1", "begun", "one", "approved by ada"]


async def test_signals_before_the_first_workflow_task_find_an_instance_that_knows_its_input(
    talking: MakeEnvironment,
) -> None:
    async with talking() as env:
        handle = await env.client.start(
            Approval.run, "o-1", id="a", options=StartOptions(start_delay=3600), task_queue="later"
        )
        await handle.signal(Approval.take_note, "early")
        await handle.signal(Approval.approve, "ada")
        async with env.new_worker(
            task_queue="later", workflows=talkers.WORKFLOWS, activities=programs.ACTIVITIES
        ):
            began = env.now()
            assert await handle.result() == ["made for o-1", "early", "begun", "approved by ada"]
            assert (env.now() - began).total_seconds() < 10


async def test_a_signal_does_not_end_a_backoff(talking: MakeEnvironment) -> None:
    async with talking() as env:
        options = StartOptions(retry_policy=RetryPolicy(initial_interval=100, max_attempts=2))
        handle = await env.client.start(talkers.Fragile.run, id="f", options=options)
        await handle.signal(talkers.Fragile.break_it)
        await env.sleep(1)
        began = env.now()
        await env.client.signal("f", talkers.Fragile.break_it)
        with pytest.raises(WorkflowFailedError):
            await handle.result()
        assert (env.now() - began).total_seconds() > 90


async def test_a_handler_that_raises_ends_the_run(talking: MakeEnvironment) -> None:
    async with talking() as env:
        handle = await env.client.start(talkers.Fragile.run, id="f")
        await handle.signal(talkers.Fragile.break_it)
        with pytest.raises(WorkflowFailedError) as caught:
            await handle.result()
        assert str(caught.value.__cause__) == "Broken: broken"


async def test_a_condition_may_time_out(talking: MakeEnvironment) -> None:
    async with talking() as env:
        late = await env.client.start(Patient.run, 10.0, id="late")
        soon = await env.client.start(Patient.run, 10.0, id="soon")
        never = await env.client.start(Patient.run, 0.0, id="never")
        await env.sleep(5)
        await soon.signal(Patient.say, "hello")
        assert [await late.result(), await soon.result(), await never.result()] == [
            "nothing",
            "hello",
            "nothing",
        ]
        assert "TimerCancelled" in await types_of(env.client, "soon")


async def test_who_waits_for_a_condition_finds_it_true(talking: MakeEnvironment) -> None:
    async with talking() as env:
        assert await env.client.execute(Mutex.run, ["a", "b", "c"]) == [
            "a in", "a out", "b in", "b out", "c in", "c out",
        ]  # fmt: skip


async def test_signals_keep_their_order(talking: MakeEnvironment) -> None:
    async with talking() as env:
        handle = await env.client.start(Collector.run, id="c")
        for number in range(20):
            await handle.signal(Collector.take, number)
        await handle.signal(Collector.stop)
        assert await handle.result() == list(range(20))


async def test_a_dynamic_handler_takes_the_rest(talking: MakeEnvironment) -> None:
    async with talking() as env:
        handle = await env.client.start(Catchall.run, 2, id="c")
        await handle.signal("one")
        await handle.signal("two", 1, "b")
        assert await handle.result() == [["one", []], ["two", [1, "b"]]]


async def test_a_key_makes_a_signal_arrive_once(talking: MakeEnvironment) -> None:
    async with talking() as env:
        handle = await env.client.start(Collector.run, id="c")
        for _ in range(3):
            await handle.signal(Collector.take, 7, request_id="seven")
        await asyncio.gather(*[handle.signal(Collector.take, 8, request_id="eight") for _ in range(3)])
        await handle.signal(Collector.stop, request_id="stop")
        assert await handle.result() == [7, 8]
        await handle.signal(Collector.stop, request_id="stop")  # remembered, though it has ended
        with pytest.raises(WorkflowClosedError):
            await handle.signal(Collector.stop, request_id="other")


async def test_a_key_counts_for_the_whole_chain(talking: MakeEnvironment) -> None:
    async with talking() as env:
        handle = await env.client.start(Rolling.run, 3, [], id="r")
        for key in "aabbacb":
            await env.client.signal("r", Rolling.tell, key, request_id=key)
            await env.settle()
        assert await handle.result() == ["a", "b", "c"]


async def test_signals_without_a_handler_move_with_the_chain(talking: MakeEnvironment) -> None:
    async with talking() as env:
        handle = await env.client.start(talkers.Deaf.run, 100.0, id="d")
        first = handle.run_id
        await handle.signal("later", 1)
        await handle.signal("later", 2, request_id="two")
        await env.sleep(150)
        run = await latest_row(handle)
        assert run.run_number == 2
        history = [event async for event in env.client.handle("d", run_id=run.run_id).history()]
        assert [event.type for event in history[:3]] == [
            "WorkflowStarted",
            "SignalReceived",
            "SignalReceived",
        ]
        assert [event.payload["input"] for event in history[1:3]] == [[1], [2]]
        assert (await types_of(env.client, "d", first)).count("SignalReceived") == 2
        await handle.terminate()


async def test_signals_that_come_with_what_continues_the_run_reach_the_next_one(
    talking: MakeEnvironment,
) -> None:
    async with talking(workflows=(), activities=()) as env:
        handle = await env.client.start(Relay.run, 2, [], id="r")
        await handle.cancel()  # the run method is entered before what comes after this
        await handle.signal("hear", "one")
        await handle.signal("hear", "two")
        async with env.new_worker(workflows=[Relay]):
            await handle.signal("hear", "three")
            assert await handle.result() == ["one", "two", "three"]


async def test_signals_that_race_with_the_end_are_handled_or_refused(talking: MakeEnvironment) -> None:
    async with talking() as env:
        handle = await env.client.start(Busy.run, id="b")
        acknowledged = 0

        async def storm() -> None:
            nonlocal acknowledged
            while True:
                try:
                    await handle.signal(Busy.ping)
                except WorkflowClosedError:
                    return
                acknowledged += 1

        storms = [asyncio.ensure_future(storm()) for _ in range(3)]
        await handle.result()
        await asyncio.gather(*storms)
        types = await types_of(env.client, "b")
        assert types.count("SignalReceived") == acknowledged  # each was applied: the invariants look


async def test_a_run_in_a_storm_of_signals_comes_to_its_end(
    talking: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal lands between each of its last workflow tasks and their commit; still it ends."""
    from outlast.worker.runs.task_builder import Decider
    from outlast_runs.signals import SendSignal
    from outlast_workflow.history.events import SignalReceived
    from outlast_workflow.primitives.payloads import Payload

    sent: list[Any] = []
    decide = Decider.decide

    def decide_after_a_signal(
        decider: Any, cached_run: Any, commands: Any, *args: Any, **options: Any
    ) -> Any:
        if commands and commands[-1].terminal and options.get("eager", True):
            ping = SignalReceived("ping", Payload.of([]))
            signal = SendSignal(cached_run.run.workflow_id, cached_run.run_id, ping, StructuralLimits())
            env.client.runtime.journal.submit(signal, lambda value, error: sent.append(error))
        return decide(decider, cached_run, commands, *args, **options)

    monkeypatch.setattr(Decider, "decide", decide_after_a_signal)
    async with talking() as env:
        handle = await env.client.start(Busy.run, id="b")
        await handle.signal(Busy.ping)
        await handle.result()
        assert sent == [None, None]
        assert (await types_of(env.client, "b")).count("SignalReceived") == 3


async def test_signal_with_start_starts_or_signals(talking: MakeEnvironment) -> None:
    async with talking() as env:
        handle = await env.client.signal_with_start(
            Approval.run, "o-1", id="a", signal=Approval.take_note("one")
        )
        await env.client.signal_with_start(Approval.run, "o-1", id="a", signal=Approval.take_note("two"))
        again = await env.client.signal_with_start(
            Approval.run, "o-1", id="a", signal="approve", signal_args=["ada"], request_id="k"
        )
        assert again.run_id == handle.run_id
        assert await handle.result() == ["made for o-1", "one", "begun", "two", "approved by ada"]
        fresh = await env.client.signal_with_start(
            Approval.run, "o-2", id="a", signal=Approval.approve("bob"), request_id="k"
        )
        assert await fresh.result() == ["made for o-2", "begun", "approved by bob"]
        with pytest.raises(WorkflowAlreadyStartedError):
            await env.client.signal_with_start(
                Approval.run, "o-3", id="a", signal=Approval.approve("eve"),
                options=StartOptions(duplicate_policy="reject_duplicate"),
            )  # fmt: skip


async def test_signal_with_start_waits_for_a_worker(talking: MakeEnvironment) -> None:
    async with talking() as env:
        handle = await env.client.signal_with_start(
            Approval.run, "o-1", id="a", signal=Approval.approve("ada"), task_queue="later"
        )
        async with env.new_worker(
            task_queue="later", workflows=talkers.WORKFLOWS, activities=programs.ACTIVITIES
        ):
            assert await handle.result() == ["made for o-1", "begun", "approved by ada"]


async def test_workflows_signal_each_other(talking: MakeEnvironment) -> None:
    async with talking() as env:
        target = await env.client.start(Approval.run, "o-1", id="target")
        messenger = await env.client.start(Messenger.run, ["target", "nobody", "target"], id="m")
        assert await messenger.result() == ["sent", "WorkflowNotFoundError", "WorkflowClosedError"]
        assert (await target.result())[-1] == "approved by m"
        types = await types_of(env.client, "m")
        assert types.count("ExternalSignalRequested") == 3
        assert types.count("ExternalSignalDelivered") == 1
        assert types.count("ExternalSignalFailed") == 2


async def test_a_workflow_may_signal_as_its_last_act(talking: MakeEnvironment) -> None:
    async with talking() as env:
        target = await env.client.start(Approval.run, "o-1", id="target")
        assert await env.client.execute(talkers.FireAndForget.run, "target") == "gone"
        assert (await target.result())[-1] == "approved by parting"


async def test_too_many_signals_are_refused_alone(talking: MakeEnvironment) -> None:
    async with talking(limits=StructuralLimits(unhandled_signals=3)) as env:
        deaf = await env.client.start(talkers.Deaf.run, 100.0, id="d")
        for number in range(3):
            await deaf.signal("later", number)
            await env.settle()
        with pytest.raises(StructuralLimitError, match="unhandled signals limit exceeded: 4 > 3"):
            await deaf.signal("later", 3)
        await deaf.terminate()
        collector = await env.client.start(Collector.run, id="c")
        for number in range(9):
            await collector.signal(Collector.take, number)
            await env.settle()
        await collector.signal(Collector.stop)
        assert await collector.result() == list(range(9))


async def test_what_can_not_be_signalled_says_so(talking: MakeEnvironment) -> None:
    async with talking() as env:
        with pytest.raises(WorkflowNotFoundError):
            await env.client.signal("nobody", Approval.approve, "ada")
        handle = await env.client.start(Approval.run, "o-1", id="a")
        with pytest.raises(DurableCallError, match="takes 0 to 1 arguments"):
            await handle.signal(Approval.approve, "a", "b")  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType,reportCallIssue]
        with pytest.raises(InvalidOptionError, match="not a signal"):
            await handle.signal(Approval.run)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType,reportCallIssue]
        await handle.signal(Approval.approve, "ada")
        await handle.result()
        with pytest.raises(WorkflowClosedError):
            await handle.signal(Approval.approve, "bob")
