"""Histories leave one database as JSON and come into another, to be looked at."""

from __future__ import annotations

import asyncio
import base64
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.engine import family, programs, talkers
from tests.engine.conftest import MakeEnvironment
from tests.histories import programs as golden
from tests.histories import programs_talk_and_reset as talking
from tests.recorded import Recorder

from outlast import DataConverter, RetryPolicy, StartOptions
from outlast.errors import (
    HistoryExistsError,
    InvalidHistoryError,
    RunNotFoundError,
    WorkflowFailedError,
    WorkflowNotFoundError,
)
from outlast.testing import TestEnvironment
from outlast_workflow.errors.root import OutlastError

Document = dict[str, Any]
WORKFLOWS = [*programs.WORKFLOWS, *family.WORKFLOWS, *talkers.WORKFLOWS]


async def live(env: TestEnvironment) -> None:
    """Runs that ended in all kinds of ways."""
    client = env.client
    await asyncio.gather(
        client.execute(programs.Countdown.run, 2, [], id="chain"),
        client.execute(programs.retrying, "key", 2, id="retrying"),
        client.execute(family.relay, id="relay"),
        client.execute(family.leaves, "abandon", 1, id="parent"),
        client.start(programs.waiting, 1000.0, id="late", options=StartOptions(execution_timeout=20)),
        client.start(programs.third_time, id="again", options=StartOptions(retry_policy=RetryPolicy())),
        client.start(programs.failing, "no", id="failing", options=StartOptions(memo={"who": "ada", "n": 1})),
    )
    approval = await client.start(talkers.Approval.run, "o-1", id="approval")
    await approval.signal("note", "urgent", request_id="k-1")
    await approval.signal(talkers.Approval.approve, "ada")
    stopped = await client.start(programs.Sleeper.run, 5000.0, id="stopped")
    await stopped.terminate("enough")
    await client.handle("child-0").cancel()
    await env.sleep(60)
    assert await client.count(open=True) == 0


async def documents_of(env: TestEnvironment, **options: Any) -> list[Document]:
    return [document async for document in env.client.export_histories(**options)]


def by_run(documents: list[Document]) -> dict[str, Document]:
    return {document["run"]["run_id"]: document for document in documents}


@pytest.fixture
def exported(in_memory: MakeEnvironment) -> Callable[..., Any]:
    async def make() -> list[Document]:
        async with in_memory(workflows=WORKFLOWS) as env:
            await live(env)
            return await documents_of(env)

    return make


async def test_what_is_exported_comes_in_elsewhere_as_it_was(
    in_memory: MakeEnvironment, database_url: str
) -> None:
    async with in_memory(workflows=WORKFLOWS, url=database_url) as env:
        await live(env)
        documents = await documents_of(env)
        described = await env.client.describe("retrying")
        told = [event async for event in env.client.handle("retrying").history()]
        memo = (await env.client.describe("failing")).run.memo
        count = await env.client.count()
    assert len(documents) == count
    async with in_memory(workflows=WORKFLOWS) as other:
        found = await other.client.import_histories(documents)
        assert found.runs == count
        assert by_run(await documents_of(other)) == by_run(documents)
        again = await other.client.describe("retrying")
        assert again.run == described.run
        assert again.failures == described.failures
        assert [event async for event in other.client.handle("retrying").history()] == told
        assert (await other.client.describe("failing")).run.memo == memo
        assert await other.client.handle("chain").result() == [2, 1, 0]
        with pytest.raises(WorkflowFailedError):
            await other.client.handle("failing").result()


GOLDEN = sorted(Path(golden.__file__).parent.glob("programs*.jsonl"))


def golden_documents(path: Path) -> list[Document]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
async def test_golden_histories_come_out_as_they_came_in(
    in_memory: MakeEnvironment,
    database_url: str,
    path: Path,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorder, "listening", False)  # their code is not this environment's
    documents = golden_documents(path)
    async with in_memory(url=database_url) as env:
        await env.client.import_histories(path)
        assert by_run(await documents_of(env)) == by_run(documents)
        assert by_run(await documents_of(env, chains=True)) == by_run(documents)


async def test_answers_to_updates_come_along_those_that_the_end_gave_included(
    in_memory: MakeEnvironment, database_url: str
) -> None:
    async def ask(env: TestEnvironment, update_id: str) -> Any:
        try:
            return await env.client.handle("till").execute_update("pay", 5, id=update_id)
        except OutlastError as error:
            return type(error).__name__, str(error)

    till: dict[str, Any] = {"workflows": talking.WORKFLOWS, "activities": talking.ACTIVITIES}
    async with in_memory(**till) as env:
        handle = await env.client.start(talking.Till.run, "ada", id="till")
        done = await ask(env, "done")
        await handle.start_update(talking.Till.pay, 7, id="open")
        await handle.terminate("enough")
        ended = await ask(env, "open")
        documents = await documents_of(env)
    assert (done, ended[0]) == (5, "UpdateFailedError")
    async with in_memory(**till, url=database_url) as other:
        await other.client.import_histories(documents)
        assert [await ask(other, "done"), await ask(other, "open")] == [done, ended]
        assert by_run(await documents_of(other)) == by_run(documents)


