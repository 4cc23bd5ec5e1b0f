"""``outlast activity complete``, ``fail``, ``cancel`` and ``heartbeat``: activities that are ended from outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Codec, Url
from outlast.cli.common.output import document, show
from outlast.client.activity_ids import ActivityIds
from outlast.client.client import Client
from outlast.text.parsing import duration, json_value
from outlast_workflow.errors import ApplicationError, InvalidOptionError

app = typer.Typer(
    name="activity",
    help="Complete, fail, cancel or heartbeat an activity from outside.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Token = Annotated[
    str | None,
    typer.Argument(metavar="[TOKEN]", help="The attempt's task token.", show_default=False),
]
WorkflowId = Annotated[
    str | None,
    typer.Option("--workflow-id", help="Without a token: the workflow's id.", show_default=False),
]
ActivityId = Annotated[
    int | None,
    typer.Option(
        "--activity-id", help="Without a token: the activity's id, as describe shows it.", show_default=False
    ),
]
RunId = Annotated[
    str | None,
    typer.Option("--run-id", help="Without a token: this run instead of the current.", show_default=False),
]
Details = Annotated[
    list[str] | None,
    typer.Option("--detail", metavar="JSON", help="A detail in JSON; repeatable.", show_default=False),
]


@app.command()
def complete(
    token: Token = None,
    result: Annotated[str, typer.Option("--result", metavar="JSON", help="The result in JSON.")] = "null",
    workflow_id: WorkflowId = None,
    activity_id: ActivityId = None,
    run_id: RunId = None,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Complete an activity with a result."""
    activity = named(token, workflow_id, activity_id, run_id)
    value = json_value("result", result)
    _carry_out(url, codec, lambda client: client.complete_activity(activity, value), "completed", json=json)


@app.command()
def fail(
    token: Token = None,
    message: Annotated[str, typer.Option("--message", help="What went wrong.")] = "failed from outside",
    error_type: Annotated[
        str | None,
        typer.Option("--type", help="The name that retry policies know the failure by.", show_default=False),
    ] = None,
    detail: Details = None,
    non_retryable: Annotated[bool, typer.Option("--non-retryable", help="Allow no further attempt.")] = False,
    next_retry_delay: Annotated[
        str | None,
        typer.Option(
            "--next-retry-delay",
            metavar="TIME",
            help="The time to the next attempt, instead of the policy's.",
            show_default=False,
        ),
    ] = None,
    workflow_id: WorkflowId = None,
    activity_id: ActivityId = None,
    run_id: RunId = None,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Fail an attempt; the activity's retry policy decides whether a worker runs it again."""
    activity = named(token, workflow_id, activity_id, run_id)
    error = ApplicationError(
        message,
        *_details(detail),
        type=error_type,
        non_retryable=non_retryable,
        next_retry_delay=duration("next retry delay", next_retry_delay),
    )
    _carry_out(url, codec, lambda client: client.fail_activity(activity, error), "failed", json=json)


@app.command()
def cancel(
    token: Token = None,
    workflow_id: WorkflowId = None,
    activity_id: ActivityId = None,
    run_id: RunId = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Acknowledge that an activity's work was stopped, because its workflow asked for that."""
    activity = named(token, workflow_id, activity_id, run_id)
    _carry_out(url, None, lambda client: client.cancel_activity(activity), "cancelled", json=json)


@app.command()
def heartbeat(
    token: Token = None,
    detail: Details = None,
    workflow_id: WorkflowId = None,
    activity_id: ActivityId = None,
    run_id: RunId = None,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Report that an activity is alive; exit with 1 if it is to be cancelled, or no longer runs."""
    activity = named(token, workflow_id, activity_id, run_id)
    details = _details(detail)
    _carry_out(
        url, codec, lambda client: client.heartbeat_activity(activity, *details), "heartbeaten", json=json
    )


def named(
    token: str | None, workflow_id: str | None, activity_id: int | None, run_id: str | None
) -> str | ActivityIds:
    """Return the activity that the options name: by its token, or by ids.

    Args:
        token: The token, if one was given.
        workflow_id: The workflow's id, likewise.
        activity_id: The activity's id, likewise.
        run_id: The run's id, likewise.

    Raises:
        InvalidOptionError: They name it in neither way, or in both.
    """
    by_ids = (workflow_id, activity_id, run_id)
    if token is not None and by_ids == (None, None, None):
        return token
    if token is None and workflow_id is not None and activity_id is not None:
        return ActivityIds(workflow_id, activity_id, run_id)
    raise InvalidOptionError(
        "name the activity by its task token, or by --workflow-id and --activity-id", field="token"
    )


def _details(given: list[str] | None) -> list[Any]:
    return [json_value(f"detail {place}", text) for place, text in enumerate(given or (), 1)]


def _carry_out(
    url: str | None, codec: str | None, verb: Callable[[Client], Awaitable[None]], word: str, *, json: bool
) -> None:
    async def work(client: Client) -> None:
        await verb(client)
        if json:
            document({word: True})
        else:
            show(word)

    with_client(url, work, codec=codec)
