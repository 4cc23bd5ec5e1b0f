"""``outlast outbox list``, ``retry``, ``delete`` and ``drain``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from outlast.cli.common.connection import with_client
from outlast.cli.common.options import AsJson, Url
from outlast.cli.common.output import document, show, table
from outlast.client.client import Client
from outlast.outbox.outbox import checked_state
from outlast.text.wording import ago, label
from outlast_workflow.primitives.times import to_datetime

app = typer.Typer(
    name="outbox",
    help="Show what transactions of users have asked for, and what of it was refused.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Number = Annotated[int, typer.Argument(metavar="NUMBER", help="The row's number.", show_default=False)]


@app.command(name="list")
def list_(
    state: Annotated[
        str | None,
        typer.Option("--state", help="Only rows that are waiting, or refused.", show_default=False),
    ] = None,
    after: Annotated[int, typer.Option("--after", metavar="NUMBER", help="The number to begin after.")] = 0,
    limit: Annotated[int, typer.Option("--limit", help="How many rows at most, up to 1000.")] = 100,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """List the rows: what waits to be applied, and what was refused and why."""
    wanted = checked_state(state)

    async def work(client: Client) -> None:
        found = await client.outbox.list(state=wanted, after=after, limit=limit)
        if json:
            for one in found:
                document(one)
            return
        if not found:
            show("the outbox is empty" if wanted is None else f"nothing in the outbox is {wanted}")
            return
        now = to_datetime(client.runtime.environment.clock.now())
        made = table("NUMBER", "STATE", "KIND", "WORKFLOW", "NAME", "WRITTEN", drop=("WRITTEN", "NAME"))
        for one in found:
            written = "" if one.created_at is None else ago(one.created_at, now)
            made.add_row(
                str(one.outbox_id),
                one.state,
                one.kind,
                label(one.workflow_id),
                label(one.name or ""),
                written,
            )
        show(made)
        for one in found:
            if one.reason is not None:
                show(f"{one.outbox_id} was refused: {label(one.reason)}")

    with_client(url, work)


@app.command()
def retry(number: Number, url: Url = None, json: AsJson = False) -> None:
    """Apply a refused row now, once its cause is gone; it is refused again if it is not."""
    _carry_out(url, lambda client: client.outbox.retry(number), number, "retried", json=json)


@app.command()
def delete(number: Number, url: Url = None, json: AsJson = False) -> None:
    """Delete a row: what it asks for never happens."""
    _carry_out(url, lambda client: client.outbox.delete(number), number, "deleted", json=json)


@app.command()
def drain(url: Url = None, json: AsJson = False) -> None:
    """Apply what waits now. Watchdogs do so all the time."""

    async def work(client: Client) -> None:
        applied = await client.outbox.drain()
        if json:
            document({"applied": applied})
        else:
            show(f"applied {applied:,}")

    with_client(url, work)


def _carry_out(
    url: str | None, verb: Callable[[Client], Awaitable[None]], number: int, word: str, *, json: bool
) -> None:
    async def work(client: Client) -> None:
        await verb(client)
        if json:
            document({"outbox_id": number, word: True})
        else:
            show(word)

    with_client(url, work)
