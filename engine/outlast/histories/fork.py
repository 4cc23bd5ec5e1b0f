"""Forking a workflow: read a run, plan the point, apply the change."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from outlast.histories.reset import ResumeOptions, chain_finder, checked_queue, history_of, new_place
from outlast.runtime.runtime import Runtime
from outlast_runs.forks import ForkRun
from outlast_store.reads.runs import find_instance, find_run
from outlast_workflow.errors import InvalidOptionError, RunNotFoundError, WorkflowNotFoundError
from outlast_workflow.history.reset_plan import plan_fork
from outlast_workflow.options.options import validate_task_queue, validate_workflow_id
from outlast_workflow.options.validation import Seconds, integer, validate_name
from outlast_workflow.primitives.enums import KEEP, DuplicatePolicy, Keep


class ForkEachOptions(ResumeOptions, total=False):
    """The options that several forks can have; see :meth:`outlast.client.bulk.Bulk.fork`."""

    before: int | None
    task_queue: str | None
    partition_key: str | Keep | None


class ForkOptions(ForkEachOptions, total=False):
    """The options of a fork besides its point; see :meth:`outlast.WorkflowHandle.fork`."""

    id: str | None
    duplicate_policy: DuplicatePolicy | str


@dataclass(frozen=True, slots=True)
class Forked:
    """What a fork did.

    Attributes:
        workflow_id: The fork's workflow id.
        run_id: The current run of that id.
        created: Whether the fork was made; ``False`` where its id was open and is returned as it is.
    """

    workflow_id: str
    run_id: str
    created: bool


async def fork(
    runtime: Runtime,
    workflow_id: str,
    run_id: str | None,
    to: str | int,
    *,
    before: int | None = None,
    id: str | None = None,
    duplicate_policy: DuplicatePolicy | str = DuplicatePolicy.ALLOW_DUPLICATE,
    task_queue: str | None = None,
    queue: str | Keep | None = KEEP,
    partition_key: str | Keep | None = KEEP,
    execution_timeout: Seconds | None = None,
    reason: str | None = None,
    signals: bool = True,
) -> Forked:
    """Fork a workflow.

    Args:
        runtime: The database.
        workflow_id: The original.
        run_id: One of its runs; the current one if ``None``.
        to: The last event to keep, by number or by name.
        before: Or the id of a command: the point is before the workflow task that gave it.
        id: The fork's workflow id; a new one if ``None``.
        duplicate_policy: What to do if that id is in use.
        task_queue: The fork's task queue; ``None`` for the original's.
        queue: Its queue, ``None`` for none.
        partition_key: Its partition there.
        execution_timeout: A new one, in seconds from now; else it has the original's deadline.
        reason: Why, for the history.
        signals: Whether it gets the signals after the point.

    Raises:
        InvalidOptionError: An option cannot be used.
        WorkflowNotFoundError: There is no such workflow.
        RunNotFoundError: It has no such run.
        ResetRefusedError: It cannot be forked, or not there.
        WorkflowAlreadyStartedError: The fork's id is taken.
        QueueNotFoundError: Nobody has defined the queue.
    """
    place = new_place(runtime, reason, execution_timeout, signals)
    place.queue = checked_queue(queue)
    if partition_key is not KEEP:
        if partition_key is not None and queue is None:
            raise InvalidOptionError("a partition key needs a queue", field="partition_key")
        place.partition_key = None if partition_key is None else validate_name("partition key", partition_key)
    if task_queue is not None:
        place.task_queue = validate_task_queue(task_queue)
    policy = _policy(duplicate_policy)
    if before is not None:
        integer("before", before, 1)
        if to != "last-workflow-task":
            raise InvalidOptionError(
                "give to or before, not both: each says where the fork begins", field="before"
            )
    ids = runtime.environment.ids
    fork_id = ids.next() if id is None else validate_workflow_id(id)
    if fork_id == workflow_id:
        raise InvalidOptionError("a fork needs another workflow id than its original", field="id")

    def plan(connection: Connection) -> ForkRun:
        instance = find_instance(connection, workflow_id)
        if instance is None:
            raise WorkflowNotFoundError(workflow_id)
        run = find_run(connection, run_id or instance.current_run_id)
        if run is None or run.workflow_id != workflow_id:
            raise RunNotFoundError(run_id or instance.current_run_id, workflow_id=workflow_id)
        if isinstance(partition_key, str) and queue is KEEP and run.queue is None:
            raise InvalidOptionError(
                "a partition key needs a queue, and the original has none", field="partition_key"
            )
        history = history_of(connection, run)
        point = plan_fork(history, to, before, chain_finder(connection))
        return ForkRun(run, history, point, place, workflow_id=fork_id, run_id=ids.next(), policy=policy)

    made, created = await runtime.journal.apply(await runtime.read_aside(plan))
    return Forked(fork_id, made, created)


def _policy(given: DuplicatePolicy | str) -> DuplicatePolicy:
    try:
        return DuplicatePolicy(given)
    except ValueError:
        raise InvalidOptionError(
            f"duplicate policy must be one of {', '.join(DuplicatePolicy)}", field="duplicate_policy"
        ) from None
