"""The runtime: it starts documents, and gives a worker what runs them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self

from outlast import Client, ScheduleHandle, StartOptions, activity
from outlast.version import __version__
from outlast_activities.definitions import definition_of
from outlast_serverless.bus.bus import Bus
from outlast_serverless.calls.policy import HttpPolicy
from outlast_serverless.documents.document import Document
from outlast_serverless.interpreter.data_flow import duration_seconds, validate
from outlast_serverless.interpreter.faults import Fault, as_application_error, fault
from outlast_serverless.interpreter.request import StartRequest, load, type_of
from outlast_serverless.interpreter.tasks.calls import RESOLVE
from outlast_serverless.interpreter.workflow import workflow_of
from outlast_serverless.jq import Evaluator, ExpressionFailed
from outlast_serverless.plan.model import Duration
from outlast_serverless.processes.policy import ProcessPolicy
from outlast_serverless.processes.running import process_activities
from outlast_serverless.runtime.registry import (
    LATEST,
    RegisterDocument,
    RegisteredDocument,
    page_of_documents,
    parsed_name,
    read_document,
)
from outlast_serverless.runtime.run import DocumentRun
from outlast_serverless.runtime.support import check_support
from outlast_serverless.schedules.specs import schedule_id_of, spec_of
from outlast_serverless.secrets import SecretSource
from outlast_workflow.errors import (
    DocumentNotFoundError,
    FaultedError,
    InvalidOptionError,
    UnsupportedTaskError,
)
from outlast_workflow.options.validation import timeout_seconds

_US: Final = 1_000_000
_PYTHON: Final = "python"
"""The namespace of workflows that are written in Python: their names are types."""
_SHORTEST_S: Final = 1.0
"""The engine's shortest timeout. What is shorter is kept by the interpreter, with this as a backstop."""


