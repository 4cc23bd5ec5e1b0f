"""Listen: wait for events, take those that are meant, and run the tasks of the iterator for each."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

from outlast import workflow
from outlast_serverless.events.cloud_events import read_as
from outlast_serverless.events.interests import Interest
from outlast_serverless.events.names import SUBSCRIBE, UNSUBSCRIBE
from outlast_serverless.interpreter.faults import from_failure
from outlast_serverless.interpreter.inbox import Arrived, next_of
from outlast_serverless.interpreter.scope import Execution, Interpreting
from outlast_serverless.interpreter.tasks.consuming import Consuming, Offered
from outlast_serverless.plan.model import Directive, ListenTask
from outlast_workflow.errors import ActivityError

_SUBSCRIBING_S: Final = 60.0


async def run_listen(self: Interpreting, task: ListenTask, run: Execution) -> tuple[Any, Directive | None]:
    """Wait for events, and return what was consumed, in its order."""
    return await _Listening(self, task, run).consume(), None


class _Listening:
    """One execution of a listen task."""

    def __init__(self, interpreter: Interpreting, task: ListenTask, run: Execution) -> None:
        self._interpreter = interpreter
        self._task = task
        self._run = run
        self._consuming = Consuming(interpreter, task.to, run.during, run.input, task.pointer)
        self._interests: tuple[Interest, ...] = ()
        self._output: list[Any] = []
        self._aside: asyncio.Future[Any] | None = None

    async def consume(self) -> list[Any]:
        """Consume events until it is enough."""
        waiting = self._interpreter.inbox.open()
        try:
            after = await self._subscribe()
            while not await self._take(await next_of(waiting), after):
                pass
        except (Exception, asyncio.CancelledError):
            self._unsubscribe()
            raise
        finally:
            self._interpreter.inbox.close(waiting)
        self._unsubscribe()
        return self._output

    async def _take(self, arrived: Arrived, after: int) -> bool:
        """Look at an event, consume it if it is meant, and return whether that was enough."""
        if arrived.key is not None and arrived.key <= after:
            return False
        offered = self._consuming.offer(arrived.event)
        if offered is Offered.REFUSED:
            return False
        arrived.consumed = True
        if offered is Offered.CONSUMED:
            self._narrow()
            read = read_as(arrived.event, self._task.read)
            consumed = self._consuming.consumed
            consumed.append(read)
            self._output.append(await self._iterate(read, len(consumed) - 1))
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

    async def _subscribe(self) -> int:
        self._interests = self._wanted_now()
        try:
            after: int = await workflow.execute_local_activity(
                SUBSCRIBE,
                self._request(),
                start_to_close_timeout=_SUBSCRIBING_S,
                summary=self._run.label("subscribe"),
            )
        except ActivityError as error:
            raise from_failure(error, self._task.pointer) from None
        return after

    def _narrow(self) -> None:
        """Subscribe to less, where a correlation has seen its first value. Nobody waits for that."""
        wanted = self._wanted_now()
        if wanted != self._interests:
            self._interests = wanted
            self._aside = workflow.start_local_activity(
                SUBSCRIBE,
                self._request(),
                start_to_close_timeout=_SUBSCRIBING_S,
                summary=self._run.label("narrow"),
            )

    def _unsubscribe(self) -> None:
        """Close the subscriptions. Nobody waits for that: those of runs that have ended are closed by the router."""
        self._aside = workflow.start_local_activity(
            UNSUBSCRIBE,
            {"first_run_id": workflow.info().first_run_id, "execution": self._run.id},
            start_to_close_timeout=_SUBSCRIBING_S,
            summary=self._run.label("unsubscribe"),
        )

    def _wanted_now(self) -> tuple[Interest, ...]:
        return tuple(dict.fromkeys(self._consuming.interests()))

    def _request(self) -> dict[str, Any]:
        info = workflow.info()
        return {
            "workflow_id": info.workflow_id,
            "first_run_id": info.first_run_id,
            "execution": self._run.id,
            "interests": self._interests,
            "lookback": self._task.lookback_us,
        }
