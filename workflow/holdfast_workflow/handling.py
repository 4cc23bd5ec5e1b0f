"""A run's handlers at work: signals, updates and queries on the instance.

Signals and updates run as tasks of the run, one for each, in the order of arrival; those that came before the first
activation run before the run method's first step, on an instance that is made already. A signal without a handler
waits, in order, for the run to continue as new.

An exception that leaves a signal handler ends the run as one that leaves the run method does. One that leaves an update
handler is that update's answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context
from typing import Any

from holdfast_workflow.commands import CommandLog
from holdfast_workflow.converter import DataConverter
from holdfast_workflow.definitions import WorkflowDefinition
from holdfast_workflow.events import Event, SignalReceived
from holdfast_workflow.handlers import Handler
from holdfast_workflow.loop import DeterministicLoop
from holdfast_workflow.outcomes import Outcomes
from holdfast_workflow.payloads import Payload

logger = logging.getLogger("holdfast.workflow")


class Handling:
    """The handlers of one run.

    Args:
        loop: The run's loop.
        definition: Its code.
        instance: What the handlers are called on; ``None`` where its constructor failed, or there is no class.
        context: The context that the run method runs in; each handler gets a copy.
        converter: Reads arguments, writes answers.
        outcomes: What an exception that leaves a signal handler becomes.
        end: Called with the event that ends the run.
        whose: The workflow id, for the log.
    """

    __slots__ = (
        "_context",
        "_converter",
        "_definition",
        "_end",
        "_instance",
        "_log",
        "_loop",
        "_outcomes",
        "_whose",
        "buffered",
        "running",
    )

    def __init__(
        self,
        loop: DeterministicLoop,
        definition: WorkflowDefinition,
        instance: object | None,
        context: Context,
        converter: DataConverter,
        outcomes: Outcomes,
        end: Callable[[Event | None], None],
        whose: str,
    ) -> None:
        self._loop = loop
        self._log: CommandLog = loop.log
        self._definition = definition
        self._instance = instance
        self._context = context
        self._converter = converter
        self._outcomes = outcomes
        self._end = end
        self._whose = whose
        self.buffered: list[SignalReceived] = []
        self.running = 0

    # --- signals ----------------------------------------------------------------------------------------------------

    def signal(self, event: SignalReceived) -> None:
        """Begin to handle a signal, or keep it where there is no handler.

        Raises:
            PayloadDecodeError: The handler can't be given these arguments.
        """
        definition = self._definition
        handler = definition.handlers.find("signal", event.name)
        if handler is None:
            self.buffered.append(event)
            if not self._log.replaying:
                known = ", ".join(sorted(definition.handlers.signals)) or "none"
                logger.warning(
                    "workflow %s (%s) has no handler for signal %r (known: %s): it waits for the next run",
                    self._whose,
                    definition.name,
                    event.name,
                    known,
                    extra={"workflow_id": self._whose},
                )
        elif self._instance is not None:
            arguments = self._arguments(handler, event.name, event.input)
            self.running += 1
            _ = self._loop.create_task(
                self._handle_signal(handler, arguments), name=event.name, context=self._context.copy()
            )

    async def _handle_signal(self, handler: Handler, arguments: list[Any]) -> None:
        try:
            result = handler.fn(self._instance, *arguments)
            if handler.is_async:
                await result
        except (GeneratorExit, KeyboardInterrupt, SystemExit):
            raise
        except asyncio.CancelledError:
            pass  # the handler's own task was cancelled, or what it awaited was: it ends, and no more
        except BaseException as error:
            if not self._log.closed:
                self._end(self._outcomes.raised(error))
        finally:
            self.running -= 1

    def _arguments(self, handler: Handler, name: str, input: Payload) -> list[Any]:
        if handler.name is None:
            return [name, self._converter.decode_args(input, None)]
        return self._converter.decode_args(input, handler.signature)

    def log_unfinished(self) -> None:
        """The run has ended: say so where handlers were still at work."""
        if self.running and not self._log.replaying:
            logger.warning(
                "workflow %s ended while %d of its handlers were still at work: "
                "await workflow.wait_condition(workflow.all_handlers_finished) before the run method returns",
                self._whose,
                self.running,
                extra={"workflow_id": self._whose},
            )
