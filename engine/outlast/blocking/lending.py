"""Calls with a connection of their caller: its thread works on it, and the call itself is made on the loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from outlast.blocking.thread import Caller, refuse_on_a_loop

T = TypeVar("T")


def call_with_connection(
    caller: Caller, options: dict[str, Any], work: Callable[[dict[str, Any]], Coroutine[Any, Any, T]]
) -> T:
    """Make a call that may have a connection among its options.

    Args:
        caller: Runs it.
        options: Its options.
        work: Makes it, with its options.
    """
    connection = options.get("connection")
    if connection is None:
        return caller.call(lambda: work(options))
    refuse_on_a_loop()
    from outlast.outbox.connections import LentByThread

    lent = LentByThread(connection)
    return lent.while_calling(lambda: caller.call(lambda: work({**options, "connection": lent})))
