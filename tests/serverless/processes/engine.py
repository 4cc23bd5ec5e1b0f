"""An engine of containers, as far as its command goes: what it is told is recorded, and "containers" are processes.

It is run as a file. Its first argument is a folder, which holds what it was told (``told``, a line of JSON for each
command) and its containers. An image's own command says hello; a shell command is run by the shell of this machine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

FLAGS = ("--detach", "--interactive", "--quiet", "--rm")


def main(folder: Path, command: str, *arguments: str) -> int:
    """Do one command of an engine, and return its exit code."""
    told: dict[str, Any] = {"command": command, "arguments": arguments, "environment": dict(os.environ)}
    if command != "run":
        record(folder, told)
    if command == "ps":
        label = arguments[arguments.index("--filter") + 1].removeprefix("label=")
        for one in containers(folder):
            if (
                label in (f"{name}={value}" for name, value in one["labels"].items())
                or label in one["labels"]
            ):
                print(one["id"])
        return 0
    if command == "container":
        print(json.dumps([inspected(one) for one in containers(folder) if one["id"] in arguments]))
        return 0
    if command in ("kill", "rm"):
        for one in containers(folder):
            if one["id"] in arguments:
                if one["status"] == "running":
                    os.killpg(one["pid"], signal.SIGKILL)
                print(one["id"])
                if command == "rm":
                    (folder / one["id"]).unlink(missing_ok=True)
        return 0
    if command == "wait":
        print(137)
        return 0
    return run(folder, told, list(arguments))


def record(folder: Path, told: dict[str, Any]) -> None:
    with open(folder / "told", "a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\n")


def keep(folder: Path, one: dict[str, Any]) -> None:
    new = folder / f"new-{one['id']}"
    new.write_text(json.dumps(one))
    new.rename(folder / one["id"])


def containers(folder: Path) -> list[dict[str, Any]]:
    found = []
    for file in folder.glob("c-*"):
        try:
            one = json.loads(file.read_text())
        except FileNotFoundError:
            continue
        if one["status"] == "running" and not alive(one["pid"]):
            one["status"] = "exited"
        found.append(one)
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def inspected(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "Id": one["id"],
        "Created": one["created"],
        "Config": {"Labels": one["labels"]},
        "State": {"Status": one["status"], "FinishedAt": one["finished"]},
    }


def run(folder: Path, told: dict[str, Any], arguments: list[str]) -> int:
    options: dict[str, list[str]] = {}
    while arguments[0].startswith("--"):
        name, equals, value = arguments.pop(0).partition("=")
        options.setdefault(name, []).append(value if equals or name in FLAGS else arguments.pop(0))
    image, *rest = arguments
    files = [Path(one).read_text() for one in options.get("--env-file", ())]
    record(folder, {**told, "options": options, "image": image, "rest": rest, "file": "".join(files)})
    if image == "broken":
        print("Error: no such image", file=sys.stderr)
        return 125
    if any(one["name"] == options["--name"][0] for one in containers(folder)):
        print("Error: the name is in use", file=sys.stderr)
        return 125
    variables = dict(line.split("=", 1) for one in files for line in one.splitlines())
    variables |= dict(one.split("=", 1) for one in options.get("--env", ()))
    argv = ["sh", *rest] if "--entrypoint" in options else ["echo", f"Hello from {image}", *rest]
    detached = "--detach" in options
    # The engine keeps a container, so it is in no group of its client.
    process = subprocess.Popen(
        argv,
        stdin=None if "--interactive" in options else subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if detached else None,
        stderr=subprocess.DEVNULL if detached else None,
        env={"PATH": os.environ["PATH"], **variables},
        start_new_session=True,
    )
    one: dict[str, Any] = {
        "id": f"c-{uuid4().hex}",
        "name": options["--name"][0],
        "labels": dict(label.split("=", 1) for label in options["--label"]),
        "pid": process.pid,
        "status": "running",
        "created": datetime.now(UTC).isoformat(),
        "finished": "0001-01-01T00:00:00Z",
    }
    keep(folder, one)
    if detached:
        print(one["id"])
        return 0
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(process.pid, signal.SIGTERM))
    code = process.wait()
    if "--rm" in options:
        (folder / one["id"]).unlink(missing_ok=True)
    elif (folder / one["id"]).exists():
        keep(folder, {**one, "status": "exited", "finished": datetime.now(UTC).isoformat()})
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
