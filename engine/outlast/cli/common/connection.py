"""Running a command's coroutine with a connected client."""

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
    """Connect, do the work, and close.

    Args:
        url: The database's URL, if one was given.
        work: The work, given the client.
        codec: The name of the codec, if one was given.
        makes: Whether a missing SQLite file is created. A command that only reads should not answer from an empty one.

    Raises:
        CommandFailedError: The SQLite file does not exist, and the command does not create one.
        InvalidOptionError: No URL was given, or the codec cannot be used.
    """
    target, data_converter = database_url(url), converter(codec)
    parsed = DatabaseUrl.parse(target)
    if not makes and parsed.path is not None and not parsed.path.exists():
        raise CommandFailedError(
            f"{parsed.display} does not exist: check the path; `outlast worker` and `start` create a new file",
            Exit.DATABASE,
        )

    async def run() -> T:
        async with Client.connect(target, converter=data_converter) as client:
            return await work(client)

    return asyncio.run(run())
