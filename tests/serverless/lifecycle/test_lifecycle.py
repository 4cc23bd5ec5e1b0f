"""Lifecycle events: which there are, that each comes at least once, and that nobody pays who wants none."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import orjson
import pytest
from tests.serverless.cases import continue_everywhere, whole

from outlast import Client
from outlast.errors import FaultedError, InvalidOptionError
from outlast.testing import TestEnvironment
from outlast_serverless import Document, LifecycleEvents, Runtime
from outlast_serverless.events.cloud_events import checked_event
from outlast_serverless.lifecycle import exporter
from outlast_serverless.lifecycle.progress import HELD_US
from outlast_store.database.sql_text import fetch

TASKS = """
- sets: {set: {n: 1}}
- skipped: {if: 'false', set: {n: 7}}
- tries:
    try: [{waits: {wait: PT5S, timeout: {after: PT1S}}}]
    catch: {errors: {with: {status: 408}}, retry: {delay: PT1S, limit: {attempt: {count: 1}}}, do: [{c: {set: {n: 3}}}]}
- forks: {fork: {compete: true, branches: [{a: {wait: PT1S}}, {b: {wait: PT2S}}]}}
"""
TOLD = """
workflow.started
task.created /do/0/sets
task.started /do/0/sets
task.completed /do/0/sets
task.created /do/1/skipped
task.started /do/1/skipped
task.completed /do/1/skipped
task.created /do/2/tries
task.started /do/2/tries
task.created /do/2/tries/try/0/waits
task.started /do/2/tries/try/0/waits
task.faulted /do/2/tries/try/0/waits
task.retried /do/2/tries
task.created /do/2/tries/try/0/waits att=2
task.started /do/2/tries/try/0/waits att=2
task.faulted /do/2/tries/try/0/waits att=2
task.created /do/2/tries/catch/do/0/c catch
task.started /do/2/tries/catch/do/0/c catch
task.completed /do/2/tries/catch/do/0/c catch
task.completed /do/2/tries
task.created /do/3/forks
task.started /do/3/forks
task.created /do/3/forks/fork/branches/0/a
task.started /do/3/forks/fork/branches/0/a
task.created /do/3/forks/fork/branches/1/b
task.started /do/3/forks/fork/branches/1/b
task.completed /do/3/forks/fork/branches/0/a
task.cancelled /do/3/forks/fork/branches/1/b
task.completed /do/3/forks
workflow.completed
"""


def make(text: str) -> Document:
    return Document.parse(whole(text.lstrip()))


async def on_the_bus(client: Client, workflow_id: str | None = None) -> list[dict[str, Any]]:
    rows = await client.runtime.read(fetch, "SELECT document FROM serverless_events ORDER BY event_key", ())
    events = [orjson.loads(row[0])[0] for row in rows]
    return [one for one in events if workflow_id is None or one["subject"] == workflow_id]


def lines(events: Sequence[dict[str, Any]]) -> list[str]:
    def line(event: dict[str, Any]) -> str:
        kind = event["type"].removeprefix("io.serverlessworkflow.").removesuffix(".v1")
        return " ".join(filter(None, (kind, event["data"].get("task"), event["data"].get("execution"))))

    return [line(one) for one in events]


async def test_what_becomes_of_a_run_is_told_in_order_and_once(database_url: str) -> None:
    async with (
        TestEnvironment(url=database_url) as env,
        Runtime(env.client, lifecycle=[LifecycleEvents()]) as runtime,
    ):
        async with env.new_worker(workflows=runtime.workflows):
            await runtime.export_lifecycle()
            run = await runtime.start(make(TASKS), id="w-1")
            await asyncio.sleep(1.5)
            await runtime.export_lifecycle()
            early = await on_the_bus(env.client)
            await run.result()
        await runtime.export_lifecycle()
        events = await on_the_bus(env.client)
        assert lines(events) == TOLD.split("\n")[1:-1]
        assert 0 < len(early) < len(events)
        assert len({one["id"] for one in events}) == len(events)
        assert all(checked_event(one) == one for one in events)
        started = events[0]
        assert started["data"] == {
            "name": "a-w-1.n",
            "definition": {"namespace": "n", "name": "a", "version": "0.1.0"},
            "startedAt": started["time"],
        }
        assert (started["source"], started["subject"]) == ("/n/a/0.1.0", "w-1")
        late = events[11]["data"]
        assert (late["workflow"], late["error"]["status"], "faultedAt" in late) == ("a-w-1.n", 408, True)
        assert await runtime.export_lifecycle() == 0


async def test_ends_that_no_code_has_seen_are_told(database_url: str) -> None:
    text = "timeout: {after: PT10S}\ndo: [{d: {do: [{w: {wait: PT1H}}]}}]"
    async with (
        TestEnvironment(url=database_url) as env,
        Runtime(env.client, lifecycle=[LifecycleEvents(tasks=True)]) as runtime,
        env.new_worker(workflows=runtime.workflows),
    ):
        await runtime.export_lifecycle()
        runs = {name: await runtime.start(make(text), id=name) for name in ("late", "ended", "cancelled")}
        never = await runtime.start(make(text), id="never", task_queue="nobody")
        await asyncio.sleep(1)
        await runs["ended"].handle.terminate()
        await runs["cancelled"].cancel()
        await never.handle.terminate()
        await asyncio.sleep(10)
        await runtime.export_lifecycle()
        inner = ["task.cancelled /do/0/d/do/0/w", "task.cancelled /do/0/d"]
        for name, end in {"late": "faulted", "ended": "cancelled", "cancelled": "cancelled"}.items():
            told = lines(await on_the_bus(env.client, name))
            assert told[-3:] == [*inner, f"workflow.{end}"], name
        error = (await on_the_bus(env.client, "late"))[-1]["data"]["error"]
        assert (error["status"], error["instance"]) == (408, "/")
        [only] = await on_the_bus(env.client, "never")
        assert (lines([only]), only["source"]) == (["workflow.cancelled"], "/n/a")


async def test_suspensions_and_correlations_are_told(sqlite_url: str) -> None:
    text = """
