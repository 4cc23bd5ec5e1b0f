"""What leaves workflow code and is no ordinary exception: it ends a run or fails a task, never a worker."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.engine.conftest import MakeEnvironment
from tests.rows import latest_row

from outlast import workflow
from outlast.errors import QueryFailedError, UpdateRejectedError, WorkflowClosedError, WorkflowFailedError

LEAVING: dict[str, type[BaseException]] = {"SystemExit": SystemExit, "KeyboardInterrupt": KeyboardInterrupt}


@workflow.defn
class Leaving:
    """Raises what it is told to, where it is told to."""

    @workflow.init
    def __init__(self, where: str, what: str) -> None:
        self.where, self.what = where, what
        self.leave("constructor")

    def leave(self, where: str) -> None:
        if self.where == where:
            raise LEAVING[self.what]

    async def side(self) -> None:
        self.leave("task")

    @workflow.run
    async def run(self, where: str, what: str) -> None:
        self.leave("run")
        if where == "callback":
            asyncio.get_running_loop().call_soon(self.leave, "callback")
        if where == "predicate":
            await workflow.wait_condition(lambda: self.leave("predicate"))
        if where == "task":
            await asyncio.create_task(self.side())
        await workflow.wait_condition(lambda: False)

    @workflow.signal
    def told(self) -> None:
        self.leave("signal")

    @workflow.update
    def asked(self) -> None:
        self.leave("update")

    @workflow.update
    def checked(self) -> None: ...

    @checked.validator
    def check(self) -> None:
        self.leave("validator")

    @workflow.query
    def seen(self) -> None:
        self.leave("query")


@workflow.defn
async def plain() -> str:
    await workflow.sleep(1)
    return "done"


@pytest.mark.parametrize("what", LEAVING)
@pytest.mark.parametrize(
    "where",
    ["constructor", "run", "task", "callback", "predicate", "signal", "update", "validator", "query"],
)
async def test_the_worker_goes_on(engine: MakeEnvironment, where: str, what: str) -> None:
    async with engine(workflows=[Leaving, plain]) as env:
        handle = await env.client.start(Leaving.run, where, what, id="w")
        await env.sleep(1)
        asked: asyncio.Future[Any] | None = None
        if where == "run":
            with pytest.raises(WorkflowFailedError) as failed:
                await handle.result()
            assert getattr(failed.value.__cause__, "type", None) == what
        elif where == "query":
            with pytest.raises(QueryFailedError) as answered:
                await handle.query(Leaving.seen)
            assert getattr(answered.value.__cause__, "type", None) == what
        elif where == "validator":
            with pytest.raises(UpdateRejectedError):
                await handle.execute_update(Leaving.checked)
        else:
            if where == "signal":
                await handle.signal(Leaving.told)
            elif where == "update":
                asked = asyncio.ensure_future(handle.execute_update(Leaving.asked))
            await env.sleep(1)
            row = await latest_row(handle)
            assert row.is_open
            assert row.task_failures > 0
            (failure, *_) = (await handle.describe()).failures
            assert failure.exception_class == what
        assert await env.client.execute(plain, id="another") == "done"
        if (await handle.describe()).run.status == "running":
            await handle.terminate()
        if asked is not None:
            with pytest.raises(WorkflowClosedError):
                await asked


PROGRAM = """
import asyncio, signal, sys
from outlast import workflow
from outlast.testing import TestEnvironment

@workflow.defn
async def interrupted():
    await workflow.sleep(1)
    signal.raise_signal(signal.SIGINT)  # as Ctrl-C does while this code runs
    for _ in range(1000):
        pass
    return "went on"

async def main():
    async with TestEnvironment(workflows=[interrupted]) as env:
        print(await env.client.execute(interrupted, id="w"))

def handler(number, frame):
    raise KeyboardInterrupt

# A process that was started in the background may have inherited that the signal is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler if sys.argv[1] == "default" else handler)
TestEnvironment.run(main)
"""


@pytest.mark.parametrize("how", ["default", "handler"])
def test_ctrl_c_ends_the_program_even_while_workflow_code_runs(tmp_path: Path, how: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), how],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "went on" not in done.stdout
    assert "KeyboardInterrupt" in done.stderr
    assert done.returncode == -signal.SIGINT


class Careless:
    """Raises when it is collected."""

    def __del__(self) -> None:
        raise ValueError("from __del__")


@workflow.defn
async def forgetful() -> str:
    careless = Careless()
    del careless
    await workflow.sleep(1)
    kept = [Careless()]
    kept.clear()
    return "done"


@workflow.defn
async def sneaky() -> int:
    return forget_and_read()


def forget_and_read() -> int:
    careless = Careless()
    del careless
    with open(__file__, "rb") as file:
        return len(file.read())


async def test_what_del_raises_is_not_blamed_on_the_workflow(
    engine: MakeEnvironment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python shows it with its source line, which it reads from the file."""
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    async with engine(workflows=[forgetful]) as env:
        handle = await env.client.start(forgetful, id="w")
        assert await handle.result() == "done"
        kinds = [event.type async for event in handle.history()]
        assert "WorkflowTaskFailed" not in kinds
    shown = capsys.readouterr().err
    assert "from __del__" in shown
    assert 'raise ValueError("from __del__")' in shown, "the source line"


async def test_the_display_of_an_exception_opens_no_door(
    in_memory: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same file, opened by the code a moment later, is the code's."""
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    async with in_memory(workflows=[sneaky]) as env:
        handle: Any = await env.client.start(sneaky, id="w")
        await env.sleep(1)
        (failure, *_) = (await handle.describe()).failures
        assert failure.exception_class == "RestrictedWorkflowAccessError"
        await handle.terminate()
