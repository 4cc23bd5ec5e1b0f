"""The bodies and answers of the routes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from outlast_serverless.documents.document import Document
from outlast_serverless.runtime.registry import LATEST, RegisteredDocument
from outlast_workflow.options.start import DEFAULT_TASK_QUEUE
from outlast_workflow.primitives.times import to_datetime

_Name = Annotated[str, Field(min_length=1, max_length=1_000)]


class StartDocumentBody(BaseModel):
    """What a run is started with.

    Attributes:
        input: Its raw input.
        id: The workflow id; a unique one if not given.
        task_queue: The task queue whose workers run it.
    """

    model_config = ConfigDict(extra="forbid")

    input: Any = None
    id: _Name | None = None
    task_queue: _Name = DEFAULT_TASK_QUEUE


class ScheduleDocumentBody(BaseModel):
    """How a document is scheduled.

    Attributes:
        version: The version that is started.
        task_queue: The task queue whose workers run it.
    """

    model_config = ConfigDict(extra="forbid")

    version: _Name = LATEST
    task_queue: _Name = DEFAULT_TASK_QUEUE


class DocumentEntry(BaseModel):
    """A document as it is registered.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        version: Its version.
        digest: The digest of its definition.
        dsl: The version of the DSL.
        registered_at: When it was; ``None`` right after.
        new: Whether this request registered it.
    """

    namespace: str
    name: str
    version: str
    digest: str
    dsl: str
    registered_at: str | None = None
    new: bool | None = None

    @classmethod
    def of(cls, row: RegisteredDocument) -> DocumentEntry:
        """Return what a row of the registry says."""
        at = to_datetime(row.registered_at).isoformat()
        return cls(
            namespace=row.namespace,
            name=row.name,
            version=row.version,
            digest=row.digest,
            dsl=row.dsl,
            registered_at=at,
        )

    @classmethod
    def made(cls, document: Document, *, new: bool) -> DocumentEntry:
        """Return what was registered."""
        return cls(
            namespace=document.namespace,
            name=document.name,
            version=document.version,
            digest=document.digest,
            dsl=str(document.definition["document"]["dsl"]),
            new=new,
        )


class StartedRun(BaseModel):
    """A run that was started."""

    workflow_id: str


class ScheduledDocument(BaseModel):
    """A schedule of a document.

    Attributes:
        id: The id of the schedule, or of the workflow that starts it by events or ends.
    """

    id: str


class AcceptedEvents(BaseModel):
    """What became of events.

    Attributes:
        accepted: How many are kept.
        new: How many of them were not known before; ``None`` if they went to one run.
    """

    accepted: int
    new: int | None


class OpenDocumentTask(BaseModel):
    """A task that is under way."""

    pointer: str
    kind: str
    execution: str
    since: str | None
    deadline_at: str | None
    worker: str | None


class DocumentTaskStep(BaseModel):
    """A task that has begun.

    Attributes:
        run_id: The run that it is part of.
        number: Its place among the tasks of that run.
        pointer: Where it stands in the document.
        kind: Its kind.
        execution: The iteration, attempt or visit; empty for the only one.
        outcome: How it has ended, or ``open``.
        began: When it began.
        ended: When it ended.
        error: The error that it ended with; its details are a payload.
        input: Its raw input, where that was asked for and payloads may be seen.
        output: Its output, likewise.
    """

    run_id: str
    number: int
    pointer: str
    kind: str
    execution: str
    outcome: str
    began: str
    ended: str | None
    error: dict[str, Any] | None
    input: Any = None
    output: Any = None


class DocumentTrace(BaseModel):
    """Tasks that have run, in the order in which they began.

    Attributes:
        steps: The tasks.
        cursor: What the next page is asked for with; ``None`` if there is nothing more now.
    """

    steps: list[DocumentTaskStep]
    cursor: str | None


class DocumentRunState(BaseModel):
    """Where a run stands.

    Attributes:
        workflow_id: Its workflow id.
        document: ``namespace/name``.
        version: The document's version.
        phase: ``pending``, ``running``, ``waiting``, ``suspended``, ``cancelled``, ``faulted`` or ``completed``.
        deadline_at: When the timeout of the workflow is up.
        error: The error, if it faulted; its detail is a payload.
        open: The tasks that are under way.
        attention: What somebody should look at, each with its remedy.
    """

    workflow_id: str
    document: str
    version: str
    phase: str
    deadline_at: str | None
    error: dict[str, Any] | None
    open: list[OpenDocumentTask]
    attention: list[str]
