"""Updates happen once, are answered once, and leave nothing where they were refused."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, cast

import pytest
from tests.engine import answerers, programs
from tests.engine.answerers import Anything, Brief, Cart, Failing, Hasty, Line, Meddler, Ordered, Relay
from tests.engine.conftest import MakeEnvironment
from tests.engine.histories import types_of
from tests.rows import latest_row

from outlast.testing import TestEnvironment
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import (
    ApplicationError,
    DurableCallError,
    InvalidOptionError,
    StructuralLimitError,
    WorkflowClosedError,
    WorkflowFailedError,
    WorkflowNotFoundError,
    WorkflowTimeoutError,
)
from outlast_workflow.errors.request import (
    RequestTimeoutError,
    UnknownHandlerError,
    UpdateFailedError,
    UpdateRejectedError,
)
from outlast_workflow.errors.task import ReadOnlyContextError
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import RetryPolicy, StartOptions


@pytest.fixture
def answering(engine: MakeEnvironment) -> MakeEnvironment:
    def make(**options: Any) -> TestEnvironment:
        return engine(**{"workflows": answerers.WORKFLOWS, **options})

    return make


# --- the answer -----------------------------------------------------------------------------------------------------


async def test_an_update_is_handled_and_answered(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        assert await handle.execute_update(Cart.put, Line(name="tea")) == 1
        assert await handle.execute_update(Cart.put(Line(name="cups", count=2))) == 2
        assert await env.client.handle("c").execute_update(Cart.pay_for_it, 500) == Line(
            name="ada paid", count=502
        )
        assert await handle.execute_update("pay", 1, result_type=Line) == Line(name="ada paid", count=3)
        assert await handle.execute_update("put", {"name": "milk"}) == 3
        assert await handle.execute_update(Cart.close) == "close begun=True"
        assert await handle.result() == ["tea", "cups", "milk"]
        types = await types_of(env.client, "c")
        assert types.count("UpdateAccepted") == types.count("UpdateCompleted") == 6


async def test_an_update_may_be_waited_for_in_stages(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        waiting = await handle.start_update(Cart.wait_for, 2, id="two")
        assert waiting.id == "two"
        assert await handle.execute_update(Cart.put, Line(name="tea")) == 1
        done = await handle.start_update(Cart.put, Line(name="cups"), wait_for="completed")
        assert await done.result() == 2
        assert await waiting.result() == 2
        assert await waiting.result() == 2


async def test_an_answer_may_come_too_late(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        with pytest.raises(RequestTimeoutError) as caught:
            await handle.execute_update(Cart.wait_for, 1, id="one", timeout=5)
        assert caught.value.timeout_seconds == 5
        assert await handle.execute_update(Cart.put, Line(name="tea")) == 1
        assert await handle.execute_update(Cart.wait_for, 1, id="one", timeout=5) == 1


async def test_what_a_handler_raises_is_its_updates_answer(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        with pytest.raises(UpdateFailedError) as caught:
            await handle.execute_update(Cart.fail, id="f")
        cause = caught.value.__cause__
        assert isinstance(cause, ApplicationError)
        assert (cause.type, cause.details) == ("Poor", ("details",))
        assert caught.value.update_id == "f"
        made = await handle.start_update(Cart.crash)
        with pytest.raises(UpdateFailedError, match="crash"):
            await made.result()
        assert await handle.execute_update(Cart.put, Line(name="tea")) == 1


async def test_an_update_of_a_dynamic_handler(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Anything.run, 2, id="a")
        assert await handle.execute_update("one", 1, "b") == "one"
        assert await handle.execute_update("two") == "two"
        assert await handle.result() == [["one", [1, "b"]], ["two", []]]


async def test_what_came_before_an_update_has_happened_when_it_is_validated(
    answering: MakeEnvironment,
) -> None:
    async with answering() as env:
        handle = await env.client.start(Ordered.run, id="o")
        await asyncio.gather(
            handle.signal(Ordered.say, "a"),
            handle.execute_update(Ordered.put, "a"),
            handle.signal(Ordered.say, "b"),
            handle.execute_update(Ordered.put, "b"),
        )
        await handle.signal(Ordered.finish)
        log = await handle.result()
        assert log.index("signal a") < log.index("update a")
        assert log.index("signal b") < log.index("update b")


# --- rejections -----------------------------------------------------------------------------------------------------


async def test_a_rejected_update_leaves_nothing_but_its_answer(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        await env.settle()
        before = await types_of(env.client, "c")
        for _ in range(2):  # which is remembered
            with pytest.raises(UpdateRejectedError) as caught:
                await handle.start_update(Cart.put, Line(name="air", count=0), id="air")
            assert str(caught.value.__cause__) == "ValueError: put at least one"
        assert await types_of(env.client, "c") == before
        run = await latest_row(handle)
        assert (run.wake_at, run.inbox) == (None, 1)
        with pytest.raises(UpdateRejectedError):  # whatever is asked under its id
            await handle.execute_update(Cart.put, Line(name="tea"), id="air")


async def test_an_update_without_a_handler_is_rejected(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        with pytest.raises(UpdateRejectedError) as caught:
            await handle.execute_update("steal")
        cause = caught.value.__cause__
        assert isinstance(cause, UnknownHandlerError)
        assert cause.known == ["close", "crash", "fail", "pay", "put", "wait_for"]
        plain = await env.client.start("Brief", id="b", options=StartOptions(start_delay=100))
        with pytest.raises(UpdateRejectedError, match="other"):
            await plain.execute_update("other")


async def test_an_update_that_its_handler_cannot_be_given_is_rejected(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        with pytest.raises(UpdateRejectedError) as caught:
            await handle.execute_update("put", {"nome": "tea"})
        assert type(caught.value.__cause__).__name__ == "PayloadDecodeError"
        assert await handle.execute_update(Cart.put, Line(name="tea")) == 1


async def test_an_update_that_its_handler_could_not_be_given_is_not_sent(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        with pytest.raises(
            DurableCallError, match=r"put cannot be called like this: parameter 'line' of .*put\(\)"
        ):
            await handle.execute_update(cast("Any", Cart.put), {"nome": "tea"})
        assert await handle.execute_update(cast("Any", Cart.put), {"name": "tea"}) == 1


class Locked:
    """A codec whose key is away at times."""

    name = "locked"

    def __init__(self) -> None:
        self.away = False

    def encode(self, data: bytes) -> bytes:
        return data[::-1]

    def decode(self, data: bytes) -> bytes:
        if self.away:
            raise ConnectionError("the key service is down")
        return data[::-1]


async def test_an_update_waits_for_a_codec_that_is_away_and_is_not_rejected(
    answering: MakeEnvironment,
) -> None:
    codec = Locked()
    async with answering(max_task_failures=0, converter=DataConverter(codec=codec)) as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        assert await handle.execute_update(Cart.put, Line(name="tea")) == 1
        codec.away = True
        asked = asyncio.create_task(handle.execute_update(Cart.put, Line(name="milk"), id="u"))
        await env.sleep(30)
        found = await handle.describe()
        assert found.run.task_failures > 0
        assert [(one.update_id, one.accepted) for one in found.pending_updates] == [("u", False)]
        codec.away = False
        assert await asked == 2


async def test_a_validator_may_only_look(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Meddler.run, id="m")
        for update in (Meddler.wake, Meddler.sneak):
            with pytest.raises(UpdateRejectedError) as caught:
                await handle.execute_update(update)
            assert isinstance(caught.value.__cause__, ReadOnlyContextError)
        assert await handle.execute_update(Meddler.fine, "well") == "well"
        await handle.signal(Meddler.finish)
        assert await handle.result() == ["well"]
        assert "ActivityScheduled" not in await types_of(env.client, "m")


async def test_a_rejection_does_not_hide_that_a_task_keeps_failing(answering: MakeEnvironment) -> None:
    async with answering(max_task_failures=0) as env:
        handle = await env.client.start(answerers.Broken.run, id="b")
        await env.sleep(12)
        assert (await latest_row(handle)).task_failures > 0
        with pytest.raises(RequestTimeoutError):
            await handle.execute_update("any", timeout=30)
        assert (await latest_row(handle)).task_failures > 1
        await handle.terminate()


# --- once -----------------------------------------------------------------------------------------------------------


async def test_an_update_of_one_id_happens_once(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        answers = await asyncio.gather(
            *[handle.execute_update(Cart.put, Line(name=f"tea {n}"), id="tea") for n in range(20)]
        )
        assert answers == [1] * 20
        assert await handle.execute_update(Cart.put, Line(name="cups"), id="cups") == 2
        assert await handle.execute_update(Cart.put, Line(name="tea"), id="tea") == 1
        await handle.execute_update(Cart.close, id="close")
        assert await handle.result() == ["tea 0", "cups"]
        assert await handle.execute_update(Cart.put, Line(name="tea"), id="tea") == 1  # remembered
        assert await handle.execute_update(Cart.close, id="close") == "close begun=True"
        with pytest.raises(WorkflowClosedError):
            await handle.execute_update(Cart.put, Line(name="tea"), id="more")


async def test_an_id_counts_for_the_whole_chain(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Relay.run, 1, [], id="r")
        assert await handle.execute_update(Relay.tell, "a", id="a") == ["run 1", "a"]
        await handle.signal(Relay.go_on)
        await env.settle()
        assert await handle.execute_update(Relay.tell, "a", id="a") == ["run 1", "a"]
        assert await env.client.handle("r").execute_update(Relay.tell, "b", id="b") == ["run 2", "a", "b"]
        await env.client.handle("r").signal(Relay.end)
        assert await handle.result() == ["a", "b"]


# --- beginnings -----------------------------------------------------------------------------------------------------


async def test_an_update_ends_a_start_delay(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c", options=StartOptions(start_delay=3600))
        began = env.now()
        assert await handle.execute_update(Cart.close) == "close begun=False"
        assert await handle.result() == []
        assert env.now() - began < timedelta(seconds=10)


async def test_an_update_comes_with_a_start(answering: MakeEnvironment) -> None:
    async with answering() as env:
        before = env.client.runtime.journal.committer.batches
        made = await env.client.update_with_start(
            Cart.run, "ada", update=Cart.put(Line(name="tea")), update_id="tea", id="c"
        )
        assert env.client.runtime.journal.committer.batches == before + 1
        assert await made.result() == 1
        again = await env.client.update_with_start(
            Cart.run, "bob", update="put", update_args=[Line(name="tea")], update_id="tea", id="c"
        )
        assert await again.result() == 1
        more = await env.client.update_with_start(Cart.run, "bob", update=Cart.put(Line(name="cups")), id="c")
        assert await more.result() == 2
        last = await env.client.update_with_start(Cart.run, "bob", update=Cart.close(), update_id="x", id="c")
        assert await last.result() == "close begun=True"
        assert await env.client.handle("c").result() == ["tea", "cups"]
        once_more = await env.client.update_with_start(
            Cart.run, "bob", update=Cart.close(), update_id="x", id="c"
        )
        assert await once_more.result() == "close begun=True"
        assert await env.client.count(workflow_id="c") == 1


async def test_an_update_with_a_start_may_be_rejected(answering: MakeEnvironment) -> None:
    async with answering() as env:
        with pytest.raises(UpdateRejectedError):
            await env.client.update_with_start(
                Cart.run, "ada", update=Cart.put(Line(name="air", count=0)), id="c"
            )
        assert await env.client.handle("c").execute_update(Cart.put, Line(name="tea")) == 1


async def test_an_update_with_a_start_is_handled_by_a_workflow_that_ends_at_once(
    answering: MakeEnvironment,
) -> None:
    async with answering() as env:
        made = await env.client.update_with_start(Brief.run, update=Brief.ask("now"), id="b")
        assert await made.result() == 1
        assert await env.client.handle("b").result() == ["now"]


async def test_an_update_waits_for_a_worker(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c", task_queue="later")
        asked = asyncio.ensure_future(handle.execute_update(Cart.put, Line(name="tea")))
        await env.settle()
        assert not asked.done()
        async with env.new_worker(
            task_queue="later", workflows=answerers.WORKFLOWS, activities=programs.ACTIVITIES
        ):
            assert await asked == 1


# --- ends -----------------------------------------------------------------------------------------------------------


async def test_what_is_unfinished_at_the_end_gets_a_failure(answering: MakeEnvironment) -> None:
    async with answering() as env:
        for end in ("terminate", "cancel", "signal"):
            handle = await env.client.start(Relay.run, 1, [], id=end)
            made = await handle.start_update(Relay.never)
            if end == "signal":
                await handle.signal(Relay.end)
            else:
                await getattr(handle, end)()
            with pytest.raises(UpdateFailedError) as caught:
                await made.result()
            assert isinstance(caught.value.__cause__, WorkflowClosedError)
            assert "before the update was finished" in str(caught.value.__cause__)
            assert (await types_of(env.client, end))[-2:-1] == ["UpdateCompleted"]


async def test_what_nobody_accepted_gets_a_failure(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c", task_queue="nobody")
        asked = asyncio.ensure_future(handle.execute_update(Cart.put, Line(name="tea"), id="tea"))
        await env.settle()
        await handle.terminate()
        with pytest.raises(WorkflowClosedError, match="before it accepted the update"):
            await asked
        with pytest.raises(WorkflowClosedError, match="before it accepted the update"):  # remembered
            await handle.execute_update(Cart.put, Line(name="tea"), id="tea")


async def test_a_deadline_answers_what_is_open(answering: MakeEnvironment) -> None:
    async with answering() as env:
        options = StartOptions(run_timeout=50)
        handle = await env.client.start(Relay.run, 1, [], id="r", options=options)
        other = await env.client.start(Cart.run, "ada", id="c", task_queue="nobody", options=options)
        made = await handle.start_update(Relay.never)
        asked = asyncio.ensure_future(other.execute_update(Cart.put, Line(name="tea")))
        with pytest.raises(UpdateFailedError):
            await made.result()
        with pytest.raises(WorkflowClosedError):
            await asked
        with pytest.raises(WorkflowTimeoutError):
            await handle.result()


async def test_what_nobody_accepted_goes_on_with_the_chain(answering: MakeEnvironment) -> None:
    async with answering() as env:
        options = StartOptions(run_timeout=50, retry_policy=RetryPolicy(initial_interval=1, max_attempts=2))
        handle = await env.client.start(Cart.run, "ada", id="c", task_queue="later", options=options)
        asked = asyncio.ensure_future(handle.execute_update(Cart.put, Line(name="tea"), id="tea"))
        await env.sleep(52)
        assert (await latest_row(handle)).run_number == 2
        async with env.new_worker(
            task_queue="later", workflows=answerers.WORKFLOWS, activities=programs.ACTIVITIES
        ):
            assert await asked == 1


async def test_what_was_accepted_does_not_go_on_with_the_chain(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Relay.run, 1, [], id="r")
        made = await handle.start_update(Relay.never)
        await handle.signal(Relay.go_on)
        with pytest.raises(UpdateFailedError, match="failed"):
            await made.result()
        assert await env.client.handle("r").execute_update(Relay.tell, "a") == ["run 2", "a"]
        await env.client.handle("r").terminate()


async def test_an_update_may_continue_as_new(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Ordered.run, id="o")
        with pytest.raises(UpdateFailedError):
            await handle.execute_update(Ordered.go_on_as_new)
        assert (await latest_row(handle)).run_number == 2
        await handle.terminate()


async def test_updates_that_come_with_what_continues_the_run_are_answered_by_the_next_one(
    answering: MakeEnvironment,
) -> None:
    async with answering() as env:
        handle = await env.client.start(Hasty.run, 2, [], id="h", task_queue="later")
        await handle.cancel()  # the run method is entered before what comes after this
        words = ("one", "two", "three")
        asked = []
        for word in words:
            asked.append(asyncio.ensure_future(handle.execute_update(Hasty.tell, word)))
            await env.settle()
        async with env.new_worker(
            task_queue="later", workflows=answerers.WORKFLOWS, activities=programs.ACTIVITIES
        ):
            assert await asyncio.gather(*asked) == [1, 2, 3]
            assert await handle.result() == list(words)


async def test_updates_that_race_with_the_end_are_handled_or_refused(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        answered: list[int] = []
        refused = 0

        async def storm(name: str) -> None:
            nonlocal refused
            for number in range(50):
                try:
                    answered.append(await handle.execute_update(Cart.put, Line(name=f"{name} {number}")))
                except WorkflowClosedError:
                    refused += 1
                    return

        storms = [asyncio.ensure_future(storm(name)) for name in "abc"]
        await env.settle()
        await handle.execute_update(Cart.close)
        names = await handle.result()
        await asyncio.gather(*storms)
        assert sorted(answered) == list(range(1, len(names) + 1))


async def test_updates_that_race_with_a_new_run_are_handled_once(answering: MakeEnvironment) -> None:
    async with answering() as env:
        handle = await env.client.start(Relay.run, 1, [], id="r")

        async def tell(word: str) -> list[str]:
            return await env.client.handle("r").execute_update(Relay.tell, word, id=word)

        asked = []
        for number in range(30):
            asked.append(asyncio.ensure_future(tell(f"w{number}")))
            if number % 5 == 2:
                await env.client.handle("r").signal(Relay.go_on)
        await asyncio.gather(*asked)
        assert (await latest_row(handle)).run_number > 1
        await env.client.handle("r").signal(Relay.end)
        assert sorted(await handle.result()) == sorted(f"w{number}" for number in range(30))


async def test_a_run_in_a_storm_of_updates_comes_to_its_end(
    answering: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update lands between each of its last workflow tasks and their commit; still it ends, and all are answered."""
    from outlast.worker.runs.task_builder import Decider

    async with answering() as env:
        handle = await env.client.start(Cart.run, "ada", id="c")
        asked: list[asyncio.Future[int]] = []
        decide = Decider.decide

        def decide_while_asked(decider: Any, cached_run: Any, *args: Any, **options: Any) -> Any:
            if cached_run.machine.terminal is not None and options.get("eager", True) and len(asked) < 20:
                line = Line(name=f"late {len(asked)}")
                asked.append(asyncio.ensure_future(handle.execute_update(Cart.put, line)))
                monkeypatch.setattr(env.client.runtime.journal, "submit", hold)
            return decide(decider, cached_run, *args, **options)

        submit = env.client.runtime.journal.submit

        def hold(change: Any, callback: Any) -> None:
            """The update gets into the queue before the workflow task."""
            monkeypatch.setattr(env.client.runtime.journal, "submit", submit)
            env.client.runtime.loop.call_soon(submit, change, callback)

        monkeypatch.setattr(Decider, "decide", decide_while_asked)
        await handle.execute_update(Cart.close)
        names = await handle.result()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert len(asked) >= 2
        assert len(names) + sum(isinstance(one, WorkflowClosedError) for one in answers) == len(asked)


