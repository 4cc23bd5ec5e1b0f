"""Parents and children that the tests of the engine run."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.engine.programs import add, calls, cannot_undo, note, wait_long

from outlast import workflow
from outlast_workflow.errors import ActivityError, ApplicationError
from outlast_workflow.errors.child import ChildWorkflowError
from outlast_workflow.options.options import RetryPolicy

# --- children -------------------------------------------------------------------------------------------------------


@workflow.defn
class Adder:
    @workflow.run
    async def run(self, a: int, b: int) -> int:
        return await add(a, b)


@workflow.defn
async def immediate(number: int) -> int:
    return number * 10


@workflow.defn
async def napping(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"


@workflow.defn
class CleaningUp:
    """A child that takes its time to give way."""

    @workflow.run
    async def run(self, name: str) -> str:
        try:
            await asyncio.sleep(100_000)
        except asyncio.CancelledError:
            await asyncio.sleep(7)
            await note(f"{name} cleaned up")
            raise
        return "slept"


@workflow.defn
async def refusing_to_cancel() -> str:
    try:
        await asyncio.sleep(100_000)
    except asyncio.CancelledError:
        pass
    return "done all the same"


@workflow.defn
async def hopeless(message: str) -> None:
    raise ApplicationError(message, 42, type="Hopeless")


@workflow.defn
async def counting_down(left: int, seconds: float) -> str:
    """A chain: its parent hears of its end only."""
    await asyncio.sleep(seconds)
    if left:
        workflow.continue_as_new(left - 1, seconds)
    return workflow.info().workflow_id


@workflow.defn
async def better_next_time() -> int:
    attempt = workflow.info().attempt
    if attempt < 3:
        raise ApplicationError(f"attempt {attempt}", type="Again")
    return attempt


@workflow.defn
async def who_is_my_parent() -> list[Any]:
    info = workflow.info()
    assert info.parent is not None
    return [info.parent.workflow_id, info.parent.run_id, info.priority, info.workflow_id]


# --- parents --------------------------------------------------------------------------------------------------------


@workflow.defn
class Parent:
    @workflow.run
    async def run(self, a: int, b: int) -> int:
        return await workflow.execute_child(Adder.run, a, b, id="child")


@workflow.defn
async def parent_of_all_kinds() -> list[Any]:
    """By class, by function, by name; with a handle, with options."""
    handle = workflow.start_child(napping, 5.0, id="napper", memo={"who": "napper"})
    run_id = await handle.started()
    assert run_id == handle.run_id
    assert await handle.started() == run_id
    by_name = workflow.execute_child("immediate", 3, result_type=int)
    family = await workflow.execute_child(who_is_my_parent, priority=2)
    return [await handle, await handle, await by_name, family[2], len(handle.workflow_id), len(family[3])]


@workflow.defn
async def parent_of_kin() -> list[Any]:
    info = workflow.info()
    return [[info.workflow_id, info.run_id, info.priority], await workflow.execute_child(who_is_my_parent)]


@workflow.defn
async def fan_out(count: int) -> int:
    """Many children at once, and an activity among them."""
    numbers = [workflow.execute_child(Adder.run, number, 1) for number in range(count)]
    return sum(await asyncio.gather(*numbers, add(1, 1)))


@workflow.defn
async def told_how_it_ended(kind: str) -> list[Any]:
    """What an ``except`` sees of a child that does not end well."""
    calls_of: dict[str, Any] = {
        "failed": lambda: workflow.execute_child(hopeless, "no way", id="child"),
        "timed_out": lambda: workflow.execute_child(napping, 100.0, id="child", run_timeout=3),
        "slow": lambda: workflow.execute_child(napping, 100_000.0, id="child"),
        "taken": lambda: workflow.execute_child(immediate, 1, id="taken"),
        "retried": lambda: workflow.execute_child(
            hopeless, "again", id="child", retry_policy=RetryPolicy(max_attempts=2)
        ),
    }
    try:
        return [await calls_of[kind]()]
    except ChildWorkflowError as error:
        cause = error.__cause__
        facts = {name: getattr(cause, name, None) for name in ("timeout_kind", "reason", "status", "details")}
        await add(1, 1)
        return [
            type(cause).__name__,
            str(error),
            error.workflow_id,
            error.run_id is not None,
            error.retry_state and str(error.retry_state),
            {name: value for name, value in facts.items() if value},
        ]


@workflow.defn
async def lets_it_through(kind: str) -> None:
    await workflow.execute_child(hopeless, kind, id="child")


@workflow.defn
async def waits_for_the_start_only() -> str:
    handle = workflow.start_child(napping, 50.0, id="child", parent_close_policy="abandon")
    return await handle.started()


@workflow.defn
async def leaves(policy: str, count: int) -> str:
    """Ends at once, with children under way."""
    for number in range(count):
        _ = workflow.start_child(
            CleaningUp.run, f"c{number}", id=f"child-{number}", parent_close_policy=policy
        )
    return "left"


@workflow.defn
async def leaves_later(policy: str, count: int, seconds: float) -> str:
    for number in range(count):
        _ = workflow.start_child(
            CleaningUp.run, f"c{number}", id=f"child-{number}", parent_close_policy=policy
        )
    await asyncio.sleep(seconds)
    return "left"


@workflow.defn
async def goes_on(left: int, policy: str) -> str:
    """Each run leaves a child behind."""
    _ = workflow.start_child(CleaningUp.run, f"c{left}", id=f"child-{left}", parent_close_policy=policy)
    await asyncio.sleep(10)
    if left:
        workflow.continue_as_new(left - 1, policy)
    return "ended"


@workflow.defn
async def grandparent() -> str:
    return await workflow.execute_child(leaves_later, "terminate", 2, 100_000.0, id="middle")


@workflow.defn
async def cancelled_parent(cancellation_type: str, close_policy: str) -> str:
    try:
        return await workflow.execute_child(
            CleaningUp.run,
            "child",
            id="child",
            cancellation_type=cancellation_type,
            parent_close_policy=close_policy,
        )
    finally:
        calls["parent went on"] += 1  # outlast: allow


@workflow.defn
async def cancelled_parent_of_a_stubborn_child() -> str:
    return await workflow.execute_child(refusing_to_cancel, id="child")


@workflow.defn
async def gives_up_a_child(kind: str) -> list[Any]:
    """Cancels a child itself, and goes on."""
    handle = workflow.start_child(CleaningUp.run, "child", id="child", cancellation_type=kind)
    await asyncio.sleep(3)
    handle.cancel()
    before = workflow.now()
    try:
        await handle
    except asyncio.CancelledError:
        return [(workflow.now() - before).total_seconds(), handle.cancelled()]
    return ["came"]


@workflow.defn
async def timed_out_of_waiting() -> list[Any]:
    before = workflow.now()
    try:
        async with asyncio.timeout(3):
            await workflow.execute_child(CleaningUp.run, "child", id="child")
    except TimeoutError:
        return [(workflow.now() - before).total_seconds()]
    return []


@workflow.defn
async def waits_for_its_activity(cancellation_type: str) -> str:
    try:
        await workflow.execute_activity(
            wait_long, 1000.0, start_to_close_timeout=2000, cancellation_type=cancellation_type
        )
    finally:
        calls["went on"] += 1  # outlast: allow
    return "came"


@workflow.defn
async def leaves_a_mess(cancellation_type: str) -> None:
    await workflow.execute_activity(cannot_undo, 1000.0, cancellation_type=cancellation_type)


@workflow.defn
async def gives_up(cancellation_type: str) -> list[str | None]:
    """Cancels its activity itself, and goes on for a while."""
    call = asyncio.ensure_future(cannot_undo.with_options(cancellation_type=cancellation_type)(1000.0))
    await asyncio.sleep(1)
    call.cancel()
    try:
        await call
    except asyncio.CancelledError:
        await asyncio.sleep(60)
        return ["went on"]
    except ActivityError as error:
        return ["failed", error.retry_state, str(error.__cause__)]
    return []


@workflow.defn
async def shields(seconds: float) -> list[str]:
    """Does the middle part to its end, whenever the cancel comes."""
    said: list[str] = []

    async def middle() -> str:
        try:
            async with asyncio.timeout(seconds / 2):
                await asyncio.sleep(seconds)
        except TimeoutError:
            said.append("inner timeout")
        await note("middle done")
        return "middle"

    try:
        said.append(await workflow.shield(middle()))
    except asyncio.CancelledError:
        said.append("cancelled after")
        await note("cleanup")
    return said


@workflow.defn
async def shields_as_asyncio_does(seconds: float) -> list[str]:
    call = asyncio.ensure_future(wait_long(seconds))
    try:
        await asyncio.shield(call)
    except asyncio.CancelledError:
        return ["cancelled at once", await call]
    return ["came"]


@workflow.defn
async def shields_a_failure() -> str:
    async def fails() -> None:
        await asyncio.sleep(10)
        raise ApplicationError("cleanup failed", type="Cleanup")

    await workflow.shield(fails())
    return "never"


@workflow.defn
async def whichever_came_first(seconds: float) -> str:
    try:
        return str(await add(1, 1))
    except asyncio.CancelledError:
        return "cancelled"
    finally:
        await asyncio.sleep(seconds)


@workflow.defn
async def gives_up_before() -> list[Any]:
    handle = workflow.start_child(CleaningUp.run, "child", id="child")
    handle.cancel()
    before = workflow.now()
    try:
        await handle
    except asyncio.CancelledError:
        return [(workflow.now() - before).total_seconds(), handle.cancelled()]
    return ["came"]


@workflow.defn
async def waits_for_a_chain() -> str:
    return await workflow.execute_child(counting_down, 100, 10.0, id="chain")


@workflow.defn
async def relay() -> list[Any]:
    """Children that are chains: by continue-as-new, and by retries."""
    counted = await workflow.execute_child(counting_down, 3, 2.0, id="counted")
    policy = RetryPolicy(max_attempts=5)
    return [counted, await workflow.execute_child(better_next_time, id="retried", retry_policy=policy)]


WORKFLOWS = [value for value in list(globals().values()) if hasattr(value, "__outlast_workflow__")]
