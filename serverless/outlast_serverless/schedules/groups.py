"""Groups: which events belong together, where a document is started by events.

An event belongs to the oldest group whose filters take it. If there is none, it begins one: with correlations there is
a group for each of their values, otherwise one at a time. What a group has consumed is the input of a run, once it is
enough.
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
"""The events of groups that wait for others may have so many bytes; beyond that the oldest group is dropped."""


class _Group:
    def __init__(self, consuming: Consuming) -> None:
        self.consuming = consuming
        self.events: list[tuple[int, dict[str, Any]]] = []
        self.size = 0


class EventGroups:
    """The groups of a schedule that have not consumed enough.

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
        self._open: list[_Group] = []
        self._offered = 0

    @property
    def events(self) -> list[dict[str, Any]]:
        """What was consumed by groups that are open. Offered again in this order, the same groups are open."""
        consumed = sorted((one for group in self._open for one in group.events), key=lambda one: one[0])
        return [event for _, event in consumed]

    def offer(self, event: dict[str, Any]) -> list[Any] | None:
        """Offer an event; return what a run is started with, if that was enough for one.

        Raises:
            Fault: An expression of the schedule failed.
        """
        self._offered += 1
        for group in self._open:
            offered = group.consuming.offer(event)
            if offered is not Offered.REFUSED:
                return self._taken(group, event, offered)
            if group.consuming.means(event):
                return None
        if self._open and not self._correlates:
            return None
        group = _Group(self.consuming())
        if group.consuming.offer(event) is not Offered.CONSUMED:
            # What ends a group begins none.
            return None
        self._open.append(group)
        return self._taken(group, event, Offered.CONSUMED)

    def consuming(self) -> Consuming:
        """Return what a group wants when it begins."""
        return Consuming(self._interpreter, self._strategy, lambda: self._variables, None, "/schedule/on")

    def _taken(self, group: _Group, event: dict[str, Any], offered: Offered) -> list[Any] | None:
        group.events.append((self._offered, event))
        group.size += len(orjson.dumps(event))
        if offered is Offered.CONSUMED:
            group.consuming.consumed.append(read_as(event, self._read))
        if group.consuming.enough():
            self._open.remove(group)
            return group.consuming.consumed
        while sum(one.size for one in self._open) > MOST_BYTES:
            dropped = self._open.pop(0)
            workflow.logger.warning(
                "%d events that waited for others are dropped: a schedule keeps %d bytes of such events",
                len(dropped.events),
                MOST_BYTES,
            )
        return None
