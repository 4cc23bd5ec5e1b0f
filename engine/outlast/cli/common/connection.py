"""Running a command's coroutine with a client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from outlast.cli.common.exit_codes import CommandFailedError, Exit
from outlast.cli.common.options import database_url
from outlast.cli.common.user_code import converter
from outlast.client.client import Client
from outlast_store.database.urls import DatabaseUrl

T = TypeVar("T")


def with_client(
    url: str | None, work: Callable[[Client], Awaitable[T]], *, codec: str | None = None, makes: bool = False
) -> T:
    """Connect, do the work, close. Only a command that ``makes`` something makes a SQLite file too.

    Raises:
        CommandFailedError: There is no such file: a command that only looks should not answer out of an empty one.
    """
    target, data_converter = database_url(url), converter(codec)
    parsed = DatabaseUrl.parse(target)
    if not makes and parsed.path is not None and not parsed.path.exists():
        raise CommandFailedError(
            f"{parsed.display} does not exist: check the path; `outlast worker` and `start` make a new file",
            Exit.DATABASE,
        )

    async def run() -> T:
        async with Client.connect(target, converter=data_converter) as client:
            return await work(client)

    return asyncio.run(run())