async def test_a_missed_heartbeat_s_deadline_must_be_an_instant(in_memory: MakeEnvironment) -> None:
    (steps,) = (
        one for path in GOLDEN for one in golden_documents(path) if one["run"]["workflow_id"] == "steps"
    )
    for event in steps["events"]:
        if event["payload"].get("timeout_kind") == "heartbeat":
            event["payload"]["deadline_at"] = "soon"
    async with in_memory() as env:
        with pytest.raises(InvalidHistoryError, match="deadline_at of event 28 is no instant"):
            await env.client.import_histories(steps)
        assert await env.client.count() == 0


async def test_every_database_takes_them_in_and_runs_none_of_them(
    in_memory: MakeEnvironment, database_url: str, exported: Any
) -> None:
    documents = await exported()
    programs.calls.clear()
    async with in_memory(workflows=WORKFLOWS, url=database_url) as env:
        await env.client.import_histories(documents)
        before = env.client.runtime.journal.committer.batches
        await env.sleep(100)
        assert env.client.runtime.journal.committer.batches == before
        assert not programs.calls
        assert by_run(await documents_of(env)) == by_run(documents)
        handle = await env.client.start(programs.nothing, id="retrying")
        await handle.result()  # the id is used again, after the chain that was imported


async def test_one_run_is_exported_or_its_whole_chain(in_memory: MakeEnvironment) -> None:
    async with in_memory() as env:
        handle = await env.client.start(programs.Countdown.run, 2, [], id="chain")
        await handle.result()
        last = await env.client.export_history("chain")
        first = await env.client.export_history("chain", handle.run_id)
        assert await handle.export_history() == first
        assert (first["run"]["run_number"], last["run"]["run_number"]) == (1, 3)
        assert first["events"][0]["type"] == "WorkflowStarted"
        chain = await documents_of(env, chains=True, status="completed")
        assert [one["run"]["run_number"] for one in chain] == [1, 2, 3]
        assert chain[0] == first
        with pytest.raises(WorkflowNotFoundError):
            await env.client.export_history("nobody")
        with pytest.raises(RunNotFoundError):
            await env.client.export_history("chain", "nothing")


class Backwards:
    """A codec: nobody reads it without turning it round."""

    name = "backwards"

    def encode(self, data: bytes) -> bytes:
        return data[::-1]

    def decode(self, data: bytes) -> bytes:
        return data[::-1]


async def test_payloads_stay_encoded(in_memory: MakeEnvironment) -> None:
    converter = DataConverter(Backwards())
    async with in_memory(converter=converter) as env:
        await env.client.execute(programs.Countdown.run, 1, [471147], id="chain")
        documents = await documents_of(env)
    text = orjson.dumps(documents)
    assert b"471147" not in text
    assert base64.b64encode(b"[1,[471147]]"[::-1]) in text
    async with in_memory(converter=converter) as other:
        await other.client.import_histories(documents)
        assert await other.client.handle("chain").result() == [471147, 1, 0]


async def test_open_runs_are_refused(in_memory: MakeEnvironment) -> None:
    async with in_memory() as env:
        await env.client.execute(programs.nothing, id="done")
        await env.client.start(programs.waiting, 1000.0, id="open")
        documents = await documents_of(env)
    async with in_memory() as other:
        with pytest.raises(
            InvalidHistoryError, match=r"is running: only closed runs .*`outlast export --closed`"
        ):
            await other.client.import_histories(documents)
        assert await other.client.count() == 0


async def test_what_is_there_already_is_refused(in_memory: MakeEnvironment, exported: Any) -> None:
    documents = await exported()
    async with in_memory(seed=1) as env:
        await env.client.execute(programs.nothing, id="failing")
        with pytest.raises(HistoryExistsError, match="has failing already"):
            await env.client.import_histories(documents)
        assert await env.client.count() == 1
        others = [one for one in documents if one["run"]["workflow_id"] != "failing"]
        await env.client.import_histories(others)
        with pytest.raises(HistoryExistsError, match="and 9 more already"):
            await env.client.import_histories(documents)
        renamed = copy.deepcopy(next(one for one in others if one["run"]["workflow_id"] == "approval"))
        for place in (renamed["run"], renamed["events"][0]["payload"]):
            place["workflow_id"] = "renamed"
        with pytest.raises(HistoryExistsError, match=renamed["run"]["run_id"]):
            await env.client.import_histories(renamed)


def _without(document: Document, *path: str | int) -> None:
    place: Any = document
    for name in path[:-1]:
        place = place[name]
    del place[path[-1]]


def _with(document: Document, value: Any, *path: str | int) -> None:
    place: Any = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value


