"""Streams: what a workflow publishes while it runs. Part of ``outlast.workflow``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast_workflow.api.context import current_machine
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import validate_stream
from outlast_workflow.primitives.lazy_names import names_of_class
from outlast_workflow.run.stream_calls import StreamCalls


class WorkflowStream:
    """A stream of the workflow, to write to. Readers get each item once, in order.

    Attributes:
        name: Its name.
    """

    __slots__ = ("name",)

    if not TYPE_CHECKING:
        __getattr__ = names_of_class("WorkflowStream")

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<WorkflowStream {self.name!r}>"

    def write(self, value: Any) -> None:
        """Publish an item. It is written with this workflow task, exactly once, and not in the history.

        Args:
            value: Anything that has a JSON form.

        Raises:
            StreamClosedError: This code has closed the stream.
            PayloadEncodeError: The value has no JSON form; fails the task, not the run.
            StructuralLimitError: The value is too large; fails the run.
            ReadOnlyContextError: The caller is a query, a validator or a predicate.
        """
        _calls().write(self.name, value)

    def close(self) -> None:
        """Say that nothing more will come: readers end after the last item. Closing again does nothing.

        Raises:
            ReadOnlyContextError: The caller is a query, a validator or a predicate.
        """
        _calls().close(self.name)


def stream(name: str) -> WorkflowStream:
    """Return a stream of this workflow, to write to; it is made by the first item.

    The runs of a chain share their streams, so the next run after a continue-as-new writes on.

    Args:
        name: Its name, unique within the workflow.

    Raises:
        InvalidOptionError: The name cannot be one; fails the task, not the run.
        DurableCallError: The caller is not workflow code.
    """
    machine = current_machine()
    try:
        return WorkflowStream(validate_stream(name))
    except InvalidOptionError as error:
        raise machine.log.refuse(error) from None


def _calls() -> StreamCalls:
    machine = current_machine()
    if machine.streams is None:
        machine.streams = StreamCalls(machine.log, machine.converter)
    return machine.streams
