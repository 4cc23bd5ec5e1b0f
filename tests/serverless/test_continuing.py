"""Documents continue as new: what they give is what one long run gives.

The kit plays each of its scenarios so, too.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.serverless.cases import continue_everywhere, whole
from tests.serverless.test_runtime import TIMEOUT, faults

from outlast import Client, RetryPolicy, StartOptions, Worker
from outlast.errors import WorkflowCancelledError, WorkflowFailedError
from outlast.histories.history_pages import history_page
from outlast.testing import TestEnvironment, check_database
from outlast_serverless import Document, DocumentRun, Runtime
from outlast_serverless.interpreter import pace
from outlast_store.database.sql_text import fetch


def make(text: str) -> Document:
    return Document.parse(whole(text))


def worker(env: TestEnvironment, runtime: Runtime) -> Worker:
    return env.new_worker(workflows=runtime.workflows, activities=runtime.activities)


async def run_number(run: DocumentRun) -> int:
    return (await run.handle.describe()).run.run_number


async def request(client: Client, run_number: int) -> dict[str, Any]:
    """Return what a run of the only chain was started with."""
    text = "SELECT run_id FROM workflow_runs WHERE run_number = ?"
    ((run_id,),) = await client.runtime.read(fetch, text, (run_number,))
    (event, *_) = await history_page(client.runtime, run_id, 0)
    given: dict[str, Any] = event.payload["input"][0]
    return given


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    continue_everywhere(monkeypatch)


@pytest.mark.usefixtures("everywhere")
async def test_each_task_of_a_list_and_each_event_is_a_run(sqlite_url: str) -> None:
    text = """do: [{a: {set: {v: 0}}}, {b: {do: [{c: {set: {v: 0}}}, {d: {set: {v: 0}}}]}},
                   {l: {listen: {to: {any: [{with: {type: t}}], until: length == 2}}}}]"""
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client) as runtime,
        worker(env, runtime),
    ):
        run = await runtime.start(make(text))
        await asyncio.sleep(1)
        # Before c, because b has begun; before d; before l; and before it waits.
        assert await run_number(run) == 6
        for number in range(2):
            await runtime.publish({"id": str(number), "source": "/s", "type": "t"})
            await asyncio.sleep(1)
        assert await run.result() == [None, None]
        assert await run_number(run) == 7


@pytest.mark.usefixtures("everywhere")
async def test_a_trace_tells_the_tasks_of_all_runs(sqlite_url: str) -> None:
    text = "do: [{a: {set: {v: 0}}}, {b: {do: [{c: {set: {v: 0}}}, {d: {set: {v: 0}}}]}}]"
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime, worker(env, runtime):
        run = await runtime.start(make(text))
        await run.result()
        assert [(step.pointer[-1], step.outcome) async for step in run.trace()] == [
            ("a", "completed"),
            ("b", "continued"),
            ("b", "continued"),
            ("c", "completed"),
            ("b", "completed"),
            ("d", "completed"),
        ]


@pytest.mark.usefixtures("everywhere")
async def test_what_runtime_gives_stays(sqlite_url: str) -> None:
    text = "do: [{w: {wait: PT3S}}, {a: {set: '${ $runtime.metadata.n }'}}]"
    async with TestEnvironment(url=sqlite_url) as env:
        async with Runtime(env.client, metadata={"n": 1}) as runtime, worker(env, runtime):
            run = await runtime.start(make(text))
            await asyncio.sleep(1)
        async with Runtime(env.client, metadata={"n": 2}) as runtime, worker(env, runtime):
            assert await run.result() == 1


@pytest.mark.usefixtures("everywhere")
async def test_in_a_fork_it_does_not_continue(sqlite_url: str) -> None:
    text = "do: [{f: {fork: {branches: [{a: {do: [{b: {set: {v: 0}}}, {c: {call: f}}]}}]}}}]"
    functions = "use: {functions: {f: {do: [{d: {set: {v: 1}}}, {e: {set: {v: 2}}}]}}}\n"
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client) as runtime,
        worker(env, runtime),
    ):
        run = await runtime.start(make(functions + text))
        assert await run.result() == [{"v": 2}]
        assert await run_number(run) == 1


async def test_without_loops_nothing_more_is_written(sqlite_url: str) -> None:
    text = """do: [{a: {set: {v: 1}}}, {d: {do: [{w: {wait: PT1S}}], timeout: {after: PT9S}}},
                   {t: {try: [{x: {set: {v: 2}}}], catch: {}}}]"""
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime, worker(env, runtime):
        run = await runtime.start(make(text))
        assert await run.result() == {"v": 2}
        assert [event.type async for event in run.handle.history()] == [
            "WorkflowStarted",
            "WorkflowTaskCompleted",
            "TimerScheduled",
            "TimerScheduled",
            "TimerFired",
            "WorkflowTaskCompleted",
            "TimerCancelled",
            "WorkflowCompleted",
        ]
        assert (await request(env.client, 1)).keys() == {"definition", "input", "rules", "jq"}


@pytest.mark.usefixtures("everywhere")
async def test_data_are_carried_once(sqlite_url: str) -> None:
    text = "do: [{a: {do: [{b: {do: [{s: {switch: [{n: {then: continue}}]}}, {c: {wait: PT1S}}]}}]}}]"
    given = {"bulk": "x" * 10_000}
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client) as runtime,
        worker(env, runtime),
    ):
        run = await runtime.start(make(text), given)
        assert await run.result() == given
        handed = await request(env.client, 4)
        assert [frame["of"] for frame in handed["state"]["frames"]] == ["list", "task"] * 2 + ["list"]
        assert "x" * 10_000 not in str(handed["state"])


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize(("late", "instance"), [(4, "/do/0/o/do/0/i"), (20, "/do/0/o")])
async def test_a_deadline_that_passes_in_between_is_decided_as_if_nothing_had_happened(
    late: int, instance: str, sqlite_url: str
) -> None:
    text = """do: [{o: {timeout: {after: PT9S},
                        do: [{i: {timeout: {after: PT3S}, do: [{a: {wait: PT1S}}, {b: {wait: PT1H}}]}}]}}]"""
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        async with worker(env, runtime):
            run = await runtime.start(make(text))
            await asyncio.sleep(1.5)
        handed = await request(env.client, await run_number(run))
        assert len([frame for frame in handed["state"]["frames"] if "deadline" in frame]) == 2
        # As if the worker had died between the two runs.
        again = await env.client.start("serverless:n/a", handed, id="again")
        await asyncio.sleep(late - 1.5)
        began = env.clock.now()
        async with worker(env, runtime):
            await faults(runtime.run(again.workflow_id), {**TIMEOUT, "instance": instance})
        assert env.clock.now() - began < 100_000


@pytest.mark.usefixtures("everywhere")
async def test_a_run_is_cancelled_wherever_it_is(sqlite_url: str) -> None:
    text = "do: [{e: {emit: {event: {with: {type: t}}}}}, {s: {set: {v: 0}, then: e}}]"
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client) as runtime,
        worker(env, runtime),
    ):
        for turns in range(0, 60, 3):
            run = await runtime.start(make(text))
            for _ in range(turns):
                await asyncio.sleep(0)
            await run.cancel()
            with pytest.raises(WorkflowCancelledError):
                await run.result()
        assert await env.client.runtime.read(check_database) == []


@pytest.mark.usefixtures("everywhere")
async def test_a_suspension_holds_across_runs(sqlite_url: str) -> None:
    text = "do: [{w: {wait: PT1S}}, {x: {wait: PT1S}}, {o: {set: {done: true}}}]"
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        run = await runtime.start(make(text))
        async with worker(env, runtime):
            await asyncio.sleep(0.5)
            await run.suspend()
            await asyncio.sleep(60)
            assert await run_number(run) == 2
            assert (await run.describe()).phase == "suspended"
        async with worker(env, runtime):
            await asyncio.sleep(60)
            assert (await run.describe()).phase == "suspended"
            await run.resume()
            assert await run.result() == {"done": True}


@pytest.mark.usefixtures("everywhere")
async def test_events_that_come_while_it_continues_are_each_seen_once_and_in_order(sqlite_url: str) -> None:
    text = """do: [{l: {listen: {to: {any: [{with: {type: t}}], until: {one: {with: {type: stop}}}}},
                        foreach: {do: [{a: {set: '${ . }'}}, {w: {wait: PT0.001S}}, {b: {set: '${ . }'}}]}}},
                   {w: {wait: PT1S}}]"""
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client) as runtime,
        worker(env, runtime),
    ):
        run = await runtime.start(make(text))
        await asyncio.sleep(1)
        for number in range(40):
            event = {
                "id": str(number),
                "source": "/s",
                "type": "t" if number < 39 else "stop",
                "data": number,
            }
            await (run.publish(event) if number % 3 else runtime.publish(event))
            await asyncio.sleep(0.0007 * (number % 5))
        seen = await run.result()
        assert sorted(seen) == list(range(39))
        # Those from the bus, and those that were sent to the run, each have their order.
        for bus in (True, False):
            mine = [number for number in seen if (number % 3 == 0) is bus]
            assert mine == sorted(mine)
        assert await run_number(run) > 100
        assert await env.client.runtime.read(fetch, "SELECT COUNT(*) FROM serverless_subscriptions", ()) == [
            (0,)
        ]


@pytest.mark.usefixtures("everywhere")
async def test_what_never_ends_keeps_nothing_of_its_events(sqlite_url: str) -> None:
    text = "do: [{l: {listen: {to: {any: [], until: '${ false }'}}, foreach: {do: [{s: {set: '${ . }'}}]}}}]"
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client) as runtime,
        worker(env, runtime),
    ):
        run = await runtime.start(make(text))
        await asyncio.sleep(1)
        for number in range(5):
            await runtime.publish({"id": str(number), "source": "/s", "type": "t", "data": f"bulk {number}"})
            await asyncio.sleep(1)
        handed = await request(env.client, await run_number(run))
        assert handed["state"]["frames"][-1]["count"] == 5
        assert "bulk 3" not in str(handed)


@pytest.mark.usefixtures("everywhere")
async def test_too_much_to_carry_is_told_and_the_run_goes_on(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = """do: [{a: {set: '${ .bulk * 200000 }'}},
                   {d: {timeout: {after: PT9S}, do: [{b: {wait: PT1S}}, {c: {wait: PT1S}}]}},
                   {l: {listen: {to: {any: [{with: {type: t}}], until: length == 2}},
                        foreach: {do: [{s: {set: '${ . }'}}]}}}]"""
    async with (
        TestEnvironment(url=sqlite_url, replay=True) as env,
        Runtime(env.client) as runtime,
        worker(env, runtime),
    ):
        run = await runtime.start(make(text), {"bulk": "x" * 9})
        await asyncio.sleep(5)
        for number in range(2):
            await runtime.publish({"id": str(number), "source": "/s", "type": "t", "data": number})
        assert await run.result() == [0, 1]
        assert await run_number(run) == 1
    (told,) = [one.getMessage() for one in caplog.records if "cannot continue as new" in one.getMessage()]
    assert "n/a:0.1.0" in told
    assert "1572864 may be carried" in told


@pytest.mark.usefixtures("everywhere")
async def test_a_retry_of_the_run_begins_from_the_start(sqlite_url: str) -> None:
    options = StartOptions(run_timeout=5, retry_policy=RetryPolicy(max_attempts=2, initial_interval=1))
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client) as runtime,
        worker(env, runtime),
    ):
        run = await runtime.start(make("do: [{a: {wait: PT3S}}, {b: {wait: PT9S}}]"), options=options)
        await asyncio.sleep(4)
        assert [one.pointer for one in (await run.describe()).open] == ["/do/1/b"]
        await asyncio.sleep(6)
        assert [one.pointer for one in (await run.describe()).open] == ["/do/0/a"]


async def test_another_version_of_jq_is_told_once(sqlite_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime, worker(env, runtime):
        old = {
            "definition": make("do: [{a: {set: '${ 1 }'}}]").definition,
            "input": None,
            "rules": 1,
            "jq": "0.9",
        }
        with caplog.at_level(logging.WARNING, "outlast.serverless"):
            for _ in range(2):
                assert await (await env.client.start("serverless:n/a", old)).result() == 1
        (told,) = [one.getMessage() for one in caplog.records if "jq 0.9" in one.getMessage()]
        assert "n/a:0.1.0" in told


@pytest.mark.parametrize("inner", [10, pytest.param(500, marks=pytest.mark.nightly)])
async def test_a_long_loop_has_short_histories_and_flat_memory(inner: int, sqlite_url: str) -> None:
    """Two thousand waits are too much for one history, a million iterations for one replay."""
    text = """do: [{l: {for: {each: i, in: '${ [range(2000)] }'}, do: [
                {m: {for: {in: $workflow.input.xs}, do: [{a: {set: {n: '${ $i }', at: '${ $index }'}}}]}},
                {w: {wait: PT1S}}]}}]"""
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime, worker(env, runtime):
        run = await runtime.start(make(text), {"xs": list(range(inner))})
        while await run_number(run) == 1:  # noqa: ASYNC110
            await asyncio.sleep(10)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert await run.result() == {"n": 1_999, "at": inner - 1}
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        histories = "SELECT COUNT(*), MAX(last_seq), MAX(history_bytes) FROM workflow_runs"
        ((runs, events, size),) = await env.client.runtime.read(fetch, histories, ())
        assert runs >= (2 if inner == 10 else 10)
        assert events <= 8_192
        assert size <= 4 << 20
        assert grown < 32 << 10


async def test_after_many_tasks_it_continues_although_its_history_is_short(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "TASKS_A_RUN", 50)
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime, worker(env, runtime):
        run = await runtime.start(
            make("do: [{a: {set: '${ . + 1 }'}}, {s: {switch: [{m: {when: . < 100, then: a}}]}}]"), 0
        )
        assert await run.result() == 100
        assert await run_number(run) == 4
        # The most that a chain may execute counts all its runs.
        assert (await request(env.client, 4))["state"]["tasks"] == 150


async def test_the_most_that_a_chain_may_execute_ends_it(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pace.MOST_TASKS == 10_000_000
    monkeypatch.setattr(pace, "TASKS_A_RUN", 50)
    monkeypatch.setattr(pace, "MOST_TASKS", 120)
    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime, worker(env, runtime):
        run = await runtime.start(
            make("do: [{a: {set: '${ . + 1 }'}}, {b: {set: '${ . + 1 }', then: a}}]"), 0
        )
        with pytest.raises(WorkflowFailedError, match="give its work to a subflow"):
            await run.handle.result()
        assert await run_number(run) == 3


PROGRAM = """
import asyncio, sys
from outlast import Client, Worker
from outlast_serverless import Runtime
from outlast_serverless.interpreter import pace

