"""The OpenAPI document is true, and nothing that is sent makes the server fail: Schemathesis against a real one.

Two minutes here; ``OUTLAST_FUZZ_SECONDS=3600 pytest tests/dashboard/test_fuzzing.py`` for an hour.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.dashboard.browsing import environment, served

SECONDS = int(os.environ.get("OUTLAST_FUZZ_SECONDS", "120"))

CONFIGURATION = """
request-timeout = 70  # a request may wait for a minute

[parameters]
"query.wait_seconds" = 0.2  # rather than most of the time; tests/dashboard/test_result_api.py tries other values

[checks]
# What the document can't say (one field against another, an id that is taken) is told as 409 or 422.
positive_data_acceptance.expected-statuses = ["2xx", 401, 403, 404, 409, 422]
"""


def test_the_api_holds_what_its_document_says(sqlite_url: str, tmp_path: Path) -> None:
    configuration = tmp_path / "schemathesis.toml"
    configuration.write_text(CONFIGURATION)
    subprocess.run(
        [sys.executable, "-m", "outlast", "migrate", "--url", sqlite_url], env=environment(), check=True
    )
    with served(sqlite_url, tmp_path, tokens=True) as (address, secret):
        made = subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "schemathesis.cli",
                    "--config-file",
                    str(configuration),
                    "--no-color",
                ),
                *("run", f"{address}/api/openapi.json", "--url", f"{address}/api"),
                *("--header", f"Authorization: Bearer {secret}"),
                *("--exclude-path-regex", "/live$"),  # answers as long as a run is open
                *("--max-time", str(SECONDS), "--warnings", "off", "--rate-limit", "90/s"),
            ],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS + 300,
        )
    assert made.returncode == 0, made.stdout[-20_000:] + made.stderr[-5_000:]
    assert " generated" in made.stdout, made.stdout
