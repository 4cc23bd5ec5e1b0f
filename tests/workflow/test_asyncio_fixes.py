from __future__ import annotations

import asyncio
from asyncio import as_completed  # before anything of ours, as users may

import pytest
from tests.workflow.driver import START, new_machine, result_of, started

from outlast_workflow.declare.definitions import defn
from outlast_workflow.loop import asyncio_fixes


def test_as_completed_begins_coroutines_in_the_order_given():
    begun: list[int] = []

    @defn
    async def order() -> list[int]:
        async def work(n: int) -> int:
            begun.append(n)
            await asyncio.sleep(0)
            return n

        return [await one for one in as_completed([work(n) for n in range(50)])]

    machine = new_machine(order)
    machine.run_workflow_task([started()], START, history_events=1, history_bytes=1)
    assert begun == list(range(50))
    assert sorted(result_of(machine)) == begun


def test_as_completed_is_asyncios_own_elsewhere():
    async def outside() -> None:
        async def work(n: int) -> int:
            await asyncio.sleep(0)
            return n

        assert {await one for one in as_completed([work(n) for n in range(5)], timeout=5)} == set(range(5))
        (never,) = as_completed([asyncio.Event().wait()], timeout=0.001)
        with pytest.raises(TimeoutError):
            await never
        with pytest.raises(TypeError):
            list(as_completed(asyncio.get_running_loop().create_future()))
        assert hash(asyncio.gather(asyncio.sleep(0)))

    asyncio.run(outside())


def test_as_completed_refuses_in_a_workflow_what_it_refuses_elsewhere():
    @defn
    async def order() -> str:
        try:
            list(as_completed(asyncio.get_running_loop().create_future()))
        except TypeError as error:
            return str(error)
        return "taken"

    machine = new_machine(order)
    machine.run_workflow_task([started()], START, history_events=1, history_bytes=1)
    assert "an iterable of" in result_of(machine)


def test_mending_twice_changes_nothing():
    code = asyncio.as_completed.__code__
    asyncio_fixes.mend()
    assert asyncio.as_completed.__code__ is code