pace.TASKS_A_RUN = 1

async def main(url):
    async with Client.connect(url) as client, Runtime(client) as runtime:
        async with Worker(
            client, workflows=runtime.workflows, activities=runtime.activities, lease_duration=1
        ):
            await runtime.run("loop").result()

asyncio.run(main(sys.argv[1]))
"""


OWNER = "SELECT pid FROM workers JOIN workflow_runs ON owner_id = worker_id WHERE closed_at IS NULL AND run_number >= ?"


class TestRealTime:
    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.mark.usefixtures("everywhere")
    async def test_workers_are_killed_while_it_continues(self, tmp_path: Path) -> None:
        """Each iteration emits an event whose id is its own: after all kills each is there once, in order."""
        url = f"sqlite:///{tmp_path}/w.db"
        text = """do: [{l: {for: {in: '${ [range(40)] }'}, do: [
                    {e: {emit: {event: {with: {type: t, id: '${ $item | tostring }'}}}}},
                    {s: {set: '${ $item }'}}]}}]"""
        async with Client.connect(url) as client, Runtime(client) as runtime:
            run = await runtime.start(make(text), id="loop")
            arguments = [sys.executable, "-c", PROGRAM, url]
            victims = [await asyncio.create_subprocess_exec(*arguments) for _ in range(2)]
            try:
                for at in (10, 30):
                    while not (owners := await client.runtime.read(fetch, OWNER, (at,))):  # noqa: ASYNC110
                        await asyncio.sleep(0.005)
                    (victim,) = [one for one in victims if one.pid == owners[0][0]]
                    victim.send_signal(signal.SIGKILL)
                    await victim.wait()
            finally:
                for one in victims:
                    if one.returncode is None:
                        one.kill()
                        await one.wait()
            async with Worker(
                client, workflows=runtime.workflows, activities=runtime.activities, lease_duration=1
            ):
                assert await run.result() == 39
            ids = await client.runtime.read(fetch, "SELECT id FROM serverless_events ORDER BY event_key", ())
            assert [int(id) for (id,) in ids] == list(range(40))
            assert await client.runtime.read(check_database) == []
