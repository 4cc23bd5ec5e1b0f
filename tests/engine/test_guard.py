"""The runtime guard: what workflow code does to the world fails its task, and only that."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zoneinfo
from collections.abc import Callable
from pathlib import Path
from time import sleep as imported_before
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment
from tests.recorded import Recorder
from tests.rows import latest_row

from outlast import StartOptions, activity, workflow
from outlast.errors import QueryFailedError, RestrictedWorkflowAccessError
from outlast.testing import TestEnvironment
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.run import guard

HERE = Path(__file__)

ACTS: dict[str, Callable[[], Any]] = {
    "open": lambda: open("/dev/null").close(),
    "os.open": lambda: os.close(os.open("/dev/null", os.O_RDONLY)),
    "Path.read_text": lambda: HERE.read_text(),
    "os.listdir": lambda: os.listdir("/"),
    "tempfile": lambda: tempfile.mkdtemp(),
    "socket": lambda: socket.socket().close(),
    "getaddrinfo": lambda: socket.getaddrinfo("127.0.0.1", 80),
    "subprocess": lambda: subprocess.run(["true"], check=True),
    "os.system": lambda: os.system("true"),  # pyright: ignore[reportDeprecated]
    "thread": lambda: threading.Thread(target=len, args=("",)).start(),
    "sqlite3": lambda: sqlite3.connect(":memory:").close(),
    "putenv": lambda: os.environ.update(OUTLAST_TEST_OF_THE_GUARD="1"),
    "time.sleep": lambda: time.sleep(0),
}
if sys.version_info < (3, 12):
    del ACTS["thread"]  # which Python does not tell of
REPLACEMENTS = {"thread": "make it an activity", "time.sleep": r"`await workflow\.sleep\(…\)`"}


@activity.defn(start_to_close_timeout=10)
def act_here(name: str) -> str:
    ACTS[name]()
    return "done"


@workflow.defn
async def acts(name: str) -> str:
    await workflow.sleep(1)
    ACTS[name]()
    return "done"


@workflow.defn
def plainly_acts(name: str) -> str:
    workflow.blocking.sleep(1)
    ACTS[name]()
    return "done"


@workflow.defn
async def swallows() -> str:
    try:
        ACTS["open"]()
    except Exception:
        pass
    return "done"


@workflow.defn
async def asks_an_activity(name: str) -> str:
    return await act_here(name)


async def failure(env: TestEnvironment, code: Any, *args: Any) -> Any:
    handle = await env.client.start(code, *args, id="w")
    await env.sleep(1.5)
    (found, *_) = (await handle.describe()).failures
    assert (await latest_row(handle)).is_open, "it goes on when the code is mended"
    await handle.terminate()
    return found


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize("code", [acts, plainly_acts], ids=["coroutine", "plain"])
async def test_what_reaches_for_the_world_fails_the_task_and_says_what_to_use(
    in_memory: MakeEnvironment, code: Any, name: str
) -> None:
    async with in_memory(workflows=[code]) as env:
        found = await failure(env, code, name)
    assert found.exception_class == "RestrictedWorkflowAccessError"
    assert f"{__file__}:" in found.message, "the line is the user's, not the library's"
    assert "workflow.unsafe.allow_io()" in found.message
    assert REPLACEMENTS.get(name, "in an activity").replace("\\", "") in found.message
    assert "OUTLAST_TEST_OF_THE_GUARD" not in os.environ


async def test_code_that_swallows_the_error_fails_its_task_too(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=[swallows]) as env:
        assert (await failure(env, swallows)).exception_class == "RestrictedWorkflowAccessError"


@pytest.mark.parametrize("name", [name for name in ACTS if name != "putenv"])
async def test_activities_do_as_they_like(in_memory: MakeEnvironment, name: str) -> None:
    async with in_memory(workflows=[asks_an_activity], activities=[act_here]) as env:
        assert await env.client.execute(asks_an_activity, name) == "done"
        ACTS[name]()  # and so does everything else of the process


async def test_the_guard_may_be_left_out(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=[swallows], runtime_guard=False) as env:
        assert await env.client.execute(swallows) == "done"


# --- what may be done -------------------------------------------------------------------------------------------------


def from_a_file() -> str:
    return HERE.read_text()[:3]


@workflow.defn
async def allowed() -> list[Any]:
    with workflow.unsafe.allow_io():
        first = from_a_file()
        await workflow.sleep(1)
        second = from_a_file()
        other = asyncio.create_task(unrelated())
    await other
    return [first, second]


async def unrelated() -> None:
    """A task begun within has the permission too: its context is a copy."""
    from_a_file()


@workflow.defn
async def allowed_too_little() -> None:
    with workflow.unsafe.allow_io():
        pass
    from_a_file()


async def test_the_escape_holds_within_its_block(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=[allowed, allowed_too_little]) as env:
        assert await env.client.execute(allowed) == ['"""', '"""']
        await failure(env, allowed_too_little)


@workflow.defn
async def tooling() -> list[str]:
    """What Python and its tools do on the way is not the workflow's doing."""
    sys.modules.pop("this_module_is_rare", None)
    importlib.import_module("xml.dom.minidom")
    import tabnanny

    once = workflow.side_effect(from_a_file)
    zone = zoneinfo.ZoneInfo.no_cache("Europe/Berlin")
    try:
        raise ValueError("shown with its line")
    except ValueError:
        text = traceback.format_exc()
        workflow.logger.exception("said")
    logging.getLogger("tests.guard").warning("said")
    await workflow.sleep(1)
    return [once, zone.key, text.splitlines()[-1], tabnanny.__name__]


