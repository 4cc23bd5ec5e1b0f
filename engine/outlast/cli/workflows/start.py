"""``outlast start`` and ``outlast set-start-delay``: when a workflow begins."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Codec, RunId, Timeout, Url, WorkflowId
from outlast.cli.common.output import document, show
from outlast.cli.common.waiting import tell_lacks
from outlast.cli.workflows.endings import print_result
from outlast.client.client import Client
from outlast.text.attributes import attributes
from outlast.text.parsing import duration, json_object, json_value, moment, retry_policy_of, waiting_time
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.options import StartOptions
from outlast_workflow.options.start import DEFAULT_TASK_QUEUE
from outlast_workflow.primitives.times import to_datetime


def start(
    workflow_type: Annotated[
        str, typer.Argument(metavar="TYPE", help="The workflow type.", show_default=False)
    ],
    id: Annotated[
        str | None,
        typer.Option("--id", help="The workflow id; by default a new UUID.", show_default=False),
    ] = None,
    input: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="JSON", help="An argument in JSON; repeatable.", show_default=False),
    ] = None,
    task_queue: Annotated[
        str, typer.Option("--task-queue", help="The task queue whose workers run it.")
    ] = DEFAULT_TASK_QUEUE,
    execution_timeout: Annotated[
        str | None,
        typer.Option(
            "--execution-timeout",
            metavar="TIME",
            help="The longest time for all runs together.",
            show_default=False,
        ),
    ] = None,
    run_timeout: Annotated[
        str | None,
        typer.Option(
            "--run-timeout", metavar="TIME", help="The longest time for each run.", show_default=False
        ),
    ] = None,
    start_delay: Annotated[
        str | None,
        typer.Option(
            "--start-delay", metavar="TIME", help="The time to wait before it starts.", show_default=False
        ),
    ] = None,
    priority: Annotated[
        int, typer.Option("--priority", help="0 (first) to 9, in its queue and for its activities.")
    ] = 5,
    queue: Annotated[
        str | None,
        typer.Option("--queue", help="The queue that decides when it begins.", show_default=False),
    ] = None,
    partition_key: Annotated[
        str | None,
        typer.Option("--partition-key", help="Its partition of the queue.", show_default=False),
    ] = None,
    schedule_to_start_timeout: Annotated[
        str | None,
        typer.Option(
            "--schedule-to-start-timeout",
            metavar="TIME",
            help="The longest time in the queue's line.",
            show_default=False,
        ),
    ] = None,
    memo: Annotated[
        str | None,
        typer.Option("--memo", metavar="JSON", help="A JSON object to keep with it.", show_default=False),
    ] = None,
    summary: Annotated[
        str | None,
        typer.Option(
            "--summary",
            metavar="TEXT",
            help="What it does, in at most 200 characters that everybody sees.",
            show_default=False,
        ),
    ] = None,
    retry_policy: Annotated[
        str | None,
        typer.Option(
            "--retry-policy",
            metavar="JSON",
            help="Start a failed run again, as in '{\"max_attempts\": 3}'.",
            show_default=False,
        ),
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            "--attribute",
            metavar="NAME=VALUE",
            help="A search attribute; repeatable.",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            help="If the id exists: allow_duplicate, allow_duplicate_failed_only, reject_duplicate, return_existing or "
            "terminate_existing.",
        ),
    ] = "allow_duplicate",
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
    options = StartOptions(
        execution_timeout=duration("execution timeout", execution_timeout),
        run_timeout=duration("run timeout", run_timeout),
        start_delay=duration("start delay", start_delay),
        priority=priority,
        retry_policy=retry_policy_of(retry_policy),
        memo=json_object("memo", memo),
        search_attributes=attributes(attribute),
        duplicate_policy=policy.replace("-", "_"),
        summary=summary,
        queue=queue,
        partition_key=partition_key,
        schedule_to_start_timeout=duration("schedule-to-start timeout", schedule_to_start_timeout),
    )
    arguments = [json_value(f"input {place}", text) for place, text in enumerate(input or (), 1)]
    longest = waiting_time(timeout)

    async def work(client: Client) -> None:
        handle = await client.start(workflow_type, *arguments, id=id, task_queue=task_queue, options=options)
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
            there = f"{handle.workflow_id} is already open:"
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
