"""The first page: runs, and above them how many there are of each status and those that need attention."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from outlast import Client
from outlast.errors import DamagedHistoryError
from outlast.histories.history_pages import HistoryEvent
from outlast.text.event_gists import Gist, gist
from outlast.visibility.overview import StatusCounts, status_counts
from outlast.visibility.views import RunSummary
from outlast_dashboard.api.contract.redaction import event_view
from outlast_dashboard.authorization import Reader, TheWeb
from outlast_dashboard.pages.forms import field_of
from outlast_dashboard.pages.known import known_names
from outlast_dashboard.pages.rendering import page
from outlast_dashboard.pages.runs.filters import PERIODS, Choice, Chosen, ChosenRuns
from outlast_dashboard.pages.streaming import live_page
from outlast_dashboard.security.principals import Principal
from outlast_dashboard.web import Web
from outlast_store.reads.histories import find_last_events
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.history.events import stored_payload
from outlast_workflow.primitives.enums import RunStatus
from outlast_workflow.primitives.times import to_datetime

router = APIRouter()

PAGE_SIZE: Final = 50
MOST_NEEDING_ATTENTION: Final = 5
_TELLING: Final = frozenset(
    {RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.CANCELLED, RunStatus.TERMINATED}
)
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
    ends = Ends(client, principal)

    async def values() -> dict[str, Any]:
        now = web.now()
        listing = client.list(page_size=PAGE_SIZE, order=chosen.order, **chosen.filters(now))
        shown = await listing.page(cursor or None)
        needing_attention: Sequence[RunSummary] = ()
        refused = 0
        if not cursor and chosen.is_empty:
            found = client.list(page_size=MOST_NEEDING_ATTENTION, attention=True)
            needing_attention = (await found.page()).runs
            refused = (await client.outbox.summary()).refused
        return {
            "runs": shown.runs,
            "ends": await ends.of(shown.runs),
            "needing_attention": needing_attention,
            "refused": refused,
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


class Ends:
    """Why runs ended as they did, in one line each, for those that did not complete. An end is read once: it stays."""

    def __init__(self, client: Client, principal: Principal) -> None:
        self._client = client
        self._principal = principal
        self._known: dict[str, Gist] = {}

    async def of(self, runs: Sequence[RunSummary]) -> dict[str, Gist]:
        """Return the gists of the ends of runs, by run id."""
        ended = [run.run_id for run in runs if run.status in _TELLING and run.run_id not in self._known]
        for run_id, seq, kind, recorded_at, text in await self._client.runtime.read(find_last_events, ended):
            try:
                payload = stored_payload(text, run_id, seq)
            except DamagedHistoryError:
                # The list names the run all the same; its page tells the damage.
                continue
            event = event_view(HistoryEvent(seq, kind, to_datetime(recorded_at), payload), self._principal)
            self._known[run_id] = gist(event.type, event.payload, event.recorded_at, {})
        return self._known


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
