"""Containers by a real engine: Podman, with images of its own that need no registry."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.serverless.calls.test_examples import EXAMPLES, OUTCOMES
from tests.serverless.cases import whole
from tests.serverless.processes.test_containers import PROGRAM, container, supervisors, written

from outlast import Client, Worker
from outlast.errors import FaultedError, WorkflowCancelledError
from outlast_serverless import Document, ProcessPolicy, Runtime, Secrets

TOOLS = ("cat", "echo", "env", "kill", "sh", "sleep", "test", "touch")
LIMITS = ("--network=none", "--ulimit=nofile=1000:1000", "--ulimit=nproc=1000:1000")
"""Where these tests run, a container may be allowed no more than its engine is."""


class Podman:
    """The engine, with a storage of its own."""

    def __init__(self, folder: Path) -> None:
        runtime = next(one for one in map(shutil.which, ("runc", "crun")) if one)
        self.command = [
            "podman",
            *("--root", str(folder / "root"), "--runroot", str(folder / "run"), "--storage-driver", "vfs"),
            *("--cgroup-manager", "cgroupfs", "--runtime", runtime),
        ]

    def __call__(self, *arguments: str) -> str:
        return subprocess.run(
            [*self.command, *arguments], check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    def states(self) -> dict[str, str]:
        """Return the state of each container by its name."""
        return {one["Names"][0]: one["State"] for one in json.loads(self("ps", "--all", "--format", "json"))}

    async def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(600):
            if holds():
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"it never was so; there are {self.states()}")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder with a short name: Podman takes none of more than 50 characters for what it runs."""
    with tempfile.TemporaryDirectory(prefix="outlast-", dir="/tmp") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Podman]:
    podman = Podman(folder)
    busybox = shutil.which("busybox")
    assert busybox, "the tests of containers need a static busybox: `make containers` installs it"
    with tarfile.open(folder / "image.tar", "w") as image:
        image.add(os.path.realpath(busybox), "bin/busybox")
        for tool in TOOLS:
            link = tarfile.TarInfo(f"bin/{tool}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            image.addfile(link)
    hello = 'CMD ["/bin/echo", "Hello from hello-world"]'
    path = "ENV PATH=/bin"
    podman(
        "import", "--quiet", "--change", path, str(folder / "image.tar"), "docker.io/library/alpine:latest"
    )
    podman(
        *("import", "--quiet", "--change", path, "--change", hello),
        *(str(folder / "image.tar"), "docker.io/library/hello-world:latest"),
    )
    yield podman
    podman("rm", "--all", "--force", "--time", "0")
    # Its layers may belong to others than who runs the tests.
    podman("rmi", "--all", "--force")


@pytest.fixture
def podman(engine: Podman) -> Iterator[Podman]:
    yield engine
    engine("rm", "--all", "--force", "--time", "0")


def policy(podman: Podman, **more: Any) -> ProcessPolicy:
    return ProcessPolicy(containers=podman.command, container_options=LIMITS, grace=0.2, **more)


async def outcome(url: str, podman: Podman, text: str, **more: Any) -> Any:
    async with (
        Client.connect(url) as client,
        Runtime(
            client, processes=policy(podman, **more), secrets=Secrets.mapping({"key": "very-secret"})
        ) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        return await (await runtime.start(Document.parse(text))).result()


async def test_a_container_gets_what_the_document_gives_it(
    sqlite_url: str, podman: Podman, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mounted")
    command = 'echo "$1|$(cat)|$K|$L|$(cat /data/file)"; touch /data/x || echo read-only; exit 3'
    text = f"""
document: {{dsl: '1.0.3', namespace: n, name: a, version: '0.1.0'}}
use: {{secrets: [key]}}
do:
  - c:
      run:
        container:
          image: alpine
          command: {json.dumps(command)}
          arguments: [a b]
          stdin: in
          environment: {{K: '${{ $secrets.key }}', L: "two\\nlines"}}
          volumes: {{{str(tmp_path)!r}: '/data:ro'}}
          lifetime: {{cleanup: always}}
        return: all
"""
    found = await outcome(sqlite_url, podman, text, mounts=[str(tmp_path)])
    assert found["code"] == 3
    assert found["stdout"] == "a b|in|very-secret|two\nlines|mounted\nread-only\n"
    assert podman.states() == {}


async def test_the_examples_run(sqlite_url: str, podman: Podman) -> None:
    names = [name for name, file in EXAMPLES.items() if "container:" in file.read_text()]
    # There is no registry from which an image could always be pulled anew.
    names.remove("run-container-with-pull-policy")
    assert len(names) == 9
    for name in names:
        found = await outcome(sqlite_url, podman, EXAMPLES[name].read_text())
        assert found == OUTCOMES[name]["out"], name
    kept = podman.states()
    assert len(kept) == 8
    assert set(kept.values()) == {"exited"}
    assert "hello-null-null-null" in kept


async def test_an_image_that_is_not_there_is_an_error(sqlite_url: str, podman: Podman) -> None:
    with pytest.raises(FaultedError, match=r"the engine could not run the container: .*no-such-image"):
        await outcome(
            sqlite_url, podman, whole(container("image: localhost/no-such-image, pullPolicy: never"))
        )


@pytest.mark.parametrize(("cleanup", "kept"), [("always", []), ("never", ["exited"])])
async def test_a_cancelled_one_is_killed(
    sqlite_url: str, podman: Podman, tmp_path: Path, cleanup: str, kept: list[str]
) -> None:
    allowed = policy(podman, mounts=[str(tmp_path)])
    async with (
        Client.connect(sqlite_url) as client,
        Runtime(client, processes=allowed) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        run = await runtime.start(Document.parse(whole(stubborn(tmp_path, cleanup))))
        await podman.until(lambda: written(tmp_path / "begun") != "")
        await run.cancel()
        with pytest.raises(WorkflowCancelledError):
            await run.result()
    await podman.until(lambda: list(podman.states().values()) == kept)


def stubborn(folder: Path, cleanup: str = "never") -> str:
    """A container that ends by a kill only, unless it is told to go on."""
    command = "trap '' TERM; echo yes > /data/begun; test -e /data/go || sleep 1000; echo done"
    return container(
        f"image: alpine, name: mine, command: {json.dumps(command)}, volumes: {{{str(folder)!r}: /data}},"
        f" lifetime: {{cleanup: {cleanup}}}"
    )


async def test_eventually_is_some_time_after_the_end(sqlite_url: str, podman: Podman) -> None:
    async with (
        Client.connect(sqlite_url) as client,
        Runtime(client, processes=policy(podman)) as runtime,
        Worker(client, workflows=runtime.workflows, activities=runtime.activities),
    ):
        for more in ("", ", await: false"):
            parts = "image: hello-world, lifetime: {cleanup: eventually, after: PT0.1S}"
            await (await runtime.start(Document.parse(whole(container(parts, more))))).result()
            await podman.until(lambda: podman.states() == {})


async def begun(url: str, podman: Podman, text: str, folder: Path) -> asyncio.subprocess.Process:
    options = {"containers": podman.command, "container_options": LIMITS, "mounts": [str(folder)]}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, url, json.dumps(options), text), stdout=subprocess.PIPE
    )


@pytest.mark.parametrize("alone", [True, False])
async def test_a_dead_worker_leaves_nothing_that_runs(podman: Podman, tmp_path: Path, alone: bool) -> None:
    url = f"sqlite:///{tmp_path}/w.db"
    worker = await begun(url, podman, whole(stubborn(tmp_path)), tmp_path)
    await podman.until(lambda: written(tmp_path / "begun") != "")
    found = [] if alone else supervisors(worker.pid)
    worker.send_signal(signal.SIGKILL)
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    await worker.wait()
    if alone:
        await podman.until(lambda: podman.states() == {"mine": "exited"})
        return
    # Nobody was left to end it: the worker that runs the task again does.
    assert podman.states() == {"mine": "running"}
    left = podman("inspect", "--format", "{{.Id}}", "mine")
    (tmp_path / "go").touch()
    second = await begun(url, podman, "", tmp_path)
    output, _ = await second.communicate()
    assert output == b"done\n\n"
    assert podman.states() == {"mine": "exited"}
    assert podman("inspect", "--format", "{{.Id}}", "mine") != left
