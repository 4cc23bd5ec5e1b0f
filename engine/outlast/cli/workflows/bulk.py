"""``outlast bulk``: one action on all workflows that match."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.exit_codes import CommandFailedError
from outlast.cli.common.filters import Chosen, with_filters
from outlast.cli.common.options import AsJson, Codec, Reason, Url, point_of
from outlast.cli.common.output import document, progress, show
from outlast.cli.common.stderr import tell
from outlast.client.bulk import BulkOutcome
from outlast.client.bulk_actions import ActionDetails, BulkAction, begin, suited
from outlast.client.client import Client
from outlast.text.parsing import duration, json_value, moment
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.primitives.times import to_datetime

MOST_ERRORS_SHOWN = 10


@with_filters
def bulk(
    chosen: Chosen,
    action: Annotated[
        str, typer.Argument(metavar="ACTION", help=f"{', '.join(BulkAction)}.", show_default=False)
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    reason: Reason = None,
    to: Annotated[
        str, typer.Option("--to", metavar="POINT", help="The point of a reset or a fork.")
    ] = "last-workflow-task",
    before: Annotated[
        int | None,
        typer.Option(
            "--before",
            metavar="COMMAND",
            help="The point of a fork: before the workflow task that gave this command.",
            show_default=False,
        ),
    ] = None,
    execution_timeout: Annotated[
        str | None,
        typer.Option(
            "--execution-timeout",
            metavar="TIME",
            help="A new execution timeout of what is reset, resumed or forked, from now.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The name of a signal.", show_default=False)
    ] = None,
    input: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="JSON",
            help="An argument of a signal, in JSON; repeatable.",
            show_default=False,
        ),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(
            "--delay",
            metavar="TIME",
            help="How long a moved start waits from now on; 0 for at once.",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="TIME", help="When a moved start is: an instant, instead.", show_default=False
        ),
    ] = None,
    request_id: Annotated[
        str | None,
        typer.Option(
            "--request-id", help="A key: signals with the same key arrive once.", show_default=False
        ),
    ] = None,
    terminate: Annotated[
        bool, typer.Option("--terminate", help="Terminate what is to be deleted first if it is open.")
    ] = False,
    children: Annotated[
        bool, typer.Option("--children", help="Also delete what they have started as children, and theirs.")
    ] = False,
    cursor: Annotated[
        str | None,
        typer.Option(
            "--cursor",
            help="Where to continue: the cursor that the interrupted command named.",
            show_default=False,
        ),
    ] = None,
    url: Url = None,
    codec: Codec = None,
    json: AsJson = False,
) -> None:
    """Cancel, terminate, signal, reset, resume, fork or delete all workflows that match, or move their start."""
    if action not in list(BulkAction):
        raise InvalidOptionError(
            f"action must be one of {', '.join(BulkAction)}, not {action!r:.40}", field="action"
        )
    wanted = BulkAction(action)
    if chosen.is_empty:
        raise InvalidOptionError(
            "bulk needs a filter that says which workflows, for example --type or --id-prefix", field="filter"
        )
    if wanted is BulkAction.SIGNAL and name is None:
        raise InvalidOptionError("a signal needs its --name", field="name")
    if wanted is BulkAction.SET_START_DELAY and (delay is None) == (until is None):
        raise InvalidOptionError(
            "set-start-delay needs --delay or --until, and only one of the two", field="delay"
        )
    wait = duration("delay", delay)
    timeout = duration("execution timeout", execution_timeout)
    arguments = [json_value(f"input {place}", text) for place, text in enumerate(input or (), 1)]

    async def work(client: Client) -> None:
        filters = chosen.filters(client)
        filters["latest"] = True
        ids = filters.get("workflow_ids")
        if filters.get("open") is None and not filters.get("status") and not ids:
            filters.update(suited(wanted, terminate=terminate))
        # Of each id that is named something is told.
        total = len(set(ids)) if ids else await client.count(**filters)
        noun = f"{total:,} run{'' if total == 1 else 's'}"
        if not yes and not typer.confirm(f"{action} {noun}?", err=True):
            raise CommandFailedError("nothing was done: --yes skips the question")
        found = client.bulk(cursor=cursor, **filters)
        details = ActionDetails(
            reason=reason,
            name=name,
            args=arguments,
            request_id=request_id,
            to=point_of(to),
            before=before,
            execution_timeout=timeout,
            delay=wait,
            until=moment("until", until, to_datetime(client.runtime.environment.clock.now()), ahead=True),
            terminate=terminate,
            children=children,
        )
        outcomes = begin(found, wanted, details)
        done, refused = await _walk(outcomes, action, total, json=json)
        if json:
            document({"action": action, "matched": total, "done": done, "refused": refused})
        else:
            show(f"{action}: done for {done:,} of {noun}" + (f", refused for {refused:,}" if refused else ""))
        if refused:
            raise CommandFailedError(f"{refused:,} of {noun} could not be processed")

    with_client(url, work, codec=codec)


async def _walk(
    outcomes: AsyncIterator[BulkOutcome], action: str, total: int, *, json: bool
) -> tuple[int, int]:
    done = refused = 0
    cursor: str | None = None
    try:
        with progress(action, total) as reached:
            async for outcome in outcomes:
                cursor = outcome.cursor
                done += outcome.done
                refused += not outcome.done
                reached(done + refused)
                if json:
                    _print_outcome(outcome)
                elif outcome.fork_id is not None:
                    show(f"{outcome.workflow_id}: forked as {outcome.fork_id}")
                elif outcome.error is not None and refused <= MOST_ERRORS_SHOWN:
                    tell(f"{outcome.workflow_id}: {outcome.error.message}")
    except BaseException:
        if cursor is not None:
            tell(f"stopped: the same command with --cursor {cursor} continues from here")
        raise
    return done, refused


def _print_outcome(outcome: BulkOutcome) -> None:
    error = None if outcome.error is None else outcome.error.message
    known = {"workflow_id": outcome.workflow_id, "run_id": outcome.run_id, "error": error}
    if outcome.fork_id is not None:
        known["fork_id"] = outcome.fork_id
    document(known if outcome.cursor is None else {**known, "cursor": outcome.cursor})
