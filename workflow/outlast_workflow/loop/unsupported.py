"""What a workflow's loop refuses: every method that would do I/O, each with what to use instead."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

from outlast_workflow.errors import DurableCallError

_IN_AN_ACTIVITY = "do it in an activity and await that"

REPLACEMENTS: dict[str, str] = {
    "run_in_executor": "a thread's answer would not replay: make the function an activity (a plain `def` will do)",
    "set_default_executor": "workflows use no threads: make the function an activity (a plain `def` will do)",
    "call_soon_threadsafe": "threads cannot reach into a workflow: complete an activity or send a signal",
    "set_task_factory": "its tasks must be the loop's own: use asyncio.create_task",
    "run_until_complete": "await it",
    "run_forever": "await what you wait for",
    "shutdown_asyncgens": "the loop belongs to the run",
    "shutdown_default_executor": "the loop belongs to the run",
    "set_exception_handler": "catch exceptions where they are raised",
    **dict.fromkeys(("stop", "close"), "the loop belongs to the run: return from the workflow"),
    **dict.fromkeys(
        ("add_signal_handler", "remove_signal_handler"),
        "process signals are not recorded: send the workflow a signal of its own",
    ),
    **dict.fromkeys(
        (
            "getaddrinfo",
            "getnameinfo",
            "create_connection",
            "create_server",
            "sendfile",
            "start_tls",
            "create_unix_connection",
            "create_unix_server",
            "connect_accepted_socket",
            "create_datagram_endpoint",
            "connect_read_pipe",
            "connect_write_pipe",
            "subprocess_shell",
            "subprocess_exec",
            "add_reader",
            "remove_reader",
            "add_writer",
            "remove_writer",
            "sock_recv",
            "sock_recv_into",
            "sock_recvfrom",
            "sock_recvfrom_into",
            "sock_sendall",
            "sock_sendto",
            "sock_connect",
            "sock_accept",
            "sock_sendfile",
        ),
        _IN_AN_ACTIVITY,
    ),
}


def _refusal(name: str, replacement: str) -> Any:
    def refuse(self: asyncio.AbstractEventLoop, *args: object, **kwargs: object) -> NoReturn:
        raise DurableCallError(
            f"loop.{name}() cannot be used in a workflow, which must replay: {replacement}"
        )

    refuse.__name__ = name
    refuse.__doc__ = f"Refused: {replacement}."
    return refuse


class RestrictedLoop(asyncio.AbstractEventLoop):
    """An event loop that refuses every method of :data:`REPLACEMENTS`."""

    locals().update({name: _refusal(name, replacement) for name, replacement in REPLACEMENTS.items()})
