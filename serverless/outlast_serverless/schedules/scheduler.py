"""The scheduler: it schedules documents, and starts a run for the events of a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from outlast import Client, ScheduleHandle, StartOptions, WorkflowHandle, activity
from outlast_serverless.documents.document import Document
from outlast_serverless.interpreter.request import type_of
from outlast_serverless.schedules.specs import schedule_id_of, spec_of
from outlast_serverless.schedules.workflow import RESCHEDULE, SCHEDULE_PREFIX, START, ScheduleRequest
from outlast_serverless.starting.starting import Starting
from outlast_workflow.errors import (
    ApplicationError,
    FaultedError,
    InvalidOptionError,
    ScheduleNotFoundError,
    StructuralLimitError,
    UnsupportedTaskError,
    WorkflowAlreadyStartedError,
    WorkflowClosedError,
    WorkflowNotFoundError,
)
from outlast_workflow.primitives.enums import DuplicatePolicy

_ONCE: Final = StartOptions(duplicate_policy=DuplicatePolicy.REJECT_DUPLICATE)


@dataclass(frozen=True, slots=True)
class DocumentSchedule:
    """A document that is started by its own schedule.

    Attributes:
        id: The id of the engine's schedule, or of the workflow that keeps one by events or by ends.
        schedule: The engine's schedule; ``None`` for one by events or by ends.
    """

    id: str
    schedule: ScheduleHandle | None


class Scheduler:
    """Schedules documents.

    Args:
        client: The client.
        starting: Prepares starts.
    """

    def __init__(self, client: Client, starting: Starting) -> None:
        self._client = client
        self._starting = starting
        self.activity = activity.defn(name=START)(self.start)

    async def schedule(self, document: Document, task_queue: str) -> DocumentSchedule:
        """Start a document whenever its own ``schedule`` says, from now on.

        Args:
            document: The document.
            task_queue: The task queue whose workers run it.

        Raises:
            InvalidOptionError: It has no schedule, or one that never fires.
            UnsupportedTaskError: A task of it cannot run here.
            FaultedError: Its timeout cannot be worked out.
        """
        spec = spec_of(document, self._client.runtime.environment.clock.now())
        self._starting.check(document)
        by_events = document.plan.schedule is not None and document.plan.schedule.on is not None
        request, options = self._starting.prepared(document, [] if by_events else None, None)
        name = (document.namespace, document.name)
        if spec is None:
            asked = ScheduleRequest(
                document.definition,
                task_queue,
                request.timeout_us,
                options.execution_timeout,
                dict(options.memo or {}),
            )
            handle = await self._open(document, asked)
            await self._close_times(*name)
            return DocumentSchedule(handle.workflow_id, None)
        scheduled = await self._client.schedules.create(
            schedule_id_of(*name),
            type_of(document.definition),
            request.to_json(),
            spec=spec,
            overlap="allow_all",
            catch_up="latest",
            task_queue=task_queue,
            options=options,
            if_exists="update",
        )
        await self._close_workflow(*name)
        return DocumentSchedule(scheduled.schedule_id, scheduled)

    async def unschedule(self, namespace: str, name: str) -> str:
        """Stop starting a document by its schedule.

        Args:
            namespace: Its namespace.
            name: Its name.

        Returns:
            The id of the schedule, or of the workflow, that is there no longer.

        Raises:
            ScheduleNotFoundError: It is not scheduled.
        """
        closed = await self._close_workflow(namespace, name)
        if await self._close_times(namespace, name):
            return schedule_id_of(namespace, name)
        if not closed:
            raise ScheduleNotFoundError(schedule_id_of(namespace, name))
        return workflow_id_of(namespace, name)

    def handle(self, namespace: str, name: str) -> WorkflowHandle[None]:
        """Return the handle of the workflow of a schedule by events or ends."""
        return self._client.handle(workflow_id_of(namespace, name))

    async def _open(self, document: Document, asked: ScheduleRequest) -> WorkflowHandle[None]:
        """Start the workflow of a schedule, whose id is its type, too; or tell the one that is open."""
        handle = self.handle(document.namespace, document.name)
        while True:
            try:
                await self._client.start(
                    handle.workflow_id,
                    asked.to_json(),
                    id=handle.workflow_id,
                    task_queue=asked.task_queue,
                    options=StartOptions(memo=asked.memo),
                )
            except WorkflowAlreadyStartedError:
                try:
                    await handle.signal(RESCHEDULE, asked.to_json())
                except WorkflowClosedError:
                    # It was ended in between.
                    continue
            return handle

    async def _close_workflow(self, namespace: str, name: str) -> bool:
        try:
            await self.handle(namespace, name).terminate(reason="the document is scheduled no longer")
        except (WorkflowClosedError, WorkflowNotFoundError):
            return False
        return True

    async def _close_times(self, namespace: str, name: str) -> bool:
        try:
            await self._client.schedules.handle(schedule_id_of(namespace, name)).delete()
        except ScheduleNotFoundError:
            return False
        return True

    async def start(self, wanted: dict[str, Any]) -> None:
        """Start the run of a group of events; nothing happens if it was started before.

        Args:
            wanted: Its ``definition``, ``input``, ``id`` and ``task_queue``.

        Raises:
            ApplicationError: It cannot be started, and never will.
        """
        document = Document(wanted["definition"], "", ())
        try:
            self._starting.check(document)
            request, options = self._starting.prepared(document, wanted["input"], _ONCE)
            await self._client.start(
                type_of(document.definition),
                request.to_json(),
                id=str(wanted["id"]),
                task_queue=str(wanted["task_queue"]),
                options=options,
            )
        except WorkflowAlreadyStartedError:
            return
        except (FaultedError, InvalidOptionError, StructuralLimitError, UnsupportedTaskError) as error:
            raise ApplicationError(str(error), non_retryable=True) from None


def workflow_id_of(namespace: str, name: str) -> str:
    """Return the id of the workflow of a schedule by events or ends."""
    return f"{SCHEDULE_PREFIX}{namespace}/{name}"
