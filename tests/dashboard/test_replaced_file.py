"""A SQLite file that is taken away under the dashboard: every page says so, and what to do."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import httpx2
import pytest

from outlast import Client
from outlast_dashboard import WebSettings, control_plane


@pytest.mark.parametrize("backup", [False, True], ids=["deleted", "restored"])
async def test_a_file_that_was_taken_away_under_the_dashboard_is_told(tmp_path: Path, backup: bool) -> None:
    file = tmp_path / "orders.db"
    async with Client.connect(f"sqlite:///{file}") as client:
        await client.start("Waiting", id="w-1")
        transport = httpx2.ASGITransport(control_plane(client, WebSettings()))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as web:
            assert "w-1" in (await web.get("/")).text
            if backup:
                os.replace(shutil.copy(file, tmp_path / "backup.db"), file)
            else:
                file.unlink()
            for path in ("/", "/workflows/w-1", "/watchdog", "/workers", "/types"):
                answer = await web.get(path)
                assert answer.status_code == 503, path
                assert "The database file is another one now" in answer.text
                assert "until they are started anew" in answer.text
                assert "Nothing is lost" not in answer.text
            live = await web.get("/", headers={"accept": "text/event-stream"})
            assert (live.status_code, live.text) in ((503, live.text), (200, ""))