- l: {listen: {to: {one: {with: {type: t}, correlate: {k: {from: .data.k}}}}}}
- s: {set: {v: 1}}
"""
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client, lifecycle=[LifecycleEvents()]) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        await runtime.export_lifecycle()
        run = await runtime.start(make(text), id="w")
        await asyncio.sleep(1)
        await run.suspend()
        await asyncio.sleep(1)
        await run.publish({"id": "1", "source": "/s", "type": "t", "data": {"k": 7}})
        await asyncio.sleep(1)
        await run.resume()
        await run.result()
        await runtime.export_lifecycle()
        events = await on_the_bus(env.client, "w")
        assert lines(events) == [
            "workflow.started",
            "task.created /do/0/l",
            "task.started /do/0/l",
            "workflow.correlation-started",
            "workflow.suspended",
            "workflow.correlation-completed",
            "task.completed /do/0/l",
            "task.created /do/1/s",
            "task.suspended /do/1/s",
            "workflow.resumed",
            "task.resumed /do/1/s",
            "task.started /do/1/s",
            "task.completed /do/1/s",
            "workflow.completed",
        ]
        assert events[5]["data"]["correlationKeys"] == {"k": 7}
        assert "suspendedAt" in events[4]["data"]


async def test_a_reset_and_a_fork_tell_what_is_new(sqlite_url: str) -> None:
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client, lifecycle=[LifecycleEvents()]) as runtime,
        env.new_worker(workflows=runtime.workflows),
    ):
        await runtime.export_lifecycle()
        run = await runtime.start(make("- a: {wait: PT1S}\n- b: {wait: PT1S}"), id="w")
        await run.result()
        await runtime.export_lifecycle()
        before = len(await on_the_bus(env.client))
        await (await run.handle.reset("last-workflow-task")).result()
        await (await run.handle.fork("last-workflow-task", id="f")).result()
        await runtime.export_lifecycle()
        again = ["task.completed /do/1/b", "workflow.completed"]
        assert lines((await on_the_bus(env.client, "w"))[before:]) == again
        assert lines(await on_the_bus(env.client, "f")) == ["workflow.started", *again]


async def test_a_chain_is_told_as_one_run(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    continue_everywhere(monkeypatch)
    text = """
