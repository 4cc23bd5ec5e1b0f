"""What a reader chose on the page of a run: which run, which events, in which order, and which part of the timeline.

A choice is the page's query string, so that it outlives reloads, can be sent to somebody, and needs no script.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlencode

from fastapi import Depends, Query

from outlast_workflow.errors import InvalidOptionError

MOST_SEQ: Final = 2**53 - 1
MOST_SPAN_MS: Final = 10**15

EventKind = Literal["", "run", "activities", "timers", "children", "messages", "streams", "markers", "tasks"]
Order = Literal["newest", "oldest"]
View = Literal["events", "groups"]


@dataclass(frozen=True, slots=True)
class RunChoice:
    """A choice.

    Attributes:
        run_id: The run; the current one if empty.
        events: Only events of this kind; all if empty.
        order: Which events come first.
        view: Each event by itself, or together with the others of its activity, timer or child.
        after: Only events after this seq.
        before: Only events before this seq.
        zoom: The part of the timeline, as ``FROM-TO`` in milliseconds since the run was created; all if empty.
    """

    run_id: str = ""
    events: EventKind = ""
    order: Order = "newest"
    view: View = "events"
    after: int | None = None
    before: int | None = None
    zoom: str = ""

    @property
    def span(self) -> tuple[int, int] | None:
        """The part of the timeline in microseconds since the run was created.

        Raises:
            InvalidOptionError: It is no such part.
        """
        if not self.zoom:
            return None
        start, _, end = self.zoom.partition("-")
        if not (start.isdecimal() and end.isdecimal() and len(self.zoom) < 40):
            raise InvalidOptionError("zoom must be FROM-TO in milliseconds, as in 500-2500", field="zoom")
        span = int(start), int(end)
        if not span[0] < span[1] <= MOST_SPAN_MS:
            raise InvalidOptionError("zoom must begin before it ends", field="zoom")
        return span[0] * 1000, span[1] * 1000

    def query(self, **changes: Any) -> str:
        """Return the query string of this choice with some changes; empty if everything is as usual."""
        chosen = asdict(replace(self, **changes))
        return urlencode({name: value for name, value in chosen.items() if value != _USUAL[name]})


_USUAL: Final = asdict(RunChoice())


def _choice(
    run_id: Annotated[str, Query(max_length=1000)] = "",
    events: Annotated[EventKind, Query()] = "",
    order: Annotated[Order, Query()] = "newest",
    view: Annotated[View, Query()] = "events",
    after: Annotated[int | None, Query(ge=0, le=MOST_SEQ)] = None,
    before: Annotated[int | None, Query(ge=0, le=MOST_SEQ)] = None,
    zoom: Annotated[str, Query(max_length=40)] = "",
) -> RunChoice:
    choice = RunChoice(run_id, events, order, view, after, before, zoom)
    _ = choice.span
    return choice


Chosen = Annotated[RunChoice, Depends(_choice)]
"""The choice of a request."""