async def test_imports_logging_time_zones_and_side_effects_go_on(
    in_memory: MakeEnvironment, tmp_path: Path
) -> None:
    for name in ("xml.dom.minidom", "xml.dom", "tabnanny"):
        sys.modules.pop(name, None)
    handler = logging.FileHandler(tmp_path / "log", delay=True)
    loggers = [logging.getLogger("tests.guard"), logging.getLogger("outlast.workflow")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        async with in_memory(workflows=[tooling]) as env:
            assert await env.client.execute(tooling, options=StartOptions(execution_timeout=60)) == [
                '"""',
                "Europe/Berlin",
                "ValueError: shown with its line",
                "tabnanny",
            ]
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
        handler.close()
    assert (tmp_path / "log").read_text().count("said") == 2


class KeyedCodec:
    """A codec that reads its key from a file."""

    name = "keyed"

    def encode(self, data: bytes) -> bytes:
        return data[::-1] if HERE.read_text() else data

    def decode(self, data: bytes) -> bytes:
        return data[::-1] if HERE.read_text() else data


async def test_payload_codecs_may_read_their_keys(in_memory: MakeEnvironment) -> None:
    async with in_memory(
        workflows=[asks_an_activity], activities=[act_here], converter=DataConverter(KeyedCodec())
    ) as env:
        assert await env.client.execute(asks_an_activity, "open") == "done"


@workflow.defn
class Asked:
    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(self.peeks)

    def peeks(self) -> bool:
        return bool(HERE.read_text())


async def test_a_predicate_that_looks_into_a_file_fails_the_task(in_memory: MakeEnvironment) -> None:
    async with in_memory(workflows=[Asked]) as env:
        assert (await failure(env, Asked.run)).exception_class == "RestrictedWorkflowAccessError"


@workflow.defn
async def looks_back() -> bool:
    before = workflow.unsafe.is_replaying()
    await workflow.sleep(1)
    return before


async def test_code_can_see_whether_it_is_replayed(
    engine: MakeEnvironment, max_cached: int, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "listening", False)  # what it returns is not the same when it is replayed
    async with engine(workflows=[looks_back]) as env:
        assert await env.client.execute(looks_back) is (max_cached == 0)


# --- without a trace --------------------------------------------------------------------------------------------------


async def test_sleeping_is_as_it_was_when_the_last_worker_has_stopped(
    in_memory: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_installed", 0)  # a simulated crash leaves its guards behind
    monkeypatch.setattr(time, "sleep", imported_before)
    async with in_memory(workflows=[acts]) as env:
        async with env.new_worker(workflows=[swallows]):
            pass
        assert guard._SLEEP_IS_SEEN or time.sleep is not imported_before
        assert time.sleep.__name__ == "sleep"
    assert time.sleep is imported_before
    async with in_memory(workflows=[acts], runtime_guard=False):
        assert time.sleep is imported_before


async def test_sleeping_stays_as_another_tool_has_set_it(
    in_memory: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with in_memory(workflows=[acts]):
        other: Any = lambda seconds: None  # noqa: E731
        monkeypatch.setattr(time, "sleep", other)
    assert time.sleep is other


async def test_the_error_carries_what_was_done() -> None:
    error = RestrictedWorkflowAccessError("no", event="open")
    assert error.event == "open"
    assert isinstance(error, Exception)


@workflow.defn
class Looked:
    def __init__(self) -> None:
        self.done = False

    @workflow.run
    async def run(self) -> str:
        await workflow.wait_condition(lambda: self.done)
        return "done"

    @workflow.query
    def peeks(self) -> str:
        return from_a_file()

    @workflow.signal
    def finish(self) -> None:
        self.done = True


async def test_a_query_that_looks_into_a_file_fails_and_leaves_the_run_alone(
    engine: MakeEnvironment,
) -> None:
    async with engine(workflows=[Looked]) as env:
        handle = await env.client.start(Looked.run, id="looked")
        with pytest.raises(QueryFailedError) as raised:
            await handle.query(Looked.peeks)
        assert "opened a file" in str(raised.value.__cause__)
        await handle.signal(Looked.finish)
        assert await handle.result() == "done"
        assert (await latest_row(handle)).task_failures == 0


def test_sleeping_never_calls_itself_though_another_tool_restores_what_it_found() -> None:
    """It keeps what stood there while a guard did, and puts that back when none does any more."""
    original = time.sleep
    guard.install()
    found = time.sleep
    time.sleep = original  # another tool's
    guard.release()
    time.sleep = found  # restored by it, too late
    guard.install()
    try:
        time.sleep(0)
    finally:
        guard.release()
        time.sleep = original
