"""What a run's code does with streams: it writes items, and closes.

An item is a command, so it is written in the transaction of its workflow task, exactly once. Replay compares the
command and needs no value.
"""

from __future__ import annotations

from typing import Any

from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import PayloadEncodeError, StreamClosedError
from outlast_workflow.history.events import StreamClosed, StreamWritten
from outlast_workflow.loop.command_log import CommandLog
from outlast_workflow.primitives.payloads import NOT_NEEDED


class StreamCalls:
    """The streams of one run, as its own code uses them.

    Attributes:
        closed: Those that the code has closed, in order.
    """

    __slots__ = ("_asked", "_converter", "_log", "closed")

    def __init__(self, log: CommandLog, converter: DataConverter) -> None:
        self.closed: dict[str, None] = {}
        self._asked: dict[str, None] = {}
        self._log = log
        self._converter = converter

    def write(self, name: str, value: Any) -> None:
        """Add the command that writes an item.

        Args:
            name: The stream.
            value: What is published.

        Raises:
            StreamClosedError: The code has closed the stream.
            PayloadEncodeError: The value has no JSON form; fails the task.
            StructuralLimitError: The value is too large; fails the run.
        """
        log = self._log
        if name in self.closed:
            raise StreamClosedError(log.whose, name)
        command_id = log.next_id()
        payload = NOT_NEEDED
        if not log.replaying:
            try:
                payload = self._converter.encode(value, f"an item of stream {name!r}")
            except PayloadEncodeError as error:
                raise log.refuse(error) from None
            log.check("payload_bytes", len(payload.json))
            self._asked[name] = None
        log.add(StreamWritten(command_id, name, payload))

    def close(self, name: str) -> None:
        """Add the command that closes a stream, unless the code has closed it already."""
        if name in self.closed:
            return
        log = self._log
        self.closed[name] = None
        if not log.replaying:
            self._asked[name] = None
        log.add(StreamClosed(log.next_id(), name))

    def take(self) -> list[str]:
        """End the workflow task and return the streams that it has written to or closed."""
        asked = list(self._asked)
        self._asked.clear()
        return asked