WRONG: dict[str, tuple[Callable[[Document], Any], str]] = {
    "no format": (lambda d: _without(d, "format"), "not an exported history"),
    "a later version": (lambda d: _with(d, 2, "version"), "upgrade outlast"),
    "no version": (lambda d: _with(d, "1", "version"), "whole number"),
    "no run": (lambda d: _without(d, "run"), "run must be an object"),
    "no run id": (lambda d: _without(d, "run", "run_id"), "run has no run_id"),
    "a wrong instant": (lambda d: _with(d, "yesterday", "run", "created_at"), r"run\.created_at"),
    "a number as text": (lambda d: _with(d, "5", "run", "priority"), r"run\.priority"),
    "a flag as a number": (lambda d: _with(d, True, "run", "attempt"), r"run\.attempt"),
    "too large": (lambda d: _with(d, 2**63, "run", "attempt"), r"run\.attempt"),
    "events of another kind": (lambda d: _with(d, {}, "events"), "events must be an array"),
    "no events": (lambda d: _with(d, [], "events"), "no events"),
    "an event missing": (lambda d: d["events"].pop(2), "event 3 is missing"),
    "the end missing": (lambda d: d["events"].pop(), "commands missing"),
    "an unknown event": (lambda d: _with(d, "Surprise", "events", 2, "type"), "does not know"),
    "a wrong payload": (lambda d: _with(d, {}, "events", 2, "payload"), r"payload of event 3 \(Act"),
    "time that falls": (
        lambda d: _with(d, "2001-01-01T00:00:00+00:00", "events", 2, "recorded_at"),
        "recorded before the one before it",
    ),
    "an impossible history": (lambda d: _with(d, 0, "events", 1, "payload", "commands"), "is invalid: event 3"),
    "another status": (lambda d: _with(d, "failed", "run", "status"), r"run\.status is not what"),
    "another type": (lambda d: _with(d, "Other", "run", "workflow_type"), r"run\.workflow_type is not"),
    "an open activity": (lambda d: _with(d, "pending", "activities", 0, "status"), "an activity .* is open"),
    "half a chain": (lambda d: _with(d, 2, "run", "run_number"), r"run\.run_number is not what"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
async def test_a_document_that_can_not_be_is_refused_before_anything_is_written(
    in_memory: MakeEnvironment, what: str
) -> None:
    spoil, words = WRONG[what]
    async with in_memory() as env:
        await env.client.execute(programs.double, 4, id="a")
        await env.client.execute(programs.double, 4, id="b")
        documents = await documents_of(env)
    spoil(documents[1])
    async with in_memory() as other:
        with pytest.raises(InvalidHistoryError, match=words) as caught:
            await other.client.import_histories(documents)
        assert caught.value.place == "history 2"
        assert isinstance(caught.value, ValueError)
        assert await other.client.count() == 0


@pytest.mark.parametrize("left_out", [0, 1, 2])
async def test_a_chain_with_a_gap_is_refused(in_memory: MakeEnvironment, left_out: int) -> None:
    async with in_memory() as env:
        await env.client.execute(programs.Countdown.run, 2, [], id="chain")
        documents = await documents_of(env, chains=True)
    del documents[left_out]
    async with in_memory() as other:
        with pytest.raises(InvalidHistoryError, match="not whole"):
            await other.client.import_histories(documents)
        with pytest.raises(InvalidHistoryError, match="not whole, or holds a run twice"):
            await other.client.import_histories([*documents, *documents])


async def test_a_file_is_read_line_by_line_or_as_one_document(
    in_memory: MakeEnvironment, tmp_path: Path
) -> None:
    async with in_memory() as env:
        await env.client.execute(programs.Countdown.run, 1, [], id="chain")
        await env.client.execute(programs.nothing, id="nothing")
        documents = await documents_of(env)
        alone = await env.client.export_history("nothing")
    lines, pretty, broken = tmp_path / "all.jsonl", tmp_path / "one.json", tmp_path / "broken.jsonl"
    lines.write_bytes(b"\n\n".join(orjson.dumps(one) for one in reversed(documents)))
    pretty.write_bytes(orjson.dumps(alone, option=orjson.OPT_INDENT_2))
    broken.write_bytes(orjson.dumps(alone) + b"\n{")
    async with in_memory() as other:
        said: list[tuple[str, int]] = []
        await other.client.import_histories(str(lines), progress=lambda *done: said.append(done))
        assert said[-1] == ("import", 3)
        assert by_run(await documents_of(other)) == by_run(documents)
    async with in_memory() as other:
        with pytest.raises(InvalidHistoryError, match=r"broken\.jsonl line 2: this is not JSON"):
            await other.client.import_histories(broken)
        assert (await other.client.import_histories(pretty)).runs == 1
        for path, words in ((tmp_path / "none", "cannot be read"), (tmp_path / "empty", "it is empty")):
            if words == "it is empty":
                path.touch()
            with pytest.raises(OutlastError, match=words):
                await other.client.import_histories(path)
