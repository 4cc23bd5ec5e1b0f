"""``outlast start`` and ``outlast set-start-delay``: when a workflow begins."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Codec, Input, RunId, Timeout, Url, WorkflowId, input_values
from outlast.cli.common.output import document, show
from outlast.cli.common.start_options import GivenStartOptions, TaskQueue, with_start_options
from outlast.cli.common.waiting import tell_lacks
from outlast.cli.workflows.endings import print_result
from outlast.client.client import Client
from outlast.client.workflows.handle import WorkflowHandle
from outlast.text.parsing import duration, moment, waiting_time
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.start import DEFAULT_TASK_QUEUE
from outlast_workflow.primitives.times import to_datetime


@with_start_options
def start(
    workflow_type: Annotated[
        str, typer.Argument(metavar="TYPE", help="The workflow type.", show_default=False)
    ],
    id: Annotated[
        str | None,
        typer.Option("--id", help="The workflow id; by default a new UUID.", show_default=False),
    ] = None,
    input: Input = None,
    task_queue: TaskQueue = DEFAULT_TASK_QUEUE,
    *,
    start: GivenStartOptions,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            help="If the id exists: allow_duplicate, allow_duplicate_failed_only, reject_duplicate, return_existing or "
            "terminate_existing.",
        ),
    ] = "allow_duplicate",
    debounce: Annotated[
        str | None,
        typer.Option(
            "--debounce",
            metavar="KEY",
            help="Begin once no further start of this key has come for a while; the last one's input counts.",
            show_default=False,
        ),
    ] = None,
    debounce_period: Annotated[
        str | None, typer.Option("--debounce-period", metavar="TIME", help="That while.", show_default=False)
    ] = None,
    debounce_timeout: Annotated[
        str | None,
        typer.Option(
            "--debounce-timeout",
            metavar="TIME",
            help="When it begins at the latest, after the first of them.",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the result and print it.")] = False,
    timeout: Timeout = None,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Start a workflow."""
    if timeout is not None and not wait:
        raise InvalidOptionError(
            "timeout limits --wait: give both, or --execution-timeout to bound the workflow",
            field="timeout",
        )
    options = start.options()
    if policy != "allow_duplicate":
        options = options.replace(duplicate_policy=policy.replace("-", "_"))
    period, latest = duration("period", debounce_period), duration("timeout", debounce_timeout)
    if (debounce is None) != (period is None) or (debounce is None and latest is not None):
        raise InvalidOptionError("--debounce and --debounce-period belong together: give both", field="key")
    if debounce is not None and id is not None:
        raise InvalidOptionError(
            "a debounced start has no --id: its key decides which calls go together", field="id"
        )
    arguments = input_values(input)
    longest = waiting_time(timeout)

    async def work(client: Client) -> None:
        handle: WorkflowHandle[Any]
        if debounce is None or period is None:
            handle = await client.start(
                workflow_type, *arguments, id=id, task_queue=task_queue, options=options
            )
        else:
            handle = await client.debounce(
                workflow_type,
                *arguments,
                key=debounce,
                period=period,
                timeout=latest,
                task_queue=task_queue,
                options=options,
            )
        if wait:
            await tell_lacks(client, handle.workflow_id, handle.run_id)
            await print_result(client, handle, longest, json=json)
        elif json:
            document(
                {
                    "workflow_id": handle.workflow_id,
                    "run_id": handle.run_id,
                    "workflow_type": workflow_type,
                    "existed": handle.existed,
                }
            )
        else:
            state = "is already open" if debounce is None else "has this input now"
            there = f"{handle.workflow_id} {state}:"
            show(f"{there if handle.existed else f'started {handle.workflow_id},'} run {handle.run_id}")

        if not wait:
            await tell_lacks(client, handle.workflow_id, handle.run_id)

    with_client(url, work, codec=codec, makes=True)


def set_start_delay(
    workflow_id: WorkflowId,
    delay: Annotated[
        str | None,
        typer.Argument(
            metavar="[TIME]", help="How long it waits from now on; 0 for at once.", show_default=False
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="TIME", help="When it may begin: an instant, instead.", show_default=False
        ),
    ] = None,
    run_id: RunId = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Move the start of a workflow that has not begun."""
    wait = duration("delay", delay)

    async def work(client: Client) -> None:
        begin = moment("until", until, to_datetime(client.runtime.environment.clock.now()), ahead=True)
        await client.handle(workflow_id, run_id=run_id).set_start_delay(wait, until=begin)
        if json:
            document({"workflow_id": workflow_id, "start_moved": True})
        else:
            show(
                f"moved the start of {workflow_id}; `{shlex.join(['outlast', 'describe', workflow_id])}` shows it"
            )

    with_client(url, work)
