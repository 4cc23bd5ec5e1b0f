"""The engine's pages: the watchdog, workers and task queues, workflow types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request
from starlette.responses import RedirectResponse, Response

from outlast.visibility.overview import WINDOWS, task_queue_views, type_views, watchdog_view
from outlast.visibility.upcoming import Due
from outlast_dashboard.authorization import Reader, TheWeb, Writer
from outlast_dashboard.pages.rendering import base_of
from outlast_dashboard.pages.streaming import live_page

router = APIRouter()

MOST_REFUSED: Final = 50
Number = Annotated[int, Path(ge=1, le=2**63 - 1)]


@router.get("/watchdog")
async def watchdog(request: Request, web: TheWeb, principal: Reader) -> Response:
    """Show the open deadlines, and what was enforced recently."""

    async def values() -> dict[str, Any]:
        view = await watchdog_view(web.client.runtime)
        overdue = (await web.client.list(page_size=20, overdue=True).page()).runs
        return {
            "view": view,
            "windows": (*WINDOWS, "later"),
            "overdue": overdue,
            "due": by_workflow(view.nearest),
            "outbox": await web.client.outbox.summary(),
            "refused": await web.client.outbox.list(state="refused", limit=MOST_REFUSED),
            "now": view.now,
        }

    return await live_page(request, web, principal, "watchdog", values)


@router.post("/outbox/{number}/retry")
async def retry_outbox(request: Request, web: TheWeb, _: Writer, number: Number) -> Response:
    """Apply a refused row of the outbox now."""
    await web.client.outbox.retry(number)
    return RedirectResponse(f"{base_of(request)}/watchdog", 303)


@router.post("/outbox/{number}/delete")
async def delete_outbox(request: Request, web: TheWeb, _: Writer, number: Number) -> Response:
    """Delete a row of the outbox."""
    await web.client.outbox.delete(number)
    return RedirectResponse(f"{base_of(request)}/watchdog", 303)


def by_workflow(nearest: Sequence[Due]) -> list[list[Due]]:
    """Return what is due by runs: the run with the nearest deadline first, each with its own in order."""
    groups: dict[tuple[str | None, str | None], list[Due]] = {}
    for due in nearest:
        groups.setdefault((due.run_id, due.schedule_id), []).append(due)
    return list(groups.values())


@router.get("/workers")
async def workers(request: Request, web: TheWeb, principal: Reader) -> Response:
    """Show the workers and the task queues."""

    async def values() -> dict[str, Any]:
        return {
            "workers": await web.client.workers(),
            "task_queues": await task_queue_views(web.client.runtime),
            "now": web.now(),
        }

    return await live_page(request, web, principal, "workers", values)


@router.get("/types")
async def types(request: Request, web: TheWeb, principal: Reader) -> Response:
    """Show the workflow types."""

    async def values() -> dict[str, Any]:
        return {"types": await type_views(web.client.runtime)}

    return await live_page(request, web, principal, "types", values)
