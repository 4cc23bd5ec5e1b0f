"""The outbox: what transactions of users have asked for, and what of it was refused."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from outlast.outbox.outbox import OutboxEntry, OutboxState
from outlast_dashboard.api.contract.problem_responses import problems
from outlast_dashboard.authorization import Reader, TheWeb, Writer

router = APIRouter(prefix="/outbox", tags=["outbox"])

Number = Annotated[int, Path(description="The row's number.", ge=1, le=2**63 - 1)]


@router.get("")
async def rows(
    web: TheWeb,
    _: Reader,
    state: Annotated[OutboxState | None, Query(description="Only rows in this state.")] = None,
    after: Annotated[int, Query(description="The number to begin after.", ge=0, le=2**63 - 1)] = 0,
    limit: Annotated[int, Query(description="Rows at most.", ge=1, le=1000)] = 100,
) -> list[OutboxEntry]:
    """List rows in their order, without what they hold: what waits to be applied, and what was refused and why."""
    return await web.client.outbox.list(state=state, after=after, limit=limit)


@router.post("/{number}/retry", status_code=204, responses=problems(404, 409))
async def retry(number: Number, web: TheWeb, _: Writer) -> None:
    """Apply a refused row now, once its cause is gone. If it is not, the row is refused again: that is a 409."""
    await web.client.outbox.retry(number)


@router.delete("/{number}", status_code=204, responses=problems(404))
async def delete(number: Number, web: TheWeb, _: Writer) -> None:
    """Delete a row: what it asks for never happens."""
    await web.client.outbox.delete(number)
