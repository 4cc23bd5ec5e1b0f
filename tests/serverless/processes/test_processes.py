"""Shell commands and scripts: what they give, what the policy denies, and that they end with whoever asked for them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.serverless.cases import whole

from outlast import Client, Worker
from outlast.errors import FaultedError, FaultedTimeoutError, InvalidOptionError
from outlast_serverless import Document, ProcessPolicy, Runtime, Secrets
from outlast_serverless.interpreter.faults import BASE
from outlast_serverless.processes import supervised

Run: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]
ALLOWED = ProcessPolicy(shell=True, scripts={"python": [sys.executable]}, grace=0.5, max_output_bytes=10_000)


@pytest.fixture
def run(database_url: str) -> Run:
    """Runs a document, and returns its output."""

    async def run(text: str, input: Any = None, policy: ProcessPolicy = ALLOWED) -> Any:
        async with (
            Client.connect(database_url) as client,
            Runtime(client, processes=policy, secrets=Secrets.mapping({"key": "very-secret"})) as runtime,
            Worker(client, workflows=runtime.workflows, activities=runtime.activities),
        ):
            return await (await runtime.start(Document.parse(whole(text)), input)).result()

    return run


async def fault(run: Run, *args: Any, **options: Any) -> dict[str, Any]:
    with pytest.raises(FaultedError) as caught:
        await run(*args, **options)
    return caught.value.error


def shell(command: str, more: str = "", after: str = "") -> str:
    return f"- c: {{run: {{shell: {{command: {command!r}{more}}}{after}}}}}"


async def test_a_command_sees_its_arguments_its_environment_and_its_input(run: Run) -> None:
    more = ", arguments: ['a b', '${ .n }'], environment: {X: '${ .n + 1 }'}, stdin: '${ .text }'"
    text = shell('echo "$1|$2|$X|$(cat)"', more)
    assert await run(text, {"n": 1, "text": "in"}) == "a b|1|2|in\n"


async def test_a_script_runs_in_a_file_of_its_own(run: Run) -> None:
    code = "import sys, json; print(json.dumps([sys.argv[1:], sys.stdin.read()]))"
    text = (
        f"- c: {{run: {{script: {{language: python, code: {code!r}, arguments: [x], stdin: '${{ . }}'}}}}}}"
    )
    assert await run(text, {"a": 1}) == '[["x"], "{\\"a\\":1}"]\n'


@pytest.mark.parametrize(
    ("returns", "expected"),
    [
        ("stdout", "out\n"),
        ("stderr", "err\n"),
        ("code", 0),
        ("all", {"code": 0, "stdout": "out\n", "stderr": "err\n"}),
        ("none", None),
    ],
)
async def test_the_output_is_what_is_asked_for(run: Run, returns: str, expected: Any) -> None:
    assert await run(shell("echo out; echo err >&2", after=f", return: {returns}")) == expected


async def test_a_failed_one_is_an_error_unless_its_code_is_asked_for(run: Run) -> None:
    error = await fault(run, shell("echo why >&2; exit 3"))
    assert (error["type"], error["status"], error["instance"]) == (f"{BASE}runtime", 500, "/do/0/c")
    assert error["detail"] == "the process ended with 3: why"
    assert await run(shell("exit 3", after=", return: code")) == 3
    assert "was ended by signal 9" in (await fault(run, shell("kill -9 $$")))["detail"]


async def test_nothing_runs_that_is_not_allowed(run: Run) -> None:
    for text, word in (
        (shell("true"), "the worker needs `--allow-shell`, or ProcessPolicy(shell=True)"),
        (
            "- c: {run: {script: {language: js, code: '1'}}}",
            "the worker needs `--allow-script js`, or ProcessPolicy(scripts={'js': […]})",
        ),
    ):
        error = await fault(run, text, policy=ProcessPolicy())
        assert error["type"] == f"{BASE}configuration"
        assert word in error["detail"]
    with pytest.raises(InvalidOptionError, match="scripts cannot be in 'ruby'"):
        ProcessPolicy(scripts={"ruby": ["ruby"]})


async def test_it_sees_no_variable_that_the_policy_keeps_back(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_HIDDEN", "hidden")
    assert await run(shell('echo "${OUTLAST_HIDDEN-none}"')) == "none\n"


async def test_too_much_output_ends_it(run: Run) -> None:
    assert "wrote more to stdout" in (await fault(run, shell("yes")))["detail"]


async def test_a_secret_reaches_it_and_is_masked_in_its_error(run: Run) -> None:
    text = (
        "use: {secrets: [key]}\n"
        "do: [{c: {run: {shell: {command: 'echo \"$K\" >&2; exit 1', environment: {K: '${ $secrets.key }'}}}}}]"
    )
    assert (await fault(run, text))["detail"] == "the process ended with 1: ********"


def stubborn(file: Path) -> str:
    """A command that starts others, ignores the request to end, and says who they are."""
    return f"trap '' TERM; sleep 1000 & echo $$ $! > {file}; wait; sleep 1000"


async def pids(file: Path) -> list[int]:
    for _ in range(2400):
        found = written(file)
        if len(found) == 2:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError("it did not begin")


def written(file: Path) -> list[int]:
    return [int(pid) for pid in file.read_text().split()] if file.exists() else []


async def gone(found: list[int]) -> None:
    deadline = time.monotonic() + 120
    while any(alive(pid) for pid in found):
        assert time.monotonic() < deadline, "a process lives on"
        await asyncio.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def test_a_timeout_ends_it_with_all_that_it_started(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    with pytest.raises(FaultedTimeoutError):
        await run(f"- c: {{run: {{shell: {{command: {stubborn(file)!r}}}}}, timeout: {{after: PT1S}}}}")
    await gone(await pids(file))


async def test_a_worker_runs_so_many_at_a_time(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "MOST_PROCESSES", 2)
    # Two are there at the same time before any of them ends.
    each = "echo + >> $1; while [ $(grep -c + $1) -lt 2 ]; do sleep 0.05; done; echo - >> $1"
    branches = ", ".join(
        f"{{b{number}: {{run: {{shell: {{command: {each!r}, arguments: ['{tmp_path}/log']}}}}}}}}"
        for number in range(6)
    )
    await run(f"- f: {{fork: {{branches: [{branches}]}}}}")
    running = list(accumulate(1 if one == "+" else -1 for one in (tmp_path / "log").read_text().split()))
    assert (len(running), max(running), running[-1]) == (12, 2, 0)


async def test_what_is_not_waited_for_lives_on(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    text = shell(f"sleep 60 & echo $$ $! > {file}; wait", after=", await: false")
    assert await run(text, {"k": 1}) == {"k": 1}
    found = await pids(file)
    assert all(alive(pid) for pid in found)
    for pid in found:
        os.kill(pid, signal.SIGKILL)


PROGRAM = """
import asyncio, sys
from outlast import Client, Worker
from outlast_serverless import Document, ProcessPolicy, Runtime

async def main(url, command):
    text = "document: {dsl: '1.0.3', namespace: n, name: a, version: '0.1.0'}\\n"
    text += "do: [{c: {run: {shell: {command: " + repr(command) + "}}}}]"
    policy = ProcessPolicy(shell=True, grace=0.2)
    async with Client.connect(url) as client, Runtime(client, processes=policy) as runtime:
        async with Worker(client, workflows=runtime.workflows, activities=runtime.activities):
            await (await runtime.start(Document.parse(text))).result()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "round_", [*range(5), *(pytest.param(one, marks=pytest.mark.nightly) for one in range(5, 100))]
)
async def test_it_ends_when_its_worker_is_killed(tmp_path: Path, round_: int) -> None:
    file = tmp_path / "pids"
    arguments = [sys.executable, "-c", PROGRAM, f"sqlite:///{tmp_path}/w.db", stubborn(file)]
    worker = await asyncio.create_subprocess_exec(
        *arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    found = await pids(file)
    worker.send_signal(signal.SIGKILL)
    await worker.wait()
    await gone(found)
