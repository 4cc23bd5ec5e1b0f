"""``outlast stream``: what a workflow publishes, on a terminal and for programs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cli.conftest import Command
from tests.worker_thread import worker_in_a_thread

from outlast import workflow


@workflow.defn
class Publishing:
    """Publishes what it is told, until that is "stop"."""

    def __init__(self) -> None:
        self.stopped = False

    @workflow.run
    async def run(self) -> None:
        workflow.stream("words").write({"first": 1})
        await workflow.wait_condition(lambda: self.stopped)
        workflow.stream("words").close()

    @workflow.signal
    def say(self, word: str) -> None:
        workflow.stream("words").write(word)
        self.stopped = word == "stop"


@pytest.fixture(autouse=True)
def publisher(url: str) -> Iterator[None]:
    with worker_in_a_thread(url, graceful_shutdown_timeout=0.1, workflows=[Publishing]):
        yield


def test_items_are_printed_and_followed_until_the_end(outlast: Command) -> None:
    assert outlast("start", "Publishing", "--id", "p").code == 0
    # A signal that came before the first workflow task would be handled before the code writes.
    while not outlast("stream", "p", "words", "--json").lines:
        pass
    signalled = outlast("signal", "p", "say", "--input", '"stop"')
    assert signalled.code == 0, signalled.err
    followed = outlast("stream", "p", "words", "--follow", "--json")
    assert followed.code == 0, followed.err
    assert [(item["offset"], item["value"]) for item in followed.lines] == [(0, {"first": 1}), (1, "stop")]
    printed = outlast("stream", "p", "words")
    assert [line.split("  ")[0] for line in printed.out.splitlines()] == ["0", "1"]
    assert '"stop"' in printed.out
    assert [item["value"] for item in outlast("stream", "p", "words", "--from", "1", "--json").lines] == [
        "stop"
    ]
    assert "no items from 2" in outlast("stream", "p", "words", "--from", "2").out
    assert outlast("stream", "p", "others", "--json").out == ""
    described = outlast("describe", "p").out
    assert "words" in described.partition("streams")[2]
    assert outlast("stream", "nobody", "words").code != 0
    assert outlast("stream", "p", "words", "--from", "-1").code == 2
