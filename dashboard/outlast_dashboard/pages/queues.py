"""The pages of queues: all of them, and one with its limits and what is in it; what can be done to a queue."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Form, Request
from starlette.responses import RedirectResponse, Response

from outlast.errors import InvalidOptionError, OutlastError, QueueExistsError
from outlast.queues.descriptions import RateView
from outlast.text.parsing import limit, rate
from outlast_dashboard.api.contract.fields import QueueName
from outlast_dashboard.authorization import Reader, TheWeb, Writer
from outlast_dashboard.encoded_paths import quoted
from outlast_dashboard.pages.forms import field_of
from outlast_dashboard.pages.rendering import base_of, page
from outlast_dashboard.pages.schedules.calendar_text import duration_text
from outlast_dashboard.pages.streaming import live_page
from outlast_dashboard.problems import problem_of
from outlast_dashboard.security.principals import Principal
from outlast_store.reads.queues import partition_loads, waiting_activities
from outlast_workflow.options.queues import LIMITS

router = APIRouter()

MOST_LISTED: Final = 500
MOST_PARTITIONS: Final = 20
MOST_ACTIVITIES: Final = 20
Text = Annotated[str, Form(max_length=1000)]


def _typed(
    concurrency: Text = "",
    worker_concurrency: Text = "",
    rate: Text = "",
    partition_concurrency: Text = "",
    partition_worker_concurrency: Text = "",
    partition_rate: Text = "",
) -> dict[str, str]:
    return dict(locals())


Typed = Annotated[dict[str, str], Depends(_typed)]
"""The limits as they were typed; an empty text is no limit."""


@router.get("/queues")
async def queues(request: Request, web: TheWeb, principal: Reader) -> Response:
    """Show the queues."""

    async def values() -> dict[str, Any]:
        return {"queues": await web.client.queues.list(limit=MOST_LISTED), "most": MOST_LISTED}

    return await live_page(request, web, principal, "queues", values)


@router.get("/queues/{name}")
async def queue(request: Request, web: TheWeb, principal: Reader, name: QueueName) -> Response:
    """Show a queue: its limits, what is in it, and when it admits next."""

    async def values() -> dict[str, Any]:
        found = await web.client.queues.describe(name)
        now = web.client.runtime.environment.clock.now()
        waiting = await web.client.runtime.read(partition_loads, name, now, MOST_PARTITIONS)
        # A line without partitions has been told already.
        partitions = [] if [one.partition for one in waiting] == [""] else waiting
        activities = await web.client.runtime.read(waiting_activities, name, now, MOST_ACTIVITIES)
        return {"queue": found, "partitions": partitions, "activities": activities, "now": web.now()}

    path = f"{base_of(request)}/queues/{quoted(name)}"
    return await live_page(request, web, principal, "queue", values, path=path)


@router.post("/queues/{name}/pause")
async def pause(
    request: Request, web: TheWeb, _: Writer, name: QueueName, note: Annotated[str, Form()] = ""
) -> Response:
    """Pause a queue."""
    await web.client.queues.pause(name, note or None)
    return _back(request, name)


@router.post("/queues/{name}/resume")
async def resume(request: Request, web: TheWeb, _: Writer, name: QueueName) -> Response:
    """Resume a queue."""
    await web.client.queues.resume(name)
    return _back(request, name)


@router.post("/queues/{name}/delete")
async def delete(request: Request, web: TheWeb, _: Writer, name: QueueName) -> Response:
    """Delete a queue."""
    await web.client.queues.delete(name)
    return RedirectResponse(f"{base_of(request)}/queues", 303)


# --- the form of the limits -----------------------------------------------------------------------------------------


@router.get("/define-queue")
async def ask_for_a_queue(request: Request, principal: Writer) -> Response:
    """Show the form that defines a queue."""
    return _form(request, principal, {"name": "", **_typed()})


@router.post("/define-queue")
async def define(request: Request, web: TheWeb, principal: Writer, typed: Typed, name: Text = "") -> Response:
    """Define a queue, and show it. An error is shown at its field, and the form keeps what was typed."""
    shown = {"name": name, **typed}
    try:
        await web.client.queues.define(name, **_limits(typed))
    except (InvalidOptionError, QueueExistsError) as error:
        return _form(request, principal, shown, error=error)
    return _back(request, name)


@router.get("/queues/{name}/limits")
async def ask_for_limits(request: Request, web: TheWeb, principal: Writer, name: QueueName) -> Response:
    """Show the form that changes the limits of a queue."""
    found = await web.client.queues.describe(name)
    known = {limit: getattr(found, limit) for limit in LIMITS}
    return _form(request, principal, {limit: _shown(value) for limit, value in known.items()}, name)


@router.post("/queues/{name}/limits")
async def update(request: Request, web: TheWeb, principal: Writer, name: QueueName, typed: Typed) -> Response:
    """Give a queue these limits, and show it."""
    try:
        await web.client.queues.update(name, **_limits(typed))
    except InvalidOptionError as error:
        return _form(request, principal, typed, name, error)
    return _back(request, name)


def _limits(typed: dict[str, str]) -> Any:
    """Return the limits; an empty text is no limit."""
    return {
        name: None if not text.strip() else rate(name, text) if name.endswith("rate") else limit(name, text)
        for name, text in typed.items()
    }


def _shown(value: int | RateView | None) -> str:
    """Return a limit as it is typed."""
    if isinstance(value, RateView):
        per = value.per_seconds
        return f"{value.limit}/{duration_text(per) if per == int(per) else f'{per}s'}"
    return "" if value is None else str(value)


def _form(
    request: Request,
    principal: Principal,
    typed: dict[str, str],
    name: str | None = None,
    error: OutlastError | None = None,
) -> Response:
    """Show the form.

    Args:
        request: The request.
        principal: Who made it.
        typed: What its fields have.
        name: The queue whose limits are changed; ``None`` for one that is to be defined.
        error: What is wrong with a field.
    """
    wrong: dict[str, str] = {}
    if error is not None:
        wrong[field_of(error, typed) or ("name" if "name" in typed else LIMITS[0])] = error.message
    status = 200 if error is None else problem_of(error).status
    return page("queue_form.html", request, principal, status, typed=typed, wrong=wrong, name=name)


def _back(request: Request, name: str) -> Response:
    return RedirectResponse(f"{base_of(request)}/queues/{quoted(name)}", 303)