class Runtime:
    """Starts documents, and gives a worker what runs them.

    ::

        async with Client.connect(url) as client, Runtime(client) as runtime:
            async with Worker(client, workflows=runtime.workflows, activities=runtime.activities):
                run = await runtime.start(Document.load("order.yaml"), {"id": 1})
                print(await run.result())

    Args:
        client: The client.
        secrets: Where secrets come from.
        http: What calls may reach.
        processes: Which processes may run; none by default.
        metadata: What ``$runtime.metadata`` is.
        events_kept: How long events are kept, in seconds or as a timedelta: what is published again within that time is
            known, and what listens may look so far back.
    """

    def __init__(
        self,
        client: Client,
        *,
        secrets: SecretSource | None = None,
        http: HttpPolicy | None = None,
        processes: ProcessPolicy | None = None,
        metadata: Mapping[str, Any] | None = None,
        events_kept: float | timedelta = timedelta(days=7),
    ) -> None:
        # A process that only checks documents does without a client for HTTP.
        from outlast_serverless.calls.http import http_activity

        self._client = client
        self._evaluator = Evaluator()
        self._bus = Bus(client, float(timeout_seconds("events kept", events_kept)))
        self._described: dict[str, Any] = {
            "name": "outlast",
            "version": __version__,
            "metadata": dict(metadata or {}),
        }
        self.workflows: list[Any] = [workflow_of(self._evaluator, self._described)]
        """What a worker needs among its workflows."""
        self.activities: list[Any] = [
            http_activity(self._evaluator, secrets, http or HttpPolicy()),
            *process_activities(self._evaluator, secrets, processes or ProcessPolicy()),
            *self._bus.activities,
            self._resolve_activity(),
        ]
        """What a worker needs among its activities."""

    async def __aenter__(self) -> Self:
        self._evaluator.start()
        self._bus.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._bus.close()
        self._evaluator.close()

    async def publish(self, event: Mapping[str, Any]) -> bool:
        """Publish an event for all runs that listen to it. When this returns, it is kept and will reach them.

        Args:
            event: A CloudEvent: ``id``, ``source`` and ``type``, and what else it says.

        Returns:
            Whether it is new. One with the same ``source`` and ``id`` as another changes nothing.

        Raises:
            InvalidOptionError: It is no CloudEvent; nothing was written.
            StructuralLimitError: It is too large; nothing was written.
        """
        return await self._bus.publish(dict(event))

    async def route(self) -> int:
        """Bring the events that wait to the runs that listen, now. Each runtime that is entered does so by itself.

        Returns:
            How many events were routed.
        """
        return await self._bus.router.route()

    async def register(self, document: Document) -> bool:
        """Register a document under its namespace, name and version, so that it can be started by name.

        Args:
            document: The document.

        Returns:
            Whether it is new. The same content again changes nothing.

        Raises:
            DocumentConflictError: The version is registered with another content.
        """
        return await self._client.runtime.journal.apply(RegisterDocument(document))

    async def document(self, name: str, version: str = LATEST) -> Document:
        """Return a registered document.

        Args:
            name: ``namespace/name``, or ``namespace/name:version``.
            version: Its version, if the name has none; ``latest`` is the highest.

        Raises:
            DocumentNotFoundError: There is none.
            InvalidOptionError: It is no such name.
        """
        namespace, name, named = parsed_name(name)
        wanted = version if named == LATEST else named
        return await self._client.runtime.read(read_document, namespace, name, wanted)

    async def documents(self) -> AsyncGenerator[RegisteredDocument]:
        """Yield what is registered, by namespace, name and version."""
        after: tuple[str, ...] = ()
        while page := await self._client.runtime.read(page_of_documents, after):
            for one in page:
                yield one
            after = (page[-1].namespace, page[-1].name, page[-1].version)

    async def start(
        self,
        document: Document | str,
        input: Any = None,
        *,
        version: str = LATEST,
        id: str | None = None,
        task_queue: str = "default",
        options: StartOptions | None = None,
        check: bool = False,
    ) -> DocumentRun:
        """Start a document. When this returns, the start is durable.

        Args:
            document: The document, or ``namespace/name`` or ``namespace/name:version`` of a registered one.
            input: Its raw input, as JSON.
            version: The version of a registered one, if its name has none; ``latest`` is the highest.
            id: The workflow id; a unique one if not given.
            task_queue: The task queue whose workers run it.
            options: Options of the start. Of the document's timeout and one given here, the nearer counts.
            check: Whether to refuse an input that does not fit the document's schema; otherwise such a run faults.

        Raises:
            DocumentNotFoundError: No such document is registered.
            UnsupportedTaskError: The document has tasks that cannot run here; nothing was written.
            FaultedError: The input does not fit, or the timeout cannot be worked out; nothing was written.
            InvalidOptionError: An option cannot be used; nothing was written.
            WorkflowAlreadyStartedError: The id is taken.
        """
        if isinstance(document, str):
            document = await self.document(document, version)
        check_support(document, {definition_of(one).name for one in self.activities})
        request, start = self.prepared(document, input, options, check=check)
        handle = await self._client.start(
            type_of(document.definition), request.to_json(), id=id, task_queue=task_queue, options=start
        )
        return DocumentRun(handle, self._client.runtime)

    def prepared(
        self, document: Document, input: Any, options: StartOptions | None, *, check: bool = False
    ) -> tuple[StartRequest, StartOptions]:
        """Return what a run is started with, and the options of its start.

        Args:
            document: The document.
            input: Its raw input.
            options: The options that were given.
            check: Whether to check the input.

        Raises:
            FaultedError: The input does not fit, or the timeout cannot be worked out.
        """
        given = options or StartOptions()
        try:
            if check:
                loaded, plan = load(document.definition), document.plan
                validate(loaded, plan.data.input_schema, input, "input of the workflow", "/")
            seconds = self._timeout(document, input)
        except Fault as error:
            name = f"{document.namespace}/{document.name}"
            raise FaultedError(name, error.error) from None
        memo = {**_memo(document), **(given.memo or {})}
        start = given.replace(memo=memo)
        timeout_us: int | None = None
        if seconds is not None:
            limit = max(seconds, _SHORTEST_S)
            if given.execution_deadline is None and (
                given.execution_timeout is None or limit < given.execution_timeout
            ):
                start = start.replace(execution_timeout=limit)
            if seconds < _SHORTEST_S or given.execution_deadline is not None:
                timeout_us = int(seconds * _US)
        return StartRequest(document.definition, input, timeout_us=timeout_us), start

    async def schedule(
        self, document: Document | str, version: str = LATEST, *, task_queue: str = "default"
    ) -> ScheduleHandle:
        """Start a document whenever its own ``schedule`` says, from now on, with the input ``null``.

        It becomes a schedule of the engine, ``serverless:namespace/name``: one start for each instant, whatever
        crashes. Starts overlap; of those that nobody was there to fire the newest is caught up. Doing it again, also
        with another version, updates the schedule.

        Args:
            document: The document, or the name of a registered one.
            version: The version of a registered one, if its name has none.
            task_queue: The task queue whose workers run it.

        Raises:
            DocumentNotFoundError: No such document is registered.
            InvalidOptionError: It has no schedule, or one that never fires; nothing was written.
            UnsupportedTaskError: Its schedule, or a task of it, cannot run here; nothing was written.
            FaultedError: Its timeout cannot be worked out; nothing was written.
        """
        if isinstance(document, str):
            document = await self.document(document, version)
        spec = spec_of(document, self._client.runtime.environment.clock.now())
        check_support(document, {definition_of(one).name for one in self.activities})
        request, options = self.prepared(document, None, None)
        return await self._client.schedules.create(
            schedule_id_of(document.namespace, document.name),
            type_of(document.definition),
            request.to_json(),
            spec=spec,
            overlap="allow_all",
            catch_up="latest",
            task_queue=task_queue,
            options=options,
            if_exists="update",
        )

    async def unschedule(self, name: str) -> None:
        """Stop starting a document by its schedule. What was started goes on.

        Args:
            name: ``namespace/name``.

        Raises:
            ScheduleNotFoundError: It is not scheduled.
        """
        namespace, name, _ = parsed_name(name)
        await self._client.schedules.handle(schedule_id_of(namespace, name)).delete()

    def run(self, workflow_id: str) -> DocumentRun:
        """Return the handle of a run.

        Args:
            workflow_id: Its workflow id.
        """
        return DocumentRun(self._client.handle(workflow_id), self._client.runtime)

    def _resolve_activity(self) -> Any:
        """Return the local activity that finds what a subflow runs; history records it, so the run keeps it."""

        @activity.defn(name=RESOLVE)
        async def resolve(wanted: dict[str, Any]) -> dict[str, Any]:
            namespace, name = str(wanted.get("namespace")), str(wanted.get("name"))
            given = wanted.get("input")
            if namespace == _PYTHON:
                return {"type": name, "arguments": [] if given is None else [given]}
            try:
                found = await self.document(f"{namespace}/{name}", str(wanted.get("version") or LATEST))
                check_support(found, {definition_of(one).name for one in self.activities})
                request, options = self.prepared(found, given, None)
            except (DocumentNotFoundError, UnsupportedTaskError, InvalidOptionError) as error:
                raise as_application_error(fault("configuration", str(error), "")) from None
            except FaultedError as error:
                raise as_application_error(Fault(error.error)) from None
            return {
                "type": type_of(found.definition),
                "arguments": [request.to_json()],
                "execution_timeout": options.execution_timeout,
                "memo": options.memo,
            }

        return resolve

    def _timeout(self, document: Document, input: Any) -> float | None:
        """Return the timeout of the workflow in seconds; an expression sees the raw input."""
        length = document.plan.timeout
        if length is None or isinstance(length, Duration):
            return None if length is None else length.microseconds / _US
        now = self._client.runtime.environment.clock.now() / _US
        variables = {
            "workflow": {"definition": document.definition, "input": input},
            "runtime": self._described,
            "input": input,
        }
        try:
            value = self._evaluator.evaluate(length, input, variables, now)
        except ExpressionFailed as error:
            raise fault("expression", f"{error.message} at {error.pointer}", "/") from None
        return duration_seconds(value, "/")


def _memo(document: Document) -> dict[str, Any]:
    told = {
        "namespace": document.namespace,
        "name": document.name,
        "version": document.version,
        "digest": document.digest,
    }
    title = document.definition["document"].get("title")
    return told if title is None else {**told, "title": title}