# --- bad input ------------------------------------------------------------------------------------------------------


async def test_what_cannot_be_asked_is_refused_before_anything_is_written(answering: MakeEnvironment) -> None:
    limits = StructuralLimits(open_updates=2, payload_bytes=500)
    async with answering(limits=limits) as env:
        handle: Any = await env.client.start(Cart.run, "ada", id="c")
        before = env.client.runtime.journal.committer.batches
        with pytest.raises(InvalidOptionError, match="is not an update"):
            await handle.execute_update(Cart.drop, "x")
        with pytest.raises(DurableCallError, match="put"):
            await handle.execute_update(Cart.put)
        with pytest.raises(InvalidOptionError, match="update id"):
            await handle.execute_update(Cart.close, id="")
        with pytest.raises(InvalidOptionError, match="wait_for"):
            await handle.start_update(Cart.close, wait_for="begun")
        with pytest.raises(InvalidOptionError, match="timeout"):
            await handle.execute_update(Cart.close, timeout=-1)
        with pytest.raises(StructuralLimitError):
            await handle.execute_update(Cart.put, Line(name="x" * 600))
        with pytest.raises(WorkflowNotFoundError):
            await env.client.handle("nobody").execute_update(Cart.close)
        assert env.client.runtime.journal.committer.batches == before
        for number in range(2):
            await handle.start_update(Cart.wait_for, 1, id=f"{number}")
        with pytest.raises(StructuralLimitError) as caught:
            await handle.start_update(Cart.wait_for, 1, id="2")
        assert (caught.value.kind, caught.value.value, caught.value.limit) == ("open_updates", 3, 2)
        # One that is there already is not refused.
        await handle.start_update(Cart.wait_for, 1, id="1")


