"""A run's handlers at work: signals, updates and queries on the instance.

Signals and updates run as tasks of the run, one for each, in the order of arrival. Those that arrived before the first
workflow task run before the run method's first step, on an instance that already exists. A signal without a handler
waits in the run's mailbox until the code receives it, or moves on when the run continues as new; so does one whose
handler had not started when the run continued.

An exception that leaves a signal handler ends the run, as one that leaves the run method does. One that leaves an
update handler is that update's result, unless it fails the task, as programming errors do everywhere.

An update is validated at its place in the order of arrival: everything before it has run, except that no condition has
been evaluated yet. So a rejected update leaves no trace, whatever arrived with it, and replay, which runs no validator,
finds the same state when it starts the handler of an accepted one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from typing import Any

from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import failure_of
from outlast_workflow.data.headers import Headers
from outlast_workflow.declare.definitions import WorkflowDefinition
from outlast_workflow.declare.handler_listing import handler_listing
from outlast_workflow.declare.handlers import Handler
from outlast_workflow.errors import (
    ContinueAsNew,
    MissingCodeError,
    PayloadCodecError,
    PayloadDecodeError,
    PayloadEncodeError,
    StructuralLimitError,
)
from outlast_workflow.errors.request import UnknownHandlerError
from outlast_workflow.errors.task import ReadOnlyContextError
from outlast_workflow.history.events import Event, Failure, SignalReceived, UpdateAccepted, UpdateCompleted
from outlast_workflow.loop.command_log import CommandLog
from outlast_workflow.loop.greenlets import in_greenlet
from outlast_workflow.loop.keyboard import is_ctrl_c
from outlast_workflow.loop.loop import DeterministicLoop
from outlast_workflow.loop.read_only import ReadOnlySection
from outlast_workflow.loop.source_lines import waiting_stack
from outlast_workflow.primitives.payloads import NOT_NEEDED, Payload
from outlast_workflow.run.intercepted_calls import HandleQuery, HandleSignal, HandleUpdate
from outlast_workflow.run.mailbox import Mailbox
from outlast_workflow.run.run_outcome import Outcomes

logger = logging.getLogger("outlast.workflow")

STACK_TRACE = "__stack_trace"
"""The query that every workflow answers: where its code waits."""

HANDLERS = "__handlers"
"""The query that every workflow answers: which signals, queries and updates it handles, with their parameters."""

RAISED = (
    Exception,
    BaseExceptionGroup,
    asyncio.CancelledError,
    GeneratorExit,
    SystemExit,
    KeyboardInterrupt,
)
"""Exceptions that become a query's or validator's answer: a caller cannot stop the worker. Ctrl-C is none of them."""


@dataclass(frozen=True, slots=True)
class UpdateInfo:
    """The update that is being validated or handled."""

    id: str
    name: str


CURRENT_UPDATE: ContextVar[UpdateInfo | None] = ContextVar("outlast_update", default=None)


class SpoiledMachine(Exception):
    """A validator tried to change the run: its state in memory cannot be trusted any more. Its update is rejected."""

    def __init__(self, update_id: str, failure: Failure) -> None:
        super().__init__(update_id)
        self.update_id = update_id
        self.failure = failure


@dataclass(slots=True)
class Considered:
    """The outcome of the updates that a workflow task was given, in order. Those not mentioned still wait."""

    accepted: list[UpdateAccepted] = field(default_factory=list)
    rejected: list[tuple[str, Failure]] = field(default_factory=list)
    """Ids and reasons."""
    alone: bool = False
    """True if nothing but rejections happened: there is no workflow task to record."""


class Handling:
    """The handlers of one run.

    Args:
        loop: The run's loop.
        definition: Its code.
        instance: What the handlers are called on; ``None`` if its constructor failed or there is no class.
        context: The context that the run method runs in; each handler gets a copy.
        converter: Decodes arguments and encodes results.
        outcomes: What an exception that leaves a signal handler becomes.
        end: Called with the event that ends the run.
        continued_as_new: Whether the run has continued as new.
        whose: The workflow id, for the log.
    """

    __slots__ = (
        "_context",
        "_continued_as_new",
        "_converter",
        "_definition",
        "_end",
        "_instance",
        "_log",
        "_loop",
        "_mailbox",
        "_outcomes",
        "_received",
        "_whose",
        "running",
        "unexpected",
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
        continued_as_new: Callable[[], bool],
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
        self._continued_as_new = continued_as_new
        self._whose = whose
        self._received = 0
        self._mailbox: Mailbox | None = None
        self.unexpected: set[str] = set()
        """The names of new signals that no handler takes, to be logged after the workflow task."""
        self.running: list[str] = []
        """The names of the signals and updates that are being handled."""

    @property
    def buffered(self) -> list[SignalReceived]:
        """Return the signals that would move to the next run, in the order of arrival."""
        return self._mailbox.unread() if self._mailbox is not None else []

    @property
    def mailbox(self) -> Mailbox:
        """Return the signals that no handler takes, kept from the first of them on."""
        if self._mailbox is None:
            self._mailbox = Mailbox(self._loop, self._converter, self._definition.interceptors)
        return self._mailbox

    # --- signals ----------------------------------------------------------------------------------------------------

    def signal(self, event: SignalReceived) -> None:
        """Start to handle a signal, or keep it if there is no handler.

        Raises:
            PayloadDecodeError: The arguments cannot be decoded for the handler.
        """
        definition = self._definition
        self._received = number = self._received + 1
        handler = definition.handlers.find("signal", event.name)
        if handler is None:
            self.mailbox.put(number, event)
            if not self._log.replaying:
                self.unexpected.add(event.name)
        elif self._instance is not None:
            try:
                arguments = self._arguments(handler, event.name, event.input)
            except PayloadCodecError:
                # There is nothing wrong with the signal.
                raise
            except PayloadDecodeError as error:
                raise PayloadDecodeError(
                    f"signal {event.name!r}, number {number} of those that this run has received, cannot be handled: "
                    f"{error}. It was acknowledged, so it is not dropped: let the handler take it (a default, a wider "
                    "type) and the run continues, or reset the run with signals=False to leave it behind",
                    parameter=error.parameter,
                    hint=error.hint,
                ) from None
            self.running.append(event.name)
            context = self._context.copy()
            work = self._handle_signal(handler, arguments, number, event)
            _ = self._loop.create_task(work, name=event.name, context=context)

    async def _handle_signal(
        self, handler: Handler, arguments: list[Any], number: int, event: SignalReceived
    ) -> None:
        # The input of the next run is already fixed, so the signal is passed on to that run.
        if self._continued_as_new():
            self.running.remove(event.name)
            self.mailbox.put(number, event)
            return
        try:
            if self._definition.interceptors:
                call = HandleSignal(*_named(handler, event.name, arguments), dict(event.headers or {}))
                await self._intercepted("handle_signal", handler, call)
            else:
                await self._call(handler, arguments)
        except (GeneratorExit, KeyboardInterrupt, SystemExit):
            raise
        except asyncio.CancelledError:
            # The handler's own task was cancelled, or what it awaited was: only the handler ends.
            pass
        except BaseException as error:
            if not self._log.closed:
                self._end(self._outcomes.raised(error))
        finally:
            self.running.remove(event.name)

    def _intercepted(
        self, verb: str, handler: Handler, call: HandleSignal | HandleUpdate
    ) -> Coroutine[Any, Any, Any]:
        return self._definition.interceptors.call(
            verb, call, lambda call: self._call(handler, _given(handler, call.name, call.args))
        )

    async def _call(self, handler: Handler, arguments: Sequence[Any]) -> Any:
        """Call a handler. A plain one may block if the run method may."""
        if handler.is_async:
            return await handler.fn(self._instance, *arguments)
        if self._definition.is_async:
            return handler.fn(self._instance, *arguments)
        return await in_greenlet(handler.fn, self._instance, *arguments)

    # --- updates ----------------------------------------------------------------------------------------------------

    def rejection(self, update: UpdateAccepted) -> Failure | None:
        """Return why an update is rejected, or ``None`` to accept it.

        Raises:
            SpoiledMachine: Its validator tried to change the run.
            PayloadCodecError: Its arguments cannot be decoded now.
        """
        handler = self._definition.handlers.find("update", update.name)
        try:
            if handler is None:
                raise self._unknown("update", update.name)
            arguments = self._arguments(handler, update.name, update.input)
            if handler.validator is not None:
                what = f"the validator of update {update.name!r}"
                self._call_read_only(what, self._update_context(update), handler.validator, arguments)
        except PayloadCodecError:
            # There is nothing wrong with the update: it is considered again once the codec works.
            raise
        except ReadOnlyContextError as error:
            raise SpoiledMachine(update.update_id, failure_of(error, self._converter)) from error
        except RAISED as error:
            if is_ctrl_c(error):
                raise
            return failure_of(error, self._converter)
        return None

    def update(self, event: UpdateAccepted) -> None:
        """Start to handle an accepted update.

        Raises:
            MissingCodeError: It no longer has a handler.
            PayloadDecodeError: The arguments can no longer be decoded for the handler.
        """
        handler = self._definition.handlers.find("update", event.name)
        if handler is None:
            raise MissingCodeError(
                f"workflow {self._definition.name} has accepted update {event.name!r}, but no longer has a handler "
                "for it: run a worker that has",
                name=event.name,
            )
        arguments = self._arguments(handler, event.name, event.input)
        self.running.append(event.name)
        _ = self._loop.create_task(
            self._handle_update(handler, arguments, event),
            name=event.name,
            context=self._update_context(event),
        )

    async def _handle_update(self, handler: Handler, arguments: list[Any], event: UpdateAccepted) -> None:
        try:
            if self._definition.interceptors:
                call = HandleUpdate(*_named(handler, event.name, arguments), dict(event.headers or {}))
                result = await self._intercepted("handle_update", handler, call)
            else:
                result = await self._call(handler, arguments)
        except (GeneratorExit, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if not self._log.closed:
                self._raised(event.update_id, error)
        else:
            self._answer(event.update_id, result, handler.fn.__qualname__)
        finally:
            self.running.remove(event.name)

    def _raised(self, update_id: str, error: BaseException) -> None:
        log = self._log
        if isinstance(error, ContinueAsNew):
            self._end(self._outcomes.raised(error))
        elif log.refusal is not None:
            return
        elif self._outcomes.fails_the_task(error):
            log.refuse(error)
        else:
            log.add(UpdateCompleted(update_id, failure=failure_of(error, self._converter)))

    def _answer(self, update_id: str, result: Any, what: str) -> None:
        log = self._log
        if log.closed:
            return
        payload = NOT_NEEDED
        if not log.replaying:
            try:
                payload = self._converter.encode(result, f"the answer of {what}")
                if len(payload.json) >= log.near["payload_bytes"]:
                    log.check("payload_bytes", len(payload.json))
            except (PayloadEncodeError, StructuralLimitError) as error:
                log.refuse(error)
                return
        log.add(UpdateCompleted(update_id, payload))

    def _update_context(self, update: UpdateAccepted) -> Context:
        context = self._context.copy()
        context.run(CURRENT_UPDATE.set, UpdateInfo(update.update_id, update.name))
        return context

    # --- queries ----------------------------------------------------------------------------------------------------

    def query(self, name: str, input: Payload, headers: Headers | None = None) -> Payload:
        """Answer a query from the present state.

        Raises:
            UnknownHandlerError: There is no handler for it.
            ReadOnlyContextError: It tried to change the run, whose state in memory cannot be trusted any more.
            Exception: What the handler raised, or a payload that cannot be decoded or encoded.
        """
        if name == STACK_TRACE:
            return self._converter.encode(self._stack_trace())
        if name == HANDLERS:
            return self._converter.encode(handler_listing(self._definition))
        handler = self._definition.handlers.find("query", name)
        if handler is None:
            raise self._unknown("query", name)
        arguments = self._arguments(handler, name, input)
        fn = handler.fn
        if self._definition.interceptors:
            fn = self._intercepted_query(handler, name, headers)
        result = self._call_read_only(f"query {name!r}", self._context.copy(), fn, arguments)
        return self._converter.encode(result, f"the answer of query {name}")

    def _intercepted_query(self, handler: Handler, name: str, headers: Headers | None) -> Callable[..., Any]:
        def answer(instance: object, *arguments: Any) -> Any:
            call = HandleQuery(*_named(handler, name, arguments), dict(headers or {}))
            return self._definition.interceptors.call(
                "handle_query",
                call,
                lambda call: handler.fn(instance, *_given(handler, call.name, call.args)),
            )

        return answer

    def _stack_trace(self) -> str:
        """Return where the run's tasks wait, in the order in which they started."""
        waiting: list[str] = []
        for task in self._loop.tasks:
            if not task.done():
                waiting.append("\n  ".join([task.get_name(), *waiting_stack(task.get_coro())]))
        return "\n".join(waiting)

    # --- what both do -----------------------------------------------------------------------------------------------

    def _call_read_only(
        self, what: str, context: Context, fn: Callable[..., Any], arguments: list[Any]
    ) -> Any:
        """Call read-only code. An attempt to change the run is an error even if the code swallowed the exception."""
        section = ReadOnlySection(self._loop, what)
        result = None
        try:
            with section:
                result = context.run(fn, self._instance, *arguments)
        except RAISED:
            if section.violated is None:
                raise
        if section.violated is not None:
            raise section.violated
        return result

    def _unknown(self, kind: str, name: str) -> UnknownHandlerError:
        definition = self._definition
        return UnknownHandlerError(
            kind, name, workflow_type=definition.name, known=list(definition.handlers.of(kind))
        )

    def _arguments(self, handler: Handler, name: str, input: Payload) -> list[Any]:
        if handler.name is None:
            return [name, self._converter.decode_args(input, None)]
        return self._converter.decode_args(input, handler.signature)

    def log_unexpected(self) -> None:
        """Log a warning for each new name of signals that no handler takes and that the code has never received."""
        names, self.unexpected = sorted(self.unexpected - self.mailbox.received), set()
        known = ", ".join(sorted(self._definition.handlers.signals)) or "none"
        for name in names:
            logger.warning(
                "workflow %s (%s) has no handler for signal %r (known: %s), and has not received one so far: it waits "
                "until the code calls workflow.receive, or for the next run",
                self._whose,
                self._definition.name,
                name,
                known,
                extra={"workflow_id": self._whose},
            )

    def log_unfinished(self) -> None:
        """Log a warning if handlers were still running when the run ended."""
        if self.running and not self._log.replaying:
            names = Counter(self.running)
            logger.warning(
                "workflow %s ended while handlers were still running: %s; "
                "await workflow.wait_condition(workflow.all_handlers_finished) before the run method returns",
                self._whose,
                ", ".join(name if times == 1 else f"{name} ({times} times)" for name, times in names.items()),
                extra={"workflow_id": self._whose},
            )


def _named(handler: Handler, name: str, arguments: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Return the arguments that interceptors see. A dynamic handler itself is called with the name and a list."""
    return (name, tuple(arguments)) if handler.name is not None else (name, tuple(arguments[1]))


def _given(handler: Handler, name: str, args: Sequence[Any]) -> Sequence[Any]:
    """Return the arguments that the handler is called with."""
    return args if handler.name is not None else (name, list(args))
