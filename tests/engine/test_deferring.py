"""Activities that somebody outside ends: a handler defers, and a client completes, fails, cancels or heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment
from tests.engine.histories import types_of

from outlast import (
    ActivityError,
    ActivityIds,
    ActivityTimeoutError,
    ApplicationError,
    Client,
    InvalidOptionError,
    RetryPolicy,
    StartOptions,
    StructuralLimitError,
    StructuralLimits,
    WorkflowFailedError,
    WorkflowHandle,
    WorkflowNotFoundError,
    activity,
    workflow,
)
from outlast.errors import (
    ActivityCancelRequestedError,
    ActivityNotFoundError,
    AttemptNotRunningError,
    DeferRefusedError,
    PayloadEncodeError,
    RefusedError,
    RunNotFoundError,
    WorkflowCancelledError,
)
from outlast.interceptors import (
    CancelActivity,
    CompleteActivity,
    FailActivity,
    HeartbeatActivity,
    Interceptor,
    RunActivity,
)
from outlast.testing import TestEnvironment
from outlast_activities.attempts import RESCUED
from outlast_activities.changes import EndAttempt
from outlast_activities.task_token import read_token

tokens: list[str] = []
"""What handlers have given to the outside, in order."""
in_time: list[Callable[[], Awaitable[None]]] = []
"""What the outside does before a handler has returned."""
RETRIED = RetryPolicy(initial_interval=10, backoff_coefficient=1, max_attempts=3)


@pytest.fixture(autouse=True)
def _afresh() -> None:
    tokens.clear()
    in_time.clear()


@activity.defn(start_to_close_timeout=3600, retry_policy=RETRIED)
async def ask(question: str) -> str:
    tokens.append(activity.info().task_token)
    for act in in_time:
        await act()
    return activity.defer()


@activity.defn(start_to_close_timeout=3600, retry_policy=RETRIED)
def ask_plainly(question: str) -> str:
    tokens.append(activity.info().task_token)
    return activity.defer()


@activity.defn(heartbeat_timeout=30, retry_policy=RETRIED)
async def ask_silently() -> tuple[int, list[Any]]:
    info = activity.info()
    tokens.append(info.task_token)
    activity.heartbeat(*(info.heartbeat_details or ("begun",)))
    return activity.defer()


@activity.defn(heartbeat_timeout=30)
async def ask_slowly() -> str:
    activity.heartbeat("at first")
    await asyncio.sleep(20)
    activity.heartbeat("at last")
    tokens.append(activity.info().task_token)
    return activity.defer()


@activity.defn(retry_policy=RETRIED)
async def ask_for_ever() -> str:
    return activity.defer()


@workflow.defn
async def asks(question: str) -> str:
    return await ask(question)


@workflow.defn
def asks_plainly(question: str) -> str:
    return ask_plainly.call(question)


@workflow.defn
async def asks_many(number: int) -> list[str]:
    return await asyncio.gather(*[ask(f"question {n}") for n in range(number)])


@workflow.defn
async def asks_silently() -> tuple[int, list[Any]]:
    return await ask_silently()


@workflow.defn
async def asks_slowly() -> str:
    return await ask_slowly()


@workflow.defn
async def asks_for_ever() -> str:
    return await ask_for_ever()


@workflow.defn
async def asks_locally() -> str:
    return await workflow.execute_local_activity(ask, "here")


@workflow.defn
async def gives_up(kind: str) -> str:
    call = asyncio.ensure_future(ask.with_options(cancellation_type=kind)("still?"))
    await asyncio.sleep(5)
    call.cancel()
    try:
        return await call
    except asyncio.CancelledError:
        await asyncio.sleep(100)
        return "gave up"


@workflow.defn
async def asks_again_and_again(times: int) -> str:
    answer = await ask(f"{times} more")
    if times > 1:
        raise workflow.continue_as_new(times - 1)
    return answer


WORKFLOWS = (
    asks,
    asks_plainly,
    asks_many,
    asks_silently,
    asks_slowly,
    asks_for_ever,
    asks_locally,
    gives_up,
    asks_again_and_again,
)
ACTIVITIES = (ask, ask_plainly, ask_silently, ask_slowly, ask_for_ever)


@pytest.fixture
def asking(engine: MakeEnvironment) -> MakeEnvironment:
    return lambda **options: engine(**{"workflows": WORKFLOWS, "activities": ACTIVITIES, **options})


@pytest.fixture
def asking_in_memory(in_memory: MakeEnvironment) -> MakeEnvironment:
    return lambda **options: in_memory(**{"workflows": WORKFLOWS, "activities": ACTIVITIES, **options})


async def pending(handle: WorkflowHandle[Any]) -> Any:
    (found,) = (await handle.describe()).pending_activities
    return found


async def until_deferred(env: TestEnvironment, handle: WorkflowHandle[Any], attempts: int = 1) -> str:
    """The token of the attempt that has been left to the outside."""
    while True:
        found = (await handle.describe()).pending_activities
        if len(tokens) >= attempts and found and found[0].deferred:
            return tokens[-1]
        await env.sleep(0.1)


# --- completing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plainly", [False, True], ids=["async", "plain"])
@pytest.mark.parametrize("by_ids", [False, True], ids=["token", "ids"])
async def test_somebody_outside_completes_it(asking: MakeEnvironment, plainly: bool, by_ids: bool) -> None:
    async with asking() as env:
        handle = await env.client.start(asks_plainly if plainly else asks, "may I?", id="w")
        token = await until_deferred(env, handle)
        found = await pending(handle)
        assert (found.status.value, found.deferred, found.worker) == ("running", True, None)
        assert found.next_deadline_at == found.started_at + timedelta(hours=1)
        await env.sleep(1800)
        await env.client.complete_activity(ActivityIds("w", 1) if by_ids else token, "you may")
        assert await handle.result() == "you may"
        assert len(tokens) == 1
        types = await types_of(env.client, "w")
        assert [type for type in types if type.startswith("Activity")] == [
            "ActivityScheduled",
            "ActivityCompleted",
        ]


async def test_it_keeps_no_slot(asking: MakeEnvironment) -> None:
    async with asking(max_concurrent_activities=2) as env:
        handle = await env.client.start(asks_many, 9, id="w")
        while len(tokens) < 9:
            await env.sleep(0.1)
        await env.settle()
        for number, token in enumerate(tokens):
            await env.client.complete_activity(token, str(number))
        assert sorted(await handle.result()) == [str(n) for n in range(9)]


async def test_an_answer_that_is_earlier_than_the_deferral_counts(
    asking: MakeEnvironment, written_once: None
) -> None:
    async with asking() as env:

        async def answer() -> None:
            await env.client.complete_activity(tokens[-1], "at once")

        in_time.append(answer)
        handle = await env.client.start(asks, "may I?", id="w")
        assert await handle.result() == "at once"
        assert len(tokens) == 1


async def test_a_second_answer_is_told_of_the_first(asking_in_memory: MakeEnvironment) -> None:
    async with asking_in_memory() as env:
        handle = await env.client.start(asks, "may I?", id="w")
        token = await until_deferred(env, handle)
        await env.client.complete_activity(token, "yes")
        assert await handle.result() == "yes"
        for call in (
            env.client.complete_activity(token, "no"),
            env.client.fail_activity(token),
            env.client.heartbeat_activity(token),
            env.client.complete_activity(ActivityIds("w", 1)),
        ):
            with pytest.raises(AttemptNotRunningError) as caught:
                await call
            assert (caught.value.outcome, caught.value.workflow_id) == ("completed", "w")
            assert "no" not in caught.value.message.split()


# --- failing and time -----------------------------------------------------------------------------------------------


async def test_a_failure_runs_the_handler_again_with_a_new_token(asking: MakeEnvironment) -> None:
    async with asking() as env:
        handle = await env.client.start(asks, "may I?", id="w")
        first = await until_deferred(env, handle)
        await env.client.fail_activity(first, "come back tomorrow")
        second = await until_deferred(env, handle, 2)
        assert second != first
        with pytest.raises(AttemptNotRunningError, match="a token of its own"):
            await env.client.complete_activity(first, "yes")
        found = await pending(handle)
        assert (found.attempt, found.last_failure.message) == (2, "come back tomorrow")
        await env.client.fail_activity(ActivityIds("w", 1), ValueError("never"))
        third = await until_deferred(env, handle, 3)
        await env.client.fail_activity(third, ApplicationError("no", 42, type="Denied", non_retryable=True))
        with pytest.raises(WorkflowFailedError) as caught:
            await handle.result()
        failed = caught.value.__cause__
        assert isinstance(failed, ActivityError)
        assert isinstance(failed.__cause__, ApplicationError)
        assert (failed.__cause__.type, failed.__cause__.details) == ("Denied", (42,))


async def test_a_timeout_runs_the_handler_again(asking: MakeEnvironment) -> None:
    async with asking() as env:
        handle = await env.client.start(asks, "may I?", id="w")
        first = await until_deferred(env, handle)
        await env.sleep(3600)
        second = await until_deferred(env, handle, 2)
        with pytest.raises(AttemptNotRunningError) as caught:
            await env.client.complete_activity(first)
        assert (caught.value.outcome, caught.value.status) == ("timed_out", "running")
        await env.client.complete_activity(second, "late, but yes")
        assert await handle.result() == "late, but yes"


async def test_heartbeats_from_outside_keep_it_alive_and_their_details_reach_the_next_attempt(
    asking: MakeEnvironment,
) -> None:
    async with asking() as env:
        handle = await env.client.start(asks_silently, id="w")
        token = await until_deferred(env, handle)
        for number in range(5):
            await env.sleep(25)
            await env.client.heartbeat_activity(token, "row", number)
        found = await pending(handle)
        assert (found.attempt, found.heartbeat_details) == (1, ("row", 4))
        assert found.heartbeat_deadline_at == found.last_heartbeat_at + timedelta(seconds=30)
        await env.sleep(31)
        token = await until_deferred(env, handle, 2)
        found = await pending(handle)
        assert (found.attempt, found.heartbeat_details) == (2, ("row", 4))
        assert found.last_failure.timeout_kind == "heartbeat"
        await env.client.complete_activity(token, (7, ["done"]))
        assert await handle.result() == (7, ["done"])


async def test_the_handlers_last_heartbeat_counts_though_it_was_not_written_yet(
    asking_in_memory: MakeEnvironment,
) -> None:
    async with asking_in_memory() as env:
        handle = await env.client.start(asks_slowly, id="w")
        token = await until_deferred(env, handle)
        found = await pending(handle)
        assert found.last_heartbeat_at == found.started_at + timedelta(seconds=20)
        assert (found.attempt, found.heartbeat_details) == (1, ("at last",))
        await env.client.complete_activity(token, "yes")
        assert await handle.result() == "yes"


async def test_the_last_silence_ends_it(asking_in_memory: MakeEnvironment) -> None:
    async with asking_in_memory() as env:
        handle = await env.client.start(asks_silently, id="w")
        with pytest.raises(WorkflowFailedError) as caught:
            await handle.result()
        assert isinstance(caught.value.__cause__, ActivityTimeoutError)
        assert caught.value.__cause__.timeout_kind == "heartbeat"
        assert len(tokens) == 3


# --- refused --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workflow_fn", "words"),
    [(asks_for_ever, "nothing bounds ask_for_ever"), (asks_locally, "local activity")],
)
async def test_what_cannot_be_deferred_fails_at_once(
    asking_in_memory: MakeEnvironment, workflow_fn: Any, words: str
) -> None:
    """The deadline of its run bounds an activity, too, but not one that nobody runs."""
    async with asking_in_memory() as env:
        bounded = StartOptions(execution_timeout=7200)
        handle = await env.client.start(workflow_fn, id="w", options=bounded)
        with pytest.raises(WorkflowFailedError) as caught:
            await handle.result()
        failed = caught.value.__cause__
        assert isinstance(failed, ActivityError)
        assert (failed.attempt, failed.retry_state) == (1, "non_retryable_failure")
        assert isinstance(failed.__cause__, DeferRefusedError)
        assert words in failed.__cause__.message


async def test_wrong_arguments_are_refused_before_anything_is_written(
    asking_in_memory: MakeEnvironment,
) -> None:
    async with asking_in_memory() as env:
        client = env.client
        handle = await client.start(asks, "may I?", id="w")
        token = await until_deferred(env, handle)
        wrong: list[tuple[type[Exception], Awaitable[None]]] = [
            (InvalidOptionError, client.complete_activity("no token", 1)),
            (InvalidOptionError, client.complete_activity(None, 1)),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            (InvalidOptionError, client.complete_activity(ActivityIds("", 1))),
            (InvalidOptionError, client.complete_activity(ActivityIds("w", 0))),
            (InvalidOptionError, client.complete_activity(ActivityIds("w", 2**63))),
            (InvalidOptionError, client.complete_activity(ActivityIds("w", 1, ""))),
            (InvalidOptionError, client.fail_activity(token, 5)),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            (InvalidOptionError, client.fail_activity(token, KeyboardInterrupt())),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            (WorkflowNotFoundError, client.complete_activity(ActivityIds("nobody", 1))),
            (RunNotFoundError, client.complete_activity(ActivityIds("w", 1, "no-run"))),
            (ActivityNotFoundError, client.complete_activity(ActivityIds("w", 9))),
            (PayloadEncodeError, client.complete_activity(token, object())),
            (PayloadEncodeError, client.heartbeat_activity(token, object())),
            (RefusedError, client.cancel_activity(token)),
        ]
        for error, call in wrong:
            with pytest.raises(error):
                await call
        assert (await pending(handle)).last_heartbeat_at is None
        await client.complete_activity(token, "yes")
        assert await handle.result() == "yes"


async def test_what_is_over_the_limit_is_refused(asking_in_memory: MakeEnvironment) -> None:
    async with asking_in_memory(limits=StructuralLimits(payload_bytes=100)) as env:
        handle = await env.client.start(asks, "may I?", id="w")
        token = await until_deferred(env, handle)
        for call in (
            env.client.complete_activity(token, "x" * 200),
            env.client.heartbeat_activity(token, "x" * 200),
        ):
            with pytest.raises(StructuralLimitError):
                await call
        await env.client.complete_activity(token, "x" * 50)
        assert await handle.result() == "x" * 50


# --- cancelling -----------------------------------------------------------------------------------------------------


async def test_the_outside_learns_of_a_cancel_request_and_acknowledges_it(asking: MakeEnvironment) -> None:
    async with asking() as env:
        handle = await env.client.start(gives_up, "wait", id="w")
        token = await until_deferred(env, handle)
        await env.client.heartbeat_activity(token, 1)
        await env.sleep(6)
        with pytest.raises(ActivityCancelRequestedError, match="stop its work"):
            await env.client.heartbeat_activity(token, 2)
        found = await pending(handle)
        assert (found.cancel_requested, found.heartbeat_details) == (True, (2,))
        await env.client.cancel_activity(token)
        assert await handle.result() == "gave up"
        assert "ActivityCancelled" in await types_of(env.client, "w")


async def test_what_is_answered_in_spite_of_a_cancel_request_is_completed(asking: MakeEnvironment) -> None:
    async with asking() as env:
        handle = await env.client.start(gives_up, "wait", id="w")
        token = await until_deferred(env, handle)
        await env.sleep(6)
        await env.client.complete_activity(token, "yes, after all")
        assert await handle.result() == "yes, after all"


async def test_code_that_does_not_wait_goes_on_and_the_outside_still_learns_of_it(
    asking: MakeEnvironment,
) -> None:
    async with asking() as env:
        handle = await env.client.start(gives_up, "try", id="w")
        token = await until_deferred(env, handle)
        await env.sleep(6)
        with pytest.raises(ActivityCancelRequestedError):
            await env.client.heartbeat_activity(token)
        await env.client.cancel_activity(token)
        assert await handle.result() == "gave up"


# --- the ends of runs -----------------------------------------------------------------------------------------------


async def test_the_token_of_a_run_that_has_ended_is_refused(asking_in_memory: MakeEnvironment) -> None:
    async with asking_in_memory() as env:
        handle = await env.client.start(asks, "may I?", id="w")
        token = await until_deferred(env, handle)
        await handle.cancel()
        with pytest.raises(WorkflowCancelledError):
            await handle.result()
        for named in (token, ActivityIds("w", 1)):
            with pytest.raises(AttemptNotRunningError, match=r"has ended \(cancelled\)") as caught:
                await env.client.complete_activity(named, "yes")
            assert caught.value.outcome == "cancelled"


async def test_a_reset_asks_again_with_a_token_of_its_own(asking: MakeEnvironment) -> None:
    async with asking() as env:
        handle = await env.client.start(asks, "may I?", id="w")
        old = await until_deferred(env, handle)
        after = await handle.reset("first-workflow-task")
        new = await until_deferred(env, after, 2)
        assert new != old
        with pytest.raises(AttemptNotRunningError, match=r"has ended \(terminated\)"):
            await env.client.complete_activity(old, "to the old run")
        await env.client.complete_activity(ActivityIds("w", 1), "to the new run")
        assert await after.result() == "to the new run"


async def test_each_run_of_a_chain_has_tokens_of_its_own(asking: MakeEnvironment) -> None:
    async with asking() as env:
        handle = await env.client.start(asks_again_and_again, 3, id="w")
        for number in (1, 2, 3):
            while len(tokens) < number:
                await env.sleep(0.1)
            await env.settle()
            given = list(tokens)
            await env.client.complete_activity(given[-1], f"answer {number}")
            for token in given:
                with pytest.raises(AttemptNotRunningError):
                    await env.client.complete_activity(token, "again")
        assert await handle.result() == "answer 3"


# --- workers --------------------------------------------------------------------------------------------------------


async def test_its_worker_may_go(asking_in_memory: MakeEnvironment) -> None:
    """Its lease, its shutdown and its rescue are about what it runs, and this it does not."""
    async with asking_in_memory(activities=()) as env:
        handle = await env.client.start(asks, "may I?", id="w")
        async with env.new_worker(workflows=(), activities=[ask]):
            token = await until_deferred(env, handle)
            await env.sleep(300)
        found = await pending(handle)
        assert (found.attempt, found.deferred, found.last_failure) == (1, True, None)
        await env.client.complete_activity(token, "yes")
        assert await handle.result() == "yes"
        assert len(tokens) == 1


async def test_a_rescue_before_the_deferral_gives_out_a_new_token(
    asking_in_memory: MakeEnvironment,
) -> None:
    async with asking_in_memory() as env:
        refused: list[str | None] = []
        elsewhere: list[asyncio.Task[None]] = []

        async def rescue() -> None:
            await _end_its_claim(env.client)
            try:
                await env.client.complete_activity(tokens[0], "to the dead")
            except AttemptNotRunningError as error:
                refused.append(error.outcome)

        async def rescued() -> None:
            """As if the worker had died before it could commit the deferral, and another had taken over."""
            if len(tokens) == 1:
                elsewhere.append(asyncio.create_task(rescue()))
                await asyncio.sleep(1)

        in_time.append(rescued)
        handle = await env.client.start(asks, "may I?", id="w")
        token = await until_deferred(env, handle, 2)
        await elsewhere[0]
        assert refused == ["rescued"]
        await env.client.complete_activity(token, "to the living")
        assert await handle.result() == "to the living"


async def _end_its_claim(client: Client) -> None:
    await client.runtime.journal.apply(EndAttempt(*read_token(tokens[0]), RESCUED))


# --- interceptors and the blocking client ---------------------------------------------------------------------------


class Teller(Interceptor):
    """Notes the verbs, and changes what passes."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def run_activity(self, call: RunActivity, next: Any) -> Any:
        result = await next(call)
        self.seen.append(f"ran: {result!r}")
        assert isinstance(result, activity.Deferred)
        return result

    async def complete_activity(self, call: CompleteActivity, next: Any) -> None:
        self.seen.append(f"complete {call.result}")
        call.result = f"{call.result}, says the interceptor"
        await next(call)

    async def fail_activity(self, call: FailActivity, next: Any) -> None:
        self.seen.append(f"fail {call.error}")
        await next(call)

    async def cancel_activity(self, call: CancelActivity, next: Any) -> None:
        self.seen.append("cancel")
        await next(call)

    async def heartbeat_activity(self, call: HeartbeatActivity, next: Any) -> None:
        self.seen.append(f"heartbeat {call.details}")
        await next(call)


async def test_interceptors_see_the_verbs(asking_in_memory: MakeEnvironment) -> None:
    teller = Teller()
    async with asking_in_memory(interceptors=[teller]) as env:
        handle = await env.client.start(asks, "may I?", id="w")
        token = await until_deferred(env, handle)
        await env.client.heartbeat_activity(token, 1, "two")
        with pytest.raises(RefusedError):
            await env.client.cancel_activity(token)
        await env.client.fail_activity(token, "once")
        token = await until_deferred(env, handle, 2)
        await env.client.complete_activity(token, "yes")
        assert await handle.result() == "yes, says the interceptor"
    ran = "ran: <deferred: to be completed from outside>"
    assert teller.seen == [ran, "heartbeat (1, 'two')", "cancel", "fail once", ran, "complete yes"]
