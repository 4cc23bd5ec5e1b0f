"""The files on the page about deploying are what their programs read, and the commands in them exist."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml  # type: ignore[import-untyped]

from outlast.blocking import Client

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "deploying.md").read_text()
COMMANDS = dict(
    re.findall(r"^## outlast ([a-z]+)\n(.*?)(?=^## |\Z)", (DOCS / "cli.md").read_text(), re.M | re.S)
)
FILES = dict(re.findall(r'^```\w+ title="(.+?)"\n(.*?)^```', PAGE, re.M | re.S))
GRACE_S = 10 + 20


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all(FILES[name]))


def commands() -> Iterator[list[str]]:
    unit = configparser.ConfigParser(interpolation=None)
    unit.read_string(FILES["/etc/systemd/system/orders.service"])
    path, *rest = shlex.split(unit["Service"]["ExecStart"])
    yield [Path(path).name, *rest]
    for service in documents("compose.yaml")[0]["services"].values():
        if "command" in service:
            yield service["command"]
    for document in documents("orders.yaml"):
        for container in document["spec"]["template"]["spec"]["containers"]:
            yield container["command"]
            probe = container.get("readinessProbe", {}).get("exec", {}).get("command")
            if probe is not None:
                yield shlex.split(probe[-1].partition(" | ")[0])
    for line in re.findall(r"`(outlast [a-z].*?)`", PAGE):
        yield shlex.split(line)


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_the_command_exists_with_its_options(command: list[str]) -> None:
    program, verb, *rest = command
    assert program == "outlast"
    for option in [word for word in rest if word.startswith("--")]:
        # The filters of listings are in the section of `list`.
        assert f"`{option}`" in COMMANDS[verb] + (COMMANDS["list"] if verb == "count" else ""), option


def test_services_wait_for_the_migration_and_have_time_to_stop() -> None:
    services = documents("compose.yaml")[0]["services"]
    for name in ("worker", "watchdog", "dashboard"):
        assert services[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert int(services["worker"]["stop_grace_period"].removesuffix("s")) >= GRACE_S
    pods = {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in documents("orders.yaml")}
    assert pods["orders-worker"]["terminationGracePeriodSeconds"] >= GRACE_S
    assert int(re.findall(r"^TimeoutStopSec=(\d+)$", PAGE, re.M)[0]) >= GRACE_S


def test_selectors_find_their_pods() -> None:
    for document in documents("orders.yaml"):
        if document["kind"] == "Deployment":
            labels = document["spec"]["template"]["metadata"]["labels"]
            assert document["spec"]["selector"]["matchLabels"] == labels


SECTIONS = {
    "Unit": {"Description", "After"},
    "Service": {
        *("User", "WorkingDirectory", "Environment", "ExecStart", "StateDirectory"),
        *("Restart", "RestartSec", "TimeoutStopSec"),
    },
    "Install": {"WantedBy"},
}


class Unit(configparser.ConfigParser):
    """A unit, whose keys are written in one way only."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def test_systemd_knows_what_the_unit_says(tmp_path: Path) -> None:
    text = FILES["/etc/systemd/system/orders.service"]
    unit = Unit(interpolation=None)
    unit.read_string(text)
    assert {section: set(unit[section]) for section in unit.sections()} == SECTIONS
    if verify := shutil.which("systemd-analyze"):
        # The program is not where the page has it.
        made = tmp_path / "orders.service"
        made.write_text(re.sub(r"(?<=^ExecStart=)\S+", OUTLAST, text, flags=re.M))
        done = subprocess.run([verify, "verify", made], capture_output=True, text=True, check=False)
        assert "orders.service" not in done.stderr, done.stderr


POD: Any = {
    "metadata": {"labels": {}},
    "spec": {
        "restartPolicy": str,
        "terminationGracePeriodSeconds": int,
        "containers": {
            "name": str,
            "image": str,
            "command": str,
            "envFrom": {"secretRef": {"name": str}},
            "resources": {"requests": {"cpu": str, "memory": str}},
            "ports": {"containerPort": int},
            "volumeMounts": {"name": str, "mountPath": str, "readOnly": bool},
        },
        "volumes": {"name": str, "secret": {"secretName": str}},
    },
}
PROBE: Any = {
    "exec": {"command": str},
    "tcpSocket": {"port": int},
    "httpGet": {"path": str, "port": int},
    "periodSeconds": int,
    "timeoutSeconds": int,
}
POD["spec"]["containers"].update(dict.fromkeys(("readinessProbe", "livenessProbe", "startupProbe"), PROBE))
KINDS: Any = {
    ("batch/v1", "Job"): {"backoffLimit": int, "template": POD},
    ("apps/v1", "Deployment"): {"replicas": int, "selector": {"matchLabels": {}}, "template": POD},
}
"""The fields of Kubernetes' API that the page uses, and what each holds (one of it, or a list)."""


def check_fields(found: Any, known: Any, where: str) -> None:
    if isinstance(found, list):
        for one in found:
            check_fields(one, known, where)
    elif isinstance(known, dict):
        assert isinstance(found, dict), where
        for name, value in found.items():
            if known:
                assert name in known, f"{where} has no field {name}"
                check_fields(value, known[name], f"{where}.{name}")
            else:
                assert isinstance(value, str), f"{where}.{name}"
    else:
        assert type(found) is known, f"{where} is no {known.__name__}"