- f: {for: {in: '[range(3)]'}, do: [{w: {wait: PT1S}}]}
- l: {listen: {to: {any: [{with: {type: t}, correlate: {k: {from: .data}}}], until: length == 2}}}
"""
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client, lifecycle=[LifecycleEvents()]) as runtime,
        env.new_worker(workflows=runtime.workflows, activities=runtime.activities),
    ):
        run = await runtime.start(make(text), id="w")
        for number in range(2):
            await asyncio.sleep(5)
            await run.publish({"id": str(number), "source": "/s", "type": "t", "data": 7})
        await run.result()
        await runtime.export_lifecycle()
        assert (await run.handle.describe()).run.run_number > 3
        changes = ("task.created", "task.started", "task.completed")
        waits = [f"{kind} /do/0/f/do/0/w it={number}" for number in range(3) for kind in changes]
        assert lines(await on_the_bus(env.client, "w")) == [
            "workflow.started",
            "task.created /do/0/f",
            "task.started /do/0/f",
            *waits,
            "task.completed /do/0/f",
            "task.created /do/1/l",
            "task.started /do/1/l",
            "workflow.correlation-started",
            "workflow.correlation-completed",
            "task.completed /do/1/l",
            "workflow.completed",
        ]


async def test_runs_alone_without_their_tasks(sqlite_url: str) -> None:
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client, lifecycle=[LifecycleEvents(tasks=False)]) as runtime,
        env.new_worker(workflows=runtime.workflows),
    ):
        await runtime.export_lifecycle()
        error = "{type: 'https://e.x/e', status: 500}"
        run = await runtime.start(make("- r: {raise: {error: ERROR}}".replace("ERROR", error)), id="w")
        with pytest.raises(FaultedError):
            await run.result()
        await runtime.export_lifecycle()
        events = await on_the_bus(env.client)
        assert lines(events) == ["workflow.started", "workflow.faulted"]
        assert events[1]["data"]["error"]["type"] == "https://e.x/e"


async def test_nothing_is_written_where_nobody_wants_them(sqlite_url: str) -> None:
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client) as runtime,
        env.new_worker(workflows=runtime.workflows),
    ):
        await (await runtime.start(make(TASKS))).result()
        assert await runtime.export_lifecycle() == 0
        for table in ("serverless_events", "serverless_sinks", "serverless_exports"):
            assert await env.client.runtime.read(fetch, f"SELECT COUNT(*) FROM {table}", ()) == [(0,)]


async def test_one_exporter_at_a_time_and_another_takes_over(database_url: str) -> None:
    """Whoever dies after it has sent, and before it has noted that, is followed by who sends the same again."""
    async with TestEnvironment(url=database_url) as env:
        first = Runtime(env.client, lifecycle=[LifecycleEvents()])
        async with (
            Runtime(env.client, lifecycle=[LifecycleEvents()]) as second,
            env.new_worker(workflows=second.workflows),
        ):
            # The second is entered, and holds the sink.
            await asyncio.sleep(1)
            assert await first.export_lifecycle() == 0
            run = await second.start(make(TASKS), id="w")
            assert await first.export_lifecycle() == 0
            await run.result()
        # It is closed, so nobody has to wait until its hold is over.
        await first.export_lifecycle()
        assert lines(await on_the_bus(env.client)) == TOLD.split("\n")[1:-1]


async def test_a_death_at_any_point_loses_nothing(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "_ROWS_AT_ONCE", 3)
    sent: list[dict[str, Any]] = []

    class Died(BaseException):
        pass

    class Dying:
        """Sends, and dies right after that, or right before."""

        def __init__(self, after: int, *, sends: bool) -> None:
            self.after, self.sends = after, sends

        async def send(self, events: Sequence[dict[str, Any]]) -> None:
            self.after -= 1
            if self.after == 0 and not self.sends:
                raise Died
            sent.extend(events)
            if self.after == 0:
                raise Died

        async def close(self) -> None:
            pass

    async with TestEnvironment(url=sqlite_url) as env, Runtime(env.client) as runtime:
        wanted = LifecycleEvents(name="dying")
        begun = exporter.Exporter(env.client, wanted, Dying(0, sends=True))
        await begun.export()
        await begun.close()
        async with env.new_worker(workflows=runtime.workflows):
            await (await runtime.start(make(TASKS), id="w")).result()
        for life in range(1, 100):
            one = exporter.Exporter(env.client, wanted, Dying(1 + life % 2, sends=life % 3 == 0))
            try:
                await one.export()
            except Died:
                # Nobody releases what it held.
                await asyncio.sleep(HELD_US / 1_000_000 + 1)
            else:
                await one.close()
                break
        else:
            raise AssertionError("it never came to an end")
        assert life > 3
        first = list({event["id"]: event for event in sent}.values())
        assert lines(first) == TOLD.split("\n")[1:-1]
        again = Counter(event["id"] for event in sent)
        assert max(again.values()) > 1
        assert len({orjson.dumps(event) for event in sent}) == len(again), "what comes again is the same"


async def test_what_is_done_is_forgotten(sqlite_url: str) -> None:
    async with (
        TestEnvironment(url=sqlite_url) as env,
        Runtime(env.client, lifecycle=[LifecycleEvents()]) as runtime,
    ):
        async with env.new_worker(workflows=runtime.workflows):
            await runtime.export_lifecycle()
            open_ = await runtime.start(make("- w: {wait: PT4H}"), id="open")
            await (await runtime.start(make("- s: {set: {v: 1}}"), id="done")).result()
            await asyncio.sleep(2 * 3600)
            await (await runtime.start(make("- s: {set: {v: 1}}"), id="new")).result()
            await asyncio.sleep(120)
            rows = await env.client.runtime.read(
                fetch, "SELECT run_id FROM serverless_exports ORDER BY 1", ()
            )
            new = runtime.run("new").handle
            assert [row[0] for row in rows] == [open_.handle.run_id, (await new.describe()).run.run_id]
            await open_.result()
        await runtime.export_lifecycle()
        ends = [line for line in lines(await on_the_bus(env.client)) if line == "workflow.completed"]
        assert len(ends) == 3


async def test_sinks_that_cannot_be(sqlite_url: str) -> None:
    async with TestEnvironment(url=sqlite_url) as env:
        refused(env.client)


def refused(client: Client) -> None:
    with pytest.raises(InvalidOptionError, match="https://"):
        LifecycleEvents(to="ftp://x.y")
    with pytest.raises(InvalidOptionError, match="have one name"):
        Runtime(client, lifecycle=[LifecycleEvents(), LifecycleEvents(tasks=False)])
    with pytest.raises(InvalidOptionError, match="LifecycleEvents"):
        Runtime(client, lifecycle=cast(Any, ["bus"]))
    assert "secret" not in LifecycleEvents(to="https://x.y/?key=secret").name
