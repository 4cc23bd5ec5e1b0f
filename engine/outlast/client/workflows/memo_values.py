"""Reading one field of a workflow's memo, and waiting until its code has set it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from outlast.client.context import ClientContext
from outlast.client.workflows.run_rows import final_row
from outlast.runtime.runtime import Runtime
from outlast_store.journal.commit_news import Committed
from outlast_store.schema.rows import RunRow
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import InvalidOptionError, WorkflowClosedError
from outlast_workflow.options.validation import Seconds, duration_seconds
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.run.mailbox import NO_DEFAULT


async def memo_value(
    context: ClientContext,
    workflow_id: str,
    run_id: str | None,
    name: str,
    timeout: Seconds | None,
    default: Any,
    result_type: Any,
) -> Any:
    """Return a field of a memo; the arguments and errors are those of :meth:`outlast.WorkflowHandle.memo_value`."""
    given: Any = name
    if not isinstance(given, str) or not given:
        raise InvalidOptionError("the name of a field of the memo must be text, and not empty", field="name")
    seconds = None if timeout is None else duration_seconds("timeout", timeout)
    runtime = context.runtime
    limit = asyncio.timeout(None if seconds == 0 else seconds)
    with _news_of(runtime, workflow_id) as news:
        try:
            async with limit:
                while True:
                    news.clear()
                    run = await final_row(runtime, workflow_id, run_id)
                    memo = _memo(run, context.converter)
                    if name in memo:
                        break
                    if not run.is_open:
                        if default is not NO_DEFAULT:
                            return default
                        raise WorkflowClosedError(
                            workflow_id, run_id=run.run_id, status=run.status, lacks=name
                        )
                    if seconds == 0:
                        return _in_vain(workflow_id, name, default)
                    await news.wait()
        except TimeoutError:
            if not limit.expired():
                raise
            return _in_vain(workflow_id, name, default)
    # Decoded as the only argument of a call, so that a dict that looks like an envelope is read as it is.
    what = f"field {name!r} of the memo of {workflow_id}"
    return context.converter.decode_message(Payload.of([memo[name]]), result_type, what)


def _in_vain(workflow_id: str, name: str, default: Any) -> Any:
    if default is NO_DEFAULT:
        raise TimeoutError(f"workflow {workflow_id!r} did not set field {name!r} of its memo in time")
    return default


def _memo(run: RunRow, converter: DataConverter) -> dict[str, Any]:
    if run.memo is None:
        return {}
    found: dict[str, Any] = converter.decode(Payload(run.memo.encode()), dict, "the memo")
    return found


@contextmanager
def _news_of(runtime: Runtime, workflow_id: str) -> Generator[asyncio.Event]:
    """Set an event whenever this process writes to a workflow, or others may have."""
    news = asyncio.Event()

    def on_commit(committed: Committed) -> None:
        if any(run.workflow_id == workflow_id for run in committed.runs.values()):
            news.set()

    runtime.journal.subscribe(on_commit)
    runtime.subscribe(news.set)
    try:
        yield news
    finally:
        runtime.unsubscribe(news.set)
        runtime.journal.unsubscribe(on_commit)
