"""Who reads a stream and waits is woken by what is written, in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from tests.runtime.test_request_waits import NOBODY_LOOKS

from outlast.runtime.stream_waits import StreamWaits
from outlast_store.journal.commit_news import Committed
from outlast_store.journal.journal import Journal
from outlast_store.schema.rows import StreamKey, StreamRow

KEY: StreamKey = ("first-run", "lines")


class Listeners:
    """The part of a journal that tells what was committed."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[Committed], None]] = []
        self.subscribe = self.listeners.append
        self.unsubscribe = self.listeners.remove


async def nothing(*question: object) -> Any:
    return []


async def test_who_waits_first_is_woken_first_and_nobody_is_left() -> None:
    journal = Listeners()
    waits = StreamWaits(cast("Journal", journal), nothing, lambda: None, NOBODY_LOOKS)
    woken: list[int] = []

    async def read(number: int) -> None:
        with waits.waiting(KEY, "run") as wait:
            await wait.news.wait()
            woken.append(number)

    readers = [asyncio.ensure_future(read(number)) for number in range(50)]
    await asyncio.sleep(0)
    committed = Committed(now=0)
    committed.streams = {KEY: cast("StreamRow", None)}
    journal.listeners[0](committed)
    await asyncio.gather(*readers)
    assert woken == list(range(50))
    assert not waits.awaited
    assert journal.listeners == []