# --- signals on the way ---------------------------------------------------------------------------------------------


async def test_signals_without_a_handler_move_with_a_retry(answering: MakeEnvironment) -> None:
    async with answering() as env:
        policy = RetryPolicy(initial_interval=1, max_attempts=2)
        options = StartOptions(run_timeout=50, retry_policy=policy)
        handle = await env.client.start(Ordered.run, id="o", options=options)
        await handle.signal("unheard", 1)
        await handle.signal(Ordered.say, "heard")
        await handle.signal("unheard", 2)
        await env.sleep(10)
        await handle.signal("other")
        await env.sleep(42)
        run = await latest_row(handle)
        assert run.run_number == 2
        history = [event async for event in env.client.handle("o", run_id=run.run_id).history()]
        moved = [
            (event.payload["name"], event.payload["input"])
            for event in history
            if event.type == "SignalReceived"
        ]
        assert moved == [("unheard", [1]), ("unheard", [2]), ("other", [])]
        with pytest.raises(WorkflowTimeoutError):
            await handle.result()


async def test_signals_without_a_handler_move_in_order_with_a_failure(answering: MakeEnvironment) -> None:
    async with answering() as env:
        policy = RetryPolicy(initial_interval=1, max_attempts=2)
        handle = await env.client.start(Failing.run, id="f", options=StartOptions(retry_policy=policy))
        await handle.signal("first")
        await handle.signal("second")
        await handle.signal(Failing.fail)
        await env.sleep(5)
        run = await latest_row(handle)
        assert run.run_number == 2
        types = [
            event.payload["name"]
            async for event in env.client.handle("f", run_id=run.run_id).history()
            if event.type == "SignalReceived"
        ]
        assert types == ["first", "second"]
        await env.client.handle("f").signal(Failing.fail)
        with pytest.raises(WorkflowFailedError):
            await handle.result()
