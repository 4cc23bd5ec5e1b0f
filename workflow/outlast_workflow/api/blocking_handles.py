"""Handles of plain workflow code, whose ``result()`` blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Generic, TypeVar, TypeVarTuple, overload

from outlast_workflow.api.context import current_machine
from outlast_workflow.api.messages import ExternalWorkflow
from outlast_workflow.declare.handlers import SignalCall
from outlast_workflow.errors import DurableCallError, InvalidOptionError
from outlast_workflow.loop.greenlets import in_plain_code, wait
from outlast_workflow.options.validation import duration_seconds
from outlast_workflow.run.child_calls import ChildWorkflowHandle

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def check_plain(call: str, instead: str) -> None:
    """Check that the caller may block.

    Args:
        call: The call, as messages name it.
        instead: The call to use in coroutines instead.

    Raises:
        DurableCallError: The caller is not workflow code, or is a coroutine of it.
        ReadOnlyContextError: The caller is a query, a validator or a predicate.
    """
    if not in_plain_code():
        machine = current_machine()
        raise machine.log.refuse(
            DurableCallError(
                f"{call} blocks, which only the plain `def` code of a synchronous workflow can do: "
                f"in an `async def`, use `{instead}`"
            )
        )


def await_(awaitable: Awaitable[T]) -> T:
    """Block until a coroutine, a future or a task of this run has ended, and return its result.

    This makes everything of ``asyncio`` available: ``await_(asyncio.gather(one.future, other.future))``.
    """
    check_plain("blocking.await_()", "await …")
    return wait(awaitable)


class BlockingHandle(Generic[T]):
    """An activity or a child under way.

    Attributes:
        future: The future that coroutines of the run would await.
    """

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[T]) -> None:
        self.future = future

    def result(self, timeout: float | timedelta | None = None) -> T:
        """Block until it has ended, and return its result. It can be called any number of times.

        Args:
            timeout: How long to wait at most, in seconds or as a timedelta, durably. The work itself continues.

        Raises:
            ActivityError: The activity ended without a result.
            ChildWorkflowError: The child workflow ended without a result.
            TimeoutError: The timeout passed.
            asyncio.CancelledError: The workflow, or what is waited for, was cancelled.
        """
        future = self.future
        if not future.done():
            check_plain("handle.result()", "await handle.future")
            if timeout is not None:
                wait(asyncio.wait((future,), timeout=_seconds(timeout)))
                if not future.done():
                    raise TimeoutError("it has not ended in time and continues: wait again, or cancel() it")
        return wait(future)

    def done(self) -> bool:
        """Whether it has ended."""
        return self.future.done()

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self.future.cancelled()

    def cancel(self) -> bool:
        """Ask it to stop; return False if it has already ended. The cancellation type says what ``result()`` does."""
        return self.future.cancel()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.future!r}>"


def _seconds(timeout: float | timedelta) -> float:
    given: Any = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if type(given) in (int, float) and given <= 0:
        return 0
    try:
        return duration_seconds("result timeout", given)
    except InvalidOptionError as error:
        raise current_machine().log.refuse(error) from None


class BlockingChildHandle(BlockingHandle[T]):
    """A child workflow under way."""

    __slots__ = ()

    future: ChildWorkflowHandle[T]

    def __init__(self, future: ChildWorkflowHandle[T]) -> None:
        super().__init__(future)

    @property
    def workflow_id(self) -> str:
        """Its id."""
        return self.future.workflow_id

    @property
    def workflow_type(self) -> str:
        """Its type."""
        return self.future.workflow_type

    @property
    def run_id(self) -> str | None:
        """Its first run; ``None`` until it is known to have started."""
        return self.future.run_id

    def started(self) -> str:
        """Block until the child has been started, and return the id of its first run.

        Raises:
            ChildWorkflowError: It was not started, because its id is taken.
        """
        check_plain("handle.started()", "await handle.future.started()")
        return wait(self.future.started())

    @overload
    def signal(self, signal: Callable[[*Ts], SignalCall], *args: *Ts) -> None: ...

    @overload
    def signal(self, signal: str, *args: Any) -> None: ...

    def signal(self, signal: Any, *args: Any) -> None:  # type: ignore[misc]  # mypy: `*args: Any` takes any `*Ts`
        """Send the child a signal, and block until it is delivered.

        Args:
            signal: ``Order.approve``, or a signal's name.
            *args: Its arguments.

        Raises:
            WorkflowClosedError: The child has already ended.
        """
        check_plain("child.signal()", "await child.signal(…)")
        wait(self.future.signal(signal, *args))


class BlockingExternal:
    """Another workflow, seen from plain workflow code."""

    __slots__ = ("external",)

    def __init__(self, external: ExternalWorkflow) -> None:
        self.external = external

    @property
    def workflow_id(self) -> str:
        """Its id."""
        return self.external.workflow_id

    @property
    def run_id(self) -> str | None:
        """The run that was given, if any."""
        return self.external.run_id

    @overload
    def signal(self, signal: Callable[[*Ts], SignalCall], *args: *Ts) -> None: ...

    @overload
    def signal(self, signal: str, *args: Any) -> None: ...

    def signal(self, signal: Any, *args: Any) -> None:  # type: ignore[misc]  # mypy: `*args: Any` takes any `*Ts`
        """Send a signal, and block until it is delivered.

        Args:
            signal: ``Order.approve``, or a signal's name.
            *args: Its arguments.

        Raises:
            WorkflowNotFoundError: There is no such workflow.
            WorkflowClosedError: It has already ended.
        """
        check_plain("external(…).signal()", "await workflow.external(…).signal(…)")
        wait(self.external.signal(signal, *args))
