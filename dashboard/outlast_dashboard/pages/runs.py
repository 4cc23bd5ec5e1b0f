"""The first page: runs, and above them how many there are of each status and those that need attention."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from outlast.visibility.overview import StatusCounts, status_counts
from outlast.visibility.views import RunSummary
from outlast_dashboard.authorization import Reader, TheWeb
from outlast_dashboard.pages.forms import field_of
from outlast_dashboard.pages.known import known_names
from outlast_dashboard.pages.rendering import page
from outlast_dashboard.pages.run_filters import PERIODS, Choice, Chosen, ChosenRuns
from outlast_dashboard.pages.streaming import live_page
from outlast_dashboard.web import Web
from outlast_workflow.errors import InvalidOptionError

router = APIRouter()

PAGE_SIZE: Final = 50
MOST_NEEDING_ATTENTION: Final = 5
COUNTS_LAST_S: Final = 2.0
"""How old the counts of a live page may be."""
COUNTS_REST: Final = 20
"""The pause between two counts, in multiples of the time that one takes."""


@router.get("/")
async def runs(
    request: Request,
    web: TheWeb,
    principal: Reader,
    chosen: ChosenRuns,
    cursor: Choice = "",
) -> Response:
    """Show runs in the chosen order."""
    client = web.client
    counts = _Counts(web, chosen)

    async def values() -> dict[str, Any]:
        now = web.now()
        listing = client.list(page_size=PAGE_SIZE, order=chosen.order, **chosen.filters(now))
        shown = await listing.page(cursor or None)
        needing_attention: Sequence[RunSummary] = ()
        if not cursor and chosen.is_empty:
            found = client.list(page_size=MOST_NEEDING_ATTENTION, attention=True)
            needing_attention = (await found.page()).runs
        return {
            "runs": shown.runs,
            "needing_attention": needing_attention,
            "counts": await counts.current(),
            "chosen": chosen,
            "next": chosen.query(cursor=shown.cursor) if shown.cursor is not None else None,
            "first": chosen.query() if cursor else None,
            "now": now,
        }

    around: dict[str, Any] = {
        "chosen": chosen,
        "periods": PERIODS,
        "live_url": request.url.query,
        "typed": chosen.fields,
    }
    around |= await known_names(web)
    try:
        return await live_page(request, web, principal, "runs", values, **around, wrong={})
    except InvalidOptionError as error:
        field = field_of(error, chosen.fields)
        if field is None:
            raise
        wrong = {field: error.message}
        return page("runs.html", request, principal, 422, **around, wrong=wrong)


class _Counts:
    """The counts of a live page. They are read less often than the runs, since they cost more."""

    def __init__(self, web: Web, chosen: Chosen) -> None:
        self._web = web
        self._chosen = chosen
        self._counts: StatusCounts | None = None
        self._until = 0.0

    async def current(self) -> StatusCounts:
        """Return the counts; at most :data:`COUNTS_LAST_S` old unless they take long."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if self._counts is None or began >= self._until:
            filters = self._chosen.filters(self._web.now())
            self._counts = await status_counts(self._web.client.runtime, filters)
            took = loop.time() - began
            self._until = loop.time() + max(COUNTS_LAST_S, took * COUNTS_REST)
        return self._counts