def test_kubernetes_knows_the_fields_of_the_manifests() -> None:
    for document in documents("orders.yaml"):
        kind = KINDS[document.pop("apiVersion"), document.pop("kind")]
        check_fields(document, {"metadata": {"name": str}, "spec": kind}, "manifest")


def test_volumes_and_ports_are_those_that_are_used() -> None:
    for document in documents("orders.yaml"):
        pod = document["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        volumes = {volume["name"] for volume in pod.get("volumes", ())}
        assert volumes == {mount["name"] for mount in container.get("volumeMounts", ())}
        ports = {port["containerPort"] for port in container.get("ports", ())}
        for probe in ("readinessProbe", "livenessProbe"):
            for way in ("tcpSocket", "httpGet"):
                if way in container.get(probe, {}):
                    assert container[probe][way]["port"] in ports


ORDERS = """
import os, pathlib, time
from outlast import activity, workflow

HERE = pathlib.Path(__file__).parent

@activity.defn(start_to_close_timeout=300)
def pack(order: str) -> str:
    (HERE / "trying").write_text(str(os.getpid()))
    (HERE / "trying").rename(HERE / "tried")
    while not (HERE / "may end").exists():
        time.sleep(0.02)
    return order

@workflow.defn
class Order:
    @workflow.run
    async def run(self, order: str) -> str:
        return await pack(order)
"""
OUTLAST = str(Path(sys.executable).with_name("outlast"))
LEASE = ["--lease-duration", "2s"]


def service(name: str) -> list[str]:
    command: list[str] = documents("compose.yaml")[0]["services"][name]["command"]
    return command[1:]


@contextmanager
def running(folder: Path, url: str, until: str, *arguments: str) -> Generator[str]:
    """A command that has said that it is ready; at the end it stops in good order. Gives what said so."""
    log = folder / f"{arguments[0]}.log"
    with log.open("w") as out:
        made = subprocess.Popen(
            [OUTLAST, *arguments],
            cwd=folder,
            env={**os.environ, "OUTLAST_URL": url},
            stdout=out,
            stderr=out,
        )
    try:
        while (found := re.search(until, said := log.read_text(), re.S)) is None:
            assert made.poll() is None, said
        yield found[0]
        made.terminate()
        # Uvicorn ends in good order by the signal that it got.
        assert made.wait(60) in (0, -signal.SIGTERM), log.read_text()
        assert "Traceback" not in log.read_text()
    finally:
        made.kill()
        made.wait()


def status(address: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=60) as answer:
            code: int = answer.status
            return code
    except urllib.error.HTTPError as error:
        return error.code


def tried(folder: Path, not_by: int = 0) -> int:
    """Wait until a process, another than one that is known, has begun with the activity; its pid."""
    file, pid = folder / "tried", not_by
    while pid == not_by:
        pid = int(file.read_text()) if file.exists() else not_by
    return pid


def test_the_services_of_the_compose_file_work_together_and_go_on_when_a_worker_is_killed(
    tmp_path: Path, new_postgresql_url: Any
) -> None:
    """As on the page, but for the lease, the number of processes, and what the network and the secrets are called."""
    url = new_postgresql_url(migrated=False)
    (tmp_path / "orders.py").write_text(ORDERS)
    outlast: Any = {"cwd": tmp_path, "env": {**os.environ, "OUTLAST_URL": url}, "check": True}
    subprocess.run([OUTLAST, *service("migrate")], **outlast)
    add = ["ui", "token", "add", "ada", "--tokens", "tokens.json", "--scope", "write"]
    secret = subprocess.run([OUTLAST, *add], **outlast, capture_output=True, text=True).stdout.split()[-1]
    worker = [{"4": "2"}.get(word, word) for word in service("worker")]
    given = {"0.0.0.0": "127.0.0.1", "/run/secrets/tokens": "tokens.json"}
    dashboard = [*(given.get(word, word) for word in service("dashboard")), "--port", "0"]
    with (
        running(tmp_path, url, "serves task queue.*serves task queue", *worker, *LEASE),
        running(tmp_path, url, "watchdog", *service("watchdog"), *LEASE),
        running(tmp_path, url, r"http://[\d.:]+\d", *dashboard) as address,
        Client.connect(url) as client,
    ):
        assert status(f"{address}/livez") == 200
        assert status(f"{address}/api/health", Host="ops.example.com") == 401
        token = f"Bearer {secret}"
        assert status(f"{address}/api/health", Host="ops.example.com", Authorization=token) == 200
        handle = client.start("Order", "o-1", id="order-1")
        killed = tried(tmp_path)
        listed = subprocess.run([OUTLAST, "workers", "--json"], **outlast, capture_output=True).stdout
        assert killed in [orjson.loads(one)["pid"] for one in listed.splitlines()]
        os.kill(killed, signal.SIGKILL)
        tried(tmp_path, not_by=killed)
        (tmp_path / "may end").touch()
        assert handle.result() == "o-1"
