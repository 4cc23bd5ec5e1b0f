"""Starts, between a caller's arguments and the change that writes them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from outlast.client.encoded_calls import update_request
from outlast.client.update_handle import UpdateHandle
from outlast.runtime.local_worker import LocalWorker
from outlast.runtime.runtime import Runtime
from outlast_runs.start import Started, StartRun
from outlast_runs.updates import UpdateRequest
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.new_runs import first_run, started_event
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.declare.definitions import definition_of
from outlast_workflow.history.events import SignalReceived, WorkflowStarted
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.options import (
    StartOptions,
    validate_task_queue,
    validate_workflow_id,
    validate_workflow_type,
)
from outlast_workflow.options.search_attributes import size_of, to_document

DEFAULT_QUEUE = "default"


class Starter:
    """What a client does to start workflows: prepares rows, hands them to a worker of its process or to the journal."""

    def __init__(self, runtime: Runtime, converter: DataConverter, limits: StructuralLimits) -> None:
        self.runtime = runtime
        self.converter = converter
        self.limits = limits

    def _prepare(
        self,
        workflow: Any,
        args: tuple[Any, ...],
        id: str | None,
        task_queue: str,
        options: StartOptions,
        result_type: Any,
    ) -> tuple[RunRow, WorkflowStarted, Any]:
        """The rows of a start; everything that can be wrong with it is found here."""
        environment = self.runtime.environment
        if isinstance(workflow, str):
            name, signature = validate_workflow_type("workflow", workflow), None
        else:
            definition = definition_of(workflow)
            name, signature = definition.name, definition.signature
            signature.check(args, name)
            result_type = signature.result_hint
        workflow_id = validate_workflow_id(id) if id is not None else environment.ids.next()
        if task_queue != DEFAULT_QUEUE:
            validate_task_queue(task_queue)
        payload = self.converter.encode_request(args, signature, name)
        self.limits.check("payload_bytes", len(payload.json), whose=workflow_id)
        memo = self.converter.encode(options.memo, "the memo") if options.memo else None
        if memo is not None:
            self.limits.check("memo_bytes", len(memo.json), whose=workflow_id)
        attributes = to_document(options.search_attributes) if options.search_attributes else None
        if attributes is not None:
            self.limits.check("search_attributes_bytes", size_of(attributes), whose=workflow_id)
        run = first_run(
            run_id=environment.ids.next(),
            workflow_id=workflow_id,
            workflow_type=name,
            task_queue=task_queue,
            options=options,
            memo=memo,
            search_attributes=attributes,
            now=environment.clock.now(),
            owner_id=None,
        )
        return run, started_event(run, input=payload, seed=environment.random.getrandbits(52)), result_type

    async def _update_with_start(
        self,
        workflow: Any,
        args: tuple[Any, ...],
        id: str | None,
        task_queue: str,
        options: StartOptions,
        update: Any,
        update_id: str | None,
        result_type: Any,
        headers: dict[str, Any] | None,
    ) -> tuple[UpdateHandle[Any], Started]:
        """Start a workflow where its id is not open, and ask it for an update, in one change."""
        run, started, _ = self._prepare(workflow, args, id, task_queue, options, None)
        request, hint = update_request(
            update,
            (),
            update_id if update_id is not None else self.runtime.environment.ids.next(),
            converter=self.converter,
            limits=self.limits,
            whose=run.workflow_id,
        )
        started.headers, request = headers, replace(request, headers=headers)
        subscription = self.runtime.answers.subscription("update", request.update_id)
        value = await self._submit(run, started, options, update=request)
        assert value.update is not None
        hint = hint if result_type is None else result_type
        return UpdateHandle(
            self.runtime, self.converter, run.workflow_id, value.update, subscription, hint
        ), value

    async def _submit(
        self,
        run: RunRow,
        started: WorkflowStarted,
        options: StartOptions,
        signal: SignalReceived | None = None,
        update: UpdateRequest | None = None,
    ) -> Started:
        change = StartRun(run, started, options.duplicate_policy, signal=signal, update=update)
        change.limits = self.limits
        owner = self._eager_owner(run, options)
        if owner is None:
            return await self.runtime.journal.apply(change)
        run.owner_id = owner.worker_id
        run.fence = 1
        future: asyncio.Future[Started] = self.runtime.loop.create_future()

        def done(value: Started | None, error: BaseException | None) -> None:
            if future.done():
                return
            if value is not None:
                future.set_result(value)
            else:
                future.set_exception(error or AssertionError("a start without an outcome"))

        owner.start(change, done)
        return await future

    def _eager_owner(self, run: RunRow, options: StartOptions) -> LocalWorker | None:
        """A worker of this process that can take the first workflow task at once."""
        if options.start_delay_us:
            return None
        for worker in self.runtime.workers:
            if worker.serves(run.workflow_type, run.task_queue):
                return worker
        return None
