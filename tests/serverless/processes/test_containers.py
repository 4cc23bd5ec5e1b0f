"""Containers: what the engine is told, what they give, what the policy denies, and that they end with their tasks."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.serverless.cases import whole
from tests.serverless.processes import engine

from outlast import Client, Worker
from outlast.errors import FaultedError, FaultedTimeoutError, InvalidOptionError, WorkflowCancelledError
from outlast_serverless import Document, ProcessPolicy, Runtime, Secrets
from outlast_serverless.interpreter.faults import BASE

Run: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]


class Engine:
    """The engine of a test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = [sys.executable, "-I", "-S", str(Path(engine.__file__)), str(folder)]

    def told(self, command: str = "run") -> list[dict[str, Any]]:
        """What it was told by a command."""
        file = self.folder / "told"
        lines = file.read_text().splitlines() if file.exists() else []
        return [one for one in map(json.loads, lines) if one["command"] == command]

    def containers(self) -> list[dict[str, Any]]:
        return engine.containers(self.folder)

    async def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(1_200):
            if holds():
                return
            await asyncio.sleep(0.025)
        raise AssertionError(f"it never was so; there are {self.containers()}")


@pytest.fixture
def podman(tmp_path: Path) -> Engine:
    folder = tmp_path / "engine"
    folder.mkdir()
    return Engine(folder)


@pytest.fixture
def run(sqlite_url: str, podman: Engine) -> Run:
    """Runs a document, and returns its output."""

    async def run(text: str, input: Any = None, **options: Any) -> Any:
        chosen: dict[str, Any] = {"containers": podman.command, "grace": 0.2, **options}
        policy = ProcessPolicy(**chosen)
        async with (
            Client.connect(sqlite_url) as client,
            Runtime(client, processes=policy, secrets=Secrets.mapping({"key": "very-secret"})) as runtime,
            Worker(client, workflows=runtime.workflows, activities=runtime.activities),
        ):
            return await (await runtime.start(Document.parse(whole(text)), input)).result()

    return run


async def fault(run: Run, *args: Any, **options: Any) -> dict[str, Any]:
    with pytest.raises(FaultedError) as caught:
        await run(*args, **options)
    return caught.value.error


def container(parts: str, after: str = "") -> str:
    return f"- my task: {{run: {{container: {{{parts}}}{after}}}}}"


async def test_the_engine_is_told_all_that_the_document_says(
    run: Run, podman: Engine, tmp_path: Path
) -> None:
    text = container(
        "image: 'docker.io/library/alpine:3', command: 'echo \"$1|$2|$X|$(cat)\"', arguments: ['a b', '${ .n }'],"
        " environment: {X: '${ .n + 1 }', LINES: \"a\\nb\"}, stdin: '${ .text }', pullPolicy: always,"
        f" ports: {{'8080': 80, '53': 53/udp}}, volumes: {{'{tmp_path}': '/data:ro', cache: /cache}},"
        " lifetime: {cleanup: always}"
    )
    allowed: dict[str, Any] = {
        "mounts": [str(tmp_path), "cache"],
        "publish": "127.0.0.1",
        "container_options": ["--memory=64m"],
    }
    assert await run(text, {"n": 1, "text": "in"}, **allowed) == "a b|1|2|in\n"
    (told,) = podman.told()
    options = told["options"]
    (name,) = options.pop("--name")
    execution, document, task = options.pop("--label")
    uuid = execution.removeprefix("outlast.execution=")
    assert (name, document) == (f"a-{uuid}.n-my-task", "outlast.document=n/a:0.1.0")
    assert task == "outlast.task=/do/0/my task"
    (file,) = options.pop("--env-file")
    assert file.endswith("/environment")
    assert told["file"] == "X=2\n"
    assert options == {
        "--pull": ["always"],
        "--quiet": [""],
        "--interactive": [""],
        "--rm": [""],
        "--publish": ["127.0.0.1:8080:80", "127.0.0.1:53:53/udp"],
        "--mount": [
            f"type=bind,source={tmp_path},target=/data,readonly",
            "type=volume,source=cache,target=/cache",
        ],
        "--env": ["LINES=a\nb"],
        "--memory": ["64m"],
        "--entrypoint": ["sh"],
    }
    assert told["image"] == "docker.io/library/alpine:3"
    assert told["rest"] == ["-c", 'echo "$1|$2|$X|$(cat)"', "sh", "a b", "1"]
    assert podman.containers() == []


