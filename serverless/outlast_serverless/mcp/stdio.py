"""Questions to servers that are started for them, over their input and output."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from outlast_serverless.calls.json_rpc import rpc_fault
from outlast_serverless.interpreter.faults import fault
from outlast_serverless.mcp.session import Question, UnansweredError, answered
from outlast_serverless.processes.servers import started
from outlast_serverless.processes.supervised import room
from outlast_serverless.secrets import Masking

_TOLD: Final = 500
_LEAVING_S: Final = 5.0
"""How much longer than its grace the end of a server may take."""


async def answer_by_stdio(
    described: dict[str, Any], question: Question, limit: int, what: str, pointer: str, masking: Masking
) -> dict[str, Any]:
    """Return the result of a question.

    Args:
        described: The server, as its supervisor is told.
        question: What it is asked.
        limit: How many bytes it may write.
        what: What is asked, in words.
        pointer: The task that asks.
        masking: Masks secrets.

    Raises:
        Fault: It was not answered, or with an error.
    """
    server = _Server(described, limit)
    try:
        return await answered(server.connected(), question)
    except MCPError as error:
        raise rpc_fault(question.method, error.code, error.message, pointer, masking) from None
    except (UnansweredError, OSError) as error:
        told = masking.text(server.written.strip())[-_TOLD:]
        why = server.trouble or masking.text(str(error))
        detail = f"{what} was not answered: {why}" + (f": {told}" if told else "")
        raise fault("communication", detail, pointer) from None


class _Server:
    """A server that runs as long as one question takes.

    Attributes:
        trouble: What is wrong with what it wrote.
        written: The end of what it wrote to its stderr.
    """

    def __init__(self, described: dict[str, Any], limit: int) -> None:
        self._described = described
        self._limit = limit
        self._stderr = b""
        self.trouble = ""

    @property
    def written(self) -> str:
        return self._stderr.decode(errors="replace")

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[tuple[Any, Any]]:
        """Start it, and end it with all that it started."""
        async with room(), self._connected() as ends:
            yield ends

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[tuple[Any, Any]]:
        arrived, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, leaving = anyio.create_memory_object_stream[SessionMessage](0)
        process = await started(self._described, self._limit)
        async with arrived, read, write, leaving, anyio.create_task_group() as tasks:
            tasks.start_soon(self._reads, process, arrived)
            tasks.start_soon(self._writes, process, leaving)
            tasks.start_soon(self._hears, process)
            try:
                yield read, write
            finally:
                assert process.stdin is not None
                process.stdin.close()
                read.close()
                with anyio.move_on_after(self._described["grace"] + _LEAVING_S, shield=True):
                    await process.wait()
                tasks.cancel_scope.cancel()

    async def _reads(self, process: asyncio.subprocess.Process, arrived: Any) -> None:
        """Read messages, each of which is a line."""
        assert process.stdout is not None
        size = 0
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with arrived:
                try:
                    while line := await process.stdout.readline():
                        size += len(line)
                        if size > self._limit:
                            raise ValueError
                        await arrived.send(_message(line))
                except ValueError:
                    self.trouble = f"it wrote more than {self._limit} bytes"
        # What nobody reads would keep it from ending.
        while await process.stdout.read(65_536):
            pass

    async def _writes(self, process: asyncio.subprocess.Process, leaving: Any) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            async for message in leaving:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(line.encode() + b"\n")
                await process.stdin.drain()

    async def _hears(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while part := await process.stderr.read(4096):
            self._stderr = (self._stderr + part)[-4 * _TOLD :]


def _message(line: bytes) -> SessionMessage | Exception:
    """Return the message in a line; the session passes over what is none."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error
