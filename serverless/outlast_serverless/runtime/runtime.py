"""The runtime: it starts documents, and gives a worker what runs them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from outlast import Client, StartOptions, activity
from outlast.version import __version__
from outlast_activities.definitions import definition_of
from outlast_serverless.bus.bus import Bus
from outlast_serverless.calls.asyncapi.channel import ChannelAdapter
from outlast_serverless.calls.asyncapi.channels import Channels
from outlast_serverless.calls.policy import HttpPolicy
from outlast_serverless.documents.document import Document
from outlast_serverless.interpreter.faults import Fault, as_application_error, fault
from outlast_serverless.interpreter.request import type_of
from outlast_serverless.interpreter.tasks.calls import RESOLVE
from outlast_serverless.interpreter.workflow import workflow_of
from outlast_serverless.jq import Evaluator, JqChecker
from outlast_serverless.lifecycle.exporter import Exporter, Exporters
from outlast_serverless.lifecycle.wanted import LifecycleEvents, checked_sinks
from outlast_serverless.processes.policy import ProcessPolicy
from outlast_serverless.processes.running import process_activities
from outlast_serverless.processes.sweeping import Sweeper
from outlast_serverless.runtime.registry import (
    LATEST,
    RegisterDocument,
    RegisteredDocument,
    page_of_documents,
    parsed_name,
    read_document,
)
from outlast_serverless.runtime.run import DocumentRun
from outlast_serverless.schedules.scheduler import DocumentSchedule, Scheduler
from outlast_serverless.schedules.workflow import schedule_workflow_of
from outlast_serverless.secrets import SecretSource
from outlast_serverless.starting.starting import Starting
from outlast_workflow.errors import (
    DocumentNotFoundError,
    FaultedError,
    InvalidOptionError,
    UnsupportedTaskError,
)
from outlast_workflow.options.validation import timeout_seconds

_PYTHON: Final = "python"
"""The namespace of workflows that are written in Python: their names are types."""


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
        catalog: The default catalog, for functions such as ``log:1.0.0@default``: its URL, or a folder.
        channels: Adapters of protocols that ``call: asyncapi`` speaks, by their names, beside those that are built in.
        metadata: What ``$runtime.metadata`` is.
        events_kept: How long events are kept, in seconds or as a timedelta: what is published again within that time is
            known, and what listens may look so far back.
        lifecycle: Where the lifecycle events of runs and tasks go; nowhere by default.
    """

    def __init__(
        self,
        client: Client,
        *,
        secrets: SecretSource | None = None,
        http: HttpPolicy | None = None,
        processes: ProcessPolicy | None = None,
        catalog: str | Path | None = None,
        channels: Mapping[str, ChannelAdapter] | None = None,
        metadata: Mapping[str, Any] | None = None,
        events_kept: float | timedelta = timedelta(days=7),
        lifecycle: Iterable[LifecycleEvents] = (),
    ) -> None:
        # A process that only checks documents does without a client for HTTP.
        from outlast_serverless.calls.a2a import a2a_activity
        from outlast_serverless.calls.asyncapi.activity import asyncapi_activity
        from outlast_serverless.calls.fetching import fetch_activity
        from outlast_serverless.calls.grpc.activity import grpc_activity
        from outlast_serverless.calls.http import http_activity
        from outlast_serverless.calls.openapi.activity import openapi_activity
        from outlast_serverless.calls.resources import Resources
        from outlast_serverless.calls.tokens import Tokens
        from outlast_serverless.mcp.activity import mcp_activity

        policy, allowed = http or HttpPolicy(), processes or ProcessPolicy()
        tokens = Tokens(policy)
        resources = Resources(policy, tokens)
        spoken = Channels(channels)

        self.client = client
        self._evaluator = Evaluator()
        self._sweeper = Sweeper(allowed, client)
        self._bus = Bus(client, float(timeout_seconds("events kept", events_kept)))
        self._sinks = checked_sinks(lifecycle)
        self._policy = policy
        self._exporters = Exporters(self._make_exporters)
        self._described: dict[str, Any] = {
            "name": "outlast",
            "version": __version__,
            "metadata": dict(metadata or {}),
        }
        self._starting = Starting(client, self._evaluator, self._described, secrets, resources)
        self._scheduler = Scheduler(client, self._starting)
        self.workflows: list[Any] = [
            workflow_of(self._evaluator, self._described),
            schedule_workflow_of(self._evaluator, self._described),
        ]
        """What a worker needs among its workflows."""
        self.activities: list[Any] = [
            http_activity(self._evaluator, secrets, policy, tokens),
            openapi_activity(self._evaluator, secrets, policy, tokens, resources),
            a2a_activity(self._evaluator, secrets, policy, tokens, resources),
            asyncapi_activity(self._evaluator, secrets, policy, tokens, resources, spoken),
            grpc_activity(self._evaluator, secrets, policy, tokens, resources),
            mcp_activity(self._evaluator, secrets, policy, allowed, tokens),
            fetch_activity(self._evaluator, secrets, resources, catalog, self._starting.unsupported),
            *process_activities(self._evaluator, secrets, allowed, self._sweeper, resources),
            *self._bus.activities,
            self._resolve_activity(),
            self._scheduler.activity,
        ]
        """What a worker needs among its activities."""
        self._starting.activities = frozenset(definition_of(one).name for one in self.activities)
        self._starting.speaks = spoken.trouble

    async def __aenter__(self) -> Self:
        self._evaluator.start()
        self._bus.start()
        self._sweeper.start()
        await self._exporters.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._exporters.close()
        await self._sweeper.close()
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

    async def publish_all(self, events: Iterable[Mapping[str, Any]]) -> int:
        """Publish events in one commit: all of them or none.

        Args:
            events: CloudEvents, in the order in which they are to reach runs.

        Returns:
            How many are new.

        Raises:
            InvalidOptionError: One is no CloudEvent; nothing was written.
            StructuralLimitError: One is too large; nothing was written.
        """
        return await self._bus.publish_all([dict(one) for one in events])

    def begin_routing(self) -> None:
        """Route from now on, until the client is closed, in a program that does not enter the runtime."""
        self._bus.start()

    async def route(self) -> int:
        """Bring the events that wait to the runs that listen, now. Each runtime that is entered does so by itself.

        Returns:
            How many events were routed.
        """
        return await self._bus.router.route()

    async def export_lifecycle(self) -> int:
        """Send the lifecycle events that wait, now. Each runtime that is entered does so by itself.

        Returns:
            How many events were sent; none if another process sends them, or the sink takes nothing now.
        """
        return await self._exporters.export()

    async def register(self, document: Document) -> bool:
        """Register a document under its namespace, name and version, so that it can be started by name.

        Its expressions are compiled, unless a checker has done so when it was read. Whether its tasks can run here does
        not matter: the process that registers need not be one that runs it.

        Args:
            document: The document.

        Returns:
            Whether it is new. The same content again changes nothing.

        Raises:
            InvalidDocumentError: An expression does not compile; ``problems`` are all that do not. Nothing was written.
            DocumentConflictError: The version is registered with another content.
        """
        if not document.compiles:
            if self.client.runtime.environment.threads:
                await asyncio.to_thread(_compile, document)
            else:
                # Virtual time does not wait for threads.
                _compile(document)
        return await self.client.runtime.journal.apply(RegisterDocument(document))

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
        return await self.client.runtime.read(read_document, namespace, name, wanted)

    async def documents(self) -> AsyncGenerator[RegisteredDocument]:
        """Yield what is registered, by namespace, name and version."""
        after: tuple[str, ...] = ()
        while page := await self.client.runtime.read(page_of_documents, after):
            for one in page:
                yield one
            after = (page[-1].namespace, page[-1].name, page[-1].version)

    def check(self, document: Document) -> None:
        """Refuse a document with tasks that cannot run here, as a start does.

        Args:
            document: The document.

        Raises:
            UnsupportedTaskError: It has some.
        """
        self._starting.check(document)

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
            check: Whether to refuse an input that does not fit the document's schema, which is fetched first if it is
                elsewhere; otherwise such a run faults.

        Raises:
            DocumentNotFoundError: No such document is registered.
            UnsupportedTaskError: The document has tasks that cannot run here; nothing was written.
            FaultedError: The input does not fit, or the timeout cannot be worked out; nothing was written.
            InvalidOptionError: An option cannot be used; nothing was written.
            WorkflowAlreadyStartedError: The id is taken.
        """
        if isinstance(document, str):
            document = await self.document(document, version)
        self._starting.check(document)
        if check:
            await self._starting.check_input(document, input)
        request, start = self._starting.prepared(document, input, options)
        handle = await self.client.start(
            type_of(document.definition), request.to_json(), id=id, task_queue=task_queue, options=start
        )
        return DocumentRun(handle, self.client.runtime)

    async def schedule(
        self, document: Document | str, version: str = LATEST, *, task_queue: str = "default"
    ) -> DocumentSchedule:
        """Start a document whenever its own ``schedule`` says, from now on.

        ``every`` and ``cron`` become a schedule of the engine, ``serverless:namespace/name``: one start for each
        instant, whatever crashes, with the input ``null``. Starts overlap; of those that nobody was there to fire the
        newest is caught up. ``after`` and ``on`` become a workflow, ``serverless-schedule:namespace/name``: it starts a
        run at once, and the next one that long after its end; or one for the events that ``on`` asks for, which are its
        input. Doing it again, also with another version, updates the schedule.

        Args:
            document: The document, or the name of a registered one.
            version: The version of a registered one, if its name has none.
            task_queue: The task queue whose workers run it.

        Raises:
            DocumentNotFoundError: No such document is registered.
            InvalidOptionError: It has no schedule, or one that never fires; nothing was written.
            UnsupportedTaskError: A task of it cannot run here; nothing was written.
            FaultedError: Its timeout cannot be worked out; nothing was written.
        """
        if isinstance(document, str):
            document = await self.document(document, version)
        return await self._scheduler.schedule(document, task_queue)

    async def unschedule(self, name: str) -> str:
        """Stop starting a document by its schedule. What was started goes on.

        Args:
            name: ``namespace/name``.

        Returns:
            The id of the schedule, or of the workflow, that is there no longer.

        Raises:
            ScheduleNotFoundError: It is not scheduled.
        """
        namespace, name, _ = parsed_name(name)
        return await self._scheduler.unschedule(namespace, name)

    def run(self, workflow_id: str) -> DocumentRun:
        """Return the handle of a run.

        Args:
            workflow_id: Its workflow id.
        """
        return DocumentRun(self.client.handle(workflow_id), self.client.runtime)

    def _make_exporters(self) -> list[Exporter]:
        # A process that sends nothing does without a client for HTTP.
        from outlast_serverless.lifecycle.sinks import BusSink, HttpSink

        return [
            Exporter(
                self.client,
                one,
                BusSink(self._bus.publish_all)
                if one.to is None
                else HttpSink(one.to, one.headers, self._policy),
            )
            for one in self._sinks
        ]

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
                self._starting.check(found)
                request, options = self._starting.prepared(found, given, None)
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


def _compile(document: Document) -> None:
    with JqChecker() as checker:
        document.check_expressions(checker)
