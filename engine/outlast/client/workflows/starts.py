"""Starting workflows: from a caller's arguments to the change that writes them.

A start, one with a signal and one with an update are the same verb to interceptors, ``start_workflow``. A worker of
this process that can run the first workflow task gets the start directly, so that both are one transaction; otherwise
it goes to the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from outlast.client.context import ClientContext
from outlast.client.intercepted_calls import StartWorkflow
from outlast.client.workflows.burst import Burst
from outlast.client.workflows.encoded_calls import signal_event, update_request
from outlast.client.workflows.handle import WorkflowHandle
from outlast.client.workflows.update_handle import UpdateHandle, WaitFor, check_stage
from outlast_runs.start import Started, StartRun
from outlast_runs.start_delays.debounce import Debounce, DelayDebounced, StartDebounced
from outlast_runs.updates import UpdateRequest
from outlast_store.alerts.marks import check_alerts
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.debounces import find_debounce
from outlast_store.transitions.new_runs import first_run, started_event
from outlast_workflow.data.headers import checked_headers
from outlast_workflow.declare.definitions import definition_of
from outlast_workflow.declare.handlers import UpdateCall
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.history.events import SignalReceived, WorkflowStarted
from outlast_workflow.options.ambient import unsaid
from outlast_workflow.options.options import (
    validate_name,
    validate_task_queue,
    validate_workflow_id,
    validate_workflow_type,
)
from outlast_workflow.options.search_attributes import size_of, to_document
from outlast_workflow.options.start import DEFAULT_TASK_QUEUE
from outlast_workflow.options.validation import LAST_SAFE_START, refuse_family
from outlast_workflow.primitives.enums import DuplicatePolicy
from outlast_workflow.primitives.times import microseconds
from outlast_workflow.primitives.type_families import WILDCARD


class Starts:
    """The starts of one client.

    Args:
        context: The client's database, converter, limits and interceptors.
    """

    def __init__(self, context: ClientContext) -> None:
        self._context = context

    async def start(
        self,
        call: StartWorkflow,
        result_type: Any,
        request_id: str | None = None,
        *,
        connection: object = None,
        intercepted: bool = False,
    ) -> WorkflowHandle[Any]:
        """Start a workflow, with a signal where the call has one.

        Args:
            call: The start.
            result_type: How to read the result of a workflow that is named by a string.
            request_id: The caller's key for the signal.
            connection: A connection of the user's, in whose transaction the start is written to the outbox.
            intercepted: Whether the interceptors have let the call through.

        Raises:
            InvalidOptionError: Something about it cannot be used; nothing was written.
            WorkflowAlreadyStartedError: The id is taken.
            QueueNotFoundError: Nobody has defined its queue.
            StructuralLimitError: Something is too large, or too many signals wait already.
        """
        context = self._context
        if context.interceptors and not intercepted:
            return await context.interceptors.call(
                "start_workflow",
                call,
                lambda call: self.start(
                    call, result_type, request_id, connection=connection, intercepted=True
                ),
            )
        run, started, result_type = self._prepare(call, result_type)
        event: SignalReceived | None = None
        if call.signal is not None:
            event = signal_event(context, call.signal, request_id, started.headers, run.workflow_id)
        if connection is not None:
            # What takes a user's connection is loaded by the first that comes.
            from outlast.outbox.writing import write_start

            await write_start(context.runtime, connection, run, started, call.options, event)
            joins = event is not None or call.options.duplicate_policy is DuplicatePolicy.RETURN_EXISTING
            return WorkflowHandle(
                context, run.workflow_id, run.run_id, result_type, outbox="joins" if joins else "starts"
            )
        ending = context.runtime.run_ends.subscribe(run.run_id)
        value = await self._submit(run, started, call, signal=event)
        if not value.created:
            ending = context.runtime.run_ends.subscribe(value.run_id)
        return WorkflowHandle(
            context, run.workflow_id, value.run_id, result_type, ending, existed=not value.created
        )

    async def debounce(
        self, call: StartWorkflow, result_type: Any, burst: Burst, *, intercepted: bool = False
    ) -> WorkflowHandle[Any]:
        """Start a workflow, or give its input to the one that the calls before it started, where that has not begun.

        Args:
            call: The start, without an id.
            result_type: How to read the result of a workflow that is named by a string.
            burst: Which calls go together, and how long they wait for one another.
            intercepted: Whether the interceptors have let the call through.

        Raises:
            InvalidOptionError: Something about it cannot be used; nothing was written.
            QueueNotFoundError: Nobody has defined its queue.
            StructuralLimitError: Something is too large, or the run has been given too many inputs.
        """
        context = self._context
        if context.interceptors and not intercepted:
            return await context.interceptors.call(
                "start_workflow",
                call,
                lambda call: self.debounce(call, result_type, burst, intercepted=True),
            )
        run, started, result_type = self._prepare(call, result_type)
        burst.check_deadline(call.options, run.created_at)
        started.debounce_key = burst.key
        runtime = context.runtime
        debounce = Debounce(run.workflow_type, burst.key, microseconds(burst.period), burst.timeout_us)
        while True:
            known = await runtime.read(find_debounce, run.workflow_type, burst.key)
            if known is not None and await runtime.journal.apply(
                DelayDebounced(debounce, known, started.input, context.limits)
            ):
                ending = runtime.run_ends.subscribe(known.run_id)
                return WorkflowHandle(
                    context, known.workflow_id, known.run_id, result_type, ending, existed=True
                )
            ending = runtime.run_ends.subscribe(run.run_id)
            replaces = None if known is None else known.run_id
            if (await runtime.journal.apply(StartDebounced(debounce, run, started, replaces))).created:
                return WorkflowHandle(context, run.workflow_id, run.run_id, result_type, ending)

    def handle(self, workflow_id: str, run_id: str | None, result_type: Any = None) -> WorkflowHandle[Any]:
        """Return a handle to a workflow that was started earlier, or perhaps never was.

        Args:
            workflow_id: The workflow.
            run_id: One of its runs; ``None`` for the current run.
            result_type: How to read its result.

        Raises:
            InvalidOptionError: An id cannot be one.
        """
        validate_workflow_id(workflow_id)
        if run_id is not None:
            validate_name("run id", run_id)
        return WorkflowHandle(self._context, workflow_id, run_id, result_type, pinned=run_id is not None)

    async def start_with_update(
        self,
        call: StartWorkflow,
        update_id: str | None,
        result_type: Any,
        wait_for: WaitFor,
        timeout: float | None,
    ) -> UpdateHandle[Any]:
        """Start a workflow where its id is not open, and send it an update, in one change.

        Args:
            call: The start, with its update.
            update_id: The caller's id for the update; a UUIDv7 if ``None``.
            result_type: How to read the result of an update that is named by a string.
            wait_for: The stage of the update to wait for.
            timeout: Seconds to wait for that stage.

        Raises:
            InvalidOptionError: Something about it cannot be used, or an interceptor did not call ``next``; nothing
                was written.
            WorkflowAlreadyStartedError: The id is taken.
            StructuralLimitError: Something is too large, or too many updates are open already.
            UpdateRejectedError: The update was rejected.
        """
        check_stage(wait_for)
        if self._context.interceptors:
            sent = await self._intercepted_update(call, update_id, result_type)
        else:
            sent, _ = await self._start_with_update(call, update_id, result_type)
        await sent.reach(wait_for, timeout)
        return sent

    async def _intercepted_update(
        self, call: StartWorkflow, update_id: str | None, result_type: Any
    ) -> UpdateHandle[Any]:
        made: list[UpdateHandle[Any]] = []

        async def innermost(call: StartWorkflow) -> WorkflowHandle[Any]:
            sent, started = await self._start_with_update(call, update_id, result_type)
            made.append(sent)
            return WorkflowHandle(self._context, sent.workflow_id, started.run_id, pinned=True)

        await self._context.interceptors.call("start_workflow", call, innermost)
        if not made:
            raise InvalidOptionError(
                "an interceptor's start_workflow did not call next, and an update that is not sent has no result",
                field="interceptors",
            )
        return made[-1]

    async def _start_with_update(
        self, call: StartWorkflow, update_id: str | None, result_type: Any
    ) -> tuple[UpdateHandle[Any], Started]:
        context = self._context
        run, started, _ = self._prepare(call, None)
        update: UpdateCall[Any] | None = call.update
        assert update is not None, "a start with an update has one"
        if update_id is None:
            update_id = context.runtime.environment.ids.next()
        request = update_request(context, update, update_id, started.headers, run.workflow_id)
        subscription = context.runtime.request_waits.subscribe("update", request.update_id)
        value = await self._submit(run, started, call, update=request)
        assert value.update is not None
        hint = update.result_hint if result_type is None else result_type
        return UpdateHandle(context, run.workflow_id, value.update, subscription, hint), value

    def _prepare(self, call: StartWorkflow, result_type: Any) -> tuple[RunRow, WorkflowStarted, Any]:
        """Return the row and the first event of a run; whatever can be wrong with a start is found here."""
        environment = self._context.runtime.environment
        converter, limits, options = self._context.converter, self._context.limits, call.options
        if isinstance(call.workflow, str):
            name, signature = validate_workflow_type("workflow", call.workflow), None
        else:
            definition = definition_of(call.workflow)
            name, signature = definition.name, definition.signature
            if name.endswith(WILDCARD):
                refuse_family("workflow", name)
            signature.check(call.args, name)
            result_type = signature.result_hint
            if definition.timeouts:
                call.options = options = options.replace(**unsaid(definition.timeouts, options.given()))
        workflow_id = validate_workflow_id(call.id) if call.id is not None else environment.ids.next()
        if call.task_queue != DEFAULT_TASK_QUEUE:
            validate_task_queue(call.task_queue)
        payload = converter.encode_request(call.args, signature, name)
        if len(payload.json) >= limits.near["payload_bytes"]:
            limits.check("payload_bytes", len(payload.json), whose=workflow_id)
        memo = converter.encode(options.memo, "the memo") if options.memo else None
        if memo is not None:
            limits.check("memo_bytes", len(memo.json), whose=workflow_id)
        attributes = to_document(options.search_attributes) if options.search_attributes else None
        if attributes is not None:
            limits.check("search_attributes_bytes", size_of(attributes), whose=workflow_id)
        now = environment.clock.now()
        if now > LAST_SAFE_START:
            options.check_ends(now)
        if options.execution_deadline_us is not None:
            options.check_deadline(now)
        run = first_run(
            run_id=environment.ids.next(),
            workflow_id=workflow_id,
            workflow_type=name,
            task_queue=call.task_queue,
            options=options,
            memo=memo,
            search_attributes=attributes,
            now=now,
            owner_id=None,
        )
        if run.alerts is not None:
            check_alerts(run)
        started = started_event(run, input=payload, seed=environment.random.getrandbits(52))
        if call.headers:
            started.headers = checked_headers(call.headers)
        return run, started, result_type

    def _submit(
        self,
        run: RunRow,
        started: WorkflowStarted,
        call: StartWorkflow,
        *,
        signal: SignalReceived | None = None,
        update: UpdateRequest | None = None,
    ) -> Awaitable[Started]:
        """Hand the change to a worker of this process that can run the first workflow task, or to the journal."""
        runtime = self._context.runtime
        change = StartRun(run, started, call.options.duplicate_policy, signal=signal, update=update)
        change.limits = self._context.limits
        for worker in runtime.workers:
            if (
                run.queue is None
                and not call.options.start_delay_us
                and worker.serves(run.workflow_type, run.task_queue)
            ):
                break
        else:
            return runtime.journal.apply(change)
        run.owner_id = worker.worker_id
        run.fence = 1
        future: asyncio.Future[Started] = runtime.loop.create_future()

        def done(value: Started | None, error: BaseException | None) -> None:
            if future.done():
                return
            if value is not None:
                future.set_result(value)
            else:
                future.set_exception(error or AssertionError("a start without an outcome"))

        worker.start(change, done)
        return future
