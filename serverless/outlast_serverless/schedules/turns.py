"""Turns: which events belong together, where a document is started by events.

An event belongs to the oldest turn whose filters take it. If there is none it begins one: with correlations there is a
turn for each of their values, otherwise one at a time. A turn that has consumed enough is the input of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from outlast import workflow
from outlast_serverless.events.cloud_events import read_as
from outlast_serverless.interpreter.scope import Interpreting
from outlast_serverless.interpreter.tasks.consuming import Consuming, Offered
from outlast_serverless.plan.model import Schedule, Strategy

MOST_BYTES: Final = 1024 * 1024
"""The events of turns that have not consumed enough may have so many bytes; beyond that the oldest turn is dropped."""


class _Turn:
    def __init__(self, consuming: Consuming) -> None:
        self.consuming = consuming
        self.events: list[tuple[int, dict[str, Any]]] = []
        self.size = 0


class Turns:
    """The turns of a schedule that have not consumed enough.

    Args:
        interpreter: Evaluates.
        schedule: The schedule.
        variables: What its expressions see.
    """

    def __init__(self, interpreter: Interpreting, schedule: Schedule, variables: Mapping[str, Any]) -> None:
        assert schedule.on is not None
        self._interpreter = interpreter
        self._strategy: Strategy = schedule.on
        self._read = schedule.read
        self._variables = variables
        self._correlates = any(
            one.expect is None for filter_ in schedule.on.filters for one in filter_.correlate
        )
        self._open: list[_Turn] = []
        self._offered = 0

    @property
    def events(self) -> list[dict[str, Any]]:
        """What was consumed by turns that are open. Offered again in this order, the same turns are open."""
        consumed = sorted((one for turn in self._open for one in turn.events), key=lambda one: one[0])
        return [event for _, event in consumed]

    def offer(self, event: dict[str, Any]) -> list[Any] | None:
        """Offer an event; return what a run is started with, if that was enough for one.

        Raises:
            Fault: An expression of the schedule failed.
        """
        self._offered += 1
        for turn in self._open:
            offered = turn.consuming.offer(event)
            if offered is not Offered.REFUSED:
                return self._taken(turn, event, offered)
            if turn.consuming.means(event):
                return None
        if self._open and not self._correlates:
            return None
        turn = _Turn(self.consuming())
        if turn.consuming.offer(event) is not Offered.CONSUMED:
            # What ends a turn begins none.
            return None
        self._open.append(turn)
        return self._taken(turn, event, Offered.CONSUMED)

    def consuming(self) -> Consuming:
        """Return what a turn wants when it begins."""
        return Consuming(self._interpreter, self._strategy, lambda: self._variables, None, "/schedule/on")

    def _taken(self, turn: _Turn, event: dict[str, Any], offered: Offered) -> list[Any] | None:
        turn.events.append((self._offered, event))
        turn.size += len(orjson.dumps(event))
        if offered is Offered.CONSUMED:
            turn.consuming.consumed.append(read_as(event, self._read))
        if turn.consuming.enough():
            self._open.remove(turn)
            return turn.consuming.consumed
        while sum(one.size for one in self._open) > MOST_BYTES:
            dropped = self._open.pop(0)
            workflow.logger.warning(
                "%d events wait for others in vain, and are dropped: there are newer ones for more than %d bytes",
                len(dropped.events),
                MOST_BYTES,
            )
        return None
