"""Listen: wait for events, take those that are meant, and run the tasks of the iterator for each."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import Any, Final

from outlast import workflow
from outlast_serverless.events.cloud_events import read_as
from outlast_serverless.events.interests import Interest
from outlast_serverless.events.names import SUBSCRIBE, UNSUBSCRIBE
from outlast_serverless.interpreter.faults import from_failure
from outlast_serverless.interpreter.inbox import Arrived
from outlast_serverless.interpreter.scope import Execution, Interpreting, key_of
from outlast_serverless.interpreter.state import Continuing, ListenFrame
from outlast_serverless.interpreter.tasks.consuming import Consuming, Offered
from outlast_serverless.plan.model import Directive, ListenTask
from outlast_workflow.errors import ActivityError

_SUBSCRIBING_S: Final = 60.0
_LONGEST_KEY: Final = 600


async def run_listen(self: Interpreting, task: ListenTask, run: Execution) -> tuple[Any, Directive | None]:
    """Wait for events, and return what was consumed, in its order."""
    return await _Listening(self, task, run).consume(), None


def unsubscribe(self: Interpreting, execution: str, label: str) -> None:
    """Close the subscriptions of a task. Nobody waits for that: those of runs that have ended are closed by the router.

    Args:
        self: The interpreter.
        execution: The execution of the task.
        label: What that is called in ``describe``.
    """
    closing = workflow.start_local_activity(
        UNSUBSCRIBE,
        {"first_run_id": workflow.info().first_run_id, "execution": key_of(execution, _LONGEST_KEY)},
        start_to_close_timeout=_SUBSCRIBING_S,
        summary=label,
    )
    self.aside(closing)


class _Listening:
    """One execution of a listen task."""

    def __init__(self, interpreter: Interpreting, task: ListenTask, run: Execution) -> None:
        frame: ListenFrame | None = interpreter.frames.take("listen", None)
        self._interpreter = interpreter
        self._task = task
        self._run = run
        state = None if frame is None else frame["wanted"]
        self._consuming = Consuming(interpreter, task.to, run.during, run.input, task.pointer, state)
        self._interests: tuple[Interest, ...] = ()
        self._count = self._after = 0
        self._output: list[Any] = []
        self._item: Any = None
        self._resets = workflow.info().resets
        self._places: list[int] | None = None
        if frame is not None:
            self._take_up(frame)

    def _take_up(self, frame: ListenFrame) -> None:
        """Go on where the run before was."""
        self._interests = tuple(Interest(*one) for one in frame["subscribed"])
        self._count, self._after = frame["count"], frame["after"]
        self._output = frame["output"]
        self._consuming.consumed = list(frame.get("consumed", self._output))
        self._places = frame["waiting"]
        self._item = frame.get("item")

    async def consume(self) -> list[Any]:
        """Consume events until it is enough."""
        interpreter, scope = self._interpreter, self._run.scope
        waiting = interpreter.inbox.open(self._places)
        try:
            enough = False
            if self._places is None:
                self._after = await self._subscribe()
                if self._consuming.correlates:
                    interpreter.correlates(self._run)
            elif interpreter.frames.left:
                # The tasks for an event are under way.
                enough = await self._iterated()
            while not enough:
                await interpreter.safe_point(scope)
                arrived = await self._next(waiting)
                interpreter.look()
                enough = await self._take(arrived)
        except Continuing as going:
            going.add(self._frame(waiting))
            raise
        except (Exception, asyncio.CancelledError):
            self._unsubscribe()
            raise
        finally:
            interpreter.inbox.close(waiting)
        self._unsubscribe()
        if self._consuming.correlates:
            self._interpreter.correlates(self._run, self._consuming.keys)
        return self._output

    async def _next(self, waiting: deque[Arrived]) -> Arrived:
        """Wait for the next event."""
        while True:
            if self._is_elsewhere():
                self._resets = workflow.info().resets
                self._after = await self._subscribe(self._after)
            if waiting:
                return waiting.popleft()
            await workflow.wait_condition(lambda: bool(waiting) or self._is_elsewhere())

    def _is_elsewhere(self) -> bool:
        """Return whether a reset or a fork has taken over the history, while this listened.

        The subscription was the other run's, which may have closed it.
        """
        return workflow.info().resets != self._resets

    def _frame(self, waiting: deque[Arrived]) -> ListenFrame:
        consuming = self._consuming
        frame: ListenFrame = {
            "of": "listen",
            "execution": self._run.id,
            "after": self._after,
            "waiting": self._interpreter.inbox.places(waiting),
            "count": self._count,
            "wanted": consuming.state,
            "subscribed": [[*one] for one in self._interests],
            "output": self._output,
        }
        if self._task.iterator is not None:
            frame["item"] = self._item
            if consuming.looks_at_consumed:
                frame["consumed"] = consuming.consumed
        return frame

    async def _take(self, arrived: Arrived) -> bool:
        """Look at an event, consume it if it is meant, and return whether that was enough."""
        if arrived.key is not None and arrived.key <= self._after:
            return False
        offered = self._consuming.offer(arrived.event)
        if offered is Offered.REFUSED:
            return False
        arrived.consumed = True
        if offered is Offered.ENDING:
            return self._consuming.enough()
        self._narrow()
        self._item = read_as(arrived.event, self._task.read)
        self._count += 1
        if self._consuming.looks_at_consumed:
            self._consuming.consumed.append(self._item)
        return await self._iterated()

    async def _iterated(self) -> bool:
        """Do what is to be done for the event, and return whether that was enough."""
        output = await self._iterate(self._item, self._count - 1)
        # Of what never ends nobody sees the output, which would grow for ever.
        if not self._consuming.endless:
            self._output.append(output)
        return self._consuming.enough()

    async def _iterate(self, item: Any, position: int) -> Any:
        """Run the tasks of the iterator, whose input is the event; return what becomes of it."""
        iterator = self._task.iterator
        if iterator is None:
            return item
        scope = self._run.scope.within(f"event={position}", **{iterator.item: item, iterator.at: position})
        output = item
        if iterator.tasks is not None:
            output, _ = await self._interpreter.run_list(iterator.tasks, item, scope)
        iteration = replace(self._run, scope=scope)
        return self._interpreter.flowing_on(iterator.data, iteration, output)

    # --- subscriptions ------------------------------------------------------------------------------------------------

    async def _subscribe(self, after: int | None = None) -> int:
        """Subscribe; return the key of the last event that is not seen.

        Args:
            after: That key, where it is known.
        """
        self._interests = self._wanted_now()
        try:
            found: int = await workflow.execute_local_activity(
                SUBSCRIBE,
                self._request() if after is None else {**self._request(), "after": after},
                start_to_close_timeout=_SUBSCRIBING_S,
                summary=self._run.label("subscribe"),
            )
        except ActivityError as error:
            raise from_failure(error, self._task.pointer) from None
        return found

    def _narrow(self) -> None:
        """Subscribe to less, where a correlation has seen its first value. Nobody waits for that."""
        wanted = self._wanted_now()
        if wanted != self._interests:
            self._interests = wanted
            narrowing = workflow.start_local_activity(
                SUBSCRIBE,
                self._request(),
                start_to_close_timeout=_SUBSCRIBING_S,
                summary=self._run.label("narrow"),
            )
            self._interpreter.aside(narrowing)

    def _unsubscribe(self) -> None:
        unsubscribe(self._interpreter, self._run.id, self._run.label("unsubscribe"))

    def _wanted_now(self) -> tuple[Interest, ...]:
        return tuple(dict.fromkeys(self._consuming.interests()))

    def _request(self) -> dict[str, Any]:
        info = workflow.info()
        return {
            "workflow_id": info.workflow_id,
            "first_run_id": info.first_run_id,
            "execution": key_of(self._run.id, _LONGEST_KEY),
            "interests": self._interests,
            "lookback": self._task.lookback_us,
        }