async def test_without_a_command_arguments_are_for_what_the_image_runs(run: Run, podman: Engine) -> None:
    text = container("image: hello, name: '${ \"named-\\(.n)\" }', arguments: {who: you}")
    assert await run(text, {"n": 1}) == "Hello from hello --who you\n"
    (told,) = podman.told()
    assert (told["options"]["--name"], told["options"]["--pull"]) == (["named-1"], ["missing"])
    (kept,) = podman.containers()
    assert (kept["name"], kept["status"]) == ("named-1", "exited")


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
    text = container("image: alpine, command: 'echo out; echo err >&2'", f", return: {returns}")
    assert await run(text) == expected


async def test_one_that_fails_is_an_error_unless_its_code_is_asked_for(run: Run) -> None:
    error = await fault(run, container("image: alpine, command: 'echo why >&2; exit 3'"))
    assert (error["type"], error["status"]) == (f"{BASE}runtime", 500)
    assert error["detail"] == "the process ended with 3: why"
    assert await run(container("image: alpine, command: exit 3", ", return: code")) == 3


@pytest.mark.parametrize("more", ["", ", return: code", ", await: false"])
async def test_what_the_engine_cannot_run_is_an_error(run: Run, more: str) -> None:
    error = await fault(run, container("image: broken", more))
    assert error["detail"] == "the engine could not run the container: Error: no such image"


async def test_nothing_runs_that_is_not_allowed(run: Run, podman: Engine, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "out").symlink_to(tmp_path)
    allowed = {"mounts": [str(tmp_path / "in")]}
    for parts, options, word in (
        ("image: alpine", {"containers": None}, "ProcessPolicy(containers='podman')"),
        ("image: alpine, volumes: {/etc: /etc}", {}, "ProcessPolicy(mounts=['/etc'])"),
        ("image: alpine, volumes: {cache: /etc}", {}, "ProcessPolicy(mounts=['cache'])"),
        (f"image: alpine, volumes: {{'{tmp_path}/in/out': /x}}", allowed, "may not be mounted here"),
        (f"image: alpine, volumes: {{'{tmp_path}/in/../other': /x}}", allowed, "may not be mounted here"),
        ("image: alpine, volumes: {in/x: /x}", allowed, "may not be mounted here"),
        (f"image: alpine, volumes: {{'{tmp_path}/in': '/x,readonly'}}", allowed, "is no volume"),
        (f"image: alpine, volumes: {{'{tmp_path}/in': x}}", allowed, "is no volume"),
        ("image: alpine, ports: {'80': 80}", {}, "ProcessPolicy(publish='127.0.0.1')"),
        ("image: alpine, ports: {'0.0.0.0:80': 80}", {"publish": "127.0.0.1"}, "is no pair of ports"),
        ("image: alpine, ports: {'80': 80000}", {"publish": "127.0.0.1"}, "is no pair of ports"),
        ("image: '--privileged'", {}, "is no name of an image"),
        ("image: 'dir:/etc'", {}, "is no name of an image"),
        ("image: 'oci-archive:x'", {}, "is no name of an image"),
        ("image: alpine, name: '--privileged'", {}, "cannot be the name of a container"),
        ("image: alpine, environment: {'#x': y}", {}, "cannot be the name of a variable"),
    ):
        error = await fault(run, container(parts), **options)
        assert error["type"] == f"{BASE}configuration", parts
        assert word in error["detail"], parts
    error = await fault(run, container("image: alpine, stdin: x", ", await: false"))
    assert "reads no `stdin`" in error["detail"]
    assert podman.told() == []


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"containers": "podman --remote"}, "a list such as"),
        ({"containers": []}, "a list such as"),
        ({"containers": "podman", "mounts": "/data"}, "mounts must be a list"),
        ({"containers": "podman", "mounts": ["data/x"]}, "can be mounted nowhere"),
        ({"containers": "podman", "container_options": "--init"}, "container_options must be a list"),
        ({"containers": "podman", "publish": "localhost"}, "must be an address"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidOptionError, match=word):
        ProcessPolicy(**options)


