"""Deleting workflows, one by one and by retention: whole chains, in small steps, nothing that is open or wanted."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from tests.engine.conftest import MakeEnvironment

from outlast import ApplicationError, RetentionPolicy, StartOptions, activity, workflow
from outlast.errors import (
    DeleteRefusedError,
    InvalidOptionError,
    WorkflowNotFoundError,
)
from outlast.histories import exporter, retention
from outlast.histories.retention import Retention, RetentionReport
from outlast.testing import TestEnvironment, VirtualLoop
from outlast_store.database.sql_text import fetch
from outlast_store.journal.batch import Batch
from outlast_store.schema import tables
from outlast_store.transitions import deletion
from outlast_store.transitions.deletion import Chain, DeleteChainStep, DeleteLoneRuns
from outlast_workflow.options.options import RetryPolicy

DAY = 86_400


@activity.defn(start_to_close_timeout=10, retry_policy=RetryPolicy(max_attempts=2))
async def fails() -> None:
    raise ApplicationError("no")


@workflow.defn
class Busy:
    """Leaves rows in all tables."""

    @workflow.signal
    def note(self, text: str) -> None:
        workflow.upsert_search_attributes({"noted": text})

    @workflow.run
    async def run(self, runs: int) -> str:
        workflow.upsert_search_attributes({"left": runs})
        try:
            await fails()
        except Exception:
            await workflow.sleep(1)
        await asyncio.gather(*(workflow.sleep(number) for number in range(1, 10)))
        if runs:
            workflow.continue_as_new(runs - 1)
        return "done"


@workflow.defn
async def quick() -> int:
    return 1


@workflow.defn
async def long() -> None:
    await workflow.sleep(1000 * DAY)


@workflow.defn
async def parent() -> None:
    await workflow.execute_child(quick, id="child")
    await workflow.start_child(long, id="open-child").started()
    await workflow.sleep(2000 * DAY)


WORKFLOWS: list[Any] = [Busy, quick, long, parent]


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.fixture
def made(engine: MakeEnvironment) -> MakeEnvironment:
    return lambda **options: engine(workflows=WORKFLOWS, activities=[fails], **options)


async def rows_left(env: Any) -> dict[str, int]:
    """How many rows each table has, of those that are about runs."""
    found: dict[str, int] = {}
    for table in tables.TABLES:
        if table.name not in ("workers", "journals"):
            rows = await env.client.runtime.read(fetch, f"SELECT count(*) FROM {table.name}")
            if rows[0][0]:
                found[table.name] = rows[0][0]
    return found


async def test_a_deleted_workflow_leaves_no_row_behind(made: MakeEnvironment, monkeypatch: Any) -> None:
    monkeypatch.setattr(deletion, "ROWS_IN_A_STEP", 5)
    monkeypatch.setattr(DeleteChainStep.__init__, "__defaults__", (5,))
    async with made() as env:
        handle = await env.client.start(Busy.run, 2, id="w")
        await env.client.signal("w", "note", "x", request_id="k")
        with pytest.raises(DeleteRefusedError, match="terminate it first, or delete it with terminate=True"):
            await env.client.delete("w")
        await handle.result()
        assert len(await rows_left(env)) >= 7
        assert await env.client.delete("w") == 3
        assert await rows_left(env) == {}
        with pytest.raises(WorkflowNotFoundError):
            await env.client.delete("w")
        assert await env.client.execute(quick, id="w") == 1  # the id is free


async def test_all_chains_of_an_id_go_and_an_open_one_only_if_it_may_be_terminated(
    made: MakeEnvironment,
) -> None:
    async with made() as env:
        for _ in range(2):
            await env.client.execute(quick, id="w")
        await env.client.start(long, id="w")
        await env.client.execute(quick, id="other")
        with pytest.raises(DeleteRefusedError):
            await env.client.delete("w")
        assert await env.client.count(workflow_id="w") == 3
        assert await env.client.delete("w", terminate=True, reason="over") == 3
        assert [run.workflow_id async for run in env.client.list()] == ["other"]
        assert await env.client.delete("other", terminate=True) == 1


async def test_an_id_whose_newest_chain_is_deleted_stands_for_the_one_before(made: MakeEnvironment) -> None:
    """As where the older one still waits for its children's close policy, and retention takes the newer one."""
    async with made() as env:
        first = await env.client.start(quick, id="w")
        second = await env.client.start(quick, id="w")
        for handle in (first, second):
            await handle.result()
            assert handle.run_id is not None
        steps = [DeleteChainStep(run_id, run_id, "w") for run_id in (str(second.run_id), str(first.run_id))]
        assert await env.client.runtime.journal.apply(steps[0])
        assert (await env.client.handle("w").describe()).run.run_id == first.run_id
        assert await env.client.runtime.journal.apply(steps[1])
        assert await rows_left(env) == {}


