"""Starting children from workflow code: part of ``outlast.workflow``."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, TypeVarTuple, Unpack, overload

from outlast_workflow.api.context import current_machine
from outlast_workflow.data.signatures import CallSignature
from outlast_workflow.declare.definitions import definition_of
from outlast_workflow.errors import DurableCallError, InvalidOptionError
from outlast_workflow.options.ambient import filled, unsaid
from outlast_workflow.options.other_names import advice
from outlast_workflow.options.retry_policy import RetryPolicy
from outlast_workflow.options.search_attributes import SearchValue
from outlast_workflow.options.start import StartOptions
from outlast_workflow.options.validation import (
    LAST_SAFE_START,
    Seconds,
    priority,
    refuse_family,
    valid_cancellation_type,
    valid_parent_close_policy,
    validate_task_queue,
    validate_workflow_id,
    validate_workflow_type,
)
from outlast_workflow.primitives.enums import CancellationType, ParentClosePolicy
from outlast_workflow.primitives.type_families import WILDCARD
from outlast_workflow.run.child_calls import ChildOptions, ChildWorkflowHandle
from outlast_workflow.run.machine import WorkflowMachine

if TYPE_CHECKING:
    from outlast_workflow.options.alerts import AlertPolicy

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class ChildCallOptions(TypedDict, total=False):
    """The options of a child.

    Attributes:
        id: Its workflow id; by default a unique one. An id that is taken fails the call.
        task_queue: By default the parent's.
        execution_timeout: How long all runs of its chain together may take.
        execution_deadline: When all of them must have ended: a datetime with a time zone. Give this or the execution
            timeout. Where it has passed when the child begins, the child times out at once.
        run_timeout: How long each run may take.
        retry_policy: If given, a failed run of it is followed by another.
        priority: By default the parent's.
        memo: Values that are stored with it and shown by ``describe``.
        search_attributes: Attributes to find it by. Those of the parent are not inherited.
        parent_close_policy: What happens to it if it is still open when the parent's chain ends: ``terminate`` (the
            default; such a child also gets the parent's execution deadline as a cap), ``abandon`` or
            ``request_cancel``.
        cancellation_type: What cancelling the call does: ``wait`` (the default), ``try`` or ``abandon``.
        summary: What the child does, in at most 200 characters of plain text, shown to everybody and not encoded by
            codecs.
        queue: The queue that decides when the child begins. A queue that nobody has defined fails the call.
        partition_key: Its partition of the queue.
        start_delay: How long to wait before it begins or joins the line of its queue.
        schedule_to_start_timeout: How long it may stand in line at most.
        alerts: When to be told that a deadline of it comes near, or that it takes long.
    """

    id: str | None
    task_queue: str | None
    execution_timeout: Seconds | None
    execution_deadline: datetime | None
    run_timeout: Seconds | None
    retry_policy: RetryPolicy | None
    priority: int | None
    memo: Mapping[str, Any] | None
    search_attributes: Mapping[str, SearchValue | None] | None
    parent_close_policy: ParentClosePolicy | str
    cancellation_type: CancellationType | str
    summary: str | None
    queue: str | None
    partition_key: str | None
    start_delay: Seconds | None
    schedule_to_start_timeout: Seconds | None
    alerts: AlertPolicy | None


@overload
def execute_child(
    workflow: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts, **options: Unpack[ChildCallOptions]
) -> Coroutine[Any, Any, T]: ...


@overload
def execute_child(
    workflow: str, *args: Any, result_type: type[T], **options: Unpack[ChildCallOptions]
) -> Coroutine[Any, Any, T]: ...


@overload
def execute_child(
    workflow: str, *args: Any, **options: Unpack[ChildCallOptions]
) -> Coroutine[Any, Any, Any]: ...


def execute_child(  # type: ignore[misc]  # mypy does not see that `*args: Any` takes any `*Ts`
    workflow: Any, *args: Any, result_type: Any = None, **options: Any
) -> Any:
    """Start a child workflow and await its result, through all runs of its chain.

    Args:
        workflow: ``Order.run``, a workflow function, or a workflow type's name.
        *args: Its input.
        result_type: The type to read the result as, for a workflow given by name; by default plain JSON.
        **options: See :class:`ChildCallOptions`.

    Raises:
        ChildWorkflowError: When awaited: it ended without a result, or its id is taken; ``__cause__`` says why.
        DurableCallError: The call cannot be made as written; fails the task, not the run.
    """
    return _start(workflow, args, result_type, options)


@overload
def start_child(
    workflow: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts, **options: Unpack[ChildCallOptions]
) -> ChildWorkflowHandle[T]: ...


@overload
def start_child(
    workflow: str, *args: Any, result_type: type[T], **options: Unpack[ChildCallOptions]
) -> ChildWorkflowHandle[T]: ...


@overload
def start_child(
    workflow: str, *args: Any, **options: Unpack[ChildCallOptions]
) -> ChildWorkflowHandle[Any]: ...


def start_child(  # type: ignore[misc]  # as above
    workflow: Any, *args: Any, result_type: Any = None, **options: Any
) -> Any:
    """Start a child workflow and return a handle: await it for the result, ``handle.started()`` for its start.

    The child is started in the transaction that records this workflow task, even if the workflow ends in it. The
    parameters are those of :func:`execute_child`.
    """
    return _start(workflow, args, result_type, options)


def _start(
    workflow: Any, args: tuple[Any, ...], result_type: Any, given: dict[str, Any]
) -> ChildWorkflowHandle[Any]:
    machine = current_machine()
    try:
        name, signature, timeouts = _named(workflow)
        workflow_id = given.get("id")
        if workflow_id is not None:
            workflow_id = validate_workflow_id(workflow_id)
        cancellation = valid_cancellation_type(given.get("cancellation_type", CancellationType.WAIT))
        options = None if machine.replaying else _checked(machine, given, timeouts)
    except (InvalidOptionError, DurableCallError) as error:
        raise machine.log.refuse(error) from None
    hint = signature.result_hint if signature is not None and result_type is None else result_type
    return machine.children.schedule(name, args, signature, workflow_id, options, hint, cancellation)


def _named(workflow: Any) -> tuple[str, CallSignature | None, Mapping[str, Any]]:
    """Return the type of a child, and the signature and the timeouts of its definition, if that is known."""
    if isinstance(workflow, str):
        return validate_workflow_type("workflow", workflow), None, {}
    definition = definition_of(workflow)
    if definition.name.endswith(WILDCARD):
        refuse_family("workflow", definition.name)
    return definition.name, definition.signature, definition.timeouts


def _checked(machine: WorkflowMachine, given: dict[str, Any], timeouts: Mapping[str, Any]) -> ChildOptions:
    unknown = given.keys() - ChildCallOptions.__annotations__.keys()
    if unknown:
        name = min(unknown)
        known = tuple(ChildCallOptions.__annotations__)
        raise DurableCallError(f"a child has no option {name!r}: {advice(name, known)}")
    given = filled(given, ChildCallOptions.__annotations__)
    if timeouts:
        given = {**given, **unsaid(timeouts, given)}
    queue, rank = given.get("task_queue"), given.get("priority")
    start = StartOptions(
        execution_timeout=given.get("execution_timeout"),
        execution_deadline=given.get("execution_deadline"),
        run_timeout=given.get("run_timeout"),
        retry_policy=given.get("retry_policy"),
        memo=given.get("memo"),
        search_attributes=given.get("search_attributes"),
        summary=given.get("summary"),
        queue=given.get("queue"),
        partition_key=given.get("partition_key"),
        start_delay=given.get("start_delay"),
        schedule_to_start_timeout=given.get("schedule_to_start_timeout"),
        alerts=given.get("alerts"),
    )
    if machine.time > LAST_SAFE_START:
        start.check_ends(machine.time)
    return ChildOptions(
        start=start,
        task_queue=None if queue is None else validate_task_queue(queue),
        priority=None if rank is None else priority(rank),
        parent_close_policy=valid_parent_close_policy(
            given.get("parent_close_policy", ParentClosePolicy.TERMINATE)
        ),
    )
