"""The OpenAPI document is true, and nothing that is sent makes the server fail: Schemathesis against a real one.

The API answers as its document says. The pages have no document for others, but FastAPI can write one: whatever their
forms and addresses are given, they answer, too. Nothing leaves a traceback in the server's log.

Half a minute here, always from the same seed, and an hour of new requests at night; ``OUTLAST_FUZZ_SECONDS``
changes how long.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from tests.dashboard.browsing import environment, process, served

from outlast import Client
from outlast_dashboard import TokenFile
from outlast_dashboard.pages.application import make_pages

HOUR = int(os.environ.get("OUTLAST_FUZZ_SECONDS", "3600"))
SHORT = int(os.environ.get("OUTLAST_FUZZ_SECONDS", "30"))

CONFIGURATION = """
request-timeout = 70  # a request may wait for a minute

[parameters]
"query.wait_seconds" = 0.2  # rather than most of the time; tests/dashboard/test_result_api.py tries other values
{more}

[checks]
# What the document can't say (one field against another, an id that is taken) is told as 409 or 422.
# A timeout of a query may be as short as one likes: 408.
positive_data_acceptance.expected-statuses = ["2xx", 401, 403, 404, 408, 409, 422]
# An address may fit two paths (/schedules/preview and /schedules/ID): then it allows the methods of both.
allow_header_conformance.enabled = false
"""

HOSTILE_IDS = (
    "w-1",
    "a/b",
    "<script>alert(1)</script>",
    "x\u2028y",
    "'\"`;--",
    "%2e%2e",
    "\u202eabc",
    "𝒳" * 50,
)


@dataclass(frozen=True)
class Part:
    """One part of the hour."""

    app: str
    scopes: tuple[str, ...]
    share: float
    workflow_id: str | None = None
    """Always this one; otherwise what comes along, which is hardly ever there."""


PARTS = (
    Part("api", ("write", "payloads"), 0.35),
    Part("api", ("write", "payloads"), 0.2, "w-1"),
    Part("api", ("read",), 0.05, "w-1"),
    Part("api", ("write",), 0.05, "w-1"),
    Part("api", ("payloads",), 0.02),
    Part("api", (), 0.03),
    Part("pages", ("write", "payloads"), 0.1),
    Part("pages", ("write", "payloads"), 0.1, "w-1"),
    Part("pages", ("read",), 0.05, "w-1"),
    Part("pages", (), 0.05),
)


def test_a_short_one(sqlite_url: str, tmp_path: Path) -> None:
    everything = ("write", "payloads")
    parts = Part("api", everything, 0.7), Part("pages", everything, 0.3, "w-1")
    fuzz(sqlite_url, tmp_path, SHORT, parts, "--seed", "1")


@pytest.mark.nightly
def test_an_hour(sqlite_url: str, tmp_path: Path) -> None:
    fuzz(sqlite_url, tmp_path, HOUR, PARTS)


def fuzz(url: str, folder: Path, seconds: int, parts: tuple[Part, ...], *options: str) -> None:
    """Send requests of each part for its share of the time."""
    asyncio.run(_begin(url))
    log = folder / "server.log"
    worker = ("-m", "outlast", "worker", "tests.dashboard.programs", "--url", url)
    with (
        served(url, folder, tokens=True, log=log) as (address, _),
        process(*worker, log=folder / "worker.log"),
    ):
        for number, part in enumerate(parts):
            secret = _token(folder, number, part)
            found = _run(folder, address, secret, part, max(int(seconds * part.share), 1), options)
            assert found.returncode == 0, f"{part}\n{found.stdout[-20_000:]}{found.stderr[-5_000:]}"
            assert " generated" in found.stdout, found.stdout
    logged = log.read_text()
    assert "Traceback" not in logged, logged[-20_000:]
    assert " failed with " not in logged, logged[-20_000:]


async def _begin(url: str) -> None:
    async with Client.connect(url) as client:
        for id in HOSTILE_IDS:
            await client.start("Waiting", id, id=id)
            await client.start("Failing", id, id=f"{id} failed"[-200:])


def _token(folder: Path, number: int, part: Part) -> str:
    if not part.scopes:
        return "outlast_unknown"
    return TokenFile(folder / "tokens.json").add(f"part {number}", part.scopes)


def _run(
    folder: Path, address: str, secret: str, part: Part, seconds: int, options: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    configuration = folder / "schemathesis.toml"
    more = f'"path.workflow_id" = "{part.workflow_id}"' if part.workflow_id else ""
    configuration.write_text(CONFIGURATION.format(more=more))
    arguments = ["--config-file", str(configuration), "--no-color", "run"]
    if part.app == "api":
        arguments += [f"{address}/api/openapi.json", "--url", f"{address}/api"]
    else:
        document = folder / "pages.json"
        document.write_bytes(orjson.dumps(make_pages().openapi()))
        arguments += [str(document), "--url", address, "--checks", "not_a_server_error"]
    if part.workflow_id:
        # Not what was started: the last phase would look for it under another id.
        arguments += ["--phases", "examples,coverage,fuzzing"]
    if part.app == "api" and part.scopes != ("write", "payloads"):
        # A document for all can't say what a token lacks.
        arguments += ["--checks", "not_a_server_error,response_schema_conformance,content_type_conformance"]
    return subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", *arguments),
            *("--header", f"Authorization: Bearer {secret}"),
            *("--exclude-path-regex", "/live$"),  # answers as long as a run is open
            *("--max-time", str(seconds), "--warnings", "off", "--rate-limit", "90/s"),
            *options,
        ],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=seconds + 300,
    )