async def test_a_secret_is_in_no_argument_and_masked_in_the_error(run: Run, podman: Engine) -> None:
    text = (
        "use: {secrets: [key]}\n"
        "do: [{c: {run: {container: {image: alpine, stdin: '${ $secrets.key }',"
        " command: 'cat >&2; echo \" $K\" >&2; exit 1', environment: {K: '${ $secrets.key }'}}}}}]"
    )
    assert (await fault(run, text))["detail"] == "the process ended with 1: ******** ********"
    (told,) = podman.told()
    assert "very-secret" not in json.dumps([told["arguments"], told["environment"]])
    assert told["file"] == "K=very-secret\n"
    lines = text.replace(
        "environment: {K: '${ $secrets.key }'}", "environment: {K: '${ \"a\\n\\($secrets.key)\" }'}"
    )
    error = await fault(run, lines.replace('"a\\n', '"a\\\\n') if "a\n" in lines else lines)
    assert "a secret in several lines" in error["detail"]


async def test_the_variables_of_a_container_do_not_reach_the_engine(
    run: Run, podman: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_HIDDEN", "hidden")
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/some.sock")
    text = container(
        "image: alpine, command: 'echo ${OUTLAST_HIDDEN-none}', environment: {DOCKER_HOST: x, LD_X: y}"
    )
    assert await run(text) == "none\n"
    (told,) = podman.told()
    assert told["environment"]["DOCKER_HOST"] == "unix:///run/some.sock"
    assert not {"OUTLAST_HIDDEN", "LD_X"} & told["environment"].keys()


def stubborn(file: Path) -> str:
    """A command that ignores the request to end, and says who it is."""
    return f"trap '' TERM; echo $$ > {file}; sleep 1000 & wait; sleep 1000"


async def test_a_timeout_kills_it(run: Run, podman: Engine, tmp_path: Path) -> None:
    parts = f"image: alpine, command: {stubborn(tmp_path / 'pid')!r}, lifetime: {{cleanup: always}}"
    with pytest.raises(FaultedTimeoutError):
        await run(f"- c: {{run: {{container: {{{parts}}}}}, timeout: {{after: PT1S}}}}")
    await podman.until(lambda: podman.containers() == [])
    assert not written(tmp_path / "pid") or not engine.alive(int(written(tmp_path / "pid")))


@pytest.mark.parametrize(("cleanup", "kept"), [("always", []), ("never", ["exited"])])
async def test_a_cancellation_kills_it(
    sqlite_url: str, podman: Engine, tmp_path: Path, cleanup: str, kept: list[str]
) -> None:
    file = tmp_path / "pid"
    parts = f"image: alpine, command: {stubborn(file)!r}, lifetime: {{cleanup: {cleanup}}}"
    await cancelled(sqlite_url, podman, parts, file, grace=0.2)
    await podman.until(lambda: [one["status"] for one in podman.containers()] == kept)
    assert not engine.alive(int(written(file)))


async def test_it_may_end_by_itself_when_it_is_asked_to(
    sqlite_url: str, podman: Engine, tmp_path: Path
) -> None:
    file, said = tmp_path / "pid", tmp_path / "said"
    command = f"trap 'echo asked > {said}; exit 0' TERM; echo $$ > {file}; sleep 1000 & wait"
    await cancelled(sqlite_url, podman, f"image: alpine, command: {command!r}", file, grace=60)
    await podman.until(lambda: written(said) == "asked\n")
    await podman.until(lambda: not engine.alive(int(written(file))))


async def cancelled(url: str, podman: Engine, parts: str, begun: Path, grace: float) -> None:
    """Run a container, and cancel the run once the container has begun."""
    async with (
        Client.connect(url) as client,
        Runtime(client, processes=ProcessPolicy(containers=podman.command, grace=grace)) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        run = await runtime.start(Document.parse(whole(container(parts))))
        await podman.until(lambda: written(begun) != "")
        await run.cancel()
        with pytest.raises(WorkflowCancelledError):
            await run.result()


def written(file: Path) -> str:
    return file.read_text() if file.exists() else ""


async def test_what_is_not_waited_for_lives_on(run: Run, podman: Engine) -> None:
    assert await run(container("image: alpine, command: sleep 1000", ", await: false"), {"k": 1}) == {"k": 1}
    (one,) = podman.containers()
    assert (one["status"], "--detach" in podman.told()[0]["options"]) == ("running", True)
    os.killpg(one["pid"], signal.SIGKILL)


async def test_what_a_dead_process_was_to_remove_goes_with_the_next_one(
    podman: Engine, sqlite_url: str
) -> None:
    for name, label in (
        ("up", "remove-after=0"),
        ("not-yet", "remove-after=3600"),
        ("never", "task=/do/0/a"),
    ):
        options = ["--name", name, "--label", f"outlast.{label}"]
        made = await asyncio.create_subprocess_exec(*podman.command, "run", *options, "hello")
        assert await made.wait() == 0
    policy = ProcessPolicy(containers=podman.command)
    async with Client.connect(sqlite_url) as client, Runtime(client, processes=policy):
        await podman.until(lambda: len(podman.containers()) == 2)
    assert sorted(one["name"] for one in podman.containers()) == ["never", "not-yet"]


async def test_eventually_is_some_time_after_the_end(sqlite_url: str, podman: Engine) -> None:
    policy = ProcessPolicy(containers=podman.command)
    async with (
        Client.connect(sqlite_url) as client,
        Runtime(client, processes=policy) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        for more in ("", ", await: false"):
            parts = "image: hello, lifetime: {cleanup: eventually, after: PT0.1S}"
            await (await runtime.start(Document.parse(whole(container(parts, more))))).result()
            await podman.until(lambda: podman.containers() == [])


PROGRAM = """
import asyncio, json, sys
from outlast import Client, Worker
from outlast_serverless import Document, ProcessPolicy, Runtime

async def main(url, options, text):
    policy = ProcessPolicy(**json.loads(options), grace=0.2)
    async with Client.connect(url) as client, Runtime(client, processes=policy) as runtime:
        async with Worker(
            client, workflows=runtime.workflows, activities=runtime.activities, lease_duration=1
        ):
            run = await runtime.start(Document.parse(text), id="one") if text else runtime.run("one")
            print(await run.result())

asyncio.run(main(*sys.argv[1:]))
"""


async def begun(url: str, podman: Engine, text: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        url,
        json.dumps({"containers": podman.command}),
        text,
        stdout=subprocess.PIPE,
    )


def supervisors(of: int) -> list[int]:
    children = Path(f"/proc/{of}/task/{of}/children").read_text().split()
    return [int(one) for one in children if "supervisor.py" in Path(f"/proc/{one}/cmdline").read_text()]


async def test_a_rescue_removes_what_nobody_could_end(podman: Engine, tmp_path: Path) -> None:
    file, go = tmp_path / "pid", tmp_path / "go"
    command = f"echo $$ > {file}; test -e {go} || sleep 1000; echo done"
    url = f"sqlite:///{tmp_path}/w.db"
    first = await begun(url, podman, whole(container(f"image: alpine, name: mine, command: {command!r}")))
    await podman.until(lambda: written(file) != "")
    # The machine loses everything but what the engine keeps.
    found = supervisors(first.pid)
    first.send_signal(signal.SIGKILL)
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    await first.wait()
    (left,) = podman.containers()
    assert (left["name"], left["status"]) == ("mine", "running")
    go.touch()
    second = await begun(url, podman, "")
    output, _ = await second.communicate()
    assert output == b"done\n\n"
    (one,) = podman.containers()
    assert (one["name"], one["status"]) == ("mine", "exited")
    assert one["id"] != left["id"]
    assert not engine.alive(left["pid"])
