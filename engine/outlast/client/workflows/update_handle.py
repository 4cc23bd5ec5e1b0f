"""A handle to one update: how far it has got, and its result."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Generic, Literal, NoReturn, TypeVar

from outlast.client.context import ClientContext
from outlast.runtime.request_waits import RequestSubscription
from outlast_store.journal.commit_news import Answer
from outlast_store.schema.rows import RequestRow
from outlast_store.transitions.requests import DELETED, REJECTED
from outlast_workflow.data.failures import exception_of
from outlast_workflow.errors import InvalidOptionError, RunNotFoundError, WorkflowClosedError
from outlast_workflow.errors.request import RequestTimeoutError, UpdateFailedError, UpdateRejectedError
from outlast_workflow.history.events import Failure, UpdateCompleted
from outlast_workflow.options.options import timeout_seconds

T = TypeVar("T")

WaitFor = Literal["accepted", "completed"]
STAGES: Final = ("accepted", "completed")


def check_stage(wait_for: object) -> None:
    """Check the stage of an update to wait for.

    Raises:
        InvalidOptionError: There is no such stage.
    """
    if wait_for not in STAGES:
        raise InvalidOptionError(
            f"wait_for must be 'accepted' or 'completed', not {wait_for!r:.40}", field="wait_for"
        )


class UpdateHandle(Generic[T]):
    """One update of a workflow.

    Attributes:
        id: The update's id. Another update with the same id returns the same result.
        name: The update's name.
        workflow_id: The workflow's id.
        run_id: The run that it was sent to. The update may have moved to a later run of the chain since.
    """

    def __init__(
        self,
        context: ClientContext,
        workflow_id: str,
        row: RequestRow,
        subscription: RequestSubscription,
        result_type: Any = None,
    ) -> None:
        self.id = row.request_id
        self.name = row.name
        self.workflow_id = workflow_id
        self.run_id = row.run_id
        self._key = row.key
        self._context = context
        self._subscription = subscription
        self._result_type = result_type
        subscription.take_in(row)

    def __repr__(self) -> str:
        return f"<UpdateHandle {self.name!r} ({self.id}) of {self.workflow_id!r}>"

    async def result(self, timeout: float | None = None) -> T:
        """Wait until the update has ended, and return what its handler returned.

        Args:
            timeout: Seconds to wait at most; without limit if ``None``.

        Raises:
            UpdateRejectedError: It was not accepted; ``__cause__`` says why.
            UpdateFailedError: It was accepted, and then its handler raised or the run ended.
            WorkflowClosedError: The workflow ended before it accepted the update.
            RunNotFoundError: The workflow was deleted.
            RequestTimeoutError: There is no result yet. The update continues; send it again by its id to wait for it.
        """
        return self._value(await self._reach(timeout, accepted=False))

    async def reach(self, wait_for: WaitFor, timeout: float | None) -> None:
        """Wait until the update has reached a stage.

        Args:
            wait_for: ``accepted`` or ``completed``.
            timeout: Seconds to wait at most; without limit if ``None``.

        Raises:
            UpdateRejectedError: As for :meth:`result`, as are the errors of closed and deleted workflows and timeouts.
        """
        state, what = await self._reach(timeout, accepted=wait_for == "accepted")
        if state == REJECTED:
            self._rejected(what)

    async def _reach(self, timeout: float | None, *, accepted: bool) -> Answer:
        if timeout is not None:
            timeout = timeout_seconds("timeout", timeout)
        try:
            async with asyncio.timeout(timeout):
                answer = await self._context.runtime.request_waits.wait(
                    self._subscription, self._key, self.run_id, accepted=accepted
                )
        except TimeoutError:
            raise RequestTimeoutError(self.workflow_id, self.name, timeout or 0) from None
        if answer[0] == DELETED:
            raise RunNotFoundError(self.run_id, workflow_id=self.workflow_id)
        return answer

    def _value(self, answer: Answer) -> T:
        state, what = answer
        if state == REJECTED:
            self._rejected(what)
        event: UpdateCompleted = what
        if event.result is None:
            error = UpdateFailedError(self.workflow_id, self.id, self.name)
            raise error from exception_of(event.failure or {}, self._context.converter)
        value: T = self._context.converter.decode(
            event.result, self._result_type, f"the answer of update {self.name}"
        )
        return value

    def _rejected(self, failure: Failure) -> NoReturn:
        cause = exception_of(failure, self._context.converter)
        if isinstance(cause, WorkflowClosedError):
            # As if the update had been sent a moment later.
            raise cause
        raise UpdateRejectedError(self.workflow_id, self.id, self.name) from cause
