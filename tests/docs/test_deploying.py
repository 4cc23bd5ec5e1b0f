"""The files on the page about deploying are what their programs read, and the commands in them exist."""

from __future__ import annotations

import configparser
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

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
