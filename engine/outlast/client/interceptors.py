"""Interceptors: your code around what clients, workflows and activities do.

An :class:`Interceptor` that is given to ``Client.connect(interceptors=[…])`` stands around the client's calls and
around what the client's workers run. One that is given to ``Worker(interceptors=[…])`` stands only around what that
worker runs. Each method gets the *call*, which it may change and passes to ``next``: the next interceptor, or what is
intercepted. The first of several is the outermost. A method that nobody overrides costs one empty check.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from outlast.client.intercepted_calls import (
    CancelActivity,
    CancelWorkflow,
    CompleteActivity,
    DescribeWorkflow,
    FailActivity,
    ForkWorkflow,
    HeartbeatActivity,
    QueryWorkflow,
    ResumeWorkflow,
    SetStartDelay,
    SignalMany,
    SignalWorkflow,
    StartWorkflow,
    TerminateWorkflow,
    UpdateWorkflow,
)
from outlast.client.workflows.handle import WorkflowHandle
from outlast.client.workflows.update_handle import UpdateHandle
from outlast.histories.fork import Forked
from outlast_activities.interceptors import ActivityInterceptor
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.validation import validate_list
from outlast_workflow.run.interceptors import WorkflowInterceptor

if TYPE_CHECKING:
    from outlast.visibility.views import WorkflowDescription


class ClientInterceptor:
    """The part of an interceptor that stands around a client: override the methods that you need."""

    async def start_workflow(
        self,
        call: StartWorkflow,
        next: Callable[[StartWorkflow], Coroutine[Any, Any, WorkflowHandle[Any]]],
    ) -> WorkflowHandle[Any]:
        """Around ``client.start``, ``execute``, ``signal_with_start`` and ``update_with_start``."""
        return await next(call)

    async def signal_workflow(
        self, call: SignalWorkflow, next: Callable[[SignalWorkflow], Coroutine[Any, Any, None]]
    ) -> None:
        """Around a signal."""
        await next(call)

    async def signal_many(
        self, call: SignalMany, next: Callable[[SignalMany], Coroutine[Any, Any, Sequence[str]]]
    ) -> Sequence[str]:
        """Around signals that are sent together."""
        return await next(call)

    async def update_workflow(
        self, call: UpdateWorkflow, next: Callable[[UpdateWorkflow], Coroutine[Any, Any, UpdateHandle[Any]]]
    ) -> UpdateHandle[Any]:
        """Around the sending of an update by ``handle.execute_update`` or ``start_update``, not around its result."""
        return await next(call)

    async def query_workflow(
        self, call: QueryWorkflow, next: Callable[[QueryWorkflow], Coroutine[Any, Any, Any]]
    ) -> Any:
        """Around a query and its result."""
        return await next(call)

    async def cancel_workflow(
        self, call: CancelWorkflow, next: Callable[[CancelWorkflow], Coroutine[Any, Any, None]]
    ) -> None:
        """Around a cancel request."""
        await next(call)

    async def terminate_workflow(
        self, call: TerminateWorkflow, next: Callable[[TerminateWorkflow], Coroutine[Any, Any, None]]
    ) -> None:
        """Around a termination."""
        await next(call)

    async def set_start_delay(
        self, call: SetStartDelay, next: Callable[[SetStartDelay], Coroutine[Any, Any, None]]
    ) -> None:
        """Around a move of a workflow's start."""
        await next(call)

    async def resume_workflow(
        self, call: ResumeWorkflow, next: Callable[[ResumeWorkflow], Coroutine[Any, Any, str]]
    ) -> str:
        """Around the resumption of a workflow; the result is the id of the new run."""
        return await next(call)

    async def fork_workflow(
        self, call: ForkWorkflow, next: Callable[[ForkWorkflow], Coroutine[Any, Any, Forked]]
    ) -> Forked:
        """Around a fork; the result has its workflow id and its run id."""
        return await next(call)

    async def describe_workflow(
        self,
        call: DescribeWorkflow,
        next: Callable[[DescribeWorkflow], Coroutine[Any, Any, WorkflowDescription]],
    ) -> WorkflowDescription:
        """Around a description of a workflow."""
        return await next(call)

    async def complete_activity(
        self, call: CompleteActivity, next: Callable[[CompleteActivity], Coroutine[Any, Any, None]]
    ) -> None:
        """Around the completion of an activity from outside."""
        await next(call)

    async def fail_activity(
        self, call: FailActivity, next: Callable[[FailActivity], Coroutine[Any, Any, None]]
    ) -> None:
        """Around the failure of an attempt from outside."""
        await next(call)

    async def cancel_activity(
        self, call: CancelActivity, next: Callable[[CancelActivity], Coroutine[Any, Any, None]]
    ) -> None:
        """Around the acknowledgement from outside that an activity was cancelled."""
        await next(call)

    async def heartbeat_activity(
        self, call: HeartbeatActivity, next: Callable[[HeartbeatActivity], Coroutine[Any, Any, None]]
    ) -> None:
        """Around a heartbeat from outside."""
        await next(call)


class Interceptor(ClientInterceptor, WorkflowInterceptor, ActivityInterceptor):
    """Your code around what clients, workflows and activities do: override the methods that you need.

    The methods of :class:`WorkflowInterceptor` are workflow code: they must be deterministic, and replay runs them too.
    """


def checked_interceptors(interceptors: Iterable[Any]) -> tuple[Interceptor, ...]:
    """Return what was given, if each of it is an interceptor.

    Raises:
        InvalidOptionError: One is none.
    """
    given = tuple(validate_list("interceptors", interceptors, "interceptors"))
    for one in given:
        if not isinstance(one, Interceptor):
            noun = "the class" if isinstance(one, type) else "an object of type"
            name = one.__name__ if isinstance(one, type) else type(one).__name__
            raise InvalidOptionError(
                f"interceptors must be objects whose class inherits from outlast.interceptors.Interceptor, not {noun} "
                f"{name}",
                field="interceptors",
            )
    return given
