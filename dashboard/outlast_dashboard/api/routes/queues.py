"""Queues: defined, changed, shown, paused and deleted."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from outlast.queues.descriptions import QueueDescription
from outlast_dashboard.api.contract.fields import QueueName
from outlast_dashboard.api.contract.problem_responses import problems
from outlast_dashboard.api.contract.queue_bodies import DefineQueueBody, PauseQueueBody, UpdateQueueBody
from outlast_dashboard.authorization import Reader, TheWeb, Writer

router = APIRouter(prefix="/queues", tags=["queues"])

MOST_LISTED = 1_000


@router.get("")
async def queues(
    web: TheWeb,
    _: Reader,
    after: Annotated[str, Query(description="Only those whose names come after this one.")] = "",
) -> list[QueueDescription]:
    """List queues by name, at most a thousand: their limits, and what is in each; `after` continues."""
    return list(await web.client.queues.list(after=after, limit=MOST_LISTED))


@router.post("", status_code=201, responses=problems(409))
async def define(body: DefineQueueBody, web: TheWeb, _: Writer) -> QueueDescription:
    """Define a queue. What is not given is not limited.

    `if_exists` says what to do about one of that name: `error`, `keep` it as it is, or `update` it to these limits and
    no others.
    """
    return await web.client.queues.define(body.name, if_exists=body.if_exists, **body.limits())


@router.get("/{name}", responses=problems(404))
async def describe(name: QueueName, web: TheWeb, _: Reader) -> QueueDescription:
    """Describe a queue: its limits, and what is in it now."""
    return await web.client.queues.describe(name)


@router.patch("/{name}", responses=problems(404))
async def update(name: QueueName, body: UpdateQueueBody, web: TheWeb, _: Writer) -> QueueDescription:
    """Change the limits that are given; `null` lifts one. The next admission goes by them."""
    return await web.client.queues.update(name, **body.limits())


@router.post("/{name}/pause", responses=problems(404))
async def pause(name: QueueName, body: PauseQueueBody, web: TheWeb, _: Writer) -> QueueDescription:
    """Admit nothing until the queue is resumed. What is under way goes on, and more may join the line."""
    await web.client.queues.pause(name, body.note)
    return await web.client.queues.describe(name)


@router.post("/{name}/resume", responses=problems(404))
async def resume(name: QueueName, web: TheWeb, _: Writer) -> QueueDescription:
    """Admit from a paused queue again."""
    await web.client.queues.resume(name)
    return await web.client.queues.describe(name)


@router.delete("/{name}", status_code=204, responses=problems(404, 409))
async def delete(name: QueueName, web: TheWeb, _: Writer) -> None:
    """Delete a queue. A 409 of the type `queue-in-use` says what waits in it or is under way."""
    await web.client.queues.delete(name)
