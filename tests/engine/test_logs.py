"""Every logger's records carry the run that their code runs for, where a handler asks for that."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from outlast import Client, Worker, activity, workflow
from outlast.logs import FIELDS, RunIds

library = logging.getLogger("some.library")


@activity.defn(start_to_close_timeout=10)
async def speak() -> None:
    library.info("in an activity")
    activity.logger.info("by the activity")


@activity.defn(start_to_close_timeout=10)
def speak_in_a_thread() -> None:
    library.info("in a thread")


@workflow.defn
async def talk() -> None:
    library.info("in a workflow")
    await speak()
    await speak_in_a_thread()


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    """What a handler with the filter was given."""
    found: list[logging.LogRecord] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    keeper = Keeper()
    keeper.addFilter(RunIds())
    root = logging.getLogger()
    root.addHandler(keeper)
    library.setLevel(logging.INFO)
    logging.getLogger("outlast.activity").setLevel(logging.INFO)
    yield found
    root.removeHandler(keeper)
    logging.getLogger("outlast.activity").setLevel(logging.NOTSET)


async def test_records_say_for_which_run_and_attempt(records: list[logging.LogRecord]) -> None:
    async with (
        Client.connect("sqlite://") as client,
        Worker(client, workflows=[talk], activities=[speak, speak_in_a_thread]),
    ):
        handle = await client.start(talk, id="t-1")
        await handle.result()
        library.info("outside")
    said = {record.getMessage(): {name: getattr(record, name) for name in FIELDS} for record in records}
    for words in ("in a workflow", "in an activity", "in a thread", "by the activity"):
        assert said[words]["workflow_id"] == "t-1", words
        assert said[words]["run_id"] == handle.run_id, words
    assert said["in an activity"]["activity_type"] == "speak"
    assert said["in a thread"]["attempt"] == 1
    assert set(said["outside"].values()) == {""}
