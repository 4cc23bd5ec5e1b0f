"""What is written about an attempt, made from what its handler returned or raised."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from outlast_activities.attempts import CANCELLED, HANDED_BACK, AttemptEnd
from outlast_activities.context import Deferred, RunningActivity
from outlast_activities.stop_reason import StopReason
from outlast_store.journal.batch import Committed
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import failure_of
from outlast_workflow.errors import ApplicationError, PayloadDecodeError, PayloadEncodeError
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.primitives.enums import AttemptOutcome, FailureCategory
from outlast_workflow.primitives.payloads import Payload


class Completed:
    """A transactional attempt whose completion is committed already.

    Args:
        committed: What its transaction has written of the engine's.
    """

    __slots__ = ("committed",)

    def __init__(self, committed: Committed) -> None:
        self.committed = committed


HandlerOutcome = Payload | AttemptEnd | Deferred | Completed
"""What a handler came to: its result, the attempt's end without one, that the attempt goes on elsewhere, or that it is
completed already."""


class OutcomeEncoder:
    """Makes outcomes from results and exceptions; safe to share between threads."""

    __slots__ = ("converter", "limits")

    def __init__(self, converter: DataConverter, limits: StructuralLimits) -> None:
        self.converter = converter
        self.limits = limits

    def returned(self, value: Any, running: RunningActivity) -> HandlerOutcome:
        """Return the outcome of a handler that returned.

        Args:
            value: What it returned.
            running: The attempt.
        """
        if running.deferring:
            return self._deferred(value, running)
        if running.seen and running.stopped is StopReason.WORKER_SHUTDOWN:
            return HANDED_BACK
        activity_type = running.task.row.activity_type
        try:
            if inspect.iscoroutine(value):
                value.close()
                raise _hidden_coroutine(activity_type)
            payload = self.converter.encode(value, f"the result of {activity_type}")
            if len(payload.json) >= self.limits.near["payload_bytes"]:
                self.limits.check("payload_bytes", len(payload.json), whose=activity_type)
        except Exception as error:
            outcome = self.unusable(error)
            let_go(error)
            return outcome
        return payload

    def _deferred(self, value: Any, running: RunningActivity) -> HandlerOutcome:
        """Return the outcome of a handler that has called ``activity.defer()``, even while its worker stops.

        Others may have the token of this attempt already, so it is not released for the sake of another one.
        """
        if isinstance(value, Deferred):
            return value
        if inspect.iscoroutine(value):
            value.close()
        return self.unusable(deferral_lost(running.task.row.activity_type))

    def raised(self, error: BaseException, running: RunningActivity | None) -> AttemptEnd:
        """Return the outcome of a handler that raised.

        Args:
            error: What it raised.
            running: The attempt; ``None`` if it could not be set up.
        """
        if running is not None and running.stopped is not None:
            cancelled = isinstance(error, asyncio.CancelledError)
            if running.stopped is StopReason.WORKER_SHUTDOWN:
                if cancelled or running.seen:
                    return HANDED_BACK
            elif cancelled:
                return CANCELLED
        return AttemptEnd(AttemptOutcome.FAILED, failure_of(error, self.converter))

    def unusable(self, error: BaseException) -> AttemptEnd:
        """Return the end of an attempt whose input cannot be decoded or whose result cannot be encoded: no retry."""
        failure = failure_of(error, self.converter)
        if isinstance(error, PayloadDecodeError | PayloadEncodeError):
            # It ends an activity, not a workflow task.
            failure["category"] = FailureCategory.APPLICATION
        failure["non_retryable"] = True
        return AttemptEnd(AttemptOutcome.FAILED, failure)


def _hidden_coroutine(activity_type: str) -> ApplicationError:
    return ApplicationError(
        f"{activity_type} looks like a plain def but returned a coroutine: declare it async def, or put @activity.defn "
        "under the decorator that hides that it is one"
    )


def deferral_lost(activity_type: str) -> ApplicationError:
    """Return the error of a handler that has called ``activity.defer()`` and returned something else."""
    return ApplicationError(
        f"{activity_type} called activity.defer(), but something else was returned: end the handler with "
        "`return activity.defer()`, and let interceptors return what next() gave them"
    )


def let_go(error: BaseException) -> None:
    """Drop the tracebacks of an exception that was handled.

    A frame that holds the exception in a variable, and is held by its traceback, is a cycle for the garbage collector.
    """
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = None
        waiting += (one.__cause__, one.__context__)
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