async def test_what_was_interrupted_is_found_again_and_ended(made: MakeEnvironment) -> None:
    async with made() as env:
        await (await env.client.start(Busy.run, 2, id="w")).result()
        (last,) = await env.client.runtime.read(deletion.last_runs, "w")
        chain = await env.client.runtime.read(deletion.chain_backwards, last[0])
        assert await env.client.runtime.journal.apply(DeleteChainStep(chain[0], last[0], "w"))
        assert not await env.client.runtime.journal.apply(DeleteChainStep(chain[1], last[0], "w", 3))
        assert await env.client.delete("w") == 2
        assert await rows_left(env) == {}


async def test_a_closed_child_may_go_before_its_parent_and_a_parent_before_its_abandoned_child(
    made: MakeEnvironment,
) -> None:
    async with made() as env:
        await env.client.start(parent, id="p")
        await env.sleep(5)
        assert await env.client.delete("child") == 1
        await env.client.handle("p").terminate()
        await env.sleep(5)  # the watchdog ends the open child
        assert await env.client.delete("p") == 1
        assert await env.client.delete("open-child") == 1
        assert await rows_left(env) == {}


async def test_others_go_on_while_a_workflow_is_deleted(
    made: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is a change of its own and deletes few rows: a workflow begins and ends between two of them."""
    most, deleted, execute = 2, [0], Batch.execute

    def count_and_execute(batch: Batch, text: str, values: Any) -> int:
        changed = execute(batch, text, values)
        deleted.append(changed)
        return changed

    monkeypatch.setattr(DeleteLoneRuns.__init__, "__defaults__", (most,))
    monkeypatch.setattr(Batch, "execute", count_and_execute)
    async with made() as env:
        await (await env.client.start(Busy.run, 0, id="old")).result()
        await env.sleep(100)
        deleted.clear()
        passes = Retention(env.client, RetentionPolicy(days=timedelta(seconds=80)))
        one = asyncio.ensure_future(passes.run_pass())
        assert await env.client.execute(quick, id="new") == 1
        assert not one.done()
        assert await one == RetentionReport(chains=1, runs=1)
        assert max(deleted) == most
        assert {run.workflow_id async for run in env.client.list()} == {"new"}


async def test_runs_that_are_alone_go_many_at_a_time(made: MakeEnvironment, monkeypatch: Any) -> None:
    steps: list[int] = []
    apply = DeleteLoneRuns.apply

    def counted(self: DeleteLoneRuns, batch: Batch) -> int | None:
        steps.append(len(self.runs))
        return apply(self, batch)

    monkeypatch.setattr(DeleteLoneRuns, "apply", counted)
    async with made() as env:
        for number in range(60):
            await env.client.execute(quick, id=f"w-{number % 55}")
        assert await env.client.execute(Busy.run, 1, id="chain") is not None
        await env.sleep(100)
        report = await Retention(env.client, RetentionPolicy(days=timedelta(seconds=80))).run_pass()
        assert report == RetentionReport(chains=61, runs=62)
        assert steps == [50, 10]
        assert await rows_left(env) == {}


async def test_others_have_the_journal_for_half_of_the_time(
    made: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two steps there is a rest, as long as the last step took."""
    spans: list[tuple[float, float]] = []
    apply = DeleteLoneRuns.apply

    async with made() as env:
        clock = env.environment.clock

        def slow(self: DeleteLoneRuns, batch: Batch) -> int | None:
            began = clock.monotonic()
            cast(VirtualLoop, asyncio.get_running_loop()).jump(0.3 + 0.3 * len(spans))
            spans.append((began, clock.monotonic()))
            return apply(self, batch)

        monkeypatch.setattr(DeleteLoneRuns, "apply", slow)
        monkeypatch.setattr(retention, "LONE_AT_ONCE", 20)
        for number in range(60):
            await env.client.execute(quick, id=f"w-{number}")
        await env.sleep(100)
        report = await Retention(env.client, RetentionPolicy(days=timedelta(seconds=80))).run_pass()
        assert report == RetentionReport(chains=60, runs=60)
    assert len(spans) == 3
    for (began, ended), (next_began, _) in pairwise(spans):
        assert next_began - ended > 0.99 * (ended - began)


async def test_of_runs_that_go_together_those_that_are_still_needed_stay(made: MakeEnvironment) -> None:
    """One is open, one continued by a reset, one gone already, and an id still has a chain of its own."""
    async with made() as env:
        for name in ("twice", "twice", "alone", "gone", "reset"):
            await env.client.execute(quick, id=name)
        await env.client.start(long, id="open")
        await env.settle()
        found = [Chain(run.run_id, run.workflow_id, 0, True) async for run in env.client.list(order="oldest")]
        await env.client.reset("reset", reason="again")
        await env.client.delete("gone")
        older, newer = found[:2]
        assert await env.client.runtime.journal.apply(DeleteLoneRuns([newer, *found[2:]])) == 2
        left = {run.workflow_id async for run in env.client.list()}
        assert left == {"twice", "reset", "open"}
        assert (await env.client.describe("twice")).run.run_id == older.last_run_id
        assert await env.client.runtime.journal.apply(DeleteLoneRuns([older])) == 0
        with pytest.raises(WorkflowNotFoundError):
            await env.client.describe("twice")


async def test_deleting_a_workflow_waits_for_nobody_elses_rows(postgresql_url: str) -> None:
    """Nor does anybody wait for it: what it locks is its own."""
    async with TestEnvironment(url=postgresql_url, workflows=WORKFLOWS, activities=[fails]) as env:
        await (await env.client.start(Busy.run, 1, id="old")).result()
        await env.client.start(long, id="open")
        await env.client.execute(quick, id="closed")
        await env.settle()
        with psycopg.connect(postgresql_url) as another:
            for table in ("workflow_runs", "workflow_instances"):
                locked = another.execute(f"SELECT 1 FROM {table} WHERE workflow_id <> 'old' FOR UPDATE")
                assert locked.rowcount == 2
            assert await env.client.delete("old") == 2


async def test_retention_deletes_what_is_old_and_keeps_what_is_open(made: MakeEnvironment) -> None:
    async with made() as env:
        await env.client.start(long, id="open")
        for number in range(3):
            await env.client.execute(quick, id=f"old-{number}")
        await (await env.client.start(Busy.run, 1, id="busy")).result()
        await env.sleep(100)
        await env.client.execute(quick, id="new")
        passes = Retention(env.client, RetentionPolicy(days=timedelta(seconds=80)))
        assert await passes.run_pass(limit=2) == RetentionReport(chains=2, runs=2)
        assert await passes.run_pass() == RetentionReport(chains=2, runs=3)
        assert await passes.run_pass() == RetentionReport()
        assert {run.workflow_id async for run in env.client.list()} == {"open", "new"}


async def test_a_chain_that_is_still_open_keeps_its_closed_runs(made: MakeEnvironment) -> None:
    async with made() as env:
        await env.client.start(Busy.run, 1000, id="w")
        await env.sleep(100)
        before = await env.client.count(open=False)
        assert before > 3
        assert await Retention(env.client, RetentionPolicy(days=0.0001)).run_pass() == RetentionReport()
        assert await env.client.count(open=False) >= before


async def test_retention_by_number_keeps_the_newest(made: MakeEnvironment) -> None:
    async with made() as env:
        for number in range(5):
            await env.client.execute(quick, id=f"w-{number}")
        assert await Retention(env.client, RetentionPolicy(keep_last=9)).run_pass() == RetentionReport()
        both = RetentionPolicy(keep_last=2, days=timedelta(seconds=90))
        assert await Retention(env.client, both).run_pass() == RetentionReport()
        assert (await Retention(env.client, RetentionPolicy(keep_last=2)).run_pass()).chains == 3
        assert [run.workflow_id async for run in env.client.list()] == ["w-4", "w-3"]
        await env.sleep(100)
        assert await Retention(env.client, both).run_pass() == RetentionReport()


async def test_what_goes_is_exported_first(made: MakeEnvironment, tmp_path: Path) -> None:
    async with made() as env:
        await (await env.client.start(Busy.run, 1, id="w")).result()
        await env.sleep(100)
        policy = RetentionPolicy(days=timedelta(seconds=90), export_to=tmp_path / "gone")
        assert await Retention(env.client, policy).run_pass() == RetentionReport(chains=1, runs=2, exported=1)
        (file,) = files_in(tmp_path / "gone")
        assert file.parent.name.startswith("2026-01-0")
    async with made(url="sqlite://") as other:
        assert (await other.client.import_histories(file)).runs == 2
        assert await other.client.handle("w").result() == "done"


async def test_a_chain_that_another_is_deleting_keeps_its_whole_export(
    made: MakeEnvironment, tmp_path: Path
) -> None:
    async with made() as env:
        await (await env.client.start(Busy.run, 2, id="w")).result()
        await env.sleep(100)
        policy = RetentionPolicy(days=timedelta(seconds=90), export_to=tmp_path)
        (last,) = await env.client.runtime.read(deletion.last_runs, "w")
        first, *_ = await env.client.runtime.read(deletion.chain_backwards, last[0])

        class Dies(Retention):
            async def _delete_chain(self, chain: Any, report: RetentionReport) -> None:
                await self._export(tmp_path, chain)
                assert await env.client.runtime.journal.apply(DeleteChainStep(first, chain.last_run_id, "w"))

        await Dies(env.client, policy).run_pass()
        (file,) = files_in(tmp_path)
        written = file.read_bytes()
        assert await Retention(env.client, policy).run_pass() == RetentionReport(chains=1, runs=2)
        assert file.read_bytes() == written
        assert len(written.splitlines()) == 3


async def test_who_reads_a_chain_while_another_deletes_it_does_not_replace_the_whole_export(
    made: MakeEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with made() as env:
        await (await env.client.start(Busy.run, 2, id="w")).result()
        await env.sleep(100)
        policy = RetentionPolicy(days=timedelta(seconds=90), export_to=tmp_path)
        right = exporter.export_run

        others: list[int] = []

        async def after_another(*args: Any) -> bytes:
            if not others:
                monkeypatch.setattr(retention, "export_run", right)
                others.append((await Retention(env.client, policy).run_pass()).exported)
            return b"what is left of it"

        monkeypatch.setattr(retention, "export_run", after_another)
        await Retention(env.client, policy).run_pass()
        (file,) = files_in(tmp_path)
        assert others == [1]
        assert len(file.read_bytes().splitlines()) == 3


async def test_a_chain_that_a_reset_takes_up_is_exported_as_it_was_and_stays(
    made: MakeEnvironment, tmp_path: Path
) -> None:
    async with made() as env:
        handle = await env.client.start(quick, id="w")
        await handle.result()
        await env.sleep(100)
        policy = RetentionPolicy(days=timedelta(seconds=90), export_to=tmp_path)

        class TooLate(Retention):
            async def _delete_lone(self, chains: Any, report: RetentionReport) -> None:
                await handle.reset("first-workflow-task")
                await super()._delete_lone(chains, report)

        report = await TooLate(env.client, policy).run_pass()
        assert report == RetentionReport(exported=1, kept=1)
        (file,) = files_in(tmp_path)
        assert len(file.read_bytes().splitlines()) == 1
        assert await env.client.count(workflow_id="w") == 2


async def test_a_worker_makes_passes_by_itself(
    made: MakeEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "outlast.retention")
    async with made() as env:
        policy = RetentionPolicy(days=timedelta(seconds=200), interval=60)
        async with env.new_worker(workflows=[quick], retention=policy):
            await env.client.execute(quick, id="w")
            await env.sleep(150)
            assert await env.client.count() == 1
            await env.sleep(200)
            assert await env.client.count() == 0
    assert "retention deleted 1 runs of 1 workflows" in caplog.text


async def test_a_reset_chain_is_deleted_whole(made: MakeEnvironment) -> None:
    async with made() as env:
        handle = await env.client.start(
            Busy.run, 0, id="w", options=StartOptions(retry_policy=RetryPolicy(max_attempts=1))
        )
        await handle.result()
        await (await handle.reset("first-workflow-task")).result()
        assert await env.client.delete("w") == 2
        assert await rows_left(env) == {}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "retention needs days or keep_last"),
        ({"days": 0}, "days must be positive"),
        ({"days": "7"}, "days must be a number of seconds or a timedelta, not str"),
        ({"days": True}, "days must be a number of seconds or a timedelta, not bool"),
        ({"keep_last": 0}, "keep last must be at least 1"),
        ({"keep_last": 2.5}, "keep last must be a whole number"),
        ({"days": 1, "interval": 0}, "interval must be at least 1 second"),
    ],
)
def test_a_policy_that_can_not_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        RetentionPolicy(**given)


async def test_a_worker_takes_no_other_policy(made: MakeEnvironment) -> None:
    async with made(url="sqlite://") as env:
        seven: Any = 7
        with pytest.raises(InvalidOptionError, match="retention must be a RetentionPolicy, not int"):
            env.new_worker(workflows=[quick], retention=seven)
