"""Progress reaches whoever looks on, from another process too, as soon as it is committed."""

from __future__ import annotations

import asyncio

import pytest
from tests.dashboard.test_standing import Stream

from outlast import Client, StartOptions, Worker, workflow
from outlast_dashboard import WebSettings, control_plane, notifications


@workflow.defn
class Stepping:
    def __init__(self) -> None:
        self.steps = self.shown = 0

    @workflow.run
    async def run(self) -> None:
        while True:
            workflow.set_progress(self.steps, 7, f"step <{self.steps}>")
            self.shown = self.steps
            await workflow.wait_condition(lambda: self.steps > self.shown)

    @workflow.signal
    def step(self) -> None:
        self.steps += 1


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """A database that several processes can use."""
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize(
    "url", ["sqlite_url", pytest.param("postgresql_url", marks=pytest.mark.postgresql)], indirect=True
)
async def test_a_live_page_shows_the_progress_that_another_process_commits(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only notifications: the page does not look by itself in time.
    monkeypatch.setattr(notifications, "PATIENCE_S", 60.0)
    async with Client.connect(url) as theirs, Worker(theirs, workflows=[Stepping]):
        options = StartOptions(summary="steps & more")
        handle = await theirs.start(Stepping.run, id="w-1", options=options)
        async with Client.connect(url) as ours:
            stream = Stream(control_plane(ours, WebSettings()), "/workflows/w-1", {})
            async with asyncio.timeout(30), stream.watched() as piece:
                for number in (1, 2):
                    await handle.signal(Stepping.step)
                    while f"step &lt;{number}&gt;" not in (shown := await piece()):
                        pass
                    assert "steps &amp; more" in shown
                    assert f"{number} of 7" in shown
