"""A handle to one update: what was asked of a workflow, and its answer."""

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
    """Refuse what is no stage of an update."""
    if wait_for not in STAGES:
        raise InvalidOptionError(
            f"wait_for must be 'accepted' or 'completed', not {wait_for!r:.40}", field="wait_for"
        )


class UpdateHandle(Generic[T]):
    """One update of a workflow.

    Attributes:
        id: The update's id: asked again under it, the workflow gives the same answer.
        name: The update's name.
        workflow_id: The workflow's id.
        run_id: The run that it was sent to; it may have moved along the chain since.
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
        """Wait for the update's end and return what its handler returned.

        Args:
            timeout: Seconds to wait at the most; without one, for as long as it takes.

        Raises:
            UpdateRejectedError: It was not accepted; ``__cause__`` says why.
            UpdateFailedError: It was accepted, and its handler raised or the run ended first.
            WorkflowClosedError: The workflow ended before it accepted the update.
            RunNotFoundError: The workflow was deleted.
            RequestTimeoutError: There is no answer yet; the update goes on, and can be asked for again by its id.
        """
        return self._value(await self._reach(timeout, accepted=False))

    async def reach(self, wait_for: WaitFor, timeout: float | None) -> None:
        """Wait until the update is accepted, or has ended. Raises what :meth:`result` says of rejected ones."""
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
            raise cause  # as if it had been sent a moment later
        raise UpdateRejectedError(self.workflow_id, self.id, self.name) from cause
